"""Any open-set estimator, with calibrated thresholds."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _is_fitted, _num_samples, check_is_fitted

from ..base import Traits, known_classes, takes_known_unknowns
from ..base.fitted import check_array, require
from ..metrics import CostCurve, encode_labels
from ..utils import answer_labels, decide, replace_final, split_fitted, unwrap
from . import _samples, _traffic
from ._conformal import ConformalClassifier
from ._criterion import CalibrationScores, Criterion
from ._curve import Accuracy, Cost, Precision, UnknownRejected
from ._known_rejected import KnownRejected
from ._strangers import StrangersAccepted, check_unseen, withheld_scores


class CalibratedRejector(ConformalClassifier):
    """An open-set estimator whose thresholds are set on samples that it was not fitted to.

    By default they keep a promise: **at most a share `alpha` of the known samples is rejected**,
    P(answer unknown | known) <= alpha. With n calibration samples of known classes the threshold
    lies midway between the k-th smallest of their highest scores, k = floor(alpha (n + 1)), and the
    next lower one. ``price_`` tells what this does to unknown samples.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, or a Pipeline or a search of one. It is cloned and fitted to a part
        of the samples; the other part is the calibration set. One that is fitted already goes into
        :class:`sklearn.frozen.FrozenEstimator`: then all samples of ``fit`` serve for calibration,
        and must not have been used in its fit or search.
    alpha : float in (0, 1), default=0.05
        Share of known samples that may be rejected, with the default criterion.
    criterion : criterion, default=None
        What is promised, or aimed at: :class:`KnownRejected`, :class:`StrangersAccepted`,
        :class:`Precision`, :class:`Cost`, :class:`UnknownRejected` or :class:`Accuracy` of
        `openset.calibration`. None is ``KnownRejected(alpha)``.
    prefer : {"promise", "bounded"}, default="promise"
        Where a threshold is so low that a class would accept samples however far away: keep it
        (``bounded_`` is False), or raise it just above the score far away (``promise_`` is False).
        Either way there is a warning.
    calibration_size : float in (0, 1), default=0.25
        Share of the samples in the calibration set, if the estimator is fitted here.
    random_state : int, RandomState instance or None, default=None
        Seed of the split into fitting and calibration samples.
    unknown_label : "auto" or label, default="auto"
        Answer for unknown samples; "auto" is that of the estimator. Rows of y that carry an
        explicit label, of either, are known unknowns: those in the fitting part go to an estimator
        with the same explicit label, those in the calibration part serve as `X_unknown`, but not as
        strangers, which must be new to the model.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, with its own thresholds.
    thresholds_ : ndarray of shape (K,), or (M, K) with M categories
        Subtracted from its scores.
    criterion_ : criterion
        The criterion that set them; its ``sentence`` says what is promised.
    categories_ : ndarray of shape (M,) or None
        With ``KnownRejected(within="category")``, the categories.
    price_ : dict
        Shares of samples that are rejected, for ``"known"`` and ``"unknown"``: ``"before"``, under
        the thresholds of the estimator, ``"after"``, and their ``"source"``. For unknown samples
        that is what was passed, or the classes withheld by the :class:`openset.OpenSetSearchCV`
        that chose the estimator (an estimate: models of fewer classes), or "not known" (None). With
        `X_traffic` they are estimates with an ``"interval"``.
    promise_ : bool
        Whether the promise of the criterion holds: not after a threshold was raised, not where
        strangers are known classes that were withheld, nor for criteria without a promise.
    traffic_ : dict
        Only with `X_traffic`: its number of ``"rows"``, the estimated ``"unknown_share"`` with its
        ``"unknown_interval"``, the promise ``"unknown_at_least"``, and the
        ``"threshold_interval"``, None where the traffic does not set the threshold.
    strangers_ : dict
        Only for :class:`StrangersAccepted`: the number of ``"identities"``, their ``"source"`` and
        the ``"trade_off"``: for each rate its threshold, the share of known calibration samples
        named right, and that of strangers accepted (a mean over identities, with standard error).
    n_calibration_ : int
        Number of calibration samples of known classes.
    cost_curve_ : CostCurve
        Only for :class:`Cost`.
    lifted_ : ndarray of the shape of ``thresholds_``, bool
        The classes whose threshold was raised for ``prefer="bounded"``.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        Whether the threshold lies above the score far away from all samples, if that is known.
    known_radius_ : ndarray of shape (K,)
        The certificate of :class:`openset.OpenSetSVC` at the moved threshold, behind transformers;
        only for estimators that have one.
    n_features_in_, feature_names_in_
        Only if the fitted estimator has them.

    Notes
    -----
    The promise assumes that future known samples and calibration samples are exchangeable, as
    independent draws from the same source are; drift breaks it. The probability is over both; for
    the calibration set that was drawn there is ``KnownRejected(confidence=...)``. It is about
    rejection, not about the label: a class that is not its own may accept a sample.

    Rounding does not decide: scores closer than 1e-6, or ten times the difference between the
    scores of a sample alone and in a batch, count as equal. Kernel machines compute scores near
    their moved threshold in double precision.

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
        "alpha": [Interval(Real, 0.0, 1.0, closed="neither")],
        "criterion": [Criterion, None],
        "prefer": [StrOptions({"promise", "bounded"})],
        "calibration_size": [Interval(Real, 0.0, 1.0, closed="neither")],
        "random_state": ["random_state"],
        "unknown_label": "no_validation",
    }

    # Types of the criterion in a model file.
    stored_types = (KnownRejected, StrangersAccepted, Precision, Cost, UnknownRejected, Accuracy)
    traits = Traits(
        "calibrated",
        condition="the thresholds lie above the scores far away from all samples",
        known_unknowns="passed to the estimator if it takes them, and used as X_unknown",
    )

    def __init__(
        self,
        estimator: BaseEstimator,
        alpha: float = 0.05,
        criterion: Criterion | None = None,
        prefer: str = "promise",
        calibration_size: float = 0.25,
        random_state: Any = None,
        unknown_label: Any = "auto",
    ):
        self.estimator = estimator
        self.alpha = alpha
        self.criterion = criterion
        self.prefer = prefer
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.unknown_label = unknown_label

    def fit(
        self,
        X: Any,
        y: Any,
        X_unknown: Any = None,
        *,
        X_traffic: Any = None,
        groups: Any = None,
        unknown_groups: Any = None,
        categories: Any = None,
    ) -> CalibratedRejector:
        """Fit the estimator, unless it is frozen, and set the thresholds.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
            Samples of known classes; for a frozen estimator ones it has not seen.
        y : array-like of shape (n,)
            Their classes; for a frozen estimator ones it knows.
        X_unknown : array-like of shape (n_unknown, d), default=None
            Samples of no known class, for criteria that need them; for :class:`KnownRejected` they
            only tell the price. None takes the known unknowns among the calibration samples.
        X_traffic : array-like of shape (N, d), default=None
            Instead of `X_unknown`: unlabelled samples, known and unknown ones mixed, independent of
            each other. The share and the scores of unknown ones are estimated where the criterion
            asks for them; what is chosen so is an estimate, no promise, and stays above the score
            far away from all samples.
        groups : array-like of shape (n,), default=None
            The object of each sample of X (a track, a session), for :class:`KnownRejected` where
            samples of one object are alike. An object is never both fitted and calibrated.
        unknown_groups : array-like of shape (n_unknown,), default=None
            The identity of each sample of `X_unknown`, for :class:`StrangersAccepted`.
        categories : array-like of shape (n,), default=None
            The category of each sample of X (camera, site), for `within="category"`.

        Returns
        -------
        self
        """
        given = {"groups": groups, "unknown_groups": unknown_groups, "categories": categories}
        return self._fit(X, y, X_unknown, given, False, X_traffic)

    @_fit_context(prefer_skip_nested_validation=False)
    def _fit(
        self, X, y, X_unknown, given, passed_for_price: bool, X_traffic=None
    ) -> CalibratedRejector:
        """As :meth:`fit`; a criterion that has no use for `X_unknown` takes them for the price."""
        inner = unwrap(self.estimator)  # raises for a closed-set estimator
        frozen = isinstance(self.estimator, FrozenEstimator)
        if not frozen and _is_fitted(self.estimator):
            raise ValueError(
                f"estimator={type(self.estimator).__name__} is fitted already, and fit would train "
                "it again. Pass sklearn.frozen.FrozenEstimator(estimator) and samples that it has "
                "not seen; or have it trained here: pass it unfitted, and all the samples."
            )
        X, y, _ = self.check_targets(X, y)
        automatic = isinstance(self.unknown_label, str) and self.unknown_label == "auto"
        label = inner.unknown_label if automatic else self.unknown_label
        classes, codes = known_classes(label, y)
        known, point = codes < len(classes), self._criterion()
        given, seen = _samples.check_given(point, given, y, X_unknown), np.flatnonzero(~known)
        strangers = isinstance(point, StrangersAccepted)
        serve = len(seen) > 0 and not strangers and X_unknown is None and X_traffic is None
        if X_traffic is None:
            point.check_unknown(seen if serve else X_unknown, passed_for_price)
        else:
            _traffic.check_traffic(point, X_unknown)
            (X_traffic,) = indexable(X_traffic)
        fit_rows = rows = np.arange(len(y))
        if not frozen:
            options = self.calibration_size, point.within == "class", self.random_state
            fit_rows, rows = _samples.split_rows(y, known, *options, given["groups"])
            if not takes_known_unknowns(inner, label):
                fit_rows = fit_rows[known[fit_rows]]
        self._fit_rows = None if frozen else fit_rows
        if serve and not known[rows].all():
            X_unknown = _safe_indexing(X, rows[~known[rows]])
        rows = rows[known[rows]]
        groups, fit_groups = (
            None if given["groups"] is None else given["groups"][some] for some in (rows, fit_rows)
        )
        point.check_enough(len(rows), groups, None)  # fails before the fit, not after
        self.fit_estimator(_safe_indexing(X, fit_rows), y[fit_rows], None, fit_groups)
        self.n_known_unknowns_ = len(seen)
        transform, model = split_fitted(self.estimator_)
        if automatic:
            self.unknown_label_ = model.unknown_label_
        identities, others = given["unknown_groups"], np.empty((0, len(self.classes_)))
        if strangers and X_unknown is not None:
            check_unseen(model, transform(X_unknown), _safe_indexing(X, seen), X_unknown)
        elif strangers:
            identities, others = withheld_scores(
                self.estimator, X, y, known, fit_rows, self.random_state
            )
        codes, band = _samples.encode_known(y[rows], self.classes_), 0.0
        known_part = np.empty(0), codes, others, self.classes_, model.far_scores(), band
        scores = CalibrationScores(*known_part, groups, identities)
        names = None if given["categories"] is None else given["categories"][rows]
        self._calibrate(point, _safe_indexing(X, rows), scores, names, X_unknown, X_traffic)
        return self

    def _calibrate(self, point, X, given: CalibrationScores, names, X_unknown, X_traffic) -> None:
        """Set thresholds on samples X, of which all but the scores is given; categories (n,)."""
        transform, model = split_fitted(self.estimator_)
        self.criterion_, self.within_, self.categories_ = point, point.within, None
        category, whose = np.zeros(len(given.codes), dtype=np.intp), [given.whose]
        if names is not None:
            self.categories_, category = np.unique(names, return_inverse=True)
            whose = [f"of category {name!r}" for name in self.categories_.tolist()]
        scores = _samples.finite_scores(model, transform(X))
        given = given._replace(known=scores, band=_samples.score_slack(model, transform, X, scores))
        self._keep_scores(given, category)
        others, kept, estimated = X_unknown, None, len(given.unknown) > 0
        if X_traffic is not None:
            traffic = _samples.finite_scores(model, transform(X_traffic))
            found = self._mixture(traffic)
            point = self.criterion_ = _traffic.with_share(point, found)
            kept, others = given._replace(unknown=traffic, share=found.unknown_share), X_traffic
            if point.needs_unknown:
                given, estimated = kept, True
        if not point.needs_unknown:
            others = None
        chosen = []
        for m, text in enumerate(whose):
            rows = np.flatnonzero(category == m)
            part = given.take(rows)._replace(whose=text)
            samples = _safe_indexing(X, rows), others
            chosen.append(_samples.settled_thresholds(point, model, transform, samples, part))
        for name in ("strangers_", "_cost_values", "traffic_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.__dict__.update(chosen[0][1])
        thresholds = np.stack([values for values, _ in chosen])
        thresholds, lifted = _samples.lift(thresholds, given.far, self.prefer)
        self.promise_ = bool(point.promises and not estimated and not lifted.any())
        unknown = None if X_unknown is None else _samples.finite_scores(model, transform(X_unknown))
        withheld = getattr(model, "withheld_scores_", None)
        self.price_ = _samples.price_of(scores, category, thresholds, unknown, withheld)
        messages: list[str | None] = []
        if kept is not None:
            priced = _traffic.traffic_price(point, kept, found, thresholds[0])
            self.traffic_, self.price_["unknown"] = priced
            messages = [found.warning, _traffic.share_doubt(point, found)]
        messages += _samples.doubts(point, given, thresholds, lifted, self.price_)
        for message in filter(None, messages):
            # To the caller of fit or of calibrate, behind scikit-learn's decorator.
            warnings.warn(message, stacklevel=5)
        one = 0 if names is None else slice(None)
        self.thresholds_, self.lifted_ = thresholds[one], lifted[one]

    def _criterion(self) -> Criterion:
        """The criterion that the parameters ask for."""
        if self.criterion is not None and self.alpha != 0.05:
            raise ValueError(
                f"alpha={self.alpha!r} is for criterion=None, which means KnownRejected(alpha); "
                f"criterion={self.criterion} has its own parameters. Leave alpha out."
            )
        return self.criterion or KnownRejected(float(self.alpha))

    @property
    def cost_curve_(self) -> CostCurve:
        """Expected cost at every threshold; only for :class:`Cost`."""
        return CostCurve(*self._cost_values)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # a share alpha is rejected by design
        return tags

    def decision_function(self, X, *, categories=None) -> np.ndarray:
        """Acceptance scores; >= 0 accepts.

        Parameters
        ----------
        X, categories
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self)
        transform, moved = self.moved()
        Z = transform(X)
        if self.categories_ is None and categories is None:
            return moved.decision_function(Z)
        model, category = unwrap(self.estimator_), self._category_codes(categories, _num_samples(Z))
        scores = np.empty((len(category), len(self.classes_)))
        for m in np.unique(category):
            rows = np.flatnonzero(category == m)
            part = model.with_thresholds(self.thresholds_[m])
            scores[rows] = part.decision_function(_safe_indexing(Z, rows))
        return scores

    def predict(self, X, *, categories=None) -> np.ndarray:
        """Return the accepting class with the highest score, or ``unknown_label_`` without any.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        categories : array-like of shape (n,), default=None
            The category of each sample, for a model that was calibrated within categories.

        Returns
        -------
        ndarray of shape (n,)
        """
        if categories is None:
            return super().predict(X)
        codes = decide(self.decision_function(X, categories=categories))
        return answer_labels(self.classes_, self.unknown_label_)[codes]

    def known_score(self, X, *, categories=None) -> np.ndarray:
        """Return the highest acceptance score of each sample: larger is more known.

        Parameters
        ----------
        X, categories
            As for :meth:`predict`.

        Returns
        -------
        ndarray of shape (n,)
        """
        if categories is None:
            return super().known_score(X)
        return self.decision_function(X, categories=categories).max(axis=1)

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

    def neighbourhood(self, X):
        similar, distance, gap = super().neighbourhood(X)
        if self._fit_rows is not None:  # the estimator was fitted to a part of the samples
            similar = np.where(similar < 0, -1, self._fit_rows[similar])
        return similar, distance, gap

    @property
    def fitted_attributes(self):  # type: ignore[override]
        """Names and layouts of the fitted attributes, for model files."""
        layout = "M K" if getattr(self, "categories_", None) is not None else "K"
        kept = dict.fromkeys(("estimator_", "promise_", "_fit_rows", "criterion_"), "")
        return kept | {"thresholds_": layout, "lifted_": f"{layout} bool"}

    def check_fitted(self):
        sizes = super().check_fitted()
        require(isinstance(self.criterion_, self.stored_types), "criterion_ is no criterion")
        self.criterion_.__post_init__()
        require(self.within_ == self.criterion_.within, f"within_ is {self.within_!r}")
        if self.categories_ is not None:
            shape = getattr(self.categories_, "shape", None)
            require(shape == (sizes["M"],), "categories_ fits no thresholds_")
        require(isinstance(self.promise_, bool), f"promise_ is {self.promise_!r}")
        split_fitted(self.estimator_)
        if (rows := getattr(self, "_calibration_rows", None)) is not None:
            check_array("_calibration_rows", rows, "n columns", {"columns": 3})
            codes = rows[:, 1:]
            fits = np.all((codes >= 0) & (codes < sizes["K"]) & (codes == np.floor(codes)))
            require(fits, "_calibration_rows has indices of no class")
        if self._fit_rows is not None:
            check_array("_fit_rows", self._fit_rows, "rows int", sizes)
            kept = unwrap(self.estimator_).kept_samples()
            fits = kept is None or np.all(kept[1] < len(self._fit_rows))
            require(fits, "_fit_rows is shorter than the rows of the estimator")
        return sizes

    def moved(self):  # with the lowest thresholds of all categories
        transform, model = split_fitted(self.estimator_)
        lowest = self.thresholds_.reshape(-1, self.thresholds_.shape[-1]).min(axis=0)
        return transform, model.with_thresholds(lowest)


def calibrate(
    model: BaseEstimator,
    X: Any,
    y: Any,
    *,
    X_traffic: Any = None,
    groups: Any = None,
    categories: Any = None,
    **operating_point: Any,
) -> BaseEstimator:
    """Return a fitted model with calibrated thresholds inside.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one. It is not changed.
    X : array-like of shape (n, d), or whatever the model takes
        Samples that were not used in its fit or search.
    y : array-like of shape (n,)
        Their labels. Samples with a label that is no known class are unknown: the `X_unknown` of
        :meth:`CalibratedRejector.fit`, for the price everywhere.
    X_traffic : array-like of shape (N, d), or whatever the model takes, default=None
        Unlabelled samples, as for :meth:`CalibratedRejector.fit`; unknown samples in y are then
        left out.
    groups, categories : array-like of shape (n,), default=None
        As for :meth:`CalibratedRejector.fit`. For :class:`StrangersAccepted` the groups of unknown
        samples are their identities; None takes their labels.
    **operating_point
        Parameters of :class:`CalibratedRejector`, such as ``alpha=0.05``.

    Returns
    -------
    estimator
        A :class:`CalibratedRejector`; for a Pipeline the same steps with that as the last one.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openset import OpenSetSVC
    >>> from openset.calibration import calibrate
    >>> X, y = load_digits(n_class=6, return_X_y=True)
    >>> svc = OpenSetSVC(gamma=0.001, C=8).fit(X[::2], y[::2])
    >>> model = calibrate(svc, X[1::2], y[1::2], alpha=0.1)
    >>> print(f"{model.n_calibration_} samples, promise kept: {model.promise_}")
    541 samples, promise kept: True
    """
    transform, final = split_fitted(model)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    inside = last is final  # else a search or another wrapper stays around it
    rejector = CalibratedRejector(FrozenEstimator(final if inside else model), **operating_point)
    rejector._validate_params()
    point, y = rejector._criterion(), np.asarray(y)
    known = encode_labels(y, final.classes_) < len(final.classes_)
    (Z,) = indexable(transform(X) if inside else X)
    if X_traffic is not None and inside:
        X_traffic = transform(X_traffic)
    elif X_traffic is None and point.needs_unknown and known.all():
        raise ValueError(
            f"criterion={point} needs unknown samples, but all labels in y are known classes."
        )
    strangers, unknown = "unknown_groups" in point.takes, None
    if X_traffic is None and not known.all():
        unknown = _safe_indexing(Z, np.flatnonzero(~known))
    if strangers and groups is None and np.any(y == final.unknown_label_):
        raise ValueError(
            f"{point} needs the identity of each unknown sample, but y has the label "
            f"{final.unknown_label_!r}. Pass groups."
        )
    identities = y if groups is None else np.asarray(groups)
    known_groups = None if groups is None or "groups" not in point.takes else identities[known]
    given = {
        "groups": known_groups,
        "unknown_groups": identities[~known] if strangers else None,
        "categories": None if categories is None else np.asarray(categories)[known],
    }
    Z_known = _safe_indexing(Z, np.flatnonzero(known))
    rejector._fit(Z_known, y[known], unknown, given, True, X_traffic)
    return replace_final(model, rejector) if inside else rejector
