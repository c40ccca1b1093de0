"""Random fits of FixedBiasSVC: do all of them end, how soon, and within ``max_iter``?

Run ``python -m benchmarks.fixed_bias --cases 5000``; the result is in ``reliability.md``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from openset.svm import FixedBiasSVC

KINDS = ["plain", "copies", "near copies", "rounded", "nearly constant"]


class Result(NamedTuple):
    """CPU seconds, iterations, gap in units of tol, the model and what it was fitted to."""

    seconds: float
    n_iter: int
    gap: float
    model: FixedBiasSVC
    data: str


def fit(rng: np.random.Generator) -> Result:
    """One random fit of 4 to 300 rows with C up to 1e4; overlapping classes, copies, any gamma."""
    m, n_classes = int(rng.integers(4, 301)), int(rng.integers(2, 5))
    d = int(rng.choice([1, 2, 3, 8, 30, 64, 65, 120, 300]))
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, m - n_classes)]
    X = rng.choice([0.0, 0.3, 1.0, 5.0]) * rng.normal(size=(n_classes, d))[y]
    X += rng.normal(size=(m, d))
    kind = str(rng.choice(KINDS))
    if kind in ("copies", "near copies"):
        X[m // 2 :] = X[: m - m // 2]
    if kind == "near copies":
        X[m // 2 :] += 10.0 ** rng.uniform(-12, -2) * rng.normal(size=(m - m // 2, d))
    if kind == "rounded":
        X = np.round(X)
    if kind == "nearly constant":
        X = X[0] + 1e-3 * rng.normal(size=(m, d)) * (rng.random((m, 1)) < 0.5)
    model = FixedBiasSVC(
        C=10.0 ** rng.uniform(-3, 4),
        bias=-(10.0 ** rng.uniform(-3, 1)),
        mode=str(rng.choice(["fixed", "artificial"])),
        gamma=10.0 ** rng.uniform(-8, 3) / d,
        tol=float(rng.choice([1e-3, 1e-3, 1e-5, 1e-6])),
        max_iter=int(rng.choice([-1, -1, -1, 1000])),
    )
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    seconds = time.process_time() - start
    n_iter, gap = int(model.n_iter_.max()), float(model.kkt_gap_.max() / model.tol)
    assert model.max_iter < 0 or n_iter <= model.max_iter, f"{n_iter} > max_iter"
    return Result(seconds, n_iter, gap, model, f"{kind}, {m} x {d}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixed_bias")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for k in range(50):  # all compiled code is compiled or loaded
        fit(np.random.default_rng([options.seed + 1, k]))
    results = [fit(np.random.default_rng([options.seed, k])) for k in range(options.cases)]
    seconds = np.array([result.seconds for result in results])
    print(f"{len(results)} fits, {seconds.sum():.0f} s of CPU, median {np.median(seconds):.4f} s")
    print(f"longest {seconds.max():.2f} s, over 1 s: {np.sum(seconds > 1)}")
    for tol in (1e-3, 1e-5, 1e-6):
        own = [r for r in results if r.model.max_iter < 0 and r.model.tol == tol]
        print(
            f"no max_iter, tol={tol:g}: gap above tol in {sum(r.gap > 1 for r in own)}/{len(own)}"
        )
    for result in sorted(results, key=lambda result: -result.seconds)[:5]:
        print(result)


if __name__ == "__main__":
    main()
