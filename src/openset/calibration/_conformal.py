"""p-values and sets of classes, from the scores of the calibration samples; false discoveries.

If a known sample is exchangeable with n calibration samples, the number of their scores that are
not above its own is at least k with probability 1 - k / (n + 1) or more, ties included. So
p = (1 + #{i: s_i <= s}) / (n + 1) is at most alpha with a probability of at most alpha. Of samples
in groups, the mass of a group is counted instead, in equal parts on its samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from ..base import OpenSetClassifier, group_codes
from ..utils import split_fitted, unwrap
from ..wrappers import OpenSetWrapper
from ._criterion import width
from ._groups import group_levels
from ._known_rejected import masses

# How the arguments of earlier versions are spelt now.
NEW_SPELLING = {
    "per_class": "criterion=KnownRejected(alpha, within='class')",
    "by": "criterion=KnownRejected(alpha, own_class=True)",
    "precision": "criterion=Precision(target, confidence, unknown_share)",
    "confidence": "criterion=Precision(target, confidence, unknown_share)",
    "unknown_share": "criterion=Precision(..., unknown_share=...) or Cost(..., unknown_share=...)",
    "costs": "criterion=Cost(reject, wrong, accept_unknown, unknown_share)",
}

# Samples that are scored alone, to measure how much the batch matters.
_LOOKUPS = 16


class ConformalClassifier(OpenSetWrapper):
    """An estimator that keeps the scores of its calibration samples.

    They are kept within classes, within categories or together, as ``within_`` says; a mass, and
    the scores of groups, are None where the samples are independent.
    """

    within_: str | None
    categories_: np.ndarray | None
    _own_scores: list[np.ndarray]
    _known_scores: list[np.ndarray]
    _own_mass: list[np.ndarray] | None
    _known_mass: list[np.ndarray] | None
    _group_levels: np.ndarray | None

    def __new__(cls, *args: Any, **parameters: Any):
        # Here, so that the signature of the class is that of its __init__.
        for name in parameters.keys() & NEW_SPELLING.keys():
            raise TypeError(f"{cls.__name__} has no parameter {name!r}; use {NEW_SPELLING[name]}.")
        return super().__new__(cls)

    def _keep_scores(self, scores, codes, groups, categories, slack: float) -> None:
        """Keep the sorted scores (n, K) of the calibration samples, for p-values."""
        own, best = scores[np.arange(len(codes)), codes], scores.max(axis=1)
        whole = [np.full(len(codes), True)]
        members = whole
        if self.within_ == "category" and self.categories_ is not None:
            whole = members = [categories == m for m in range(len(self.categories_))]
        if self.within_ == "class":
            members = [codes == c for c in range(len(self.classes_))]
        self.n_calibration_ = len(codes)
        self._own_scores, self._own_mass = _sorted_scores(own, groups, members)
        self._known_scores, self._known_mass = _sorted_scores(best, groups, whole)
        self._group_levels = None if groups is None else np.sort(self._levels_of(scores, groups))
        self._slack = slack

    def _levels_of(self, scores, groups) -> np.ndarray:
        """(G,) up to which threshold each group is accepted, under those of the estimator."""
        aggregate = getattr(self.criterion_, "aggregate", None) or "mean"
        return group_levels(scores, groups, aggregate).max(axis=1)

    def _compared_groups(self, X, groups) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Levels of the calibration groups, and of those of X; the group (n,) of each sample."""
        if self._group_levels is None:
            raise ValueError(
                "groups were passed, but the model was calibrated without. Pass groups to the fit "
                "of CalibratedRejector, too."
            )
        scores = self._scores_of_estimator(X)
        codes = group_codes(groups, len(scores))[1]
        return self._group_levels, self._levels_of(scores, codes), codes

    def p_values(self, X, *, categories=None) -> np.ndarray:
        """Conformal p-values of "this sample is a c", for each class c.

        The p-value of the class of a known sample is at most alpha with a probability of at most
        alpha, for every alpha. The scores of all calibration samples for their own class are
        pooled; with ``KnownRejected(within="class")`` this holds within each class, and no p-value
        is below 1 / (n_c + 1), n_c the number of calibration samples of the class: 0.048 with 20.
        With ``within="category"`` it holds within each category.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        categories : array-like of shape (n,), default=None
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, K)
            Column c belongs to ``classes_[c]``. The rows do not sum to 1.
        """
        scores = self._scores_of_estimator(X)
        rows = self._category_codes(categories, len(scores))
        p = np.empty(scores.shape)
        for c in range(scores.shape[1]):
            for m in range(1 if self.categories_ is None else len(self.categories_)):
                at = c if self.within_ == "class" else m
                mass = None if self._own_mass is None else self._own_mass[at]
                some = rows == m
                p[some, c] = p_value(self._own_scores[at], mass, scores[some, c], self._slack)
        return p

    def known_p_value(self, X, *, categories=None) -> np.ndarray:
        """Conformal p-value of "this sample is of a known class".

        It is at most alpha with a probability of at most alpha for a known sample. It compares the
        highest score with those of the calibration samples; within classes it is the largest of
        :meth:`p_values`.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        categories : array-like of shape (n,), default=None
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n,)
        """
        if self.within_ == "class":
            return self.p_values(X).max(axis=1)
        best = self._scores_of_estimator(X).max(axis=1)
        rows = self._category_codes(categories, len(best))
        p = np.empty(len(best))
        for m, scores in enumerate(self._known_scores):
            mass = None if self._known_mass is None else self._known_mass[m]
            p[rows == m] = p_value(scores, mass, best[rows == m], self._slack)
        return p

    def predict_set(self, X, *, alpha: float | None = None, categories=None) -> np.ndarray:
        """Return a set of classes for each sample.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        alpha : float in (0, 1), default=None
            None: every class that accepts. Otherwise every class whose p-value exceeds `alpha`:
            this set contains the class of a known sample with a probability of at least
            1 - `alpha`.
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
        smallest = [1 / (len(scores) + 1) for scores in self._own_scores]
        if self._own_mass is not None:
            smallest = [mass[0] for mass in self._own_mass]
        if alpha < max(smallest):
            fewest = round(1 / max(smallest)) - 1
            kind = "groups" if self._own_mass is not None else "calibration samples"
            warnings.warn(
                f"alpha={alpha:g} is below {max(smallest):.3g}, the smallest p-value that {fewest} "
                f"{kind}{'' if self.within_ is None else f' of a {self.within_}'} can give: "
                "a class is never excluded. Calibrate with more samples, or raise alpha.",
                stacklevel=2,
            )
        return p > alpha

    def _scores_of_estimator(self, X):
        """Scores under the thresholds of the estimator itself."""
        check_is_fitted(self)
        if not hasattr(self, "_own_scores"):
            raise ValueError(
                "This model was calibrated by an older version, which did not keep the scores of "
                "the calibration samples. Calibrate it again."
            )
        transform, model = split_fitted(self.estimator_)
        return model.decision_function(transform(X))

    def _category_codes(self, categories, n: int) -> np.ndarray:
        """(n,) index of the category of each sample; zeros without categories."""
        if self.categories_ is None:
            if categories is not None:
                raise ValueError(
                    "categories were passed, but the model was not calibrated within categories. "
                    "Leave them out, or calibrate with KnownRejected(within='category')."
                )
            return np.zeros(n, dtype=np.intp)
        names = self.categories_.tolist()
        if categories is None:
            raise ValueError(
                "The model has thresholds per category: pass categories, the category of each "
                f"sample, one of {names!r}."
            )
        given = np.asarray(categories)
        if given.shape != (n,):
            raise ValueError(f"categories has shape {given.shape} for {n} samples.")
        codes = {name: m for m, name in enumerate(names)}
        strange = sorted({str(name) for name in given.tolist() if name not in codes})
        if strange:
            raise ValueError(
                f"The model was not calibrated within the categories {strange!r}; it knows "
                f"{names!r}. Calibrate with samples of each."
            )
        return np.array([codes[name] for name in given.tolist()], dtype=np.intp)


def _sorted_scores(scores, groups, members):
    """Sorted scores of each set of rows; with groups also the mass at or below each, else None."""
    order = [np.flatnonzero(rows)[np.argsort(scores[rows], kind="stable")] for rows in members]
    if groups is None:
        return [scores[rows] for rows in order], None
    each = [(masses(groups[rows]), len(np.unique(groups[rows]))) for rows in order]
    mass = [np.append(0.0, np.cumsum(m)) + 1 / (n + 1) for m, n in each]
    return [scores[rows] for rows in order], mass


def p_value(
    calibration: np.ndarray, mass: np.ndarray | None, scores: np.ndarray, slack: float
) -> np.ndarray:
    """(1 + #{i: s_i <= s}) / (n + 1) for sorted calibration scores (n,), or their mass (n + 1,).

    Scores up to `slack` above s count as equal to it: rounding must not lower a p-value.
    """
    below = np.searchsorted(calibration, scores + slack, side="right")
    return (1 + below) / (len(calibration) + 1) if mass is None else mass[below]


def score_slack(model: OpenSetClassifier, transform: Callable, X, scores: np.ndarray) -> float:
    """Difference below which two scores count as equal; `scores` are those of X in one batch."""
    rows = np.unique(np.linspace(0, len(scores) - 1, _LOOKUPS).astype(int))
    alone = np.vstack([finite_scores(model, transform(_safe_indexing(X, [i]))) for i in rows])
    largest = max(1.0, np.abs(scores).max())
    return float(width(largest, 0.0) + 2 * np.abs(alone - scores[rows]).max())


def finite_scores(model: OpenSetClassifier, Z) -> np.ndarray:
    """Scores of transformed samples; ValueError if one is not finite."""
    scores = model.decision_function(Z)
    if not np.isfinite(scores).all():
        raise ValueError(
            f"decision_function of {type(model).__name__} gives scores that are not finite; an "
            "open-set estimator never does. Run check_open_set_estimator on it."
        )
    return scores


def find_unknowns(model: Any, X: Any, *, q: float = 0.1, groups: Any = None) -> np.ndarray:
    """Tell which samples of a batch are unknown, with few false alarms among them.

    Of the samples that are reported, an expected share of at most `q` is known: the false discovery
    rate. This is Benjamini and Hochberg's procedure on the p-values of "this is known at all".
    Unlike a threshold it adapts to the batch: many unknown samples lower the bar for all.

    Parameters
    ----------
    model : CalibratedRejector
        Not calibrated within classes or categories: the p-values must come from one set.
    X : array-like of shape (n, d), or whatever the model takes
        The batch. Its known samples, or objects, must be independent of each other and of the
        calibration set.
    q : float in (0, 1), default=0.1
        Share of false alarms that is allowed.
    groups : array-like of shape (n,), default=None
        The object of each sample, for a model that was calibrated with groups: an object has one
        p-value, by the aggregate of the calibration or the mean, and the rate counts objects.

    Returns
    -------
    ndarray of shape (n,), bool
        With groups, samples of one object have the same answer.

    References
    ----------
    S. Bates, E. Candès, L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal
    p-values", Annals of Statistics 51(1), 2023: these p-values depend on each other positively
    (PRDS), so the procedure is valid.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.frozen import FrozenEstimator
    >>> from openset import CalibratedRejector, OpenSetSVC
    >>> from openset.calibration import find_unknowns
    >>> X, y = load_digits(return_X_y=True)
    >>> X, known = X / 16, y < 6
    >>> svc = OpenSetSVC(gamma=0.5).fit(X[known][::2], y[known][::2])
    >>> model = CalibratedRejector(FrozenEstimator(svc)).fit(X[known][1:800:2], y[known][1:800:2])
    >>> batch = list(X[known][801::2]) + list(X[~known])
    >>> is_unknown = find_unknowns(model, batch, q=0.1)
    >>> n_known = len(X[known][801::2])
    >>> print(f"{is_unknown.sum()} reported, {is_unknown[:n_known].mean():.1%} of the known ones")
    715 reported, 6.4% of the known ones
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r} must be between 0 and 1.")
    rejector = unwrap(model)
    if not hasattr(rejector, "known_p_value"):
        raise TypeError(
            f"model is a {type(rejector).__name__}, which has no p-values; calibrate it first: "
            "CalibratedRejector(FrozenEstimator(model)).fit(X_calibration, y_calibration)."
        )
    if rejector.within_ is not None:
        raise ValueError(
            f"The false discovery rate is not controlled with p-values per {rejector.within_}. "
            "Calibrate with KnownRejected(within=None)."
        )
    if groups is None and rejector._group_levels is not None:
        raise ValueError("The model was calibrated on groups: pass groups here, too.")
    codes, n, kind = slice(None), rejector.n_calibration_, "samples"
    if groups is not None:
        calibration, levels, codes = rejector._compared_groups(X, groups)
        n, kind = len(calibration), "groups"
    if 1 / (n + 1) > q:
        raise ValueError(
            f"q={q:g} needs at least {int(np.ceil(1 / q)) - 1} calibration {kind}; there are "
            f"{n}, whose smallest p-value is {1 / (n + 1):.3g}. Calibrate with more, or raise q."
        )
    if groups is None:
        p = rejector.known_p_value(X)
    else:
        p = p_value(calibration, None, levels, rejector._slack)
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= q * np.arange(1, len(p) + 1) / len(p))
    is_unknown = np.zeros(len(p), dtype=bool)
    if passed.size:
        is_unknown[order[: passed[-1] + 1]] = True
    return is_unknown[codes]
