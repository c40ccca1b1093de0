"""Kernel machines of one training set: how they are trained, and what is kept of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..kernels import Kernel, Linear
from ..solver import KernelRows, Path, Problem, Solution, solve_grid
from ..utils import thread_map

# Relative slack of the certificate, so that rounding cannot break the promise.
_SLACK = 1e-5


@dataclass(frozen=True)
class Machine:
    """A trained machine, reduced to what prediction and reports need.

    Attributes
    ----------
    support : ndarray of shape (n_sv,)
        Rows of the training set.
    coef : ndarray of shape (n_sv,)
        Coefficients of their kernel functions.
    bias : float
    objective, kkt_gap, n_iter
        Of the solver.
    extra : object
        What a method adds, such as a threshold or the model of a tail.
    sums : ndarray of shape (m,) or None
        K beta at the training samples, where a method keeps it.
    """

    support: np.ndarray
    coef: np.ndarray
    bias: float
    objective: float
    kkt_gap: float
    n_iter: int
    extra: Any = None
    sums: np.ndarray | None = None

    @classmethod
    def of(cls, solution: Solution, **changes) -> Machine:
        """The machine of a solution, without the arrays of the length of the training set."""
        support = np.flatnonzero(solution.beta)
        machine = cls(
            support,
            solution.beta[support],
            solution.bias,
            solution.objective,
            solution.kkt_gap,
            solution.n_iter,
        )
        return replace(machine, **changes)


@dataclass(frozen=True)
class Setup:
    """A training set after validation: rows of weight zero gone, labels as codes.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (m, d)
    codes : ndarray of shape (m,)
    weight : ndarray of shape (m,)
        Sample weight times class weight.
    kept : ndarray of shape (m,)
        Rows of the X that was passed.
    kernel : Kernel or Linear
    gamma : ndarray of shape (K,)
    params : list of K dicts
        The other parameters of each machine.
    """

    X: Any
    codes: np.ndarray
    weight: np.ndarray
    kept: np.ndarray
    kernel: Kernel | Linear
    gamma: np.ndarray
    params: list[dict[str, Any]]

    def signs(self, c) -> np.ndarray:
        """+1 for class c, -1 for the rest."""
        return np.where(self.codes == c, 1.0, -1.0)


# (class, signs, weight) -> problem and totals; (class, path, rows) -> machine.
ProblemOf = Callable[[int, np.ndarray, np.ndarray], tuple[Problem, np.ndarray]]
Reduce = Callable[[int, Path, KernelRows], Machine]


def train_one_vs_rest(
    setup: Setup, problem_of: ProblemOf, reduce: Reduce, n_jobs: int | None, **settings
) -> Iterator[tuple[int, Machine]]:
    """Yield (class, machine), each trained on all rows; classes of one gamma share a kernel.

    `settings` are tol, max_iter, cache_size, device and stop of :func:`solve_grid`.
    """
    for gamma in np.unique(setup.gamma):
        group = np.flatnonzero(setup.gamma == gamma)

        def problem(k, group=group):
            return problem_of(group[k], setup.signs(group[k]), setup.weight)

        def keep(k, path, rows, group=group):
            return reduce(group[k], path, rows)

        for _, k, trained in solve_grid(
            setup.X,
            setup.kernel,
            [gamma],
            len(group),
            problem,
            keep,
            n_jobs=n_jobs,
            **settings,
        ):
            yield group[k], trained


def train_one_class(
    setup: Setup,
    problem_of: ProblemOf,
    reduce: Reduce,
    n_jobs: int | None,
    stop: threading.Event | None = None,
    **settings,
) -> Iterator[tuple[int, Machine]]:
    """Yield (class, machine), each trained on the rows of its class alone: kernel rows are short.

    `settings` as for :func:`train_one_vs_rest`.
    """
    stop = threading.Event() if stop is None else stop

    def train(c):
        own = np.flatnonzero(setup.codes == c)

        def problem(_):
            return problem_of(c, np.ones(len(own)), setup.weight[own])

        def keep(_, path, rows):
            return reduce(c, path, rows)

        grid = solve_grid(
            setup.X[own], setup.kernel, setup.gamma[[c]], 1, problem, keep, stop=stop, **settings
        )
        ((_, _, trained),) = grid
        return replace(trained, support=own[trained.support])

    yield from enumerate(thread_map(train, range(len(setup.params)), n_jobs, stop))


def pack(machines: list[Machine]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Machines as one expansion.

    Returns
    -------
    used : ndarray of shape (n_sv,)
        Rows of the training set that support any machine.
    coef : ndarray of shape (K, n_sv)
    bias : ndarray of shape (K,)
    """
    used = np.unique(np.concatenate([machine.support for machine in machines]))
    coef = np.zeros((len(machines), len(used)))
    for row, machine in zip(coef, machines, strict=True):
        row[np.searchsorted(used, machine.support)] = machine.coef
    return used, coef, np.array([machine.bias for machine in machines])


def known_radius(coef, bias, kernel: Kernel | Linear, gamma) -> np.ndarray:
    """Distance from every positive support vector beyond which a class rejects; inf without one.

    Farther than r, the positive part of f is at most S+ k(gamma r^2), the negative part at most
    zero, so f < 0 as soon as k(gamma r^2) <= -b / S+.
    """
    radius = np.full(len(bias), np.inf)
    if not kernel.decaying:
        return radius
    positive = np.where(coef > 0, coef, 0.0).sum(axis=1)
    for c in np.flatnonzero(bias < 0):
        level = -bias[c] * (1 - _SLACK)
        radius[c] = (
            0.0 if level >= positive[c] else np.sqrt(kernel.inverse(level / positive[c]) / gamma[c])
        )
    return radius
