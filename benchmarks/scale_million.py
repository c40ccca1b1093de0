"""A million rows of 128 features in 1000 classes: time, memory and accuracy of a landmark fit.

``python -m benchmarks.scale_million [--landmarks 4000] [--device cuda] [--jobs 2]`` fits on ALOI
rows with small noise and measures the accuracy on clean rows; ``--exact`` fits the exact machine on
the 54,000 clean rows instead. Compiling is not timed: a small fit of the same kind comes first.
Adds a row to benchmarks/results/million.json.
"""

import argparse
import json
import os
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from openset import OpenSetSVC

from .data import aloi_many
from .memory import peak

STORE = Path(__file__).resolve().parent / "results" / "million.json"
CLEAN = 54  # clean training rows per class


def measure(options):
    n_rows = CLEAN * options.classes if options.exact else options.rows
    data = aloi_many(n_rows, options.classes)
    setting = {
        "gamma": options.gamma,
        "C": options.C,
        "cache_size": options.cache,
        "device": options.device,
        "n_jobs": options.jobs,
    }
    landmarks = None if options.exact else options.landmarks
    small = np.arange(len(data.y_train)) % (CLEAN * options.classes) < 20 * CLEAN
    # 1000 landmarks are chosen among all 5000 rows: on a GPU as many need another program than few.
    OpenSetSVC(landmarks=landmarks and 1000, **setting).fit(
        data.X_train[small][:5000], data.y_train[small][:5000]
    )
    model = OpenSetSVC(landmarks=landmarks, random_state=0, verbose=options.verbose, **setting)
    before, start, cpu = peak(), perf_counter(), process_time()
    model.fit(data.X_train, data.y_train)
    row = {
        "landmarks": landmarks,
        "rows": n_rows,
        "classes": options.classes,
        **setting,
        "cores": len(os.sched_getaffinity(0)),
        "fit_seconds": perf_counter() - start,
        "fit_cpu_seconds": process_time() - cpu,
        "fit_mb": peak() - before,
        "peak_mb": peak(),
        "vectors": len(model.support_),
        "kkt_gap": float(model.kkt_gap_.max()),
        "bounded": int(model.bounded_.sum()),
    }
    start = perf_counter()
    answers = model.predict(data.X_test)
    row["predict_seconds"] = perf_counter() - start
    row["accuracy"] = float(np.mean(answers == data.y_test))
    row["accuracy_known"] = float(np.mean(model.predict_known(data.X_test) == data.y_test))
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--landmarks", type=int, default=4000)
    parser.add_argument("--gamma", type=float, default=0.5)
    parser.add_argument("--C", type=float, default=8.0)
    parser.add_argument("--cache", type=float, default=2000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--store", type=Path, default=STORE)
    options = parser.parse_args()
    row = measure(options)
    print(row, flush=True)
    store = options.store
    rows = json.loads(store.read_text()) if store.exists() else []
    store.write_text(json.dumps([*rows, row], indent=1) + "\n")


if __name__ == "__main__":
    main()
