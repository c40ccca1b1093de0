"""The jobs of the GPU, run where there is one: `python benchmarks/gpu.py DATA_FOLDER [job ...]`.

DATA_FOLDER holds letter.npz, clinc.npz, aloi.npz and mnist.npz with arrays X and y.
"""

import sys
import time
from pathlib import Path

import numpy as np

# numba-cuda 0.30 still imports a name that NumPy 2.5 removed.
vars(np).setdefault("row_stack", np.vstack)

from openset.kernels import RBF  # noqa: E402
from openset.solver import solve_grid, svm_problem  # noqa: E402

LAMBDAS = np.arange(20) / 20
GAMMAS = 2.0 ** np.arange(-15, 16, 2)


def unit(X):
    X = X.astype(np.float64)
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1)


def load(folder, name):
    with np.load(folder / f"{name}.npz") as data:
        return data["X"], data["y"]


def timed(function, repeats=3):
    """First call (with compilation), then the median of the others."""
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - begin)
    return times[0], float(np.median(times[1:])), result


def grid(X, y, gammas, lams, device, **settings):
    classes = np.unique(y)

    def machine(k):
        problem = svm_problem(np.where(y == classes[k], 1.0, -1.0), np.ones(len(y)), 0.0)
        return problem, lams * problem.upper.sum()

    def reduce(k, path, rows):
        return path.objective, path.kkt_gap, path.scores, path.n_iter

    return {
        (g, k): result
        for g, k, result in solve_grid(
            X, RBF(), gammas, len(classes), machine, reduce, device=device, **settings
        )
    }


def agreement(a, b):
    objective = max(
        np.max(np.abs(a[key][0] - b[key][0]) / np.maximum(1, np.abs(a[key][0]))) for key in a
    )
    scores = max(np.max(np.abs(a[key][2] - b[key][2])) for key in a)
    return objective, scores


def paper_grid(folder, n_rows):
    X, y = load(folder, "letter")
    rng = np.random.default_rng(0)
    classes = rng.permutation(np.unique(y))[:12]
    rows = np.sort(rng.permutation(np.flatnonzero(np.isin(y, classes)))[:n_rows])
    X, y = unit(X[rows]), y[rows]
    first, warm, gpu = timed(lambda: grid(X, y, GAMMAS, LAMBDAS, "cuda"))
    _, cpu, other = timed(lambda: grid(X, y, GAMMAS, LAMBDAS, "cpu", n_jobs=16), 1)
    gap = max(result[1].max() for result in gpu.values())
    iterations = sum(result[3].sum() for result in gpu.values())
    print(
        f"grid {n_rows} rows: first {first:.2f} s, warm {warm:.4f} s, CPU engine {cpu:.3f} s, "
        f"gap {gap:.2e}, objective and scores differ by {agreement(other, gpu)}, "
        f"iterations {iterations}",
        flush=True,
    )


def one_vs_rest(folder, name, gamma, limit=None, scale=unit):
    X, y = load(folder, name)
    if limit is not None:
        X, y = X[limit], y[limit]
    X = scale(X)
    first, warm, gpu = timed(lambda: grid(X, y, [gamma], np.zeros(1), "cuda"), 1)
    gap = max(result[1].max() for result in gpu.values())
    iterations = np.array([result[3][0] for result in gpu.values()])
    print(
        f"{name} {X.shape}, {len(np.unique(y))} classes, gamma {gamma}: first {first:.2f} s, "
        f"warm {warm:.3f} s, gap {gap:.2e}, iterations {iterations.mean():.0f} "
        f"(max {iterations.max()})",
        flush=True,
    )


def main(folder, *jobs):
    folder = Path(folder)
    for job in jobs:
        if job.startswith("grid"):
            paper_grid(folder, int(job[4:]))
        elif job == "clinc":
            one_vs_rest(folder, "clinc", 1.0, scale=lambda X: X.astype(np.float64))
        elif job == "aloi":
            rows = np.random.default_rng(0).permutation(108_000)[:54_000]
            one_vs_rest(folder, "aloi", 0.5, limit=np.sort(rows))
        elif job == "mnist":
            one_vs_rest(folder, "mnist", 0.02, limit=slice(60_000), scale=lambda X: X / 255.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
