"""Training on landmarks: the part that OpenSetSVC and OneVsRestSVC share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import _fit_context, clone
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval

from ..base import GridScores, KernelMachineClassifier, check_sparse
from ..base.machines import TrainingSet, merge_copies, train_one_vs_rest
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

# Rows drawn for each landmark, and the tolerance of the machines that choose among them.
_SAMPLE, _TOL = 6, 1e-2
# One in _RESERVED landmarks of a class, and at least _FEWEST (fewer if there are many classes), are
# its rows with the largest multipliers, whatever they add.
_RESERVED, _FEWEST = 8, 3


class Landmarks(NamedTuple):
    """Points that carry the expansions of a landmark model.

    Attributes
    ----------
    points : ndarray or CSR matrix of shape (p, d)
    rows : ndarray of shape (p,)
        Their rows in the X of fit; -1 for points that were given.
    support : list of K arrays or None
        Rows in the X of fit that support the exact machines by which they were chosen.
    """

    points: Any
    rows: np.ndarray
    support: list[np.ndarray] | None = None


class LandmarkClassifier(KernelMachineClassifier):
    """Base class of machines that can be trained on landmarks: see :class:`OpenSetSVC`."""

    _parameter_constraints: dict = {
        **KernelMachineClassifier._parameter_constraints,
        "landmarks": [
            Interval(Integral, 1, None, closed="left"),
            "array-like",
            "sparse matrix",
            None,
        ],
        "random_state": ["random_state"],
    }

    landmarks: Any
    random_state: Any
    ensure_bounded: bool = False  # unless it is a parameter

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train one machine per class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
            Feature vectors.
        y : array-like of shape (m,)
            Their classes.
        sample_weight : array-like of shape (m,), default=None
            Weight of each sample; rows of weight zero are left out.

        Returns
        -------
        self
        """
        if self.landmarks is None:
            return super().fit(X, y, sample_weight)
        training = self.prepare(X, y, sample_weight, self.min_classes)
        n_rows = len(training.codes)
        if isinstance(self.landmarks, Integral) and int(self.landmarks) > n_rows:
            raise ValueError(
                f"landmarks={self.landmarks}, but X has only {n_rows} samples. Choose fewer, or "
                "landmarks=None for the exact machine."
            )
        training = merge_copies(training)
        landmarks = self.choose_landmarks(training)
        self.fit_on_landmarks(training, landmarks, self._local_rows)
        return self

    def prepare(self, X, y, sample_weight, min_classes: int) -> TrainingSet:
        training = super().prepare(X, y, sample_weight, min_classes)
        if self.landmarks is not None and not training.kernel.decaying:
            raise ValueError(
                f"landmarks need a kernel that decays with distance, not kernel={self.kernel!r}. "
                "Choose one such as 'rbf', or landmarks=None."
            )
        return training

    def choose_landmarks(self, training: TrainingSet) -> Landmarks:
        """Choose landmarks with the classes in view, or check those that were given.

        Six times as many rows as are wanted are drawn, and exact machines trained on these. The
        landmarks are the rows that represent these machines best.

        Parameters
        ----------
        training : TrainingSet
            Without duplicate rows.

        Returns
        -------
        Landmarks
        """
        if not isinstance(self.landmarks, Integral):
            return given_landmarks(self.landmarks, training.X)
        return self.select_landmarks(training.take(self.draw_rows(training.codes)))

    def draw_rows(self, codes: np.ndarray) -> np.ndarray:
        """Rows among which landmarks are selected, drawn with the classes in view.

        Parameters
        ----------
        codes : ndarray of shape (m,)

        Returns
        -------
        ndarray of shape (n,)
        """
        counts = np.bincount(codes)
        order = check_random_state(self.random_state).permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        n = min(len(codes), max(_SAMPLE * self.landmarks, 2 * len(counts)))
        return order[rank < spread_over_classes(counts, n)[codes[order]]]

    def select_landmarks(self, sample: TrainingSet) -> Landmarks:
        """Select landmarks among the rows of a sample.

        Parameters
        ----------
        sample : TrainingSet

        Returns
        -------
        Landmarks
        """
        n_landmarks = min(self.landmarks, len(sample.codes))
        coef = self._sample_machines(sample)
        # A part of the share of each class is reserved for it.
        own = np.bincount(sample.codes)
        fair = spread_over_classes(own, n_landmarks)
        fewest = max(1, min(_FEWEST, n_landmarks // (2 * len(own))))
        reserved = np.minimum(fair, np.maximum(fair // _RESERVED, fewest))
        order = np.lexsort((-np.abs(coef).sum(axis=0), sample.codes))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(own) - own, own)
        first = order[rank < reserved[sample.codes[order]]]
        chosen = choose_rows(
            *(sample.X, coef, sample.kernel, float(np.median(sample.gamma)), n_landmarks, first),
            cache_size=self.cache_size,
            n_jobs=self.n_jobs,
            device=self.device,
        )
        support = [sample.rows[own != 0] for own in coef]
        return Landmarks(sample.X[chosen], sample.rows[chosen], support)

    def _sample_machines(self, sample):
        """Multipliers of exact machines of the sample, shape (K, n); zeros where there are none."""
        n_classes = len(self.classes_)
        coef = np.zeros((n_classes, len(sample.codes)))
        present = np.unique(sample.codes)
        if len(present) == 1 or np.sum(present < n_classes) < n_classes:
            return coef
        exact = clone(self).set_params(landmarks=None, tol=max(self.tol, _TOL), verbose=0)
        exact.ensure_bounded = False
        exact.classes_, exact.gamma_ = self.classes_, sample.gamma
        exact.n_known_unknowns_ = self.n_known_unknowns_
        exact.fit_machines(replace(sample, rows=np.arange(len(sample.codes))), train_one_vs_rest)
        coef[:, exact.support_] = exact.dual_coef_
        return coef

    def fit_on_landmarks(self, training: TrainingSet, landmarks: Landmarks, rows_of) -> None:
        """Train all machines and set the fitted attributes.

        Parameters
        ----------
        training : TrainingSet
            Its X is not used.
        landmarks : Landmarks
        rows_of : callable
            ``rows_of(training, features)`` gives the training rows as the solver sees them.
        """
        n_classes, n_points = len(self.classes_), landmarks.points.shape[0]
        coef = np.zeros((n_classes, n_points))
        solutions: list = [None] * n_classes
        for gamma in np.unique(training.gamma):
            group = np.flatnonzero(training.gamma == gamma)
            features = LandmarkFeatures(landmarks.points, training.kernel, float(gamma))
            found = self.solve_tasks(
                rows_of(training, features), self.tasks(training, group.tolist(), landmarks)
            )
            weights = np.array([solution.weights for solution in found])
            coef[np.ix_(group, features.kept)] = features.coefficients(weights)
            for k, solution in zip(group.tolist(), found, strict=True):
                solutions[k] = solution
        used = np.flatnonzero(coef.any(axis=0))
        self.support_ = landmarks.rows[used]
        self.support_vectors_ = landmarks.points[used]
        self.dual_coef_ = coef[:, used]
        self.intercept_ = np.array([solution.bias for solution in solutions])
        self.dual_objective_ = np.array([solution.objective for solution in solutions])
        self.kkt_gap_ = np.array([solution.kkt_gap for solution in solutions])
        self.n_iter_ = np.array([solution.n_iter for solution in solutions])
        boxes = self._positive_boxes(training)
        lams = [self._fraction(training, c) for c in range(n_classes)]
        for c, solution in enumerate(solutions):
            if solution.held:
                lams[c] = max(lams[c], solution.total / boxes[c])
        self.finish_model(training, lams)

    def tasks(
        self, training: TrainingSet, group: Sequence[int], landmarks: Landmarks
    ) -> list[LandmarkTask]:
        """The machines of the classes `group`, as the solver describes them."""
        alone = len(self.classes_) == 1 and self.n_known_unknowns_ == 0
        bounded = self.ensure_bounded and not alone
        boxes = self._positive_boxes(training)
        starts: list = [None] * len(self.classes_)
        if landmarks.support is not None:
            starts = [np.searchsorted(training.rows, rows) for rows in landmarks.support]
        return [
            LandmarkTask(
                code=int(c),
                C=float(training.params[c]["C"]),
                total=self._fraction(training, c) * boxes[c],
                hold=-self.tol if bounded else None,
                start=starts[c],
            )
            for c in group
        ]

    def solve_tasks(self, rows: TrainingRows, tasks: list[LandmarkTask]) -> list[LandmarkSolution]:
        """Solve, with the settings of the estimator."""
        done = 0

        def report(k, solution):
            nonlocal done
            done += 1
            print(
                f"[{type(self).__name__}] {done}/{len(tasks)}: class "
                f"{self.classes_.tolist()[tasks[k].code]!r}, {solution.n_support} samples with a "
                f"multiplier, b = {solution.bias:.4g}"
            )

        return solve_landmarks(
            rows,
            tasks,
            tol=self.tol,
            max_iter=self.max_iter,
            cache_size=self.cache_size,
            n_jobs=self.n_jobs,
            on_done=report if self.verbose else None,
        )

    def grid_scores(self, settings, X, y, sample_weight, splits, reduce, *, n_jobs=None):
        # With half of the rows as landmarks the exact machine is as good a judge, and faster.
        n_rows = max(len(split[0]) for split in splits)
        few = isinstance(self.landmarks, Integral) and 2 * self.landmarks >= n_rows
        if self.landmarks is None or few:
            return super().grid_scores(settings, X, y, sample_weight, splits, reduce, n_jobs=n_jobs)
        return map(reduce, self._landmark_scores(settings, X, y, sample_weight, splits, n_jobs))

    def _landmark_scores(
        self, settings, X, y, sample_weight, splits, n_jobs
    ) -> Iterator[GridScores]:
        """Scores of a search: the features of a split serve all boxes and lambdas of a width."""
        labels = np.unique(y)
        for s, (fit, validation, wanted) in enumerate(splits):
            base = clone(self).set_params(n_jobs=n_jobs, verbose=0)
            base.ensure_bounded = False
            at: dict[Any, list[int]] = {}
            for i, setting in enumerate(settings):
                at.setdefault(setting.get("gamma", self.gamma), []).append(i)
            for members in at.values():
                features = None
                for i in members:
                    model = clone(base).set_params(**settings[i])
                    training = model.prepare(X[fit], y[fit], sample_weight[fit], self.min_classes)
                    training = merge_copies(training)
                    if features is None:
                        landmarks = model.choose_landmarks(training)
                        width = float(training.gamma[0])
                        features = LandmarkFeatures(landmarks.points, training.kernel, width)
                        rows = model._local_rows(training, features)
                        psi = features.in_blocks(X[validation])
                    codes = np.searchsorted(model.classes_, labels[wanted])
                    found = model.solve_tasks(
                        rows, model.tasks(training, codes.tolist(), landmarks)
                    )
                    weights = np.array([solution.weights for solution in found])
                    bias = np.array([solution.bias for solution in found])
                    yield GridScores([[i]], s, (psi @ weights.T + bias)[None], bias[None])

    def _local_rows(self, training, features):
        arrays = training.X, training.codes, training.weight
        return training_rows(*arrays, features, self.cache_size, self.n_jobs, self.device)

    def _positive_boxes(self, training):
        """Sum of the boxes of the positive samples of each class."""
        n_classes = len(self.classes_)
        mass = np.bincount(training.codes, training.weight, minlength=n_classes)[:n_classes]
        return mass * [params["C"] for params in training.params]

    def _fraction(self, training, c):
        return float(training.params[c].get("lam", np.zeros(1))[0])


def given_landmarks(landmarks: Any, X: Any) -> Landmarks:
    """Landmarks that a user passed, in the layout of the training data.

    Parameters
    ----------
    landmarks : array-like or sparse matrix of shape (p, d)
    X : ndarray or CSR matrix of shape (m, d)

    Returns
    -------
    Landmarks
    """
    check_sparse(landmarks)
    points = check_array(landmarks, accept_sparse="csr", dtype=np.float64, input_name="landmarks")
    if points.shape[1] != X.shape[1]:
        raise ValueError(
            f"landmarks has {points.shape[1]} features, but X has {X.shape[1]}. Pass points of "
            "the same space, scaled as X is."
        )
    if sparse.issparse(points) != sparse.issparse(X):
        points = points.toarray() if sparse.issparse(points) else sparse.csr_array(points)
    return Landmarks(points, np.full(points.shape[0], -1))
