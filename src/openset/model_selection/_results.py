"""The form of a search: candidates from a grid, and the table of results."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import ParameterGrid


def expand(grid: dict | list[dict]) -> list[dict[str, Any]]:
    """All settings of a grid. Ties go to the first, so the width varies slowest."""
    list(ParameterGrid(grid))  # scikit-learn's own check of the form
    candidates = []
    for part in [grid] if isinstance(grid, dict) else grid:
        names = sorted(part, key=lambda name: (not name.endswith("gamma"), name))
        for values in product(*(part[name] for name in names)):
            candidates.append(dict(zip(names, values, strict=True)))
    return candidates


def cv_results(candidates: list[dict], scores: np.ndarray, classes=None) -> dict[str, Any]:
    """The table of scikit-learn's ``GridSearchCV``.

    Parameters
    ----------
    candidates : list of dict
    scores : ndarray of shape (n_candidates, n_splits)
        NaN where the search was interrupted before.
    classes : ndarray of shape (K,), default=None
        For a search per class, whose splits come class by class: a row for each class and
        candidate, ranked within the class.
    """
    blocks = [scores] if classes is None else np.split(scores, len(classes), axis=1)
    table = np.concatenate(blocks)
    results: dict[str, Any] = {}
    if classes is not None:
        results["class"] = np.repeat(classes, len(candidates))
    results["params"] = candidates * len(blocks)
    for name in sorted({name for candidate in candidates for name in candidate}):
        values = np.ma.masked_all(len(table), dtype=object)
        for row, candidate in enumerate(results["params"]):
            if name in candidate:
                values[row] = candidate[name]
        results[f"param_{name}"] = values
    for s in range(table.shape[1]):
        results[f"split{s}_test_score"] = table[:, s]
    with np.errstate(invalid="ignore"):  # -inf has no deviation
        results["mean_test_score"] = table.mean(axis=1)
        results["std_test_score"] = table.std(axis=1)
    means = [np.nan_to_num(block.mean(axis=1), nan=-np.inf) for block in blocks]
    ranks = [rankdata(-mean, method="min") for mean in means]
    results["rank_test_score"] = np.concatenate(ranks).astype(np.int32)
    return results
