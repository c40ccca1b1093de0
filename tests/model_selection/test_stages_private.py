"""Which candidates the two stages of a search over many classes hold."""

from itertools import product

import pytest

from openset.model_selection._candidates import coarse_stage, fine_stage
from openset.model_selection._evaluate import Candidate


@pytest.mark.parametrize(
    "n, step", [(1, 1), (2, 1), (5, 1), (8, 1), (9, 2), (16, 2), (17, 4), (20, 4), (33, 8)]
)
def test_thinning_leaves_about_five_values(n, step):
    candidates = [Candidate(i, {"a": i}) for i in range(n)]
    kept = [c.number for c in coarse_stage(candidates, {"a": list(range(n))})]
    assert kept == list(range(0, n, step))


def test_stages_of_a_grid():
    grid = {"a": list(range(9)), "b": list(range(20)), "c": [0, 1], "t": list(range(20))}
    settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    candidates = [Candidate(i, setting) for i, setting in enumerate(settings)]
    first = [candidate.params for candidate in coarse_stage(candidates, grid, ["t"])]
    assert {s["a"] for s in first} == {0, 2, 4, 6, 8}
    assert {s["b"] for s in first} == {0, 4, 8, 12, 16}
    assert {s["c"] for s in first} == {0, 1}
    assert {s["t"] for s in first} == set(range(20))
    best = {"a": 8, "b": 4, "c": 1, "t": 13}
    second = [candidate.params for candidate in fine_stage(candidates, grid, best, ["t"])]
    assert not any(setting in first for setting in second)
    second += [setting for setting in first if setting["a"] == 8 and setting["b"] == 4]
    assert {s["a"] for s in second} == {7, 8}
    assert {s["b"] for s in second} == set(range(1, 8))
    assert {s["c"] for s in second} == {0, 1}
    assert {s["t"] for s in second} == set(range(20))
    # Nothing lies between the stages: the neighbours of the best were in the first.
    assert {s["b"] for s in first} & {0, 8} == {0, 8}
