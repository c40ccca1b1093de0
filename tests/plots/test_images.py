"""The figures look as they did when somebody last looked at them.

Images are compared after a blur, so that letters and edges that another version of matplotlib sets
a few pixels aside pass (3.9 differs from 3.11 by up to 0.014) and another picture does not. After a
wanted change, delete the old image in ``baseline``, run this file, LOOK at the new one, commit it.
"""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from scipy.ndimage import gaussian_filter

sys.path.insert(0, str(Path(__file__).parent))
from _drawings import DRAWINGS

BASELINE = Path(__file__).parent / "baseline"
BLUR = 6  # standard deviation, in pixels
TOLERANCE = 0.02  # root mean square over the image; black against white is 1


def _read(path):
    return imread(path)[..., :3]


def _render(figure, path):
    figure.set_size_inches(4.8, 3.6)
    figure.savefig(path, dpi=60)
    return _read(path)


def _distance(image, other):
    difference = gaussian_filter(image - other, (BLUR, BLUR, 0), mode="nearest")
    return np.sqrt(np.mean(difference**2))


@pytest.mark.parametrize("name", DRAWINGS)
def test_image(name, boat, svm, bounded, request, tmp_path):
    ax = request.getfixturevalue("ax3d" if name == "surface" else "ax")
    figure = DRAWINGS[name](boat, svm, bounded, ax).figure_
    path = BASELINE / f"{name}.png"
    if not path.exists():
        _render(figure, path)
        pytest.fail(f"wrote a new baseline {path.name}: look at it, then run again")
    image = _render(figure, tmp_path / path.name)
    assert image.shape == _read(path).shape
    assert _distance(image, _read(path)) < TOLERANCE


def test_no_two_baselines_are_alike():
    images = [_read(path) for path in sorted(BASELINE.glob("*.png"))]
    assert len(images) == len(DRAWINGS)
    assert min(_distance(a, b) for a, b in combinations(images, 2)) > TOLERANCE


def test_a_small_change_is_seen(boat, svm, bounded, ax, tmp_path):
    display = DRAWINGS["regions"](boat, svm, bounded, ax)
    before = _render(display.figure_, tmp_path / "before.png")
    ax.add_patch(Rectangle((-2, -1), 3, 1.5, color="black"))
    after = _render(display.figure_, tmp_path / "after.png")
    assert _distance(before, after) > TOLERANCE


def test_baselines_are_small():
    assert all(path.stat().st_size < 40_000 for path in BASELINE.glob("*.png"))
