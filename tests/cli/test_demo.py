"""``openset demo``: the command as a user sees it."""

import pytest
from matplotlib.image import imread


@pytest.fixture(scope="module")
def demo(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        result = run("demo")
    assert result.exit_code == 0, result.stderr
    return folder, result.stdout


def test_a_table_and_a_verdict(demo):
    _, text = demo
    words = ("AKS", "AUS", "NA", "HNA", "SVM", "OpenSetSVC", "6 of 6", " s ", "lam=", "gamma=")
    for word in (*words, "Tuned as usual, with all digits known", "Tuned with digits withheld"):
        assert word in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_picture(demo):
    folder, text = demo
    assert "demo-regions.png" in text
    assert imread(folder / "demo-regions.png").shape == (500, 900, 4)
