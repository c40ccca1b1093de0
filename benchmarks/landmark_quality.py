"""Landmark models against the exact machine at the exact machine's setting.

``python -m benchmarks.landmark_quality [letter clinc150 mnist]`` writes
benchmarks/results/landmarks.json; with ``--random`` it adds models whose landmarks are drawn
uniformly, to tell what the choice of landmarks is worth. ``python -m benchmarks.scale_report``
makes the page and the figure.
"""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from openset import OpenSetSVC
from openset.metrics import normalized_accuracy

from .data import _load, open_set_run

SIZES = [4000, 2000, 1000, 500, 8000]
SEED = 0
_HERE = Path(__file__).resolve().parent


def _letter():
    """20 known classes, half of their samples train; gamma and C by the default search."""
    return open_set_run("letter", 20, 0), {"gamma": 16.0, "C": 8.0}


def _clinc():
    bunch = _load("clinc150-minilm")
    train = bunch.split == "train"
    test = np.isin(bunch.split, ["test", "oos_test"])
    data = bunch.data[train], bunch.target[train], bunch.data[test], bunch.target[test]
    return data, {"gamma": 2.0, "C": 8.0}


def _mnist():
    """Digits 0 to 5 are known; the test images hold all ten.

    The setting is the one that the default search finds on 3000 training rows
    (``rng(0).permutation``, ``random_state=0``).
    """
    bunch = _load("mnist")
    X, y = bunch.data / 255, bunch.target
    train = np.flatnonzero((np.arange(len(y)) < 60_000) & (y < 6))
    test = np.arange(60_000, len(y))
    return (X[train], y[train], X[test], y[test]), {"gamma": 0.03206879, "C": 8.0, "lam": 0.05}


CASES = {"letter": _letter, "clinc150": _clinc, "mnist": _mnist}


def measure(name, at_random):
    """Exact and landmark models on one case, or models with random landmarks: one row each."""
    (X, y, X_test, y_test), setting = CASES[name]()
    known = np.unique(y)
    order = np.random.default_rng(SEED).permutation(len(y))
    for size in SIZES if at_random else [None, *SIZES]:
        if size is not None and size > len(y):
            continue
        landmarks = X[order[:size]] if at_random else size
        model = OpenSetSVC(
            landmarks=landmarks, random_state=SEED, cache_size=2000, n_jobs=-1, **setting
        )
        start, cpu = perf_counter(), process_time()
        model.fit(X, y)
        seconds, cpu = perf_counter() - start, process_time() - cpu
        answers = model.predict(X_test)
        names = {"known": known, "unknown_label": model.unknown_label_}
        yield {
            "landmarks": size,
            "drawn": "at random" if at_random else "chosen",
            "NA": float(normalized_accuracy(y_test, answers, **names)),
            "seconds": seconds,
            "cpu_seconds": cpu,
            "vectors": len(model.support_),
            "kkt_gap": float(model.kkt_gap_.max()),
            "bounded": int(model.bounded_.sum()),
            "n_train": len(y),
            "n_classes": len(known),
            **setting,
        }


def main():
    at_random = "--random" in sys.argv
    names = [name for name in sys.argv[1:] if name in CASES] or list(CASES)
    store = _HERE / "results" / "landmarks.json"
    results = json.loads(store.read_text()) if store.exists() else {}
    for name in names:
        if not at_random:
            results[name] = []
        for row in measure(name, at_random):
            print(name, row, flush=True)
            results[name].append(row)
            store.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
