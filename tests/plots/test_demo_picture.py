import sys

from matplotlib.image import imread

from openset.cli._demo_picture import save_picture
from openset.datasets import make_four_gauss
from openset.svm import OneVsRestSVC, OpenSetSVC

MODELS = {"SVM": OneVsRestSVC(), "OpenSetSVC": OpenSetSVC(lam=0.2)}


def test_picture_is_written(tmp_path):
    path = save_picture(MODELS, *make_four_gauss(random_state=0), tmp_path / "demo.png")
    assert path == tmp_path / "demo.png"
    assert imread(path).shape == (500, 900, 4)


def test_no_picture_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openset.plots", None)
    path = tmp_path / "demo.png"
    assert save_picture(MODELS, *make_four_gauss(random_state=0), path) is None
    assert not path.exists()
