"""The decision rule: the same answers whatever the layout of the scores."""

import numpy as np
import pytest

from openset.utils import decide


def rule(scores):
    """The rule as the documentation words it, one row at a time."""
    accepted = [c for c, score in enumerate(scores) if score >= 0]
    if not accepted:
        return len(scores)
    return min(accepted, key=lambda c: (-scores[c], c))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1500, 1), (1500, 2), (3, 700, 9), (1, 4), (0, 3)])
def test_layouts(shape, dtype):
    # Few distinct values, so that there are ties, zeros and rows that nobody accepts.
    scores = np.random.default_rng(0).integers(-8, 3, size=shape).astype(dtype)
    expected = np.array([rule(row) for row in scores.reshape(-1, shape[-1])], dtype=int)
    by_class = np.moveaxis(np.ascontiguousarray(np.moveaxis(scores, -1, 0)), 0, -1)
    for layout in (scores, by_class, np.asfortranarray(scores)):
        np.testing.assert_array_equal(decide(layout), expected.reshape(shape[:-1]))
