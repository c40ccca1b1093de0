"""The quadratic program of the family, as data.

Every kernel machine of this library solves ::

    minimise   W(beta) = 1/2 beta' K beta - p' beta
    subject to lower <= beta <= upper   and   sum(beta) = total

over *signed* multipliers beta_i = y_i alpha_i: the label of a sample is the side of zero its box
lies on, so no sign enters the solver. The decision value is f(x) = sum_i beta_i k(x_i, x) + b, and
``v = p - K beta``, minus the gradient, is all the state there is: at the optimum v_i = b for every
free i, v_i <= b where beta_i = lower_i and v_i >= b where beta_i = upper_i. A row with an empty box
(lower = upper = 0) takes no part, yet its v gives its decision value, f(x_i) = p_i - v_i + b.

| machine | p | box | total |
| --- | --- | --- | --- |
| OSSVM (SVM: lam = 0) | y | [0, C_i] or [-C_i, 0] | lam * sum of positive boxes |
| one-class SVM | 0 | [0, 1] | nu * l |
| SVDD | K_ii / 2 | [0, C] | 1 |
| SVM with the bias fixed at b | y - b | as OSSVM | none |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Problem:
    """One quadratic program over the m rows of a kernel matrix, or several."""

    p: np.ndarray  # (..., m): linear term
    lower: np.ndarray  # (..., m): box; rows with lower = upper = 0 are held out
    upper: np.ndarray
    # Value of sum(beta), or (..., 1); None drops the equality, and with it the bias.
    total: float | np.ndarray | None


class Batch(NamedTuple):
    """P problems over the same n samples, each for T sums of its multipliers."""

    p: np.ndarray  # (P, n), as the boxes: see `Problem`
    lower: np.ndarray
    upper: np.ndarray
    totals: np.ndarray | None  # (P, T): sums, distinct and monotone; None drops the equality
    # The samples that take part, sorted; None for all m. Those whose decision values are wanted:
    # where `rows` is given, none of them takes part.
    rows: np.ndarray | None = None
    scored: np.ndarray | None = None
    # Whether problem i is close to problem i of the batch before, which has as many problems and
    # totals over the same samples: a larger C, say. It is solved from the solution of that one.
    follows: bool = False


@dataclass(frozen=True)
class Solution:
    """Answer to one :class:`Problem`."""

    beta: np.ndarray  # (m,): signed multipliers y_i alpha_i
    v: np.ndarray  # (m,): p - K beta; decision values are ``problem.p - v + bias``
    # Mean of v over the free multipliers, or the middle of the interval; 0 without equality.
    bias: float
    # (max of v where beta can grow, min of v where beta can shrink): every bias between is optimal.
    bias_interval: tuple[float, float]
    objective: float  # W(beta)
    kkt_gap: float  # largest violation of the optimality conditions, compared with the tolerance
    n_iter: int
    status: str  # "optimal" or "max_iter"


@dataclass(frozen=True)
class Solved:
    """Solutions of one problem for T totals."""

    problem: Problem
    totals: np.ndarray
    beta: np.ndarray  # (T, n), as v
    v: np.ndarray
    bias: np.ndarray
    bias_interval: np.ndarray  # (T, 2)
    objective: np.ndarray
    n_iter: np.ndarray
    tol: float
    scored: np.ndarray | None = None  # (T, q): decision values that were wanted
    # Solution with the smallest total whose bias is the largest allowed, where another exceeds it.
    held: Solution | None = None
    batch: int = 0  # the batch, the place of the problem in it, and the index of gamma
    index: int = 0
    width: int = 0

    @property
    def kkt_gap(self) -> np.ndarray:
        """Largest violation of the optimality conditions, shape (T,)."""
        return np.maximum(self.bias_interval[:, 0] - self.bias_interval[:, 1], 0.0)

    def __getitem__(self, k: int) -> Solution:
        """The solution for total k."""
        gap = float(self.kkt_gap[k])
        return Solution(
            self.beta[k],
            self.v[k],
            float(self.bias[k]),
            tuple(self.bias_interval[k].tolist()),
            float(self.objective[k]),
            gap,
            int(self.n_iter[k]),
            "optimal" if gap <= self.tol else "max_iter",
        )

    @property
    def scores(self) -> np.ndarray:
        """Decision values of all n samples, those with empty boxes included, shape (T, n)."""
        scores = self.problem.p - self.v
        scores += self.bias[:, None]
        return scores


def svm_problem(signs: np.ndarray, boxes: np.ndarray, lam: float) -> Problem:
    """OSSVM of `signs` (..., m), 0 for held-out rows, with boxes C_i (m,) > 0 and lam in [0, 1)."""
    signs = np.asarray(signs, dtype=np.float64)
    lower = np.where(signs < 0, -boxes, 0.0)
    upper = np.where(signs > 0, boxes, 0.0)
    return Problem(signs, lower, upper, lam * _total(upper))


def _total(values):
    """Sums over the rows: a number, or an array of shape (..., 1) for several problems."""
    return values.sum() if values.ndim == 1 else values.sum(axis=-1, keepdims=True)


def one_class_problem(member: np.ndarray, nu: float, boxes: np.ndarray | None = None) -> Problem:
    """One-class SVM on the rows where `member` (..., m) is true, in LIBSVM's scaling (boxes of 1).

    With `boxes` (m,) it is the OSSVM of a training set without negatives, whose offset 1 - rho in
    the paper may stay positive and is replaced by -rho.
    """
    upper = np.where(member, 1.0 if boxes is None else boxes, 0.0)
    zero = np.zeros(upper.shape)
    return Problem(zero, zero, upper, nu * _total(upper))


def svdd_problem(member: np.ndarray, C: float | np.ndarray, diagonal: np.ndarray) -> Problem:
    """Support vector data description on the rows where `member` (..., m) is true.

    Where the boxes, C or one C for each row, add up to 1 or less, the radius is zero and the
    centre the (weighted) mean: the multipliers are given, and the boxes are closed around them.
    """
    upper = np.where(member, C, 0.0)
    p = np.broadcast_to(0.5 * diagonal.astype(np.float64), upper.shape)
    sums = np.asarray(_total(upper))
    given = sums <= 1.0 + 1e-9
    upper = np.where(given, upper / sums, upper)
    lower = np.where(given, upper, 0.0)
    total = np.where(given, np.asarray(_total(lower)), 1.0)
    return Problem(p, lower, upper, total if total.ndim else float(total))


def fixed_bias_problem(problem: Problem, bias: float) -> Problem:
    """`problem` with its bias held at `bias`; the sum of the multipliers becomes free.

    If beta solves it, beta also solves `problem` with total = sum(beta), and `bias` is optimal
    there. So the smallest total that brings the bias down to a given value costs one solve.
    """
    return Problem(problem.p - bias, problem.lower, problem.upper, None)


def feasible_start(problem: Problem) -> np.ndarray:
    """Multipliers (..., m) in the boxes with the right sum: zero moved evenly towards one face."""
    beta = np.clip(0.0, problem.lower, problem.upper)
    if problem.total is None:
        return beta
    missing = np.asarray(problem.total - _total(beta))
    room = np.where(missing >= 0, problem.upper, problem.lower) - beta
    reach = _total(room)
    rounding = 1e-12 * np.abs(_total(beta))
    beyond = ~(np.abs(missing) <= np.abs(reach) * (1 + 1e-12) + rounding)  # NaN included
    if beyond.any():
        total, low, high = (
            np.broadcast_to(values, beyond.shape)[beyond][0].item()
            for values in (problem.total, _total(problem.lower), _total(problem.upper))
        )
        raise ValueError(
            f"No multipliers in the boxes have the sum total={total!r}; "
            f"the boxes allow [{low!r}, {high!r}]."
        )
    share = np.divide(missing, reach, out=np.zeros_like(missing), where=reach != 0)
    return np.clip(beta + room * share, problem.lower, problem.upper)


def shift_total(problem: Problem, beta: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Feasible multipliers near `beta` (m,), whose sum may differ from ``problem.total``.

    The difference is made up where it lowers the objective most: rows are filled in the order of
    v, so few multipliers move and a warm start stays warm.
    """
    beta = np.clip(beta, problem.lower, problem.upper)
    missing = problem.total - beta.sum()
    if abs(missing) <= 1e-12 * np.abs(beta).sum():  # rounding calls for no repair
        return beta
    direction = np.sign(missing)
    room = np.abs((problem.upper if missing > 0 else problem.lower) - beta)
    open_rows = np.flatnonzero(room)
    order = open_rows[np.argsort(-direction * v[open_rows], kind="stable")]
    # Full room for the first rows, what is left for one, nothing for the rest.
    before = np.cumsum(room[order]) - room[order]
    beta[order] += direction * np.clip(abs(missing) - before, 0.0, room[order])
    return np.clip(beta, problem.lower, problem.upper)


def near_identity(sample: np.ndarray) -> bool:
    """Whether a typical row's kernel values with all others add up to at most that with itself."""
    # `sample`, of shape (n, m), are some rows of the kernel matrix. Then the solution for the
    # identity is a good start.
    return bool(np.median(sample.sum(axis=1)) < 2.0)
