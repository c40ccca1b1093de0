"""Training on landmarks: the strategy of OpenSetSVC and OneVsRestSVC if `landmarks` is set.

The rows are in memory, or in many parts, on one machine or on a cluster, by Dask. Then labels and
weights of all rows, the landmarks and the features of active rows are on the machine that calls;
the parts stay where they are. Each round of the solver sends the present machines to them and
receives the rows that violate these most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..base import GridScores, canonical
from ..base.machines import BinaryMachine, TrainingSet, merge_copies
from ..solver import Settings
from ..solver.landmarks import (
    LandmarkFeatures,
    LandmarkMachine,
    LandmarkTask,
    Query,
    TrainingRows,
    choose_rows,
    first_of_classes,
    solve_landmarks,
    spread_over_classes,
    worst_violators,
)
from ..solver.points import in_layout
from ..utils import answer_labels, unwrap

# Rows drawn for each landmark, and the tolerance of the machines that choose among them.
_SAMPLE, _TOL = 6, 1e-2
# One in _RESERVED landmarks of a class, and at least _FEWEST (fewer if there are many classes), are
# its rows with the largest multipliers, whatever they add.
_RESERVED, _FEWEST = 8, 3


class Landmarks(NamedTuple):
    """Points that carry the expansions of a landmark model."""

    points: Any  # ndarray or CSR matrix of shape (p, d)
    rows: np.ndarray  # (p,) their rows in the X of fit; -1 for points that were given
    # Rows in the X of fit that support the exact machine of each class that chose the landmarks.
    support: list[np.ndarray] | None = None


class LandmarkTraining:
    """The strategy that trains the machines of `model` on landmarks, and scores settings for it."""

    def __init__(self, model: Any):
        self.model, self.drawn = model, isinstance(model.landmarks, Integral)

    def pays(self, n_rows: int) -> bool:
        """Whether settings are judged on landmarks in a search with splits of so many rows."""
        # With half of the rows as landmarks the exact machine is as good a judge, and faster.
        return not self.drawn or 2 * self.model.landmarks < n_rows

    def train(self, training: TrainingSet) -> None:
        """Train all machines and set the fitted attributes."""
        self.check_size(len(training.codes))
        training = merge_copies(training)
        self.train_on(training, self.landmarks(training), self._rows)

    def train_on(self, training: TrainingSet, landmarks: Landmarks, rows_of: Callable) -> None:
        """Train all machines; `rows_of` gives the rows as the solver sees them, X is not used."""
        machines: list = [None] * len(self.model.classes_)
        for gamma in np.unique(training.gamma):
            group = np.flatnonzero(training.gamma == gamma).tolist()
            features = LandmarkFeatures(landmarks.points, training.kernel, float(gamma))
            solutions = self._solve(training, group, landmarks, rows_of(training, features))
            coefs = features.coefficients(np.array([solution.weights for solution in solutions]))
            for c, own, coef in zip(group, solutions, coefs, strict=True):
                used = np.flatnonzero(coef)
                report = own.objective, own.kkt_gap, own.n_iter, own.lam
                machines[c] = BinaryMachine(features.kept[used], coef[used], own.bias, *report)
        self.model.store_machines(machines, training, landmarks.points, landmarks.rows)

    def scores(
        self, settings, X, y, sample_weight, splits, n_jobs, wanted
    ) -> Iterator[list[GridScores]]:
        """Scores of a search: the features of a split serve all boxes and lambdas of a width."""
        labels = np.unique(y)
        base = clone(self.model).set_params(n_jobs=n_jobs, verbose=0)
        if hasattr(base, "ensure_bounded"):
            base.set_params(ensure_bounded=False)
        gammas = dict.fromkeys(setting.get("gamma", base.gamma) for setting in settings)
        for (s, (fit, validation, known)), gamma in product(enumerate(splits), gammas):
            features = None
            for i, setting in enumerate(settings):
                if setting.get("gamma", base.gamma) != gamma or not wanted[i, s]:
                    continue
                model = clone(base).set_params(**setting)
                training = model.prepare(X[fit], y[fit], sample_weight[fit], model.min_classes)
                training, strategy = merge_copies(training), LandmarkTraining(model)
                if features is None:
                    landmarks, width = strategy.landmarks(training), float(training.gamma[0])
                    features = LandmarkFeatures(landmarks.points, training.kernel, width)
                    rows = strategy._rows(training, features)
                    psi = features.in_blocks(X[validation])
                codes = np.searchsorted(model.classes_, labels[known]).tolist()
                solutions = strategy._solve(training, codes, landmarks, rows)
                weights = np.array([solution.weights for solution in solutions])
                bias = np.array([solution.bias for solution in solutions])
                yield [GridScores([[i]], s, (psi @ weights.T + bias)[None], bias[None])]

    def landmarks(self, training: TrainingSet) -> Landmarks:
        """Choose landmarks with the classes in view, or check those that were given."""
        if not self.drawn:
            return self.given(training.X)
        return self.select(training.take(self.draw(training.codes)))

    def given(self, X: Any) -> Landmarks:
        """The landmarks that a user passed, in the layout of the training data X."""
        points = canonical(self.model.landmarks)
        points = check_array(points, accept_sparse="csr", dtype=float, input_name="landmarks")
        if points.shape[1] != X.shape[1]:
            raise ValueError(
                f"landmarks has {points.shape[1]} features, but X has {X.shape[1]}. Pass points of "
                "the same space, scaled as X is."
            )
        return Landmarks(in_layout(points, sparse.issparse(X)), np.full(points.shape[0], -1))

    def check_size(self, n_rows: int) -> None:
        """Raise ValueError if more landmarks are wanted than there are rows."""
        if self.drawn and self.model.landmarks > n_rows:
            raise ValueError(
                f"landmarks={self.model.landmarks}, but X has only {n_rows} samples. Choose fewer, "
                "or landmarks=None for the exact machine."
            )

    def draw(self, codes: np.ndarray) -> np.ndarray:
        """Rows among which landmarks are selected, drawn with the classes `codes` (m,) in view."""
        # Six times as many as are wanted: the landmarks are those that represent the exact machines
        # of these rows best.
        counts = np.bincount(codes)
        order = check_random_state(self.model.random_state).permutation(len(codes))
        n = min(len(codes), max(_SAMPLE * self.model.landmarks, 2 * len(counts)))
        return first_of_classes(codes, order, spread_over_classes(counts, n))

    def select(self, sample: TrainingSet) -> Landmarks:
        """Select landmarks among the rows of a sample."""
        model, n_landmarks = self.model, min(self.model.landmarks, len(sample.codes))
        coef = self._exact_machines(sample)
        # A part of the share of each class is reserved for it.
        counts = np.bincount(sample.codes)
        fair = spread_over_classes(counts, n_landmarks)
        fewest = max(1, min(_FEWEST, n_landmarks // (2 * len(counts))))
        reserved = np.minimum(fair, np.maximum(fair // _RESERVED, fewest))
        order = np.argsort(-np.abs(coef).sum(axis=0), kind="stable")
        first = first_of_classes(sample.codes, order, reserved)
        data = sample.X, coef, sample.kernel, float(np.median(sample.gamma))
        resources = model.cache_size, model.n_jobs, model.device
        chosen = choose_rows(*data, n_landmarks, first, *resources)
        support = [sample.rows[multipliers != 0] for multipliers in coef]
        return Landmarks(sample.X[chosen], sample.rows[chosen], support)

    def _exact_machines(self, sample):
        """Multipliers of exact machines of the sample, shape (K, n); zeros where there are none."""
        model, n_classes = self.model, len(self.model.classes_)
        coef = np.zeros((n_classes, len(sample.codes)))
        present = np.unique(sample.codes)
        if len(present) == 1 or np.sum(present < n_classes) < n_classes:
            return coef
        exact = clone(model).set_params(landmarks=None, tol=max(model.tol, _TOL), verbose=0)
        exact.ensure_bounded = False
        exact.classes_, exact.gamma_ = model.classes_, sample.gamma
        exact.n_known_unknowns_ = model.n_known_unknowns_
        exact.fit_machines(replace(sample, rows=np.arange(len(sample.codes))))
        coef[:, exact.support_] = exact.dual_coef_
        return coef

    def _solve(self, training, classes, landmarks, rows) -> list[LandmarkMachine]:
        """Solve the machines of some classes, with the settings of the estimator."""
        model, tasks = self.model, []
        alone = len(model.classes_) == 1 and model.n_known_unknowns_ == 0
        hold = -model.tol if getattr(model, "ensure_bounded", False) and not alone else None
        for c in classes:
            C, lam = training.params[c]["C"], training.params[c].get("lam", np.zeros(1))[0]
            start = None
            if landmarks.support is not None:
                start = np.searchsorted(training.rows, landmarks.support[c])
            tasks.append(LandmarkTask(int(c), float(C), float(lam), hold, start))
        settings = Settings(model.tol, model.max_iter, model.cache_size, model.n_jobs)
        solutions: dict[int, LandmarkMachine] = {}
        for k, solution in solve_landmarks(rows, tasks, settings):
            solutions[k] = solution
            if model.verbose:
                label = model.classes_.tolist()[tasks[k].code]
                print(
                    f"[{type(model).__name__}] {len(solutions)}/{len(tasks)}: class {label!r}, "
                    f"{solution.n_support} samples with a multiplier, b = {solution.bias:.4g}"
                )
        return [solutions[k] for k in range(len(tasks))]

    def _rows(self, training, features):
        arrays, model = (training.X, training.codes, training.weight), self.model
        return TrainingRows(*arrays, features, model.cache_size, model.n_jobs, model.device)


Model = TypeVar("Model", bound=BaseEstimator)

# How often a task is tried again when its worker is lost.
_RETRIES = 3


def fit_distributed(model: Model, X: Any, y: Any, *, sample_weight: Any = None) -> Model:
    """Fit a landmark model on a Dask array or dataframe.

    The work is done where Dask's scheduler is: create a ``dask.distributed.Client`` first to use a
    cluster. If a worker is lost, its parts are loaded and computed again by others.

    Parameters
    ----------
    model : OpenSetSVC or OneVsRestSVC
        With `landmarks`; it is cloned.
    X : dask Array or DataFrame of shape (m, d)
        Features; an array is not split along its columns.
    y : dask Array or Series of shape (m,)
        Classes, in parts of the same lengths.
    sample_weight : dask Array or Series of shape (m,), default=None
        Weights, likewise.

    Returns
    -------
    OpenSetSVC or OneVsRestSVC
        An ordinary fitted estimator. It agrees, within the tolerance of the solver, with the one
        fitted on the same rows in memory. ``support_`` counts the rows of all parts in order.

    Examples
    --------
    >>> import numpy as np
    >>> import dask.array as da
    >>> from openset import OpenSetSVC
    >>> from openset.svm import fit_distributed
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 2)) + 9 * y[:, None]
    >>> model = OpenSetSVC(gamma=0.5, landmarks=20, random_state=0)
    >>> fitted = fit_distributed(model, da.from_array(X, (40, 2)), da.from_array(y, 40))
    >>> fitted.predict([[0.0, 0.0], [9.0, 9.0], [50.0, 0.0]])
    array([ 0,  1, -1])
    """
    if getattr(model, "landmarks", None) is None:
        raise ValueError(
            f"fit_distributed needs an OpenSetSVC or OneVsRestSVC with landmarks, got {model!r}. "
            "Set landmarks, for instance to 2000."
        )
    gamma, model = model.gamma, clone(model)
    model._validate_params()
    strategy = LandmarkTraining(model)
    parts = Parts(X, y, sample_weight)
    everyone = np.flatnonzero(parts.weight)
    labels, weight = parts.labels[everyone], parts.weight[everyone]
    strategy.check_size(len(everyone))
    # The checks of an ordinary fit, on a sample that holds every class.
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    drawn = strategy.draw(codes) if strategy.drawn else np.sort(first)
    if gamma == "scale":
        model.set_params(gamma=parts.unit_gamma())
    sample = parts.rows(everyone[drawn])
    if parts.names is not None:
        import pandas as pd

        sample = pd.DataFrame(sample, columns=parts.names)
    given = model.prepare(sample, labels[drawn], weight[drawn], model.min_classes)
    codes = np.searchsorted(model.classes_, labels)
    unknown = labels == model.unknown_label_
    codes[unknown] = len(model.classes_)
    model.n_known_unknowns_ = int(unknown.sum())
    weight = weight * model.class_sample_weights(labels)
    training = replace(given, X=None, codes=codes, weight=weight, rows=everyone)
    if strategy.drawn:
        chosen = drawn[given.rows]
        landmarks = strategy.select(
            replace(given, codes=codes[chosen], weight=weight[chosen], rows=everyone[chosen])
        )
    else:
        landmarks = strategy.given(given.X)
    strategy.train_on(training, landmarks, partial(DaskRows, parts))
    return model.set_params(gamma=gamma)


def predict_distributed(model: BaseEstimator, X: Any) -> Any:
    """Answers for a Dask array or dataframe, part by part; nothing is computed yet.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, a Pipeline or a search.
    X : dask Array or DataFrame of shape (n, d)

    Returns
    -------
    dask Array or Series of shape (n,)
        What ``model.predict`` answers.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.svm import predict_distributed
    >>> model = OpenSetSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [0, 0, 1, 1])
    >>> X = da.from_array(np.array([[0.0, 0.5], [50.0, 50.0]]), (1, 2))
    >>> predict_distributed(model, X).compute()
    array([ 0, -1])
    """
    check_is_fitted(model)
    final = unwrap(model)
    dtype = answer_labels(final.classes_, final.unknown_label_).dtype
    if hasattr(X, "columns"):
        return X.map_partitions(_predict, model, dtype, meta=("answer", dtype))
    return X.map_blocks(_predict, model, dtype, drop_axis=1, meta=np.empty(0, dtype))


def _predict(part, model, dtype):
    answer = model.predict(part) if len(part) else np.empty(0, dtype)
    if not hasattr(part, "columns"):
        return answer
    import pandas as pd

    return pd.Series(answer, index=part.index, name="answer")


class Parts:
    """The parts of the data, and what is known of each: labels, weights, moments."""

    def __init__(self, X, y, sample_weight):
        try:
            import dask
        except ImportError as error:
            raise ImportError(
                'fit_distributed needs Dask; run: pip install "openset[cluster]"', name=error.name
            ) from error
        self._dask, self.delayed, self.persist = dask, dask.delayed, dask.persist
        self.names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        blocks, labels = _delayed(X, "X"), _delayed(y, "y")
        if len(blocks) != len(labels):
            raise ValueError(
                f"X has {len(blocks)} parts, y has {len(labels)}. Split both alike, for instance "
                "with rechunk or repartition."
            )
        weights = [None] * len(blocks)
        if sample_weight is not None:
            weights = _delayed(sample_weight, "sample_weight")
        self.blocks = dask.persist(*map(dask.delayed(_matrix), blocks))
        facts = self.compute(_facts, range(len(blocks)), self.blocks, labels, weights)
        part_labels, part_weights, moments, widths = zip(*facts, strict=True)
        if len(set(widths)) > 1:
            raise ValueError(
                f"The parts of X have different numbers of columns: {sorted(set(widths))}."
            )
        self._width, self._moments = widths[0], np.sum(moments, axis=0)
        self.labels, self.weight = map(np.concatenate, (part_labels, part_weights))
        self.starts = np.cumsum([0, *map(len, part_labels)])
        if self.starts[-1] == 0:
            raise ValueError("X has no rows in any part.")

    def unit_gamma(self):
        """1 / (number of features times weighted variance of X)."""
        total, first, second = self._moments
        mean = first / (total * self._width)
        variance = second / (total * self._width) - mean**2
        return 1.0 if variance <= 1e-13 * mean**2 else 1.0 / (self._width * variance)

    def compute(self, function, *arguments):
        """``function(*a)`` for each tuple `a` of arguments, computed where the parts are."""
        tasks = (self.delayed(function)(*a) for a in zip(*arguments, strict=True))
        return self._dask.compute(*tasks, retries=_RETRIES)

    def rows(self, index, transform=None):
        """Rows `index` of all parts, or what `transform` makes of them."""
        owner = np.searchsorted(self.starts, index, side="right") - 1
        some = np.unique(owner)
        places = [np.flatnonzero(owner == k) for k in some]
        inside = [index[own] - self.starts[k] for k, own in zip(some, places, strict=True)]
        blocks = [self.blocks[k] for k in some]
        values = np.concatenate(self.compute(_take, blocks, inside, [transform] * len(some)))
        result = np.empty_like(values)
        result[np.concatenate(places)] = values
        return result


class DaskRows(TrainingRows):
    """Training rows in the parts of a Dask collection."""

    def __init__(self, parts, training, features: LandmarkFeatures):
        self.codes, self.weight, self.on_gpu = training.codes, training.weight, False
        self._parts, self._map = parts, features
        # Positions among all rows, those of weight zero included; where each part begins.
        self._rows, self._starts = training.rows, np.searchsorted(training.rows, parts.starts)
        # One task whose result the workers share; it can be computed again if one is lost.
        (self._features,) = parts.persist(parts.delayed(features, traverse=False))

    def features(self, index):
        return self._parts.rows(self._rows[index], self._features)

    def violators(self, query: Query, active):
        order = np.argsort(active[0], kind="stable")
        rows, position = (pairs[order] for pairs in active)
        ends = np.searchsorted(rows, self._starts)
        shared = self._features, self._parts.delayed(query, traverse=False)
        tasks, starts = [], []
        for k, (low, high) in enumerate(pairwise(self._starts)):
            if low < high:
                here = slice(ends[k], ends[k + 1])
                inside = self._rows[low:high] - self._parts.starts[k]
                pairs = rows[here] - low, position[here]
                block = self._parts.blocks[k], inside, self.codes[low:high]
                tasks.append((*block, *shared, pairs))
                starts.append(low)
        parts = self._parts.compute(_part_violators, *zip(*tasks, strict=True))
        found = [(r + low, p, s) for (r, p, s), low in zip(parts, starts, strict=True)]
        return worst_violators(query, found)


def _delayed(collection, name):
    """The parts of a collection as delayed objects."""
    if not hasattr(collection, "to_delayed"):
        raise ValueError(
            f"{name} is a {type(collection).__name__}, not a Dask array or dataframe. Call "
            "model.fit for data in memory."
        )
    parts = np.asarray(collection.to_delayed())
    if parts.ndim == 2 and parts.shape[1] > 1:
        raise ValueError(
            f"{name} is split along its columns into {parts.shape[1]} blocks. Rechunk it: "
            f"{name}.rechunk({{1: -1}})."
        )
    return parts.ravel().tolist()


def _matrix(part):
    """One part of X as an array of float64, its columns named in errors."""
    names = getattr(part, "columns", None)
    if names is not None:
        part = part.to_numpy(dtype=np.float64, na_value=np.nan)
    part = np.ascontiguousarray(part, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(part))
    if len(bad):
        i, j = bad[0]
        column = j if names is None else repr(names[j])
        raise ValueError(
            f"X contains {part[i, j]} in row {i} of a part, column {column}; fill or drop it."
        )
    return part


def _facts(k, block, labels, weight):
    """Labels, weights, moments and width of a part; unequal lengths are an error."""
    labels = np.asarray(labels)
    weight = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=np.float64)
    for name, values in (("y", labels), ("sample_weight", weight)):
        if len(values) != len(block):
            raise ValueError(
                f"Part {k} of X has {len(block)} rows, but part {k} of {name} has {len(values)}. "
                "Split both alike."
            )
    if labels.dtype.kind == "O":
        labels = labels.astype(str) if len(labels) else labels.astype("<U1")
    sums = block.sum(axis=1), np.einsum("ij,ij->i", block, block)
    moments = weight.sum(), weight @ sums[0], weight @ sums[1]
    return labels, weight, moments, block.shape[1]


def _take(block, rows, transform):
    return block[rows] if transform is None else transform.in_blocks(block[rows])


def _part_violators(block, rows, codes, features, query, active):
    """Violators among some rows of a part."""
    some = block if len(rows) == len(block) else block[rows]
    return TrainingRows(some, codes, np.ones(len(codes)), features, 0).violators(query, active)
