"""The greedy set cover against a plain version on the whole matrix."""

import numpy as np
import pytest

from openset.evt._evm import greedy_cover
from openset.solver import points as engine
from openset.solver.points import DistancesTo


def plain_cover(covers):
    """Greedy cover by a boolean matrix, written out."""
    left = set(range(len(covers)))
    chosen = []
    while True:
        gains = [sum(covers[i][j] for j in left) for i in range(len(covers))]
        best = max(range(len(covers)), key=lambda i: (gains[i], -i))
        if gains[best] == 0:
            return chosen + sorted(left)
        chosen.append(best)
        left -= {j for j in left if covers[best][j]}


@pytest.mark.parametrize("features", [2, 70])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("block", [64, 2**20])
def test_against_the_whole_matrix(features, metric, block, monkeypatch):
    monkeypatch.setattr(engine, "BLOCK", block)
    rng = np.random.default_rng(features)
    X = rng.normal(size=(60, features))
    X[30:33] = X[20]  # duplicates
    distances = DistancesTo(X, metric)
    for start, stop in ((0, 60), (10, 45)):
        own = distances(X[start:stop], start, stop)
        for level in (0.05, 0.5, 0.95):
            radius = np.quantile(own, level) * rng.uniform(0.5, 1.5, size=stop - start)
            radius[::9] = -1.0  # covers nothing, itself included
            chosen = greedy_cover(X, distances, start, stop, radius, np.arange(stop - start))
            expected = plain_cover((own <= radius[:, None]).tolist())
            assert (chosen - start).tolist() == expected
