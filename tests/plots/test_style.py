"""The colours stay apart for every eye, and in grey where classes are few."""

from itertools import combinations

import numpy as np
import pytest

from openset.plots import class_colors, class_marker, tint

# Sight without one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1), linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def _lab(rgb, sight):
    """CIELAB of sRGB colours (n, 3) as an eye sees them."""
    rgb = np.asarray(rgb)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.asarray(sight).T, 0, 1)
    f = np.cbrt(seen @ np.transpose(TO_XYZ) / [0.9505, 1.0, 1.089])
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart(sight):
    lab = _lab(class_colors(8), SIGHT[sight])
    assert min(np.linalg.norm(a - b) for a, b in combinations(lab, 2)) > 23


def test_four_classes_stay_apart_in_grey():
    lightness = np.sort(_lab(class_colors(4), np.eye(3))[:, 0])
    assert np.diff(lightness).min() > 14


def test_sixteen_classes_have_sixteen_colours():
    assert len(np.unique(class_colors(16), axis=0)) == 16


def test_every_tint_differs_from_white_the_colour_of_unknown():
    lab = _lab(tint(class_colors(16)), np.eye(3))
    white = _lab(np.ones((1, 3)), np.eye(3))
    assert np.linalg.norm(lab - white, axis=1).min() > 6


def test_neighbouring_classes_differ_in_marker():
    assert len({class_marker(k) for k in range(8)}) == 8
