"""Any open-set estimator, with calibrated thresholds."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import Traits, known_classes, takes_known_unknowns
from ..base.fitted import check_array, require
from ..metrics import encode_labels
from ..utils import split_fitted, unwrap
from ..wrappers import OpenSetWrapper
from ._cost import CostCurve, check_costs, cost_curve_of
from ._curve import between
from ._p_values import p_value
from ._precision import count_above, precision_threshold
from ._quantile import check_enough
from ._thresholds import (
    conformal_thresholds,
    finite_scores,
    resolve_conflict,
    score_slack,
    tradeoff_thresholds,
)

_FRACTION = Interval(Real, 0.0, 1.0, closed="neither")


class CalibratedRejector(OpenSetWrapper):
    """An open-set estimator whose thresholds are set on samples that it was not fitted to.

    By default they keep a promise: **at most a share `alpha` of the known samples is rejected**,
    P(answer unknown | known) <= alpha. With n calibration samples of known classes the threshold
    is the k-th smallest score that these have for their own class, k = floor(alpha (n + 1)). A
    sample that its own class accepts is not rejected.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, or a Pipeline or a search of one. To calibrate one that is already
        fitted, wrap it in :class:`sklearn.frozen.FrozenEstimator`: then all samples of ``fit``
        serve for calibration, and must not have been used in its fit or search. An unfitted one is
        cloned and fitted to a part of the samples; the other part is the calibration set. A fitted
        one that is not frozen raises a ValueError.
    alpha : float in (0, 1), default=0.05
        Share of errors that is allowed: known samples rejected or, for criterion="aus", unknown
        samples accepted.
    per_class : bool, default=False
        Whether the promise holds for each class separately (Mondrian), with one threshold per
        class, or for all known samples together, with one threshold. The former needs many samples
        per class: while k = 1, the lowest score is the threshold, and one outlier makes a class
        accept almost everything.
    by : {"own", "highest"}, default="own"
        Which score of a calibration sample counts. "own": that of its own class. Then, with
        probability 1 - alpha or more, ``predict_set`` contains the right class, which is more than
        the promise asks for where classes are confused. "highest": that of any class, which
        promises acceptance and no more. So its threshold is higher, and more unknown samples are
        rejected. Only with one threshold for all classes.
    criterion : {"fu", "precision", "cost", "aus", "hna"}, default="fu"
        "fu": the promise above. The others set one threshold for all classes.

        "precision": another promise, **of the accepted samples at least a share `precision` is
        answered with the right class**, with the stated `confidence` that the threshold has this
        property. It is the lowest such threshold found by fixed-sequence testing.

        "cost": the threshold of the least expected cost, by `costs`. "aus": the lowest threshold at
        which at least 1 - `alpha` of the unknown samples are rejected. "hna": the threshold with
        the largest harmonic mean of the accuracies on known and on unknown samples. These three
        promise nothing. The last two need a sample of unknowns.
    prefer : {"promise", "bounded"}, default="promise"
        What to do where a threshold is so low that a class would accept samples however far away.
        "promise": keep the threshold; ``bounded_`` is False. "bounded": raise it just above the
        score far away; ``promise_`` is False. Either way there is a warning.
    calibration_size : float in (0, 1), default=0.25
        Share of the samples in the calibration set, if the estimator is fitted here.
    random_state : int, RandomState instance or None, default=None
        Seed of the split into fitting and calibration samples.
    unknown_label : "auto" or label, default="auto"
        Answer for unknown samples; "auto" is that of the estimator. Rows of y that carry an
        explicit label, of either, are known unknowns. They are no part of the promise. Those in
        the fitting part are passed to an estimator with the same explicit label; those in the
        calibration part serve as `X_unknown` where a criterion needs it.
    precision : float in (0, 1), default=0.99
        Share of right answers among all answers that name a class, for criterion="precision".
    confidence : float in (0, 1), default=0.95
        Probability, over calibration sets, that the promise of criterion="precision" is kept.
    unknown_share : float in [0, 1), default=0
        Share of unknown samples among those to come, for criterion="precision" and "cost". If it is
        not 0, ``fit`` needs a sample of unknowns like those to come.
    costs : dict, default=None
        For criterion="cost": the cost of a known sample that is rejected, ``"reject"``, of a known
        sample that is accepted by a wrong class, ``"wrong"``, and of an unknown sample that is
        accepted, ``"accept_unknown"``.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, with its own thresholds.
    thresholds_ : ndarray of shape (K,)
        Subtracted from its scores.
    promise_ : bool
        Whether the promise of criterion "fu" or "precision" holds: not after a threshold was
        raised, nor for other criteria.
    n_calibration_ : int
        Number of calibration samples of known classes.
    cost_curve_ : CostCurve
        Expected cost at every threshold; only for criterion="cost".
    lifted_ : ndarray of shape (K,), bool
        The classes whose threshold was raised for ``prefer="bounded"``.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        Whether the threshold lies above the score far away from all samples, so that the accepted
        region is bounded; False also where that score is not known (wrapped classifiers, linear
        machines, the cosine metric).
    known_radius_ : ndarray of shape (K,)
        The certificate of :class:`openset.OpenSetSVC` at the moved threshold; only for estimators
        that have one. Behind a Pipeline it is a distance in the transformed space.
    n_features_in_, feature_names_in_
        Only if the fitted estimator has them.

    Notes
    -----
    The promise assumes that future known samples and calibration samples are exchangeable, as
    independent draws from the same source are. Drift breaks it. The probability is over both: with
    one calibration set of n samples the share of rejected samples may be a little larger, with a
    standard deviation of about sqrt(alpha (1 - alpha) / n).

    The promise is about rejection, not about the label: a sample may be accepted by a class that
    is not its own. It says nothing about unknown samples; ``bounded_`` does: far enough away every
    sample is rejected.

    Rounding does not decide: the scores of a sample may differ in the last digits between batches,
    so each threshold is lowered by ten times the largest such difference among the samples nearest
    to it. Kernel machines compute decision values near their moved threshold in double precision.

    There is no ``predict_proba``: the probability that a sample is of class c depends on how often
    unknown samples come, which no training set tells. :meth:`p_values`, :meth:`known_p_value` and
    :meth:`predict_set` with `alpha` answer what can be answered: is the sample compatible with
    class c, with any class, and which classes are left?

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.frozen import FrozenEstimator
    >>> from openset import CalibratedRejector, OpenSetSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = X[y < 6] / 16, y[y < 6]
    >>> svc = OpenSetSVC(gamma=0.1, C=8).fit(X[::2], y[::2])
    >>> model = CalibratedRejector(FrozenEstimator(svc), alpha=0.05).fit(X[1:600:2], y[1:600:2])
    >>> print(f"{(model.predict(X[601::2]) == model.unknown_label_).mean():.2f}")
    0.04
    >>> model.bounded_.all()
    np.True_
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "decision_function"])],
        "alpha": [_FRACTION],
        "per_class": ["boolean"],
        "by": [StrOptions({"own", "highest"})],
        "criterion": [StrOptions({"fu", "precision", "cost", "aus", "hna"})],
        "prefer": [StrOptions({"promise", "bounded"})],
        "calibration_size": [_FRACTION],
        "random_state": ["random_state"],
        "unknown_label": "no_validation",
        "precision": [_FRACTION],
        "confidence": [_FRACTION],
        "unknown_share": [Interval(Real, 0.0, 1.0, closed="left")],
        "costs": [dict, None],
    }

    fitted_attributes = {
        **{"estimator_": "", "thresholds_": "K", "lifted_": "K bool", "promise_": ""},
        "_fit_rows": "",
    }
    traits = Traits(
        "calibrated",
        condition="the thresholds lie above the scores far away from all samples",
        known_unknowns="passed to the estimator if it takes them, and used as X_unknown",
    )

    def __init__(
        self,
        estimator: BaseEstimator,
        alpha: float = 0.05,
        per_class: bool = False,
        by: str = "own",
        criterion: str = "fu",
        prefer: str = "promise",
        calibration_size: float = 0.25,
        random_state: Any = None,
        unknown_label: Any = "auto",
        precision: float = 0.99,
        confidence: float = 0.95,
        unknown_share: float = 0.0,
        costs: dict[str, float] | None = None,
    ):
        self.estimator = estimator
        self.alpha = alpha
        self.per_class = per_class
        self.by = by
        self.criterion = criterion
        self.prefer = prefer
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.unknown_label = unknown_label
        self.precision = precision
        self.confidence = confidence
        self.unknown_share = unknown_share
        self.costs = costs

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, X_unknown: Any = None) -> CalibratedRejector:
        """Fit the estimator, unless it is frozen, and set the thresholds.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
            Samples of known classes; for a frozen estimator ones it has not seen.
        y : array-like of shape (n,)
            Their classes. For a frozen estimator all of them must be known to it.
        X_unknown : array-like of shape (n_unknown, d), default=None
            Samples of no known class, for criterion="aus" and "hna", and for "precision" and
            "cost" unless `unknown_share` is 0; None takes the known unknowns among the
            calibration samples.

        Returns
        -------
        self
        """
        inner = unwrap(self.estimator)  # raises for a closed-set estimator
        self._check_not_fitted()
        X, y, _ = self.check_targets(X, y)
        (X,) = indexable(X)
        label = inner.unknown_label if _automatic(self.unknown_label) else self.unknown_label
        classes, codes = known_classes(label, y)
        known = codes < len(classes)
        n_unknown = int(np.sum(~known))
        self._check_request(X_unknown, not known.all())
        self._fit_rows, X_fit, y_fit = None, X, y
        if not isinstance(self.estimator, FrozenEstimator):
            self._fit_rows, rows = self._split(y, known)
            if not takes_known_unknowns(inner, label):
                self._fit_rows = self._fit_rows[known[self._fit_rows]]
            X_fit, y_fit = _safe_indexing(X, self._fit_rows), y[self._fit_rows]
            X, y, known = _safe_indexing(X, rows), y[rows], known[rows]
        if not known.all():
            if X_unknown is None and self._needs_unknown():
                X_unknown = _safe_indexing(X, np.flatnonzero(~known))
            X, y = _safe_indexing(X, np.flatnonzero(known)), y[known]
        if self.criterion == "fu" and not self.per_class:
            check_enough(self.alpha, len(y), "of known classes")  # fails before the fit, not after
        self.fit_estimator(X_fit, y_fit, None)
        self.n_known_unknowns_ = n_unknown
        transform, model = split_fitted(self.estimator_)
        if _automatic(self.unknown_label):
            self.unknown_label_ = model.unknown_label_
        codes = self._encode(y)
        if self.criterion == "fu":
            promise = self.alpha, self.per_class, self.by
            thresholds = conformal_thresholds(model, transform, X, codes, *promise)
        else:
            thresholds = self._common_threshold(transform, model, X, codes, X_unknown)
        self._keep_scores(transform, model, X, codes)
        point = f"criterion={self.criterion!r}"
        if self.criterion in ("fu", "aus"):
            point += f", alpha={self.alpha:g}"
        self.thresholds_, self.lifted_ = resolve_conflict(
            thresholds, model.far_scores(), self.classes_, self.prefer, point
        )
        self.promise_ = self.criterion in ("fu", "precision") and not self.lifted_.any()
        return self

    def _common_threshold(self, transform, model, X, codes, X_unknown):
        """One threshold, K times, for every criterion but "fu"."""
        n_classes = len(model.classes_)
        scores = finite_scores(model, transform(X))
        others = np.empty((0, n_classes))
        if X_unknown is not None:
            others = finite_scores(model, transform(X_unknown))
        if self.criterion == "precision":
            counts = count_above(scores, codes, others)
            threshold = precision_threshold(
                counts, self.precision, self.confidence, self.unknown_share
            )
            return np.full(n_classes, threshold)
        codes = np.append(codes, np.full(len(others), n_classes))
        scores = np.vstack([scores, others])
        if self.criterion != "cost":
            return tradeoff_thresholds(scores, codes, self.alpha, self.criterion)
        # As an array, which a model file can hold.
        self._cost_values = np.array(cost_curve_of(codes, scores, self.costs, self.unknown_share))
        best = int(self.cost_curve_.cost.argmin())
        if best == 0:
            raise ValueError(
                f"With costs={self.costs!r} and unknown_share={self.unknown_share:g} it is "
                "cheapest to reject every sample: an answer costs more than it saves. Check the "
                "costs, or train a better estimator."
            )
        return np.full(n_classes, between(self.cost_curve_.thresholds, best))

    def _keep_scores(self, transform, model, X, codes):
        """Keep the sorted scores of the calibration samples, for p-values."""
        scores = finite_scores(model, transform(X))
        own = scores[np.arange(len(codes)), codes]
        groups = range(len(self.classes_)) if self.per_class else [slice(None)]
        self.n_calibration_ = len(codes)
        self._own_scores = [
            np.sort(own if isinstance(c, slice) else own[codes == c]) for c in groups
        ]
        self._known_scores = np.sort(scores.max(axis=1))
        self._slack = score_slack(model, transform, X, scores)

    @property
    def cost_curve_(self) -> CostCurve:
        """Expected cost at every threshold; only for criterion="cost"."""
        return CostCurve(*self._cost_values)

    def p_values(self, X) -> np.ndarray:
        """Conformal p-values of "this sample is a c", for each class c.

        The p-value of the class of a known sample is at most alpha with a probability of at most
        alpha, for every alpha. With ``per_class=False`` the scores of all calibration samples for
        their own class are pooled; with ``per_class=True`` this holds within each class, and no
        p-value is below 1 / (n_c + 1), n_c the number of calibration samples of the class: 0.048
        with 20.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes

        Returns
        -------
        ndarray of shape (n, K)
            Column c belongs to ``classes_[c]``. The rows do not sum to 1.
        """
        scores = self._unmoved_scores(X)
        columns = [
            p_value(self._own_scores[c if self.per_class else 0], scores[:, c], self._slack)
            for c in range(len(self.classes_))
        ]
        return np.column_stack(columns)

    def known_p_value(self, X) -> np.ndarray:
        """Conformal p-value of "this sample is of a known class".

        It is at most alpha with a probability of at most alpha for a known sample. With
        ``per_class=False`` it compares the highest score with those of the calibration samples;
        with ``per_class=True`` it is the largest of :meth:`p_values`.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes

        Returns
        -------
        ndarray of shape (n,)
        """
        if self.per_class:
            return self.p_values(X).max(axis=1)
        return p_value(self._known_scores, self._unmoved_scores(X).max(axis=1), self._slack)

    def predict_set(self, X, *, alpha: float | None = None) -> np.ndarray:
        """Return a set of classes for each sample.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        alpha : float in (0, 1), default=None
            None: every class that accepts. Otherwise every class whose p-value exceeds `alpha`:
            this set contains the class of a known sample with a probability of at least
            1 - `alpha`.

        Returns
        -------
        ndarray of shape (n, K), bool
            An empty row is unknown.
        """
        if alpha is None:
            return super().predict_set(X)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha={alpha!r} must be between 0 and 1.")
        p = self.p_values(X)
        fewest = min(len(scores) for scores in self._own_scores)
        if alpha < 1 / (fewest + 1):
            warnings.warn(
                f"alpha={alpha:g} is below {1 / (fewest + 1):.3g}, the smallest p-value that "
                f"{fewest} calibration samples{' of a class' if self.per_class else ''} can give: "
                "a class is never excluded. Calibrate with more samples, or raise alpha.",
                stacklevel=2,
            )
        return p > alpha

    def _unmoved_scores(self, X):
        """Scores under the thresholds of the estimator itself."""
        check_is_fitted(self)
        if not hasattr(self, "_own_scores"):
            raise ValueError(
                "This model was calibrated by an older version, which did not keep the scores of "
                "the calibration samples. Calibrate it again."
            )
        transform, model = split_fitted(self.estimator_)
        return model.decision_function(transform(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # a share alpha is rejected by design
        return tags

    def decision_function(self, X) -> np.ndarray:
        check_is_fitted(self)
        transform, moved = self._moved()
        return moved.decision_function(transform(X))

    @available_if(lambda self: hasattr(unwrap(self.estimator), "inclusion_proba"))
    def inclusion_proba(self, X) -> np.ndarray:
        """Probabilities of inclusion of the estimator, where its method defines them.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self)
        transform, model = split_fitted(self.estimator_)
        return model.inclusion_proba(transform(X))

    @property
    def known_radius_(self) -> np.ndarray:
        """(K,) distances from all positive support vectors beyond which a class rejects."""
        return self._moved()[1].known_radius_

    def far_scores(self) -> np.ndarray:
        return self._moved()[1].far_scores()

    def surroundings(self):
        transform, moved = self._moved()
        inner = moved.surroundings()

        def surroundings(X):
            similar, distance, gap = inner(transform(X))
            if self._fit_rows is not None:  # the estimator was fitted to a part of the samples
                similar = np.where(similar < 0, -1, self._fit_rows[similar])
            return similar, distance, gap

        return surroundings

    def check_fitted(self):
        sizes = super().check_fitted()
        require(isinstance(self.promise_, bool), f"promise_ is {self.promise_!r}")
        split_fitted(self.estimator_)
        if self._fit_rows is not None:
            check_array("_fit_rows", self._fit_rows, "rows int", sizes)
            kept = unwrap(self.estimator_).kept_samples()
            fits = kept is None or np.all(kept[1] < len(self._fit_rows))
            require(fits, "_fit_rows is shorter than the rows of the estimator")
        return sizes

    def _moved(self):
        """The transformers of the estimator, and its last step with moved thresholds."""
        transform, model = split_fitted(self.estimator_)
        return transform, model.with_thresholds(self.thresholds_)

    def _check_not_fitted(self):
        """A fitted estimator would be cloned and trained again, on the calibration samples."""
        if isinstance(self.estimator, FrozenEstimator):
            return
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return
        raise ValueError(
            f"estimator={type(self.estimator).__name__} is fitted already, and fit would train it "
            "again. To calibrate it as it is, pass FrozenEstimator(estimator) (of sklearn.frozen) "
            "and samples that it has not seen. To have it trained here, pass it unfitted, for "
            "instance clone(estimator), and all the samples."
        )

    def _needs_unknown(self):
        shared = self.criterion in ("precision", "cost")
        return self.criterion in ("aus", "hna") or (shared and self.unknown_share > 0)

    def _check_request(self, X_unknown, has_known_unknowns):
        if self.per_class and self.by == "highest":
            raise ValueError(
                "by='highest' is for one threshold; with per_class=True each class needs the "
                "scores of its own samples. Use by='own'."
            )
        if self.criterion == "cost":
            check_costs(self.costs, self.unknown_share)
        if self.criterion == "fu":
            if X_unknown is not None:
                raise ValueError(
                    "X_unknown was passed, but the promise of criterion='fu' is about known "
                    "samples. Leave it out, or choose criterion='aus' or 'hna'."
                )
            return
        shared = self.criterion in ("precision", "cost")
        if shared and self.unknown_share == 0 and X_unknown is not None:
            raise ValueError(
                "X_unknown was passed, but unknown_share=0 says that no unknown samples come. Set "
                "unknown_share, or leave X_unknown out."
            )
        missing = X_unknown is None and not has_known_unknowns
        if missing and shared and self.unknown_share > 0:
            raise ValueError(
                f"unknown_share={self.unknown_share:g} needs X_unknown in fit, samples of no known "
                "class."
            )
        if missing and not shared:
            raise ValueError(
                f"criterion={self.criterion!r} needs X_unknown in fit, samples of no known class, "
                "or known unknowns: rows of y that carry an explicit unknown_label."
            )
        if self.per_class:
            raise ValueError(
                f"per_class=True is for criterion='fu'; criterion={self.criterion!r} sets one "
                "threshold for all classes, since an unknown sample is of none."
            )

    def _split(self, y, known):
        """Rows to fit and rows to calibrate, stratified if the promise holds per class."""
        _, first, inverse = np.unique(y, return_index=True, return_inverse=True)
        fit, rest = train_test_split(
            np.arange(len(y)),
            test_size=self.calibration_size,
            stratify=first[inverse] if self.per_class else None,  # whatever the names are
            random_state=self.random_state,
        )
        lost = np.setdiff1d(y[known], y[fit])
        if lost.size:
            raise ValueError(
                f"All samples of {lost.tolist()!r} were drawn for calibration and none is left to "
                f"fit. Give more samples, lower calibration_size={self.calibration_size!r} or set "
                "per_class=True."
            )
        return fit, rest

    def _encode(self, y):
        """Codes of the labels among the classes of the estimator."""
        codes = encode_labels(y, self.classes_)
        strange = codes == len(self.classes_)
        if strange.any():
            raise ValueError(
                f"y has labels that the estimator does not know: {np.unique(y[strange]).tolist()!r}"
                f" are not among its classes {self.classes_.tolist()!r}. Calibrate with known "
                "classes only; samples of others can be passed as X_unknown."
            )
        return codes


def _automatic(unknown_label):
    return isinstance(unknown_label, str) and unknown_label == "auto"
