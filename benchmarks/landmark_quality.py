"""Landmark models against the exact machine at the exact machine's setting.

``python -m benchmarks.landmark_quality [letter clinc150 mnist] [--sizes exact 4000 8000]`` writes
benchmarks/results/landmarks.json. Each model is fitted in a process of its own and replaces the row
of the same size, so the sizes of a case can be measured one after another. With ``--random``
landmarks are drawn uniformly, to tell what the choice of landmarks is worth.
``python -m benchmarks.scale_report`` makes the page and the figure.
"""

import argparse
import json
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from openset import OpenSetSVC
from openset.metrics import normalized_accuracy

from .data import _load, open_set_run
from .memory import apart

SIZES = ["exact", "4000", "2000", "1000", "500", "8000"]
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


def measure(name, size, at_random, jobs):
    """The row of one model; `size` is None for the exact one, more than all rows means all."""
    (X, y, X_test, y_test), setting = CASES[name]()
    known = np.unique(y)
    size = size and min(size, len(y))
    order = np.random.default_rng(SEED).permutation(len(y))
    landmarks = X[order[:size]] if at_random else size
    model = OpenSetSVC(
        landmarks=landmarks, random_state=SEED, cache_size=2000, n_jobs=jobs, **setting
    )
    start, cpu = perf_counter(), process_time()
    model.fit(X, y)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    answers = model.predict(X_test)
    names = {"known": known, "unknown_label": model.unknown_label_}
    return {
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


def _key(row):
    return row["drawn"] == "at random", row["landmarks"] or 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*CASES])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--store", type=Path, default=_HERE / "results" / "landmarks.json")
    options = parser.parse_args()
    store = options.store
    results = json.loads(store.read_text()) if store.exists() else {}
    for name in options.names:
        for size in options.sizes:
            size = None if size == "exact" else int(size)
            row, _ = apart(measure, name, size, options.random, options.jobs)
            print(name, row, flush=True)
            others = [old for old in results.get(name, []) if _key(old) != _key(row)]
            results[name] = sorted([*others, row], key=_key)
            store.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
