"""Any open-set estimator, with calibrated thresholds."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import Traits, known_classes, takes_known_unknowns
from ..base.fitted import check_array, require
from ..utils import split_fitted, unwrap
from ._conformal import ConformalClassifier
from ._cost import CostCurve
from ._operating_point import OperatingPoint
from ._price import price_of, warn_of_far_away, warn_of_price
from ._quantile import check_enough
from ._samples import check_not_fitted, encode_known, split_rows
from ._thresholds import finite_scores, resolve_conflict

_FRACTION = Interval(Real, 0.0, 1.0, closed="neither")


class CalibratedRejector(ConformalClassifier):
    """An open-set estimator whose thresholds are set on samples that it was not fitted to.

    By default they keep a promise: **at most a share `alpha` of the known samples is rejected**,
    P(answer unknown | known) <= alpha. With n calibration samples of known classes the threshold
    lies midway between the k-th smallest of their highest scores, k = floor(alpha (n + 1)), and the
    next lower one. What this does to unknown samples is told by ``price_``, with a warning where
    few of them are rejected any more.

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
    by : {"highest", "own"}, default=None
        Which score of a calibration sample counts. "highest": that of any class, which promises
        that the sample is accepted and no more. "own": that of its own class. Then, with
        probability 1 - alpha or more, ``predict_set`` contains the right class. That is more than
        the promise asks for, so the threshold is lower and fewer unknown samples are rejected:
        where classes overlap, hardly any. None is "highest" for one threshold, and "own" with
        ``per_class=True``, where each class needs the scores of its own samples.
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
    price_ : dict
        Shares of samples that are rejected, for ``"known"`` and ``"unknown"``: ``"before"``, under
        the thresholds of the estimator, ``"after"``, and their ``"source"``. For unknown samples
        these are `X_unknown`, or else the classes that the :class:`openset.OpenSetSearchCV` that
        chose the estimator withheld; with neither, the shares are None and the source is "not
        known". The withheld classes are scored by models of fewer classes and samples: an estimate.
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

    Rounding does not decide: the scores of a sample may differ in the last digits between batches.
    Each threshold lies midway between two scores, and those that are closer than ten times the
    largest such difference, or 1e-6, count as equal. Kernel machines compute decision values near
    their moved threshold in double precision.

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
        "by": [StrOptions({"own", "highest"}), None],
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
        by: str | None = None,
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
            "cost" unless `unknown_share` is 0; for criterion="fu" they only tell the price. None
            takes the known unknowns among the calibration samples.

        Returns
        -------
        self
        """
        OperatingPoint.of(self).check_unknown(X_unknown)
        return self._fit(X, y, X_unknown)

    @_fit_context(prefer_skip_nested_validation=False)
    def _fit(self, X: Any, y: Any, X_unknown: Any) -> CalibratedRejector:
        """As :meth:`fit`; a criterion that has no use for `X_unknown` takes them for the price."""
        inner = unwrap(self.estimator)  # raises for a closed-set estimator
        frozen = isinstance(self.estimator, FrozenEstimator)
        if not frozen:
            check_not_fitted(self.estimator)
        X, y, _ = self.check_targets(X, y)
        (X,) = indexable(X)
        label = inner.unknown_label if _automatic(self.unknown_label) else self.unknown_label
        classes, codes = known_classes(label, y)
        known = codes < len(classes)
        n_unknown = int(np.sum(~known))
        point = OperatingPoint.of(self)
        point.check(X_unknown, not known.all())
        self._fit_rows, X_fit, y_fit = None, X, y
        if not frozen:
            self._fit_rows, rows = split_rows(
                y, known, self.calibration_size, self.per_class, self.random_state
            )
            if not takes_known_unknowns(inner, label):
                self._fit_rows = self._fit_rows[known[self._fit_rows]]
            X_fit, y_fit = _safe_indexing(X, self._fit_rows), y[self._fit_rows]
            X, y, known = _safe_indexing(X, rows), y[rows], known[rows]
        if not known.all():
            if X_unknown is None:
                X_unknown = _safe_indexing(X, np.flatnonzero(~known))
            X, y = _safe_indexing(X, np.flatnonzero(known)), y[known]
        if self.criterion == "fu" and not self.per_class:
            check_enough(self.alpha, len(y), "of known classes")  # fails before the fit, not after
        self.fit_estimator(X_fit, y_fit, None)
        self.n_known_unknowns_ = n_unknown
        transform, model = split_fitted(self.estimator_)
        if _automatic(self.unknown_label):
            self.unknown_label_ = model.unknown_label_
        codes = encode_known(y, self.classes_)
        thresholds, curve = point.thresholds(model, transform, X, codes, X_unknown)
        if curve is not None:
            self._cost_values = np.array(curve)  # a model file can hold an array
        scores = self._keep_scores(transform, model, X, codes)
        # To the caller of fit or of calibrate, behind scikit-learn's decorator.
        told = str(point), 4
        self.thresholds_, self.lifted_ = resolve_conflict(
            thresholds, model.far_scores(), self.classes_, self.prefer, *told
        )
        self.promise_ = point.promises and not self.lifted_.any()
        unknown = None if X_unknown is None else finite_scores(model, transform(X_unknown))
        withheld = getattr(model, "withheld_scores_", None)
        self.price_ = price_of(scores, unknown, withheld, self.thresholds_)
        warn_of_price(self.price_, point.remedy, *told)
        warn_of_far_away(
            np.where(self.lifted_, np.inf, self.thresholds_),
            model.far_scores(),
            float(np.median(scores.max(axis=1))),
            self.classes_,
            point.remedy,
            *told,
        )
        return self

    @property
    def cost_curve_(self) -> CostCurve:
        """Expected cost at every threshold; only for criterion="cost"."""
        return CostCurve(*self._cost_values)

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

    def neighbourhood(self, X):
        transform, moved = self._moved()
        similar, distance, gap = moved.neighbourhood(transform(X))
        if self._fit_rows is not None:  # the estimator was fitted to a part of the samples
            similar = np.where(similar < 0, -1, self._fit_rows[similar])
        return similar, distance, gap

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


def _automatic(unknown_label):
    return isinstance(unknown_label, str) and unknown_label == "auto"
