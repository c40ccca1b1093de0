"""Splits of the SVM family through the grid engine.

All machines of all splits live over the rows of one training set. Rows that a split does not fit
on have an empty box, so they take no part, and their decision values come with the solution.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.base import clone

from ..kernels import get_kernel
from ..solver import solve_grid
from ._task import Event, Task, validation_codes


class _Lattice:
    """The widths, machines and path values that occur, and the candidates at each point.

    A machine is a setting of the parameters that need one each, as a tuple of their values; along
    the path parameter, if the model has one, all values are solved together.
    """

    def __init__(self, model, candidates):
        self.path_name = model.search_spec.path
        self.names = [n for n in model.search_spec.engine if n not in ("gamma", self.path_name)]
        self.at: dict[tuple, list[int]] = {}
        for i, candidate in enumerate(candidates):
            value = {
                **{name: getattr(model, name) for name in model.search_spec.engine},
                **candidate,
            }
            machine = tuple(value[name] for name in self.names)
            on_path = value[self.path_name] if self.path_name else None
            self.at.setdefault((value["gamma"], machine, on_path), []).append(i)
        gammas, machines, values = zip(*self.at, strict=True)
        self.gammas = sorted(set(gammas))
        self.machines = list(dict.fromkeys(machines))
        self.values = sorted(set(values)) if self.path_name else [None]

    def params(self, machine) -> dict:
        """The parameters of a machine by name, with all values of the path parameter."""
        params = dict(zip(self.names, machine, strict=True))
        if self.path_name:
            params[self.path_name] = np.array(self.values, dtype=np.float64)
        return params


def through_engine(model, candidates: list[dict], X, which, task: Task) -> Iterator[Event]:
    """Score candidates that differ in the engine parameters only; see ``evaluate``."""
    # The checks of its own fit.
    labels = task.labels[task.codes]
    X = clone(model).prepare(X, labels, task.weight, min_classes=model.min_classes).X
    if "gamma" in candidates[0]:
        yield from _through_engine(model, candidates, X, which, task)
        return
    # "scale" is a number of its own for each fitting part.
    for s in which:
        fit, _ = task.splits[s]
        gamma = model.resolve_gamma(X[fit], _weights(model, task, fit))
        numbered = [{**candidate, "gamma": gamma} for candidate in candidates]
        yield from _through_engine(model, numbered, X, [s], task)


def _through_engine(model, candidates, X, which, task):
    lattice = _Lattice(model, candidates)
    job = _ModelJob if task.positives is None else _MachineJob
    groups = [job(task, s, machine) for s in which for machine in lattice.machines]
    machines = [(group, c) for group in groups for c in group.classes]
    required = getattr(model, "ensure_bounded", False)

    def machine(k):
        group, c = machines[k]
        return _split_machine(model, task, group, c, lattice.params(group.machine))

    def reduce(k, path, rows):
        group, _ = machines[k]
        scale, shift = model.score_map(path, **lattice.params(group.machine))
        scores = path.scores[:, group.validation]
        return scale[:, None] * scores + shift[:, None], path.bias

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
        device=model.device,
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
            for i in lattice.at.get((lattice.gammas[g], group.machine, value), ()):
                yield i, group.split, float(scores[t]), float(worst[t])


class _ModelJob:
    """The machines of all classes with one setting on one split, judged together."""

    def __init__(self, task, split, machine):
        self.split, self.machine = split, machine
        self.fit, self.validation = task.splits[split]
        self.classes = np.unique(task.codes[self.fit])
        self._true = validation_codes(task.codes, self.fit, self.validation)
        self._measure = task.measure

    def measure(self, decision):
        return self._measure(decision, self._true)


class _MachineJob:
    """The machine of one class with one setting on one split, judged alone."""

    def __init__(self, task, split, machine):
        self.split, self.machine = split, machine
        self.fit, self.validation = task.splits[split]
        positive = task.positives[split]
        self.classes = np.array([positive])
        codes = task.codes[self.validation]
        known = np.isin(codes, task.codes[self.fit])
        self._true = np.where(codes == positive, 0, np.where(known, 1, 2))
        self._measure = task.measure

    def measure(self, decision):
        return self._measure(decision[..., 0], self._true)


def _split_machine(model, task, group, c, params):
    """Problem and totals of the machine of class c on the fitting rows."""
    codes = task.codes[group.fit]
    signs = np.zeros(len(task.codes))
    signs[group.fit] = np.where(codes == c, 1.0, -1.0)
    weight = np.ones(len(task.codes))
    weight[group.fit] = _weights(model, task, group.fit)
    return model.problem(signs, weight, **params)


def _weights(model, task, fit):
    """Weights of samples and classes together, as in a fit."""
    labels = task.labels[task.codes]
    if isinstance(getattr(model, "class_weight", None), dict):  # may name a class that is withheld
        return task.weight[fit] * model.class_sample_weights(labels)[fit]
    return task.weight[fit] * model.class_sample_weights(labels[fit])
