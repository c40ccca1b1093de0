"""A million rows of 128 features on Dask workers that may use 1 GB each.

``python -m benchmarks.scale_dask [rows]`` makes the rows on three worker processes, part by part,
fits a landmark model on them and writes benchmarks/results/dask.json: the time, the largest memory
of each worker (Dask kills a worker above its limit), and the accuracy.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from openset import OpenSetSVC
from openset.svm import fit_distributed, predict_distributed

from .memory import peak

STORE = Path(__file__).resolve().parent / "results" / "dask.json"
FEATURES, CLASSES, PARTS, LIMIT = 128, 20, 40, "1GB"


def part(k, n_rows):
    """Features and classes of one part: normal clusters."""
    centers = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng([1, k])
    y = rng.integers(CLASSES, size=n_rows)
    return centers[y] + rng.normal(size=(n_rows, FEATURES)), y


def main():
    import dask.array as da
    from dask import delayed
    from distributed import Client, LocalCluster

    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    size = n_rows // PARTS
    model = OpenSetSVC(gamma=1 / FEATURES, C=1.0, landmarks=500, random_state=0, verbose=1)
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        made = [delayed(part)(k, size) for k in range(PARTS)]
        X = da.concatenate(
            [da.from_delayed(p[0], (size, FEATURES), np.float64) for p in made], axis=0
        )
        y = da.concatenate([da.from_delayed(p[1], (size,), np.int64) for p in made])
        start = perf_counter()
        fitted = fit_distributed(model, X, y)
        seconds = perf_counter() - start
        answers = predict_distributed(fitted, X).compute()
        right = np.mean(answers == y.compute())
        row = {
            "rows": n_rows,
            "seconds": seconds,
            "workers_mb": list(client.run(peak).values()),
            "limit": LIMIT,
            "driver_mb": peak(),
            "kkt_gap": float(fitted.kkt_gap_.max()),
            "accuracy": float(right),
        }
    Z, truth = part(PARTS, 20_000)
    row["accuracy_fresh"] = float(np.mean(fitted.predict(Z) == truth))
    print(row)
    STORE.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
