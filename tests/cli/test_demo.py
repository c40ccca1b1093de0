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


def test_images_a_verdict_and_a_table(demo):
    _, text = demo
    for word in ("logistic regression, threshold", "SVM, threshold", "OpenSetSVC", "6 of 6", "█"):
        assert word in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_picture(demo):
    folder, text = demo
    assert "demo-digits.png" in text
    assert imread(folder / "demo-digits.png").shape[1] == 1000
