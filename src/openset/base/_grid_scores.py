"""Scores of held-out rows for many settings of kernel machines, without a fit per setting.

The problems of all splits live over the rows of one training set. Rows that a split does not fit on
have an empty box, so they take no part, and their decision values come with the solution.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..kernels import get_kernel
from ..solver import Group, Path, solve_grid
from ._classifier import OpenSetClassifier
from .machines import without_copies

# Rows to fit on, rows to score, and the codes of the classes whose machines are wanted.
Split = tuple[np.ndarray, np.ndarray, np.ndarray]


class GridScores(NamedTuple):
    """Scores of the validation rows of one split under T settings that form one path."""

    settings: list[list[int]]  # the settings that each of the T entries belongs to
    split: int
    scores: np.ndarray  # (T, n_validation, K), in memory one class of the split after the other
    far: np.ndarray  # (T, K) scores far away from all samples; inf if the kernel does not decay


class GridEngine(OpenSetClassifier):
    """The part of a kernel machine classifier that a search uses."""

    @property
    def strategy(self) -> Any:
        """What trains the machines and scores settings instead of the exact solver, or None."""
        return None

    def grid_scores(
        self: Any,
        settings: Sequence[dict[str, Any]],
        X: Any,
        y: np.ndarray,
        sample_weight: np.ndarray,
        splits: Sequence[Split],
        reduce: Callable[[GridScores], Any],
        *,
        n_jobs: int | None = None,
    ) -> Iterator[Any]:
        """Score held-out rows under many settings on many splits, without a fit per setting.

        Parameters
        ----------
        settings : sequence of dict
            Values of the parameters in ``search_spec.engine``; those missing are taken from the
            estimator. A width given by name ("scale") is resolved on the fitting rows of a split.
        X : ndarray or CSR matrix of shape (m, d)
            From :meth:`check_search_data`.
        y, sample_weight : ndarray of shape (m,)
        splits : sequence of (fit, validation, classes)
            Rows to fit on, rows to score, and the classes whose scores are wanted, as indices in
            the sorted classes of y.
        reduce : callable
            ``reduce(scores)`` is called with :class:`GridScores` in the threads that solve: each
            setting on each split once, in no particular order. The memory of the scores is used
            again after the call.
        n_jobs : int, default=None
            Number of threads.

        Yields
        ------
        object
            What `reduce` returned.
        """
        strategy = self.strategy
        if strategy is not None and strategy.pays(max(len(fit) for fit, _, _ in splits)):
            data = X, y, sample_weight, splits
            yield from map(reduce, strategy.scores(settings, *data, n_jobs))
            return
        spec = self.search_spec
        full = [{name: getattr(self, name) for name in spec.engine} | own for own in settings]
        numeric = {i: own for i, own in enumerate(full) if not isinstance(own["gamma"], str)}
        if numeric:
            what = X, y, sample_weight, dict(enumerate(splits))
            yield from _solve(self, _Lattice(spec, numeric), what, reduce, n_jobs)
        for name in sorted({own["gamma"] for own in full if isinstance(own["gamma"], str)}):
            named = copy(self)
            named.gamma = name
            for s, split in enumerate(splits):
                fit = split[0]
                gamma = named.resolve_gamma(X[fit], _weights(self, y, sample_weight, fit))
                own = {i: {**v, "gamma": gamma} for i, v in enumerate(full) if v["gamma"] == name}
                lattice = _Lattice(spec, own)
                yield from _solve(self, lattice, (X, y, sample_weight, {s: split}), reduce, n_jobs)

    def check_search_data(self: Any, X: Any, y: np.ndarray, sample_weight: np.ndarray) -> Any:
        """Check data and parameters as in fit, and return X as :meth:`grid_scores` needs it.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
        y, sample_weight : ndarray of shape (m,)

        Returns
        -------
        ndarray or CSR matrix of shape (m, d)
        """
        plain = copy(self)
        # Rows of the unknown label are one more class here: a split says what they serve for.
        plain.unknown_label = "auto"
        if isinstance(self.gamma, str):
            plain.gamma = 1.0  # it is resolved for each split
        return plain.prepare(X, y, sample_weight, self.min_classes).X

    def score_map(self, path: Path, **params) -> tuple[np.ndarray, np.ndarray]:
        """Return how acceptance scores follow from the decision values of a path.

        Parameters
        ----------
        path : Path
            Solutions at T totals.
        **params

        Returns
        -------
        scale, shift
            Arrays of shape (T,): scores are ``scale[:, None] * path.scores + shift[:, None]``.
        """
        return np.ones(len(path.totals)), np.zeros(len(path.totals))


class _Lattice:
    """The widths, parameter tuples and path values that occur, and the settings at each point."""

    def __init__(self, spec, settings: dict[int, dict[str, Any]]):
        self.path = spec.path
        self.names = [name for name in spec.engine if name not in ("gamma", spec.path)]
        self.at: dict[tuple, list[int]] = {}
        for i, setting in settings.items():
            point = tuple(setting[name] for name in self.names)
            on_path = setting[self.path] if self.path else None
            self.at.setdefault((setting["gamma"], point, on_path), []).append(i)
        gammas, points, values = zip(*self.at, strict=True)
        self.gammas = sorted(set(gammas))
        self.points = list(dict.fromkeys(points))
        self.values = sorted(set(values)) if self.path else [None]

    def params(self, point: tuple) -> dict[str, Any]:
        """Parameters by name; the path parameter is the array of all its values."""
        params = dict(zip(self.names, point, strict=True))
        if self.path:
            params[self.path] = np.array(self.values, dtype=np.float64)
        return params

    def settings(self, gamma: float, point: tuple) -> list[list[int]]:
        return [self.at.get((gamma, point, value), []) for value in self.values]


def _solve(model, lattice, what, finish, n_jobs):
    X, y, sample_weight, splits = what
    groups = [(s, point) for s in splits for point in lattice.points]
    problems = [(s, point, c) for s, point in groups for c in splits[s][2]]
    codes = np.unique(y, return_inverse=True)[1]
    decaying = get_kernel(model.kernel).decaying

    @cache
    def fitting(s):
        """Rows of a split that take part, copies merged as in a fit; codes; weight of all rows."""
        fit, weight = splits[s][0], np.ones(len(codes))
        own = _weights(model, y, sample_weight, fit)
        if not model.counts_samples:
            kept, own = without_copies(X[fit], codes[fit], own)
            fit = fit[kept]
        weight[fit] = own
        return fit, codes[fit], weight

    def describe(s, point, c):
        fit, own, weight = fitting(s)
        signs = np.zeros((*np.shape(c)[:-1], len(codes)))
        signs[..., fit] = np.where(own == c, 1.0, -1.0)
        return model.problem(signs, weight, **lattice.params(point))

    def problem_of(k):
        return describe(*problems[k])

    def problems_of(j):
        s, point = groups[j]
        return describe(s, point, splits[s][2][:, None])

    # Scores of classifiers of which some machines are solved, by width, split and point of the
    # lattice, with the number of those machines; and memory, whose first use is expensive.
    partial: dict[tuple, tuple[np.ndarray, np.ndarray, list[int]]] = {}
    free: list[np.ndarray] = []
    lock = threading.Lock()

    def memory(shape):
        for n, array in enumerate(free):
            if array.shape == shape:
                return free.pop(n)
        return np.empty(shape)

    def reduce(k, path, rows):
        s, point, c = problems[k]
        _, validation, classes = splits[s]
        scale, shift = model.score_map(path, **lattice.params(point))
        key, n_totals = (rows.gamma, s, point), len(scale)
        with lock:
            if key not in partial:
                shape = len(classes), n_totals
                partial[key] = memory((*shape, len(validation))), np.empty(shape), []
            scores, far, done = partial[key]
        place = int(np.argmax(classes == c))
        scores[place] = path.scores_at(validation, scale, shift)
        far[place] = path.bias * scale + shift if decaying else np.inf
        with lock:
            done.append(c)
            if len(done) < len(classes):
                return []
            del partial[key]
        settings = lattice.settings(rows.gamma, point)
        found = finish(GridScores(settings, s, np.moveaxis(scores, 0, -1), far.T))
        with lock:
            free.append(scores)
        return [found]

    def reduce_group(j, which, scores, biases):
        s, point = groups[j]
        settings = [own for g in which for own in lattice.settings(lattice.gammas[g], point)]
        scores, far = scores.transpose(1, 2, 3, 0), biases.swapaxes(1, 2)
        shape = len(settings), *scores.shape[2:]
        far = far.reshape(len(settings), -1) if decaying else np.full(shape[::2], np.inf)
        return [finish(GridScores(settings, s, scores.reshape(shape), far))]

    arguments = X, get_kernel(model.kernel), lattice.gammas, len(problems), problem_of, reduce
    order = list(splits)
    shared: dict[str, Any] = {"parts": [fitting(s)[0] for s in order]}
    shared["part_of"] = [order.index(s) for s, _, _ in problems]
    if type(model).score_map is GridEngine.score_map:  # scores are the decision values
        ends = np.cumsum([0, *(len(splits[s][2]) for s, _ in groups)]).tolist()
        shared["groups"] = [
            Group(list(range(*bounds)), splits[s][1])
            for (s, _), bounds in zip(groups, pairwise(ends), strict=True)
        ]
        shared |= {"problems_of": problems_of, "reduce_group": reduce_group}
    for _, _, found in solve_grid(*arguments, n_jobs=n_jobs, **shared, **model.solver_settings):
        yield from found


def _weights(model, y, sample_weight, fit):
    """Sample weights times class weights of the fitting rows, as in a fit."""
    if isinstance(getattr(model, "class_weight", None), dict):  # may name a withheld class
        return sample_weight[fit] * model.class_sample_weights(y)[fit]
    return sample_weight[fit] * model.class_sample_weights(y[fit])
