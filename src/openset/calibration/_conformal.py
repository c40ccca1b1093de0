"""p-values and sets of classes, from the scores of the calibration samples; false discoveries.

If a known sample is exchangeable with n calibration samples, p = (1 + #{i: s_i <= s}) / (n + 1) is
at most alpha with a probability of at most alpha, ties included. Of samples in groups, the mass of
a group is counted instead, in equal parts on its samples.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control, ks_2samp
from sklearn.utils.validation import check_is_fitted

from ..base import group_codes, group_levels
from ..metrics import encode_labels
from ..registry import FORMER_CRITERIA, refuse_former
from ..utils import split_fitted
from ..wrappers import ShiftedWrapper
from ._criterion import SLACK, CalibrationScores, fewest_groups, masses
from ._mixture import Mixture

# Share of the calibration samples below the common score of a check, and the fewest compared.
_BELOW, _FEWEST = 0.1, 10


@dataclass(frozen=True)
class Exchangeability:
    """The result of ``CalibratedRejector.check``.

    Attributes
    ----------
    p_value : float
        That new samples above the common score are exchangeable with the calibration samples above
        it. Small: do not rely on the promise.
    score : float
        The common score, under the thresholds of the estimator itself.
    n_calibration, n_new : int
        Samples above it, which are compared.
    shift : float
        Median of the new scores less that of the calibration scores, in interquartile ranges of the
        latter; negative where new samples look less known.
    """

    p_value: float
    score: float
    n_calibration: int
    n_new: int
    shift: float

    def __str__(self) -> str:
        found = "no sign of a change" if self.p_value >= 0.05 else "CHANGED"
        return (
            f"{found}: p = {self.p_value:.3g}, {self.n_new:,} new samples that look known against "
            f"{self.n_calibration:,} calibration samples, shift {self.shift:+.2f}. It sees known "
            "samples that score lower or higher than they did, and many unknown samples that are "
            "accepted; not known samples that moved below the score from which on it compares, nor "
            "changes that leave the highest score alone."
        )


class ConformalClassifier(ShiftedWrapper):
    """An estimator that keeps the scores of its calibration samples, within sets if it promises so.

    A mass, and the scores of groups, are None where the samples are independent.
    """

    thresholds_: np.ndarray
    categories_: np.ndarray | None
    criterion: Any
    _known_scores: list[np.ndarray]
    _group_levels: np.ndarray | None

    def __new__(cls, *args: Any, **parameters: Any):
        # Here, so that the signature of the class is that of its __init__.
        refuse_former(cls.__name__, parameters)
        return super().__new__(cls)

    def set_params(self, **params: Any):
        refuse_former(type(self).__name__, params)
        return super().set_params(**params)

    def _validate_params(self) -> None:
        if isinstance(old := self.criterion, str):
            new = FORMER_CRITERIA.get(old, "one of the criteria of openset.calibration")
            raise ValueError(
                f"The 'criterion' parameter is an object, not a text; instead of criterion={old!r} "
                f"use {new}."
            )
        super()._validate_params()

    def _keep_scores(self, given: CalibrationScores, category: np.ndarray) -> None:
        """Keep the sorted scores of the calibration samples, for p-values."""
        scores, codes, groups = given.known, given.codes, given.groups
        best, own = scores.max(axis=1), scores[np.arange(len(codes)), codes]
        n_sets = 1 if self.categories_ is None else len(self.categories_)
        whole = [np.flatnonzero(category == m) for m in range(n_sets)]
        classes = [np.flatnonzero(codes == c) for c in range(len(self.classes_))]
        members = classes if self.within_ == "class" else whole
        self._own_scores, self._own_mass = _sorted_scores(own, groups, members)
        self._known_scores, self._known_mass = _sorted_scores(best, groups, whole)
        self._group_levels = None if groups is None else np.sort(self._levels(scores, groups))
        self.n_calibration_, self._slack = len(codes), given.band
        self._calibration_rows = np.column_stack([best, scores.argmax(axis=1), codes])

    def _levels(self, scores, groups) -> np.ndarray:
        """(G,) up to which threshold each group is accepted, under those of the estimator."""
        aggregate = getattr(self.criterion_, "aggregate", None) or "mean"
        return group_levels(scores, groups, aggregate).max(axis=1)

    def _compared(self, X, groups, test: str):
        """Sorted scores of the calibration samples, or groups; those of X; indices of its rows."""
        scores = self._scores_of_estimator(X)
        if groups is None and self._group_levels is not None:
            raise ValueError(
                f"{test} is for independent samples, but the model was calibrated on groups: pass "
                "groups here, too."
            )
        if groups is None:
            calibration = np.sort(np.concatenate(self._known_scores))
            return calibration, scores.max(axis=1), np.arange(len(scores))
        if self._group_levels is None:
            raise ValueError(
                "groups were passed, but the model was calibrated without. Pass groups to the "
                "fit of CalibratedRejector, too."
            )
        codes = group_codes(groups, len(scores))[1]
        return self._group_levels, self._levels(scores, codes), codes

    def mixture(self, X_traffic, *, confidence: float = 0.95) -> Mixture:
        """Tell how many of unlabelled rows are unknown, from the scores of the calibration samples.

        Parameters
        ----------
        X_traffic : array-like of shape (N, d), or whatever the estimator takes
            Known and unknown rows, independent of each other.
        confidence : float in (0, 1), default=0.95
            Of the promise and of the intervals.

        Returns
        -------
        Mixture
            :func:`openset.traffic.estimate_traffic` explains it.
        """
        scores = self._scores_of_estimator(X_traffic, "_calibration_rows")
        return self._mixture(scores, confidence)

    def _mixture(self, scores: np.ndarray, confidence: float = 0.95) -> Mixture:
        reason = None
        if self._group_levels is not None:
            reason = "the model was calibrated on objects, whose rows are not independent"
        traffic = np.column_stack([scores.max(axis=1), scores.argmax(axis=1)])
        given = self._calibration_rows, traffic, len(self.classes_)
        return Mixture.from_rows(*given, confidence=confidence, slack=self._slack, reason=reason)

    def p_values(self, X, *, categories=None) -> np.ndarray:
        """Conformal p-values of "this sample is a c", for each class c.

        That of the class of a known sample is at most alpha with a probability of at most alpha;
        with ``KnownRejected(within=...)`` within each class or category. With n calibration samples
        there it is 1 / (n + 1) or more: 0.048 with 20.

        Parameters
        ----------
        X, categories
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, K)
            Column c belongs to ``classes_[c]``. The rows do not sum to 1.
        """
        scores = self._scores_of_estimator(X)
        return self._p_values(self._own_scores, self._own_mass, scores, categories)

    def known_p_value(self, X, *, categories=None) -> np.ndarray:
        """Conformal p-value of "this sample is of a known class".

        It is at most alpha with a probability of at most alpha for a known sample, whose highest
        score counts; within classes it is the largest of :meth:`p_values`.

        Parameters
        ----------
        X, categories
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n,)
        """
        if self.within_ == "class":
            return self.p_values(X).max(axis=1)
        best = self._scores_of_estimator(X).max(axis=1, keepdims=True)
        return self._p_values(self._known_scores, self._known_mass, best, categories)[:, 0]

    def _p_values(self, kept, mass, scores, categories) -> np.ndarray:
        """p-values of scores (n, K) or (n, 1), each among the kept scores of its set."""
        sets = self._category_codes(categories, len(scores))[:, None]
        p = np.empty(scores.shape)
        sets = np.broadcast_to(np.arange(len(kept)) if self.within_ == "class" else sets, p.shape)
        for m, calibration in enumerate(kept):
            at = sets == m
            p[at] = p_value(calibration, mass and mass[m], scores[at], self._slack)
        return p

    def predict_set(self, X, *, alpha: float | None = None, categories=None) -> np.ndarray:
        """Return a set of classes for each sample.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        alpha : float in (0, 1), default=None
            None: every class that accepts. Otherwise every class whose p-value exceeds `alpha`,
            that of a known sample among them with a probability of at least 1 - `alpha`.
        categories : array-like of shape (n,), default=None
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, K), bool
            An empty row is unknown.
        """
        if alpha is None:
            return self.decision_function(X, categories=categories) >= 0  # type: ignore[call-arg]
        if not 0 < alpha < 1:
            raise ValueError(f"alpha={alpha!r} must be between 0 and 1.")
        p = self.p_values(X, categories=categories)
        kind, smallest = "calibration samples", max(1 / (len(s) + 1) for s in self._own_scores)
        if self._own_mass is not None:
            kind, smallest = "groups", max(mass[0] for mass in self._own_mass)
        if alpha < smallest:
            of = "" if self.within_ is None else f" of a {self.within_}"
            warnings.warn(
                f"alpha={alpha:g} is below {smallest:.3g}, the smallest p-value that "
                f"{round(1 / smallest) - 1} {kind}{of} can give: a class is never excluded. "
                "Calibrate with more samples, or raise alpha.",
                stacklevel=2,
            )
        return p > alpha

    def check(self, X_new: Any, *, groups: Any = None) -> Exchangeability:
        """Test whether new samples that look known are like the calibration samples.

        The promise rests on that. The highest scores of both are compared (Kolmogorov-Smirnov)
        above a calibration score that is not below the threshold.

        Parameters
        ----------
        X_new : array-like of shape (n, d), or whatever the estimator takes
            New samples, unlabelled; independent of each other.
        groups : array-like of shape (n,), default=None
            The object of each, for a model that was calibrated with groups: objects are compared.

        Returns
        -------
        Exchangeability
            The p-value; its text says what the test can and cannot see.
        """
        old, new, _ = self._compared(X_new, groups, "check")
        threshold = self.thresholds_[0] if self.within_ is None else -np.inf
        # Given the common score, both are draws from one distribution that is cut off there.
        rank = max(int(_BELOW * len(old)), int(np.searchsorted(old, threshold)))
        score, n_all = old[min(rank, len(old) - 1)], len(new)
        old, new = old[old > score], new[new > score]
        if min(len(old), len(new)) < _FEWEST:
            raise ValueError(
                f"{len(old)} calibration samples and {len(new)} of {n_all} new ones look known; "
                f"{_FEWEST} of each are needed to compare them. If known samples are among the new "
                "ones, they have changed; else give more."
            )
        spread = np.subtract(*np.quantile(old, [0.75, 0.25])) or 1.0
        shift = float((np.median(new) - np.median(old)) / spread)
        p = float(ks_2samp(old, new).pvalue)
        return Exchangeability(p, float(score), len(old), len(new), shift)

    def _scores_of_estimator(self, X, needed: str = "_own_scores") -> np.ndarray:
        """Scores under the thresholds of the estimator itself."""
        check_is_fitted(self)
        if not hasattr(self, needed):
            raise ValueError(
                "This model was calibrated by an older version, which did not keep the scores of "
                "the calibration samples. Calibrate it again."
            )
        transform, model = split_fitted(self.estimator_)
        return model.decision_function(transform(X))

    def _category_codes(self, categories, n: int) -> np.ndarray:
        """(n,) index of the category of each sample; zeros without categories."""
        if self.categories_ is None:
            if categories is None:
                return np.zeros(n, dtype=np.intp)
            raise ValueError(
                "categories were passed, but the model was not calibrated within categories. "
                "Leave them out, or calibrate with KnownRejected(within='category')."
            )
        names = self.categories_.tolist()
        if categories is None:
            raise ValueError(
                "The model has thresholds per category: pass categories, the category of each "
                f"sample, one of {names!r}, to predict, predict_set, known_score, p_values, "
                "known_p_value or decision_function; others do not take it."
            )
        given, rows = group_codes(categories, n, "categories")
        codes = encode_labels(given, self.categories_)
        if np.any(strange := codes == len(names)):
            raise ValueError(
                f"The model was not calibrated within the categories {given[strange].tolist()!r}; "
                f"it knows {names!r}. Calibrate with samples of each."
            )
        return codes[rows]


def _sorted_scores(scores, groups, members):
    """Sorted scores of each set of rows; with groups also the mass at or below each, else None."""
    order = [rows[np.argsort(scores[rows], kind="stable")] for rows in members]
    mass = None if groups is None else [masses(groups[rows]) for rows in order]
    return [scores[rows] for rows in order], mass


def p_value(
    calibration: np.ndarray, mass: np.ndarray | None, scores: np.ndarray, slack: float
) -> np.ndarray:
    """(1 + #{i: s_i <= s}) / (n + 1) for sorted calibration scores (n,), or their mass (n + 1,)."""
    # Scores up to `slack` above s count as equal to it: rounding must not lower a p-value.
    below = np.searchsorted(calibration, scores + slack, side="right")
    return (1 + below) / (len(calibration) + 1) if mass is None else mass[below]


def find_unknowns(
    model: Any, X: Any, *, q: float = 0.1, groups: Any = None, learn: bool = False
) -> np.ndarray:
    """Tell which samples of a batch are unknown, with few false alarms among them.

    Of the samples that are reported, an expected share of at most `q` is known: the false discovery
    rate (Benjamini and Hochberg, on :meth:`CalibratedRejector.known_p_value`). Unlike a threshold
    it adapts to the batch: many unknown samples lower the bar for all.

    Parameters
    ----------
    model : CalibratedRejector, or :class:`openset.traffic.LearnedScore` with `learn`
        Fitted, and not calibrated within classes or categories.
    X : array-like of shape (n, d), or whatever the model takes
        The batch. Its known samples, or objects, must be independent of each other and of the
        calibration set.
    q : float in (0, 1), default=0.1
        Share of false alarms that is allowed.
    groups : array-like of shape (n,), default=None
        The object of each sample, for a model that was calibrated with groups: an object has one
        p-value and one answer, and the rate counts objects.
    learn : bool, default=False
        Whether to learn from the batch what its unknown samples are like (AdaDetect). The rate is
        controlled all the same: calibration samples and batch are treated alike.

    Returns
    -------
    ndarray of shape (n,), bool

    References
    ----------
    S. Bates, E. Candès, L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal
    p-values", Annals of Statistics 51(1), 2023: these are PRDS. A. Marandon and others, "Adaptive
    novelty detection with false discovery rate guarantee", Annals of Statistics 52(1), 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openset import OpenSetSVC
    >>> from openset.calibration import calibrate, find_unknowns
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y, new = X[y < 6] / 16, y[y < 6], X[y > 5] / 16
    >>> model = calibrate(OpenSetSVC(gamma=0.5).fit(X[::2], y[::2]), X[1:800:2], y[1:800:2])
    >>> is_unknown = find_unknowns(model, [*X[801::2], *new], q=0.1)
    >>> n_known = len(X[801::2])
    >>> print(f"{is_unknown.sum()} reported, {is_unknown[:n_known].mean():.1%} of the known ones")
    715 reported, 6.4% of the known ones
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r} must be between 0 and 1.")
    if learn != hasattr(model, "batch_scores"):
        raise TypeError(
            f"model is a {type(model).__name__} and learn={learn!r}: learning from the batch takes "
            "a fitted openset.traffic.LearnedScore, which keeps known rows, and learn=True."
        )
    if learn and groups is not None:
        raise ValueError("groups cannot be combined with learn=True. Leave one of them out.")
    if learn:
        calibration, scores = model.batch_scores(X)
        calibration, codes, slack = np.sort(calibration), np.arange(len(scores)), 0.0
    else:
        transform, rejector = split_fitted(model)
        if not hasattr(rejector, "known_p_value"):
            raise TypeError(
                f"model is a {type(rejector).__name__}, which has no p-values; calibrate it first: "
                "CalibratedRejector(FrozenEstimator(model)).fit(X_calibration, y_calibration)."
            )
        if rejector.within_ is not None:
            raise ValueError(
                "The false discovery rate is not controlled with p-values per "
                f"{rejector.within_}. Calibrate with KnownRejected(within=None)."
            )
        calibration, scores, codes = rejector._compared(transform(X), groups, "find_unknowns")
        slack = rejector._slack
    n, kind = len(calibration), "samples" if groups is None else "groups"
    if (fewest := fewest_groups(q)) > n:
        raise ValueError(
            f"q={q:g} needs at least {fewest} calibration {kind}; there are {n}, whose smallest "
            f"p-value is {1 / (n + 1):.3g}. Calibrate with more, or raise q."
        )
    p = p_value(calibration, None, scores, slack)
    return (false_discovery_control(p) <= q * SLACK)[codes]
