"""Training on landmarks: the strategy of OpenSetSVC and OneVsRestSVC if `landmarks` is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval

from ..base import GridScores, canonical
from ..base.machines import BinaryMachine, TrainingSet, merge_copies
from ..solver.landmarks import (
    LandmarkFeatures,
    LandmarkSolution,
    LandmarkTask,
    TrainingRows,
    choose_rows,
    solve_landmarks,
    spread_over_classes,
    training_rows,
)

# Constraints of the parameters of an estimator that can be trained on landmarks.
LANDMARK_CONSTRAINTS: dict[str, list] = {
    "landmarks": [Interval(Integral, 1, None, closed="left"), "array-like", "sparse matrix", None],
    "random_state": ["random_state"],
}

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
        """Train all machines on a training set without copies, and set the fitted attributes."""
        self.train_on(training, self.landmarks(training), self._rows)

    def train_on(
        self,
        training: TrainingSet,
        landmarks: Landmarks,
        rows_of: Callable[[TrainingSet, LandmarkFeatures], TrainingRows],
    ) -> None:
        """Train all machines; `rows_of` gives the rows as the solver sees them, X is not used."""
        model, boxes = self.model, self._positive_boxes(training)
        machines: list = [None] * len(model.classes_)
        for gamma in np.unique(training.gamma):
            group = np.flatnonzero(training.gamma == gamma).tolist()
            features = LandmarkFeatures(landmarks.points, training.kernel, float(gamma))
            solutions = self._solve(training, group, landmarks, rows_of(training, features))
            coef = features.coefficients(np.array([solution.weights for solution in solutions]))
            for c, solution, own in zip(group, solutions, coef, strict=True):
                lam = self._lam(training, c)
                if solution.held:
                    lam = max(lam, solution.total / boxes[c])
                used = np.flatnonzero(own)
                report = solution.objective, solution.kkt_gap, solution.n_iter, lam
                machines[c] = BinaryMachine(features.kept[used], own[used], solution.bias, *report)
        model.store_machines(machines, training, landmarks.points, landmarks.rows)

    def scores(self, settings, X, y, sample_weight, splits, n_jobs) -> Iterator[GridScores]:
        """Scores of a search: the features of a split serve all boxes and lambdas of a width."""
        labels = np.unique(y)
        base = clone(self.model).set_params(n_jobs=n_jobs, verbose=0)
        if hasattr(base, "ensure_bounded"):
            base.set_params(ensure_bounded=False)
        gammas = dict.fromkeys(setting.get("gamma", base.gamma) for setting in settings)
        for (s, (fit, validation, wanted)), gamma in product(enumerate(splits), gammas):
            features = None
            for i, setting in enumerate(settings):
                if setting.get("gamma", base.gamma) != gamma:
                    continue
                model = clone(base).set_params(**setting)
                training = model.prepare(X[fit], y[fit], sample_weight[fit], model.min_classes)
                training, strategy = merge_copies(training), LandmarkTraining(model)
                if features is None:
                    landmarks, width = strategy.landmarks(training), float(training.gamma[0])
                    features = LandmarkFeatures(landmarks.points, training.kernel, width)
                    rows = strategy._rows(training, features)
                    psi = features.in_blocks(X[validation])
                codes = np.searchsorted(model.classes_, labels[wanted]).tolist()
                solutions = strategy._solve(training, codes, landmarks, rows)
                weights = np.array([solution.weights for solution in solutions])
                bias = np.array([solution.bias for solution in solutions])
                yield GridScores([[i]], s, (psi @ weights.T + bias)[None], bias[None])

    def landmarks(self, training: TrainingSet) -> Landmarks:
        """Choose landmarks with the classes in view, or check those that were given."""
        # Six times as many rows as are wanted are drawn, and exact machines trained on these. The
        # landmarks are the rows that represent these machines best.
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
        if sparse.issparse(points) != sparse.issparse(X):
            points = points.toarray() if sparse.issparse(points) else sparse.csr_array(points)
        return Landmarks(points, np.full(points.shape[0], -1))

    def check_size(self, n_rows: int) -> None:
        """Raise ValueError if more landmarks are wanted than there are rows."""
        if self.drawn and self.model.landmarks > n_rows:
            raise ValueError(
                f"landmarks={self.model.landmarks}, but X has only {n_rows} samples. Choose fewer, "
                "or landmarks=None for the exact machine."
            )

    def draw(self, codes: np.ndarray) -> np.ndarray:
        """Rows among which landmarks are selected, drawn with the classes `codes` (m,) in view."""
        counts = np.bincount(codes)
        order = check_random_state(self.model.random_state).permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        n = min(len(codes), max(_SAMPLE * self.model.landmarks, 2 * len(counts)))
        return order[rank < spread_over_classes(counts, n)[codes[order]]]

    def select(self, sample: TrainingSet) -> Landmarks:
        """Select landmarks among the rows of a sample."""
        model = self.model
        n_landmarks = min(model.landmarks, len(sample.codes))
        coef = self._exact_machines(sample)
        # A part of the share of each class is reserved for it.
        counts = np.bincount(sample.codes)
        fair = spread_over_classes(counts, n_landmarks)
        fewest = max(1, min(_FEWEST, n_landmarks // (2 * len(counts))))
        reserved = np.minimum(fair, np.maximum(fair // _RESERVED, fewest))
        order = np.lexsort((-np.abs(coef).sum(axis=0), sample.codes))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = order[rank < reserved[sample.codes[order]]]
        chosen = choose_rows(
            *(sample.X, coef, sample.kernel, float(np.median(sample.gamma)), n_landmarks, first),
            cache_size=model.cache_size,
            n_jobs=model.n_jobs,
            device=model.device,
        )
        support = [sample.rows[multipliers != 0] for multipliers in coef]
        return Landmarks(sample.X[chosen], sample.rows[chosen], support)

    def _exact_machines(self, sample):
        """Multipliers of exact machines of the sample, shape (K, n); zeros where there are none."""
        model = self.model
        n_classes = len(model.classes_)
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

    def _solve(
        self, training, classes: Sequence[int], landmarks: Landmarks, rows: TrainingRows
    ) -> list[LandmarkSolution]:
        """Solve the machines of some classes, with the settings of the estimator."""
        model, boxes = self.model, self._positive_boxes(training)
        alone = len(model.classes_) == 1 and model.n_known_unknowns_ == 0
        bounded = getattr(model, "ensure_bounded", False) and not alone
        starts: list = [None] * len(boxes)
        if landmarks.support is not None:
            starts = [np.searchsorted(training.rows, rows) for rows in landmarks.support]
        tasks = [
            LandmarkTask(
                code=int(c),
                C=float(training.params[c]["C"]),
                total=self._lam(training, c) * boxes[c],
                hold=-model.tol if bounded else None,
                start=starts[c],
            )
            for c in classes
        ]
        return solve_landmarks(
            rows,
            tasks,
            tol=model.tol,
            max_iter=model.max_iter,
            cache_size=model.cache_size,
            n_jobs=model.n_jobs,
            on_done=partial(self._report, tasks, count(1)) if model.verbose else None,
        )

    def _report(self, tasks, done, k, solution):
        """Print one line on the solution of task k; `done` counts."""
        print(
            f"[{type(self.model).__name__}] {next(done)}/{len(tasks)}: class "
            f"{self.model.classes_.tolist()[tasks[k].code]!r}, {solution.n_support} samples with "
            f"a multiplier, b = {solution.bias:.4g}"
        )

    def _rows(self, training, features):
        arrays, model = (training.X, training.codes, training.weight), self.model
        return training_rows(*arrays, features, model.cache_size, model.n_jobs, model.device)

    def _positive_boxes(self, training):
        """Sum of the boxes of the positive samples of each class, shape (K,)."""
        n_classes = len(self.model.classes_)
        mass = np.bincount(training.codes, training.weight, minlength=n_classes)[:n_classes]
        return mass * [params["C"] for params in training.params]

    def _lam(self, training, c):
        return float(training.params[c].get("lam", np.zeros(1))[0])
