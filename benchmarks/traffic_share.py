"""How much of the traffic is unknown, and which threshold suits it: the protocol of 14 datasets.

    python -m benchmarks.traffic_share base --cache FOLDER [--runs 10]

fits the default search once per dataset, number of known classes and run, and keeps the data of
the run, the setting, and all scores in FOLDER (``base``), where ``benchmarks.traffic`` finds them.
"""

import argparse
import os
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from openset import OpenSetSearchCV, OpenSetSVC
from openset.datasets import load_dataset
from openset.study import make_split

from .search_table import DATASETS

HOME = os.environ.get("OPENSET_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
N_KNOWN, RUNS, FOLDS = (3, 6), 10, 5
TEST_ROWS = 2000  # of known and of unknown classes, at most
SHARES = (0.0, 0.05, 0.2, 0.5)


def base(cache, dataset, n_known, run):
    """The run as a dict of arrays, from the cache or made for it.

    ``X_train``, ``y_train`` (class indices), ``X_known``, ``y_known``, ``X_unknown``, ``y_unknown``
    (labels of the dataset), scaled to [0, 1] by the training rows; the setting ``gamma``, ``C``,
    ``lam`` of the default search; ``folds`` (n,) and the scores (n, K) of training rows by models
    that have not seen their fold, ``crossed``; those of test rows, ``known`` and ``unknown``. And
    for the promise a fifth of the training rows, ``kept``, held back from a fit with that setting:
    their scores ``kept_scores``, and ``kept_known``, ``kept_unknown`` of the test rows.
    """
    path = Path(cache) / f"{dataset}-n{n_known}-run{run}.npz"
    if path.exists():
        return dict(np.load(path))
    X, y = load_dataset(dataset, data_home=HOME, return_X_y=True)
    split = make_split(y, dataset, n_known, run)
    rng = np.random.default_rng(run)
    is_known = np.isin(y[split.test], split.known)
    known, unknown = (rng.permutation(split.test[r])[:TEST_ROWS] for r in (is_known, ~is_known))
    low, high = X[split.train].min(axis=0), X[split.train].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, np.inf)
    codes = np.searchsorted(split.known, y[split.train])
    run_of = {
        "X_train": X[split.train],
        "y_train": codes,
        "X_known": X[known],
        "y_known": np.searchsorted(split.known, y[known]),
        "X_unknown": X[unknown],
        "y_unknown": y[unknown],
    }
    search = OpenSetSearchCV(OpenSetSVC(), random_state=0).fit(X[split.train], codes)
    setting = search.best_params_
    run_of |= {name: np.array(value) for name, value in setting.items()}
    n_folds = min(FOLDS, np.bincount(codes).min())
    run_of["folds"] = np.empty(len(codes), dtype=int)
    run_of["crossed"] = np.empty((len(codes), n_known))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X[split.train], codes)
    for k, (fit, rest) in enumerate(folds):
        model = OpenSetSVC(**setting).fit(run_of["X_train"][fit], codes[fit])
        scores = model.decision_function(run_of["X_train"][rest])
        run_of["folds"][rest], run_of["crossed"][rest] = k, scores
        if k == 0:
            run_of |= {"kept": rest, "kept_scores": scores}
            for part in ("known", "unknown"):
                run_of[f"kept_{part}"] = model.decision_function(run_of[f"X_{part}"])
    for part in ("known", "unknown"):
        run_of[part] = search.decision_function(run_of[f"X_{part}"])
    np.savez(path, **run_of)
    return run_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["base"])
    parser.add_argument("--cache", type=Path, required=True, help="folder of the base searches")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    for run, n_known, dataset in product(range(options.runs), N_KNOWN, DATASETS[::-1]):
        base(options.cache, dataset, n_known, run)
        print(dataset, n_known, run, flush=True)


if __name__ == "__main__":
    main()
