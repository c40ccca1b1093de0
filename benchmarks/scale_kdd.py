"""KDD Cup 99, all rows: time and memory of exact and landmark fits, and of scores.

``python -m benchmarks.scale_kdd`` runs each in a process of its own and writes
benchmarks/results/kdd.json.
"""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from openset import OpenSetSVC
from openset.metrics import normalized_accuracy

from .kdd import load
from .memory import apart, peak
from .programs import N_JOBS

STORE = Path(__file__).resolve().parent / "results" / "kdd.json"
SETTING = {"gamma": 1.0, "C": 8.0}


def judge(answers, X_test, y_test, known, unknown):
    """NA over all rows and over distinct rows of the test set."""
    names = {"known": known, "unknown_label": unknown}
    _, first = np.unique(
        np.column_stack([X_test, np.unique(y_test, return_inverse=True)[1]]),
        axis=0,
        return_index=True,
    )
    return {
        "NA": float(normalized_accuracy(y_test, answers, **names)),
        "NA_distinct": float(normalized_accuracy(y_test[first], answers[first], **names)),
    }


def fit(landmarks):
    """Fit on all rows, score all test rows."""
    X, y = load("train")
    X_test, y_test = load("test")
    # Compile first: a small fit of the same kind.
    OpenSetSVC(landmarks=None if landmarks is None else 50, n_jobs=N_JOBS, **SETTING).fit(
        X[::1000], y[::1000]
    )
    before = peak()
    model = OpenSetSVC(
        landmarks=landmarks, random_state=0, cache_size=1500, n_jobs=N_JOBS, **SETTING
    )
    start, cpu = perf_counter(), process_time()
    model.fit(X, y)
    row = {
        "landmarks": landmarks,
        "fit_seconds": perf_counter() - start,
        "fit_cpu_seconds": process_time() - cpu,
        "fit_mb": peak() - before,
        "vectors": len(model.support_),
        "kkt_gap": float(model.kkt_gap_.max()),
        "bounded": int(model.bounded_.sum()),
    }
    start, cpu = perf_counter(), process_time()
    answers = model.predict(X_test)
    row["predict_seconds"] = perf_counter() - start
    row["predict_cpu_seconds"] = process_time() - cpu
    return row | judge(answers, X_test, y_test, model.classes_, model.unknown_label_)


def main():
    results = json.loads(STORE.read_text()) if STORE.exists() else {}
    for size in sys.argv[1:] or ["exact", "500", "2000"]:
        results[size], _ = apart(fit, None if size == "exact" else int(size))
        print(results[size], flush=True)
        STORE.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
