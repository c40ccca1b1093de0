"""Any open-set estimator, with calibrated thresholds."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import Traits
from ..base.fitted import check_array, require
from ..metrics import encode_labels
from ..utils import split_fitted, unwrap
from ..wrappers import OpenSetWrapper
from ._quantile import check_enough
from ._thresholds import conformal_thresholds, resolve_conflict, tradeoff_thresholds

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
        serve for calibration, and must not have been used in its fit or search. Anything else is
        cloned and fitted to a part of the samples; the other part is the calibration set.
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
    criterion : {"fu", "aus", "hna"}, default="fu"
        "fu": the promise. The other two need a sample of unknowns, promise nothing and set one
        threshold for all classes. "aus": the lowest threshold at which at least 1 - `alpha` of the
        unknown samples are rejected. "hna": the threshold with the largest harmonic mean of the
        accuracies on known and on unknown samples.
    prefer : {"promise", "bounded"}, default="promise"
        What to do where a threshold is so low that a class would accept samples however far away.
        "promise": keep the threshold; ``bounded_`` is False. "bounded": raise it just above the
        score far away; ``promise_`` is False. Either way there is a warning.
    calibration_size : float in (0, 1), default=0.25
        Share of the samples in the calibration set, if the estimator is fitted here.
    random_state : int, RandomState instance or None, default=None
        Seed of the split into fitting and calibration samples.
    unknown_label : "auto" or label, default="auto"
        Answer for unknown samples; "auto" is that of the estimator.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, with its own thresholds.
    thresholds_ : ndarray of shape (K,)
        Subtracted from its scores.
    promise_ : bool
        Whether the promise holds: not after a threshold was raised, nor for other criteria.
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
        "criterion": [StrOptions({"fu", "aus", "hna"})],
        "prefer": [StrOptions({"promise", "bounded"})],
        "calibration_size": [_FRACTION],
        "random_state": ["random_state"],
        "unknown_label": "no_validation",
    }

    fitted_attributes = {
        **{"estimator_": "", "thresholds_": "K", "lifted_": "K bool", "promise_": ""},
        "_fit_rows": "",
    }
    traits = Traits(
        "calibrated", condition="the thresholds lie above the scores far away from all samples"
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
            Samples of no known class, for criterion="aus" and "hna".

        Returns
        -------
        self
        """
        unwrap(self.estimator)  # raises for a closed-set estimator
        self._check_request(X_unknown)
        X, y, _ = self.check_targets(X, y)
        (X,) = indexable(X)
        self._fit_rows, X_fit, y_fit = None, X, y
        if not isinstance(self.estimator, FrozenEstimator):
            self._fit_rows, rows = self._split(y)
            X_fit, y_fit = _safe_indexing(X, self._fit_rows), y[self._fit_rows]
            X, y = _safe_indexing(X, rows), y[rows]
        if self.criterion == "fu" and not self.per_class:
            check_enough(self.alpha, len(y), "of known classes")  # fails before the fit, not after
        self.fit_estimator(X_fit, y_fit, None)
        transform, model = split_fitted(self.estimator_)
        if isinstance(self.unknown_label, str) and self.unknown_label == "auto":
            self.unknown_label_ = model.unknown_label_
        codes = self._encode(y)
        if self.criterion == "fu":
            promise = self.alpha, self.per_class, self.by
            thresholds = conformal_thresholds(model, transform, X, codes, *promise)
        else:
            samples = transform(X), codes, transform(X_unknown)
            thresholds = tradeoff_thresholds(model, *samples, self.alpha, self.criterion)
        point = f"criterion={self.criterion!r}, alpha={self.alpha:g}"
        self.thresholds_, self.lifted_ = resolve_conflict(
            thresholds, model.far_scores(), self.classes_, self.prefer, point
        )
        self.promise_ = self.criterion == "fu" and not self.lifted_.any()
        return self

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

    def _check_request(self, X_unknown):
        if self.per_class and self.by == "highest":
            raise ValueError(
                "by='highest' is for one threshold; with per_class=True each class needs the "
                "scores of its own samples. Use by='own'."
            )
        if self.criterion == "fu":
            if X_unknown is not None:
                raise ValueError(
                    "X_unknown was passed, but the promise of criterion='fu' is about known "
                    "samples. Leave it out, or choose criterion='aus' or 'hna'."
                )
            return
        if X_unknown is None:
            raise ValueError(
                f"criterion={self.criterion!r} needs X_unknown in fit, samples of no known class."
            )
        if self.per_class:
            raise ValueError(
                f"per_class=True is for criterion='fu'; criterion={self.criterion!r} sets one "
                "threshold for all classes, since an unknown sample is of none."
            )

    def _split(self, y):
        """Rows to fit and rows to calibrate, stratified if the promise holds per class."""
        _, first, inverse = np.unique(y, return_index=True, return_inverse=True)
        fit, rest = train_test_split(
            np.arange(len(y)),
            test_size=self.calibration_size,
            stratify=first[inverse] if self.per_class else None,  # whatever the names are
            random_state=self.random_state,
        )
        lost = np.setdiff1d(y, y[fit])
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
