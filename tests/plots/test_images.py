"""The figures look as they did when somebody last looked at them.

Images are compared after averaging over blocks of pixels, so that another version of matplotlib
or of a font passes and another picture does not. After a wanted change, delete the old image in
``baseline``, run this file, LOOK at the new one, and commit it.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Rectangle

sys.path.insert(0, str(Path(__file__).parent))
from _drawings import DRAWINGS

BASELINE = Path(__file__).parent / "baseline"
BLOCK = 6
TOLERANCE = 0.03  # root mean square over the blocks; black against white is 1


def _render(figure, path):
    figure.set_size_inches(4.8, 3.6)
    figure.savefig(path, dpi=60)
    return imread(path)[..., :3]


def _blocks(image):
    height, width = (size - size % BLOCK for size in image.shape[:2])
    cut = image[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3)
    return cut.mean(axis=(1, 3))


def _distance(image, other):
    return np.sqrt(np.mean((_blocks(image) - _blocks(other)) ** 2))


@pytest.mark.parametrize("name", DRAWINGS)
def test_image(name, boat, svm, bounded, request, tmp_path):
    ax = request.getfixturevalue("ax3d" if name == "surface" else "ax")
    figure = DRAWINGS[name](boat, svm, bounded, ax).figure_
    path = BASELINE / f"{name}.png"
    if not path.exists():
        _render(figure, path)
        pytest.fail(f"wrote a new baseline {path.name}: look at it, then run again")
    image = _render(figure, tmp_path / path.name)
    assert image.shape == imread(path)[..., :3].shape
    assert _distance(image, imread(path)[..., :3]) < TOLERANCE


def test_no_two_baselines_are_alike():
    images = [_blocks(imread(path)[..., :3]) for path in sorted(BASELINE.glob("*.png"))]
    assert len(images) == len(DRAWINGS)
    for k, image in enumerate(images):
        for other in images[:k]:
            assert np.sqrt(np.mean((image - other) ** 2)) > TOLERANCE


def test_a_small_change_is_seen(boat, svm, bounded, ax, tmp_path):
    display = DRAWINGS["regions"](boat, svm, bounded, ax)
    before = _render(display.figure_, tmp_path / "before.png")
    ax.add_patch(Rectangle((-2, -1), 3, 1.5, color="black"))
    after = _render(display.figure_, tmp_path / "after.png")
    assert _distance(before, after) > TOLERANCE


def test_baselines_are_small():
    assert all(path.stat().st_size < 40_000 for path in BASELINE.glob("*.png"))
