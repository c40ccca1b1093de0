"""Machines of all classes over landmark features, by active sets.

Few rows decide about a machine: those that violate its margin. So each class is solved on a small
set of active rows (by the solver of the exact machine, over the linear kernel of the features),
then one pass over all rows finds the constraints that its solution violates, for all classes at
once. The worst of these become active, and rows without a multiplier are dropped. The dual
objective rises from round to round; when no row violates the solution, it is that of the whole
problem.

A bias that must not exceed a value is one more row: its features are zero, so its v is constant,
and its multiplier, zero or negative, is the amount by which the sum of the others exceeds the
total. It is called the slack.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from ...kernels import Linear
from ...utils import thread_map
from .._engine import Settings
from .._matrix import MatrixPart
from .._problem import Problem
from .._row_cache import kernel_rows
from .._rows import empty_rows
from .._solve import solve
from .._tuning import tuning
from ..cuda import module_of
from ._choice import first_of_classes, spread_over_classes
from ._features import Query, TrainingRows

# Rows that every class starts with, and its positives in addition.
_START, _POSITIVES = 1000, 200
# Rounding error of a score in float32, relative to the norm of the weights.
_ROUNDING = 1e-6
_ROUNDS = 300
# Iterations per class if max_iter is -1, as in LIBSVM.
_MOST_ITERATIONS = 10**7
# Early rounds look at a sample of the rows: at least this number and this share. The share grows by
# a factor when its violators are fewer than a part of the active rows.
_MANY, _SHARE_OF_ROWS, _GROWTH, _SETTLED = 50_000, 1 / 16, 4, 0.5
# Violators that may become active in a round: at least this many, at most as many as there are
# rows with a multiplier. As many rows without one may stay active.
_ADD = 100
# Rows without a multiplier whose constraint holds by more than this are dropped in any case.
_MARGIN = 0.2
# Early rounds are solved to this tolerance, later ones to a share of the violations last found.
_LOOSE, _SHARE = 0.05, 0.2
# The machines share the products of all rows if these are at most this part of what the machines
# need at first. With many classes, products of their own are fewer, and next to each other.
_COMMON = 0.8
# Rows whose features are computed at a time.
_APPENDED = 2**14
# Place of the slack, whose features are zero.
SLACK = 0


@dataclass(frozen=True)
class LandmarkTask:
    """The machine wanted for one class."""

    code: int  # its rows are positive, all others negative
    C: float  # the box of a row is C times its weight
    lam: float  # the sum of the multipliers, as a share of the boxes of the class
    hold: float | None  # largest bias that is allowed; a larger one is held at this value
    # Rows that probably have a multiplier, such as the support vectors of a smaller problem.
    start: np.ndarray | None = None


def solve_landmarks(
    rows: TrainingRows, tasks: Sequence[LandmarkTask], settings: Settings
) -> Iterator[tuple[int, LandmarkMachine]]:
    """Yield (k, machine of task k) as they become final; tasks are sorted by code."""
    if settings.max_iter < 0:
        # Few landmarks make nearly singular problems, on which rounding can keep SMO from ending.
        settings = settings._replace(max_iter=max(_MOST_ITERATIONS, 100 * len(rows.codes)))
    mass = np.bincount(rows.codes, rows.weight)
    # Without any negatives the machine is a one-class SVM; its positives must score 0 or more.
    target = float(np.any(rows.codes != rows.codes[0]))
    unsolved = {
        k: LandmarkMachine(tasks[k], mass, active, rows, target)
        for k, active in enumerate(_first_rows(rows, tasks, mass))
    }
    pool = Pool(rows, len(tasks), settings.cache_size, settings.n_jobs)
    share, stop = min(1.0, max(_SHARE_OF_ROWS, _MANY / len(rows.codes))), threading.Event()
    for _ in range(_ROUNDS):
        present = list(unsolved.values())
        _improve(present, pool, settings, stop)
        active, owner = _active_pairs(present)
        query = _query(rows, present, target, settings.tol, share)
        violators, where, size = rows.violators(query, (active, owner))
        for i, (k, machine) in enumerate(list(unsolved.items())):
            new = where == i
            if machine.admit(violators[new], size[new], settings) and share == 1:
                yield k, unsolved.pop(k).finished()
        if not unsolved:
            return
        if len(violators) < _SETTLED * len(active):
            share = min(1.0, _GROWTH * share)
    warnings.warn(
        f"{len(unsolved)} machines still violate the optimality conditions by more than "
        f"tol={settings.tol:g} after {_ROUNDS} rounds. Raise tol or scale the data.",
        ConvergenceWarning,
        stacklevel=2,
    )
    yield from ((k, machine.finished()) for k, machine in unsolved.items())


def _first_rows(rows, tasks, mass):
    """Active rows to start with: a sample of all classes, and more of the class itself."""
    order, counts = np.random.default_rng(0).permutation(len(rows.codes)), np.bincount(rows.codes)
    picks = spread_over_classes(counts, min(len(order), max(_START, 2 * len(counts))))
    shared, codes = first_of_classes(rows.codes, order, picks), rows.codes[order]
    for task in tasks:
        positive = order[codes == task.code]
        boxes = np.cumsum(rows.weight[positive]) * task.C
        # The multipliers of positive rows have to reach the total, with some room to move.
        total = task.lam * (mass[task.code] * task.C)
        enough = np.searchsorted(boxes, min(1.2 * total, boxes[-1])) + 1
        if task.start is not None and len(task.start):
            yield np.unique(np.concatenate([task.start, positive[:enough]]))
        else:
            yield np.unique(np.concatenate([shared, positive[: max(enough, _POSITIVES)]]))


def _improve(machines, pool, settings, stop):
    """Solve the problems of the active rows of all machines."""
    pool.make_available([machine.active for machine in machines])
    if not pool.on_gpu:
        improve = methodcaller("improve", pool, settings, stop)
        for _ in thread_map(improve, machines, settings.n_jobs, stop):
            pass
        return
    from ..cuda.grid import solve_together

    problems = [machine.problem() for machine in machines]
    places = [pool.places(machine.active) for machine in machines]
    starts = [machine.beta for machine in machines]
    solved = solve_together(pool.psi, places, problems, starts, settings.tol, settings.max_iter)
    for machine, problem, (solution, weights) in zip(machines, problems, solved, strict=True):
        machine.accept(problem, solution, settings.tol)
        machine.weights = weights


def _active_pairs(machines):
    """The active rows of all machines, and the position of the machine of each."""
    active = [machine.active for machine in machines]
    return np.concatenate(active), np.repeat(np.arange(len(active)), list(map(len, active)))


def _query(rows, machines, target, tol, share):
    weights = np.array([machine.weights for machine in machines])
    return Query(
        classes=np.array([machine.task.code for machine in machines]),
        coef=rows.coefficients(weights).astype(np.float32),
        bias=np.array([machine.bias for machine in machines]),
        target=target,
        floor=tol + _ROUNDING * (1 + np.linalg.norm(weights, axis=1)),
        most=np.array([machine.most for machine in machines]),
        share=share,
    )


class LandmarkMachine:
    """The machine of one class, f(x) = weights' psi(x) + bias."""

    # The rows `active` (n,), the multipliers `beta` (n + 1,) of the slack and of these, `weights`
    # (r,), `bias`, and `most`, the number of rows that may become active next. At the end also
    # `lam`, that of the task or what a held bias amounts to, the dual `objective` as for the exact
    # machine, `kkt_gap`, and `n_support`, the number of rows with a multiplier.

    def __init__(self, task, mass, active, rows, target):
        self.task, self._boxes, self._target = task, mass[task.code] * task.C, target
        self.active, self._rows = active, rows
        self.beta = self._gram = self._solution = None
        # Largest violation found in the last round, and the tolerance of its solution.
        self._worst = self._tol = np.inf
        self.n_iter = 0

    def problem(self):
        """The problem of the slack and the active rows."""
        task = self.task
        positive = self._rows.codes[self.active] == task.code
        boxes = task.C * self._rows.weight[self.active]
        # The slack never reaches its lower bound.
        p, lower = (0.0, 0.0) if task.hold is None else (task.hold, -1.0 - boxes[positive].sum())
        return Problem(
            np.append(p, np.where(positive, self._target, -self._target)),
            np.append(lower, np.where(positive, 0.0, -boxes)),
            np.append(0.0, np.where(positive, boxes, 0.0)),
            task.lam * self._boxes,
        )

    def improve(self, pool, settings, stop):
        """Solve the problem of the active rows, warm."""
        problem, place = self.problem(), pool.places(self.active)
        rows, gram = pool.kernel(place, self._gram)
        limits = {"tol": max(settings.tol, min(_LOOSE, _SHARE * self._worst)), "stop": stop}
        v = None
        if self.beta is not None and gram is None:
            v = problem.p - pool.product(place, self.weights)
        left = settings.max_iter - self.n_iter
        solution = solve(problem, rows, max_iter=left, start=self.beta, v=v, **limits)
        keep = self.accept(problem, solution, limits["tol"])
        self._gram = None if gram is None else gram.take(keep, axis=0).take(keep, axis=1)
        used = np.flatnonzero(self.beta[1:])
        self.weights = pool.weighted_sum(pool.place[self.active[used]], self.beta[1:][used])

    def accept(self, problem, solution, tol):
        """Accept a solution, drop inactive rows; return the positions that are kept."""
        self._solution, self._tol, self.bias = solution, tol, solution.bias
        self.n_iter += solution.n_iter
        hold = self.task.hold
        if hold is not None and (solution.beta[SLACK] < 0 or solution.bias > hold):
            self.bias = hold
        # How far each constraint is violated (positive) or holds (negative).
        size = np.where(problem.upper > 0, 1.0, -1.0) * (solution.v - self.bias)
        keep = solution.beta != 0
        self.most = max(_ADD, np.count_nonzero(keep))
        idle = np.flatnonzero(~keep & (size > -_MARGIN))
        keep[idle[np.argsort(-size[idle], kind="stable")[: self.most]]] = True
        # The two rows that bound the bias stay, however far from it they are.
        slack = 1e-9 * (problem.upper - problem.lower)
        keep[np.argmax(np.where(solution.beta < problem.upper - slack, solution.v, -np.inf))] = True
        keep[np.argmin(np.where(solution.beta > problem.lower + slack, solution.v, np.inf))] = True
        keep[SLACK] = True
        self.active, self.beta = self.active[keep[1:]], solution.beta[keep]
        return np.flatnonzero(keep)

    def admit(self, rows, size, settings):
        """Make violators active; return whether the machine is final."""
        self._worst = float(size.max(initial=0.0))
        if self.n_iter >= settings.max_iter or (rows.size == 0 and self._tol <= settings.tol):
            return True
        self.active = np.concatenate([self.active, rows])
        self.beta = np.concatenate([self.beta, np.zeros(len(rows))])
        return False

    def finished(self):
        """The machine itself, with what is reported about it."""
        last, slack, self.lam = self._solution, self._solution.beta[SLACK], self.task.lam
        if slack < 0:  # the bias is held
            self.lam = max(self.lam, (self.lam * self._boxes - slack) / self._boxes)
        self.objective = last.objective + (self.task.hold or 0.0) * slack
        self.kkt_gap = max(last.kkt_gap, self._worst)
        self.n_support = np.count_nonzero(last.beta[1:])
        self._rows = self._gram = None  # which are large
        return self


