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
    """One quadratic program over the m rows of a kernel matrix, or several.

    Attributes
    ----------
    p : ndarray of shape (..., m)
        Linear term.
    lower, upper : ndarray of shape (..., m)
        Box; rows with lower = upper = 0 are held out.
    total : float, ndarray of shape (..., 1) or None
        Value of sum(beta); None drops the equality, and with it the bias.
    """

    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    total: float | np.ndarray | None


class Batch(NamedTuple):
    """P problems over the same n samples, each for T sums of its multipliers.

    Attributes
    ----------
    p, lower, upper : ndarray of shape (P, n)
        Linear terms and boxes, as in :class:`Problem`.
    totals : ndarray of shape (P, T) or None
        Values of sum(beta), distinct and monotone; None drops the equality.
    rows : ndarray of shape (n,), int, default=None
        The samples that take part, sorted; None for all m samples of the training set.
    scored : ndarray of shape (q,), int, default=None
        Samples whose decision values are wanted. Where `rows` is given, none of them takes part.
    follows : bool, default=False
        Whether problem i is close to problem i of the batch before, which has as many problems and
        totals over the same samples: a larger C, say. It is solved from the solution of that one.
    """

    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    totals: np.ndarray | None
    rows: np.ndarray | None = None
    scored: np.ndarray | None = None
    follows: bool = False


@dataclass(frozen=True)
class Solution:
    """Answer to one :class:`Problem`.

    Attributes
    ----------
    beta : ndarray of shape (m,)
        Signed multipliers y_i alpha_i.
    v : ndarray of shape (m,)
        p - K beta. The decision values of all m rows are ``problem.p - v + bias``.
    bias : float
        Mean of v over the free multipliers, the middle of `bias_interval` without any; 0 when the
        problem has no equality.
    bias_interval : tuple of float
        (max of v where beta can grow, min of v where beta can shrink). Every bias between them is
        optimal; the first exceeds the second by at most the tolerance.
    objective : float
        W(beta).
    kkt_gap : float
        Largest violation of the optimality conditions, the quantity compared with the tolerance.
    n_iter : int
        Iterations of the solver.
    status : {"optimal", "max_iter"}
        Whether the tolerance was reached.
    """

    beta: np.ndarray
    v: np.ndarray
    bias: float
    bias_interval: tuple[float, float]
    objective: float
    kkt_gap: float
    n_iter: int
    status: str

    @property
    def alpha(self) -> np.ndarray:
        """Multipliers of the textbook dual, ``alpha_i = abs(beta_i)``."""
        return np.abs(self.beta)


@dataclass(frozen=True)
class Solved:
    """Solutions of one problem for T totals.

    Attributes
    ----------
    problem : Problem
        Over its n samples.
    totals : ndarray of shape (T,)
    beta, v : ndarray of shape (T, n)
        Multipliers, and p - K beta.
    bias, objective : ndarray of shape (T,)
    bias_interval : ndarray of shape (T, 2)
    n_iter : ndarray of shape (T,), int64
    tol : float
        Tolerance they were solved to.
    scored : ndarray of shape (T, q), default=None
        Decision values of the samples that were to be scored.
    held : Solution, default=None
        Solution with the smallest total whose bias is the largest that is allowed, where that of
        another one exceeds it.
    batch, index, width : int, default=0
        The batch, the place of the problem in the batch, and the index of gamma.
    """

    problem: Problem
    totals: np.ndarray
    beta: np.ndarray
    v: np.ndarray
    bias: np.ndarray
    bias_interval: np.ndarray
    objective: np.ndarray
    n_iter: np.ndarray
    tol: float
    scored: np.ndarray | None = None
    held: Solution | None = None
    batch: int = 0
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
    """OSSVM of one class against the rest (the paper's dual, with per-sample boxes).

    Parameters
    ----------
    signs : ndarray of shape (..., m)
        +1 for the positive class, -1 for the rest, 0 for rows that are held out.
    boxes : ndarray of shape (m,)
        C_i = C * w_i > 0.
    lam : float
        Fraction of the sum of the positive boxes, in [0, 1); 0 is the plain SVM.

    Returns
    -------
    Problem
    """
    signs = np.asarray(signs, dtype=np.float64)
    lower = np.where(signs < 0, -boxes, 0.0)
    upper = np.where(signs > 0, boxes, 0.0)
    return Problem(signs, lower, upper, lam * _total(upper))


def _total(values):
    """Sums over the rows: a number, or an array of shape (..., 1) for several problems."""
    return values.sum() if values.ndim == 1 else values.sum(axis=-1, keepdims=True)


def one_class_problem(member: np.ndarray, nu: float, boxes: np.ndarray | None = None) -> Problem:
    """One-class SVM on the rows where `member` is true, in LIBSVM's scaling (boxes of 1).

    With `boxes` it is the OSSVM of a training set without negatives, whose paper offset 1 - rho
    may stay positive and is replaced by -rho.

    Parameters
    ----------
    member : ndarray of shape (..., m), bool
        The rows of the class.
    nu : float
        Fraction of the sum of the boxes.
    boxes : ndarray of shape (m,), default=None
        Upper bounds of the multipliers.

    Returns
    -------
    Problem
    """
    upper = np.where(member, 1.0 if boxes is None else boxes, 0.0)
    zero = np.zeros(upper.shape)
    return Problem(zero, zero, upper, nu * _total(upper))


def svdd_problem(member: np.ndarray, C: float | np.ndarray, diagonal: np.ndarray) -> Problem:
    """Support vector data description on the rows where `member` is true.

    Where the boxes, C or one C for each row, add up to 1 or less, the radius is zero and the
    centre the (weighted) mean: the multipliers are given, and the boxes are closed around them.

    Parameters
    ----------
    member : ndarray of shape (..., m), bool
        The rows of the class.
    C : float or ndarray of shape (..., m)
        Upper bounds of the multipliers.
    diagonal : ndarray of shape (m,)
        k(x_i, x_i).

    Returns
    -------
    Problem
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

    Parameters
    ----------
    problem : Problem
        With or without an equality.
    bias : float
        The bias to hold.

    Returns
    -------
    Problem
    """
    return Problem(problem.p - bias, problem.lower, problem.upper, None)


def feasible_start(problem: Problem) -> np.ndarray:
    """Multipliers inside the boxes with the right sum: zero moved evenly towards one face.

    Parameters
    ----------
    problem : Problem
        Its total has to lie between the sums of its lower and of its upper bounds.

    Returns
    -------
    ndarray of shape (..., m)
    """
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
    """Feasible multipliers near `beta`, whose sum may differ from ``problem.total``.

    The difference is made up where it lowers the objective most: rows are filled in the order of
    v, so few multipliers move and a warm start stays warm.

    Parameters
    ----------
    problem : Problem
        With an equality.
    beta, v : ndarray of shape (m,)
        Multipliers of another total, and ``v = p - K beta``.

    Returns
    -------
    ndarray of shape (m,)
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
