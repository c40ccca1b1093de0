"""The jobs of the GPU, run where there is one: `python benchmarks/gpu.py DATA OUT [job ...]`.

The folder DATA holds letter.npz, clinc.npz, aloi.npz and mnist.npz with arrays X and y. The table
is written to OUT/gpu.md. With `--peers` the CPU engine (all cores) and scikit-learn run the same
jobs on the same machine, scikit-learn on a sample of the fits, scaled.
"""

import sys
import time
from pathlib import Path

import cupy as cp
import numpy as np
from sklearn.svm import SVC

from openset.kernels import RBF
from openset.solver import Batch, Settings, decision_values, solve_batches, svm_problem

LAMBDAS = np.arange(20) / 20
GAMMAS = 2.0 ** np.arange(-15, 16, 2)
TOL = 1e-3

# What an H200 can do: bytes and float32 operations per second, from its data sheet.
BANDWIDTH, FLOPS = 4.8e12, 67e12


def unit(X):
    X = X.astype(np.float64)
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1)


def load(folder, name):
    with np.load(folder / f"{name}.npz") as data:
        return data["X"], data["y"]


def timed(function, repeats):
    """First call (with compilation), the median of the others, and the last result."""
    times = []
    for _ in range(repeats + 1):
        result = None  # let go of the memory first
        begin = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - begin)
    return times[0], float(np.median(times[1:])) if repeats else times[0], result


def grid(X, y, gammas, lams, C, device, n_jobs=None):
    """(objectives, scores, iterations, multipliers, bias intervals) of every cell."""
    classes = np.unique(y)

    problem = svm_problem(np.where(y == classes[:, None], 1.0, -1.0), np.full(len(y), C), 0.0)
    totals = lams * problem.upper.sum(axis=1, keepdims=True)
    batch = Batch(problem.p, problem.lower, problem.upper, totals)
    settings = Settings(TOL, n_jobs=n_jobs, device=device)
    return {
        (s.width, s.index): (s.objective, s.scores, s.n_iter, s.beta, s.bias_interval)
        for together in solve_batches(X, RBF(), gammas, [batch], settings)
        for s in together
    }


def true_gap(X, y, gammas, C, cells, sample):
    """Largest KKT gap of some cells, kernel and gradient in float64 from the beginning."""
    X = cp.asarray(X)
    classes = np.unique(y)
    worst = -np.inf
    norms = (X * X).sum(axis=1)
    for g, k in sample:
        beta = cp.asarray(cells[g, k][3])
        positive = cp.asarray(y == classes[k])
        v = cp.where(positive, 1.0, -1.0) - cp.zeros_like(beta)
        used = cp.flatnonzero(beta.any(axis=0))
        for start in range(0, len(used), 2048):
            part = used[start : start + 2048]
            s = norms[:, None] + norms[part] - 2 * X @ X[part].T
            v -= beta[:, part] @ cp.exp(-gammas[g] * cp.maximum(s, 0)).T
        can_grow = beta < cp.where(positive, C, 0.0)
        can_shrink = beta > cp.where(positive, 0.0, -C)
        top = cp.where(can_grow, v, -np.inf).max(axis=1)
        bottom = cp.where(can_shrink, v, np.inf).min(axis=1)
        worst = max(worst, float((top - bottom).max()))
    return worst


def differences(a, b):
    """Relative differences of objectives, in words; labels that differ away from ties.

    Where no multiplier is free any bias in an interval is optimal: such machines have no labels to
    compare.
    """
    off = np.concatenate(
        [np.abs(a[key][0] - b[key][0]) / np.maximum(1, np.abs(a[key][0])) for key in a]
    )
    objective = f"{off.max():.1e}"
    if off.max() > 1e-4:
        objective += f" (above 1e-4 in {np.sum(off > 1e-4)} of {off.size})"
    flipped = 0
    for key in a:
        one, two = a[key][1], b[key][1]
        settled = a[key][4][:, 0] >= a[key][4][:, 1]
        differ = (one * two < 0) & (np.abs(one) > 10 * TOL)
        flipped += int(differ[settled].sum())
    return objective, flipped


def fit_job(title, limit, X, y, gammas, lams, peers, n_sklearn, cpu, C=1.0):
    first, warm, cells = timed(lambda: grid(X, y, gammas, lams, C, "cuda"), 3)
    rng = np.random.default_rng(0)
    keys = sorted(cells)
    sample = [keys[i] for i in rng.permutation(len(keys))[:48]]
    gap = true_gap(X, y, gammas, C, cells, sample)
    iterations = sum(int(result[2].sum()) for result in cells.values())
    # Rows i and j of every iteration; beyond the registers row i again, v three times, flags.
    m = len(X)
    moved = iterations * m * (8 if m <= 4096 else 8 + 4 + 24 + 2)
    row = {
        "job": title,
        "at most, s": limit,
        "first, s": f"{first:.2f}",
        "warm, s": f"{warm:.3f}",
        "KKT gap": f"{gap:.2e}",
        "achieved": f"{iterations} iterations, {moved / warm / 1e12:.2f} TB/s "
        f"({100 * moved / warm / BANDWIDTH:.0f} % of memory bandwidth)",
    }
    if peers and cpu:
        _, seconds, other = timed(lambda: grid(X, y, gammas, lams, C, "cpu", -1), 1)
        objective, flipped = differences(other, cells)
        row["CPU engine, s"] = f"{seconds:.2f}"
        row["objectives differ"] = objective
        row["labels differ"] = flipped
    if peers and n_sklearn:
        classes = np.unique(y)
        fits = [(g, c) for g in gammas for c in classes]
        chosen = [fits[i] for i in rng.permutation(len(fits))[:n_sklearn]]
        begin = time.perf_counter()
        for g, c in chosen:
            SVC(C=C, gamma=g, tol=TOL, cache_size=1000).fit(X, y == c)
        scaled = (time.perf_counter() - begin) * len(fits) * len(lams) / len(chosen)
        row["scikit-learn, s"] = f"{scaled:.0f} ({len(chosen)} fits, scaled)"
    return row


