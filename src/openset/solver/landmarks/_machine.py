"""The machine of one class, trained on its active rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._problem import Problem
from .._solve import solve
from ._pool import SLACK, submatrix

# Violators that may become active in a round: at least this many, at most as many as there are
# rows with a multiplier. As many rows without one may stay active.
_ADD = 100
# Rows without a multiplier whose constraint holds by more than this are dropped in any case.
_MARGIN = 0.2
# Early rounds are solved to this tolerance, later ones to a share of the violations last found.
_LOOSE, _SHARE = 0.05, 0.2


@dataclass(frozen=True)
class LandmarkTask:
    """The machine wanted for one class.

    Attributes
    ----------
    code : int
        The class: its rows are positive, all others negative.
    C : float
        The box of a row is C times its weight.
    total : float
        lambda: the sum of the multipliers.
    hold : float or None
        Largest bias that is allowed. Where it would be larger, it is held at this value.
    start : ndarray of shape (n,) or None
        Rows that probably have a multiplier, such as the support vectors of a smaller problem.
    """

    code: int
    C: float
    total: float
    hold: float | None
    start: np.ndarray | None = None


@dataclass(frozen=True)
class LandmarkSolution:
    """The machine of one class, f(x) = weights' psi(x) + bias.

    Attributes
    ----------
    weights : ndarray of shape (r,)
    bias : float
    total : float
        Sum of the multipliers: that of the task, or what a held bias amounts to.
    objective : float
        Dual objective, as for the exact machine.
    kkt_gap : float
        Largest violation of the optimality conditions.
    n_iter : int
    n_support : int
        Rows with a multiplier.
    held : bool
        Whether the bias is held.
    """

    weights: np.ndarray
    bias: float
    total: float
    objective: float
    kkt_gap: float
    n_iter: int
    n_support: int
    held: bool


class Machine:
    """The machine of one class while it is trained.

    Attributes
    ----------
    active : ndarray of shape (n,)
        Rows that are active.
    beta : ndarray of shape (n + 1,) or None
        Multipliers of the slack and of the active rows.
    weights : ndarray of shape (r,)
    bias : float
    most : int
        Number of rows that may become active next.
    """

    def __init__(self, task, active, rows, target):
        self.task, self.active = task, active
        self._rows, self._target = rows, target
        self.beta = self._gram = self._found = None
        # Largest violation found in the last round, and the tolerance of its solution.
        self._worst = self._tol = np.inf
        self.n_iter = 0

    def problem(self):
        """The problem of the slack and the active rows."""
        task = self.task
        own = self._rows.codes[self.active] == task.code
        boxes = task.C * self._rows.weight[self.active]
        # The slack never reaches its lower bound.
        p, lower = (0.0, 0.0) if task.hold is None else (task.hold, -1.0 - boxes[own].sum())
        return Problem(
            np.append(p, np.where(own, self._target, -self._target)),
            np.append(lower, np.where(own, 0.0, -boxes)),
            np.append(0.0, np.where(own, boxes, 0.0)),
            task.total,
        )

    def improve(self, pool, tol, max_iter, stop):
        """Solve the problem of the active rows, warm."""
        problem, place = self.problem(), pool.places(self.active)
        rows, gram = pool.kernel(place, self._gram)
        limit = max(tol, min(_LOOSE, _SHARE * self._worst))
        v = None
        if self.beta is not None and gram is None:
            v = problem.p - pool.product(place, self.weights)
        left = max_iter - self.n_iter
        found = solve(problem, rows, tol=limit, max_iter=left, start=self.beta, v=v, stop=stop)
        keep = self.take(problem, found, limit)
        self._gram = None if gram is None else submatrix(gram, keep)

    def take(self, problem, found, tol):
        """Accept a solution, drop inactive rows; return the positions that are kept."""
        self._found, self._tol, self.bias = found, tol, found.bias
        self.n_iter += found.n_iter
        if self.task.hold is not None and (found.beta[SLACK] < 0 or found.bias > self.task.hold):
            self.bias = self.task.hold
        # How far each constraint is violated (positive) or holds (negative).
        size = np.where(problem.upper > 0, 1.0, -1.0) * (found.v - self.bias)
        keep = found.beta != 0
        self.most = max(_ADD, np.count_nonzero(keep))
        idle = np.flatnonzero(~keep & (size > -_MARGIN))
        keep[idle[np.argsort(-size[idle], kind="stable")[: self.most]]] = True
        # The two rows that bound the bias stay, however far from it they are.
        slack = 1e-9 * (problem.upper - problem.lower)
        keep[np.argmax(np.where(found.beta < problem.upper - slack, found.v, -np.inf))] = True
        keep[np.argmin(np.where(found.beta > problem.lower + slack, found.v, np.inf))] = True
        keep[SLACK] = True
        self.active, self.beta = self.active[keep[1:]], found.beta[keep]
        return np.flatnonzero(keep)

    def support(self):
        """Rows with a multiplier, and their multipliers."""
        some = np.flatnonzero(self.beta[1:])
        return self.active[some], self.beta[1:][some]

    def admit(self, rows, size, tol, max_iter):
        """Make violators active; return whether the machine is final."""
        self._worst = float(size.max(initial=0.0))
        if self.n_iter >= max_iter or (rows.size == 0 and self._tol <= tol):
            return True
        self.active = np.concatenate([self.active, rows])
        self.beta = np.concatenate([self.beta, np.zeros(len(rows))])
        return False

    def solution(self):
        found, slack = self._found, self._found.beta[SLACK]
        return LandmarkSolution(
            self.weights,
            self.bias,
            self.task.total - slack,
            found.objective + (self.task.hold or 0.0) * slack,
            max(found.kkt_gap, self._worst),
            self.n_iter,
            np.count_nonzero(found.beta[1:]),
            slack < 0,
        )
