"""CPU seconds of one version of openset on five jobs, one thread, to compare two versions.

``PYTHONPATH=CHECKOUT/src python benchmarks/before_after.py``, once per checkout and in turns, so
that other work on the machine meets both.
"""

from __future__ import annotations

import json
import os
import time
import warnings

import numpy as np
import threadpoolctl

import openset
from openset import OpenSetSearchCV, OpenSetSVC
from openset.datasets import load_dataset
from openset.svm import OneVsRestSVC


def seconds(work, repeats: int = 2) -> float:
    """The least CPU time of some runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return round(min(times), 3)


def measure(data_home: str) -> dict[str, float]:
    """CPU seconds per job."""
    letter = load_dataset("letter", data_home=data_home)
    X, y = letter.data / letter.data.max(axis=0), letter.target
    clinc = load_dataset("clinc150-minilm", data_home=data_home)
    rng = np.random.default_rng(0)
    some = rng.permutation(len(y))[:3000]
    few = rng.permutation(len(clinc.target))[:6000]
    grid = {"gamma": [0.125, 0.5, 2.0, 8.0], "C": [1.0], "lam": np.linspace(0, 0.6, 13).tolist()}
    search = OpenSetSearchCV(OpenSetSVC(), grid, scenario="closed", random_state=0, n_jobs=1)
    OneVsRestSVC(gamma=1.0).fit(X[:200], y[:200]).predict(X)  # compiled, and out of the way
    found = {"grid": seconds(lambda: search.fit(X[some], y[some]))}
    model = OneVsRestSVC(gamma=8.0, C=1.0, n_jobs=1)
    found["ovr"] = seconds(lambda: model.fit(X[:12000], y[:12000]))
    found["predict"] = seconds(lambda: model.decision_function(X))
    half = np.isin(y, np.unique(y)[:13])
    for gamma in (0.5, 8.0, 32.0):
        pair = OneVsRestSVC(gamma=gamma, C=1.0, n_jobs=1)
        found[f"binary {gamma}"] = seconds(lambda pair=pair: pair.fit(X[:12000], half[:12000]))
    machine = OpenSetSVC(gamma=1.0, C=8.0, lam=0.1, n_jobs=1)
    found["clinc"] = seconds(lambda: machine.fit(clinc.data[few], clinc.target[few]))
    return found


if __name__ == "__main__":
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = measure(os.environ.get("OPENSET_DATA", "../shared/data"))
    print(openset.__version__, json.dumps(times))