def paper_grid(folder, n_rows, limit, peers):
    X, y = load(folder, "letter")
    rng = np.random.default_rng(0)
    classes = rng.permutation(np.unique(y))[:12]
    rows = np.sort(rng.permutation(np.flatnonzero(np.isin(y, classes)))[:n_rows])
    title = f"paper's grid, letter {n_rows} rows, 3840 machines, scores of all rows"
    return fit_job(title, limit, unit(X[rows]), y[rows], GAMMAS, LAMBDAS, peers, 24, True)


def one_vs_rest(folder, name, gamma, limit, peers, rows=slice(None), scale=unit, **others):
    X, y = load(folder, name)
    X, y = scale(X[rows]), y[rows]
    title = f"one-vs-rest, {name} {X.shape[0]} x {X.shape[1]}, {len(np.unique(y))} classes"
    title += f", gamma {gamma:g}, C {others.get('C', 1):g}"
    return fit_job(title, limit, X, y, np.array([gamma]), np.zeros(1), peers, **others)


def prediction(folder, limit, peers, n=10_000_000):
    X, _ = load(folder, "letter")
    X = unit(X)
    rng = np.random.default_rng(0)
    coef = rng.uniform(-1, 1, (26, len(X)))
    bias, gamma = rng.uniform(-1, 0, 26), np.full(26, 8.0)
    questions = rng.random((n, X.shape[1]))

    def score(part, device, n_jobs=None):
        return decision_values(part, X, coef, bias, RBF(), gamma, n_jobs, device)

    first, warm, scores = timed(lambda: score(questions, "cuda"), 2)
    # A kernel value: one product of 18 numbers, an exponential (about 20), 26 sums.
    flops = n * len(X) * (2 * 18 + 20 + 2 * 26)
    row = {
        "job": f"prediction, 26 classes, {len(X)} support vectors, {n} rows x {X.shape[1]}",
        "at most, s": limit,
        "first, s": f"{first:.2f}",
        "warm, s": f"{warm:.3f}",
        "achieved": f"{flops / warm / 1e12:.1f} Tflop/s in float32 "
        f"({100 * flops / warm / FLOPS:.0f} % of the peak)",
    }
    if peers:
        part = questions[:20_000]
        _, seconds, other = timed(lambda: score(part, "cpu", -1), 1)
        row["CPU engine, s"] = f"{seconds * n / len(part):.0f} ({len(part)} rows, scaled)"
        off = np.abs(other - scores[: len(part)])
        row["labels differ"] = int(
            ((other * scores[: len(part)] < 0) & (np.abs(other) > 10 * TOL)).sum()
        )
        row["objectives differ"] = f"scores {off.max():.1e}"
    return row


def main(folder, out, *jobs):
    folder, peers = Path(folder), "--peers" in jobs
    half = np.sort(np.random.default_rng(0).permutation(108_000)[:54_000])
    every = {
        "grid1500": lambda: paper_grid(folder, 1500, 0.10, peers),
        "grid4000": lambda: paper_grid(folder, 4000, 0.45, peers),
        "clinc": lambda: one_vs_rest(
            folder, "clinc", 1.0, 1.0, peers, scale=np.float64, n_sklearn=2, cpu=True
        ),
        "aloi": lambda: one_vs_rest(
            folder, "aloi", 2.0, 30, peers, half, n_sklearn=0, cpu=False, C=8.0
        ),
        "mnist": lambda: one_vs_rest(
            folder,
            "mnist",
            0.02,
            10,
            peers,
            slice(60_000),
            lambda X: X / 255.0,
            n_sklearn=0,
            cpu=False,
            C=8.0,
        ),
        "predict": lambda: prediction(folder, 5, peers),
    }
    names = [name for name in jobs if name in every] or list(every)
    rows = []
    for name in names:
        rows.append(every[name]())
        cp.get_default_memory_pool().free_all_blocks()
        print(rows[-1], flush=True)
        write(rows, Path(out) / "gpu.md")


def write(rows, path):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    lines = [
        "# On a GPU",
        "",
        f"Written by `benchmarks/gpu.py` on one {name}; tolerance {TOL:g}. *first* includes "
        "compilation, *warm* is the median of three. The KKT gap is computed in float64 from the "
        "multipliers (48 machines at random where there are more). Objectives are compared with "
        "those of the CPU engine at the same tolerance, relative to max(1, |objective|); where the "
        "objective of a grid crosses zero, the CPU engine alone is up to 2e-4 away from its own "
        "answer at tolerance 1e-5.",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + " --- |" * len(columns),
        *("| " + " | ".join(str(row.get(c, "")) for c in columns) + " |" for row in rows),
        "",
    ]
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