class Pool:
    """Features of the rows that are active in any machine, and their products where these fit."""

    # `psi` (n, r) are the features, those of the slack first; `place` (m,) is where those of each
    # row are, -1 where they are not available. Products take at most `cache_size` MB.

    def __init__(self, rows, n_machines, cache_size, n_jobs):
        self._rows, self._n_jobs, self._cache_size = rows, n_jobs, cache_size
        self.on_gpu = rows.on_gpu
        self._per_machine = cache_size * 2**20 / n_machines
        self._side = int(np.sqrt(cache_size * 2**20 / 4))
        self._side = min(len(rows.codes) + 1, max(tuning().small, self._side))
        self._gram = None
        self.place = np.full(len(rows.codes), -1)
        self.psi = None
        self._size = 0

    def make_available(self, active):
        """Make the rows of all machines available, one array each. Others may be forgotten."""
        index = np.unique(np.concatenate(active))
        new = index[self.place[index] < 0]
        if self.psi is None:
            n_products = sum(len(rows) ** 2 for rows in active)
            common = len(index) ** 2 <= _COMMON * n_products and not self.on_gpu
            if common and len(index) < self._side:
                self._gram = empty_rows(self._side, self._side)
                self._diagonal = np.empty(self._side, dtype=np.float32)
        else:
            if self._size + len(new) > self._side:
                self._gram = None
            if self._gram is None:
                self._forget_all_but(index)
        for k in range(0, len(new), _APPENDED):
            part = new[k : k + _APPENDED]
            self._append(part, self._rows.features(part))

    def places(self, active):
        """Where the features of the slack and of some rows are."""
        return np.append(SLACK, self.place[active])

    def _forget_all_but(self, index):
        rows = index[self.place[index] >= 0]
        rows = rows[np.argsort(self.place[rows])]
        known = np.append(SLACK, self.place[rows])
        self.place[:] = -1
        for k in range(0, len(known), 4096):  # in place: rows only move to the front
            self.psi[k : k + 4096][: len(known) - k] = self._take(known[k : k + 4096])
        self.place[rows] = np.arange(1, len(known))
        self._size = len(known)

    def _append(self, new, psi):
        xp = self._xp = module_of(psi)
        if self.psi is None:
            self.psi, self._size = xp.zeros((len(new) + 1, psi.shape[1]), dtype=np.float32), 1
        old, size = self._size, self._size + len(new)
        if size > len(self.psi):
            shape = size + size // 4, psi.shape[1]
            if xp is np:
                self.psi.resize(shape, refcheck=False)  # without a second copy in memory
            else:
                self.psi, psi_before = xp.empty(shape, dtype=np.float32), self.psi
                self.psi[:old] = psi_before[:old]
        self.psi[old:size] = psi
        self.place[new] = np.arange(old, size)
        self._size = size
        if self._gram is None:
            return
        old = 0 if old == 1 else old  # the slack with the first rows
        self._diagonal[old:size] = (self.psi[old:size] ** 2).sum(axis=1)
        tiles = (slice(start, min(start + 512, size)) for start in range(old, size, 512))
        for _ in thread_map(self._multiply, tiles, self._n_jobs):
            pass

    def _multiply(self, tile):
        """Products of some rows with all before and with each other."""
        products = self.psi[tile] @ self.psi[: tile.stop].T
        self._gram[tile, : tile.stop] = products
        self._gram[: tile.start, tile] = products[:, : tile.start].T

    def kernel(self, place, known):
        """Kernel rows of the features of some rows, and their matrix if it may be kept."""
        # `known` is the matrix of the first of these rows, as it was returned before, or None.
        n = len(place)
        if self._gram is not None:
            return MatrixPart(self._gram, place, self._diagonal[place]), None
        if n > tuning().small:
            share = self._cache_size / effective_n_jobs(self._n_jobs)
            return kernel_rows(self._take(place), Linear(), 1.0, share), None
        gram = np.empty((n, n), dtype=np.float32)
        k = 0 if known is None else len(known)
        if k:
            gram[:k, :k] = known
        psi = self._take(place)
        gram[k:] = psi[k:] @ psi.T
        gram[:k, k:] = gram[k:, :k].T
        rows = MatrixPart(gram, np.arange(n), gram.diagonal().copy())
        return rows, gram if 4 * n * n <= self._per_machine else None

    def product(self, place, weights):
        """psi[place] @ weights in float64, in blocks."""
        parts = [place[k : k + 1024] for k in range(0, len(place), 1024)]
        return np.concatenate([self._take(part) @ weights for part in parts])

    def _take(self, place):
        return self.psi[self._xp.asarray(place)]

    def weighted_sum(self, place, beta):
        """beta @ psi[place] in float64, shape (r,)."""
        total = np.zeros(self.psi.shape[1])
        for start in range(0, len(place), 1024):
            part = slice(start, start + 1024)
            total += beta[part] @ self.psi[place[part]]
        return total
