"""Splits of the SVM family through the grid engine.

All machines of all splits live over the rows of one training set. Rows that a split does not fit
on have an empty box, so they take no part, and their decision values come with the solution.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels import get_kernel
from ..solver import solve_grid
from ._task import Event, Task, validation_codes


class _Lattice:
    """Values of (gamma, C, path parameter) that occur, and the candidates at each point."""

    def __init__(self, model, candidates):
        self.width, self.box, self.path = model._engine_params
        settings = [
            tuple(
                float(candidate.get(name, getattr(model, name))) if name else 0.0
                for name in (self.width, self.box, self.path)
            )
            for candidate in candidates
        ]
        self.gammas, self.boxes, self.values = (
            sorted(set(column)) for column in zip(*settings, strict=True)
        )
        self.at: dict[tuple, list[int]] = {}
        for i, setting in enumerate(settings):
            self.at.setdefault(setting, []).append(i)


def through_engine(model, candidates: list[dict], X, which, task: Task) -> Iterator[Event]:
    """Score candidates that differ in width, box and lambda only; see ``evaluate``."""
    width = model._engine_params[0]
    if not any(width in candidate for candidate in candidates) and isinstance(model.gamma, str):
        # "scale" is a number of its own for each fitting part.
        for s in which:
            fit, _ = task.splits[s]
            gamma = model._resolve_gamma(X[fit], task.weight[fit])
            numbered = [{**candidate, width: gamma} for candidate in candidates]
            yield from _through_engine(model, numbered, X, [s], task)
    else:
        yield from _through_engine(model, candidates, X, which, task)


def _through_engine(model, candidates, X, which, task):
    lattice = _Lattice(model, candidates)
    job = _ModelJob if task.positives is None else _MachineJob
    groups = [job(task, s, C) for s in which for C in lattice.boxes]
    machines = [(group, c) for group in groups for c in group.classes]
    required = getattr(model, "ensure_bounded", False)

    def machine(k):
        group, c = machines[k]
        return _split_machine(model, task, group, c, lattice.values)

    def reduce(k, path, rows):
        return path.scores[:, machines[k][0].validation], path.bias

    collected = []
    for g, k, result in solve_grid(
        X,
        get_kernel(model.kernel),
        lattice.gammas,
        len(machines),
        machine,
        reduce,
        tol=model.tol,
        max_iter=model.max_iter,
        cache_size=model.cache_size,
        n_jobs=task.n_jobs,
    ):
        group, _ = machines[k]
        collected.append(result)
        if len(collected) < len(group.classes):
            continue
        decision, bias = (np.stack(part, axis=-1) for part in zip(*collected, strict=True))
        collected = []
        scores, worst = group.measure(decision), bias.max(axis=-1)
        if required:
            scores = np.where(worst >= 0, -np.inf, scores)
        for t, value in enumerate(lattice.values):
            for i in lattice.at.get((lattice.gammas[g], group.C, value), ()):
                yield i, group.split, float(scores[t]), float(worst[t])


class _ModelJob:
    """All machines of one split at one C, judged together."""

    def __init__(self, task, split, C):
        self.split, self.C = split, C
        self.fit, self.validation = task.splits[split]
        self.classes = np.unique(task.codes[self.fit])
        self._true = validation_codes(task.codes, self.fit, self.validation)
        self._measure = task.measure

    def measure(self, decision):
        return self._measure(decision, self._true)


class _MachineJob:
    """The machine of one class on one split at one C, judged alone."""

    def __init__(self, task, split, C):
        self.split, self.C = split, C
        self.fit, self.validation = task.splits[split]
        positive = task.positives[split]
        self.classes = np.array([positive])
        codes = task.codes[self.validation]
        known = np.isin(codes, task.codes[self.fit])
        self._true = np.where(codes == positive, 0, np.where(known, 1, 2))
        self._measure = task.measure

    def measure(self, decision):
        return self._measure(decision[..., 0], self._true)


def _split_machine(model, task, group, c, values):
    """Problem and totals of the machine of class c on the fitting rows."""
    codes = task.codes[group.fit]
    signs = np.zeros(len(task.codes))
    signs[group.fit] = np.where(codes == c, 1.0, -1.0)
    weight = task.weight.copy()
    weight[group.fit] *= model._class_weights(task.labels[codes])
    return model._path_problem(signs, group.C * weight, np.asarray(values))
