"""Any open-set estimator, with calibrated thresholds."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _is_fitted, _num_samples, check_is_fitted

from ..base import Traits, known_classes, takes_known_unknowns
from ..base.fitted import check_array, require
from ..base.parameters import param, with_parameters
from ..metrics import CostCurve, encode_labels
from ..model_selection import calibration_split
from ..utils import answer_labels, decide, replace_final, split_fitted, unwrap
from . import _operating_point as points
from ._conformal import ConformalClassifier
from ._criterion import CalibrationScores, Criterion
from ._curve import Accuracy, Cost, Precision, UnknownRejected
from ._known_rejected import KnownRejected
from ._mixture import Mixture
from ._strangers import StrangersAccepted, identified

_FRACTION = Interval(Real, 0.0, 1.0, closed="neither")


@with_parameters
class CalibratedRejector(ConformalClassifier):
    """An open-set estimator whose thresholds are set on samples that it was not fitted to.

    By default they keep a promise: **at most a share `alpha` of the known samples is rejected**,
    P(answer unknown | known) <= alpha. ``price_`` tells what this does to unknown samples.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, or a Pipeline or a search of one. It is fitted to a part of the
        samples, and the others calibrate. One that is fitted goes into
        :class:`sklearn.frozen.FrozenEstimator`: all samples of ``fit`` calibrate, and must be new
        to it.
    alpha : float in (0, 1), default=0.05
        Share of known samples that may be rejected, with the default criterion.
    criterion : criterion, default=None
        What is promised, or aimed at: one of the criteria of `openset.calibration`. None is
        ``KnownRejected(alpha)``.
    prefer : {"promise", "bounded"}, default="promise"
        Where a threshold is so low that a class would accept samples however far away: keep it
        (``bounded_`` is False), or raise it just above the score far away (``promise_`` is False).
        Either way there is a warning.
    calibration_size : float in (0, 1), default=0.25
        Share of the samples that calibrate, if the estimator is fitted here.
    random_state : int, RandomState instance or None, default=None
        Seed of that split.
    unknown_label : "auto" or label, default="auto"
        Answer for unknown samples; "auto" is that of the estimator. Rows of y that carry an
        explicit label, of either, are known unknowns: an estimator with the same one learns from
        them, and those that calibrate serve as `X_unknown`, but not as strangers.

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
        Shares of ``"known"`` and of ``"unknown"`` samples that are rejected: ``"before"``, under
        the thresholds of the estimator, ``"after"``, and their ``"source"``: for unknown ones what
        was passed, or classes that the search withheld (an estimate), or "not known" (None). With
        `X_traffic` they are estimates with an ``"interval"``.
    promise_ : bool
        Whether the criterion has a promise that holds: not after a threshold was raised, nor where
        strangers are known classes that were withheld.
    traffic_ : dict
        Only with `X_traffic`: its ``"rows"``, estimated ``"unknown_share"`` and
        ``"unknown_interval"``, the promise ``"unknown_at_least"``, and the
        ``"threshold_interval"``, None where the traffic does not set the threshold.
    strangers_ : dict
        Only for :class:`StrangersAccepted`: ``"identities"``, their ``"source"``, and the
        ``"trade_off"``: for each rate the threshold, the share of known samples named right, and
        the mean share of each identity that is accepted, with its standard error.
    n_calibration_ : int
        Number of calibration samples of known classes.
    lifted_ : ndarray of the shape of ``thresholds_``, bool
        The classes whose threshold was raised for ``prefer="bounded"``.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        Whether the threshold lies above the score far away from all samples, if that is known.
    n_features_in_, feature_names_in_
        As far as the fitted estimator has them.

    Notes
    -----
    The promise assumes that known samples to come and calibration samples are exchangeable, as
    independent draws from the same source are; drift breaks it (:meth:`check`). It is about
    rejection: a class that is not its own may accept a sample. Scores that rounding may exchange
    count as equal: closer than 1e-6, or ten times what they differ by alone and in a batch.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.frozen import FrozenEstimator
    >>> from openset import CalibratedRejector, OpenSetSVC
    >>> X, y = load_digits(n_class=6, return_X_y=True)
    >>> svc = OpenSetSVC(gamma=0.001, C=8).fit(X[::2], y[::2])
    >>> model = CalibratedRejector(FrozenEstimator(svc), alpha=0.05).fit(X[1:600:2], y[1:600:2])
    >>> print(f"{(model.predict(X[601::2]) == model.unknown_label_).mean():.2f}")
    0.03
    """

    estimator: BaseEstimator
    alpha: float = param(0.05, _FRACTION)
    criterion: Criterion | None = param(None, Criterion, None)
    prefer: str = param("promise", StrOptions({"promise", "bounded"}))
    calibration_size: float = param(0.25, _FRACTION)
    random_state: Any = None
    unknown_label: Any = "auto"

    _parameter_constraints = {"estimator": [HasMethods(["fit", "decision_function"])]}

    # Types of the criterion in a model file.
    stored_types = (KnownRejected, StrangersAccepted, Precision, Cost, UnknownRejected, Accuracy)
    traits = Traits(
        "calibrated",
        condition="the thresholds lie above the scores far away from all samples",
        known_unknowns="passed to the estimator if it takes them, and used as X_unknown",
    )

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
            each other. Where the criterion needs unknown ones, their share and scores are
            estimated; that gives no promise, and a threshold above the score far away.
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
        owners = {"groups": groups, "unknown_groups": unknown_groups, "categories": categories}
        return self._fit(points.Samples(X, y, X_unknown, X_traffic, **owners))

    @_fit_context(prefer_skip_nested_validation=False)
    def _fit(self, given: points.Samples) -> CalibratedRejector:
        inner = unwrap(self.estimator)  # raises for a closed-set estimator
        frozen = isinstance(self.estimator, FrozenEstimator)
        if not frozen and _is_fitted(self.estimator):
            raise ValueError(
                f"estimator={type(self.estimator).__name__} is fitted already, and fit would train "
                "it again. Pass sklearn.frozen.FrozenEstimator(estimator) and samples that it has "
                "not seen; or have it trained here: pass it unfitted, and all the samples."
            )
        X, y, _ = self.check_targets(given.X, given.y)
        automatic = isinstance(self.unknown_label, str) and self.unknown_label == "auto"
        label = inner.unknown_label if automatic else self.unknown_label
        classes, codes = known_classes(label, y)
        point = self._criterion()
        given = replace(given, X=X, y=y, known=codes < len(classes)).checked(point)
        fit_rows, rows = self._divided(given, point, inner, label)
        self._fit_rows = None if frozen else fit_rows
        part = given.part(point, rows)
        point.check_enough(len(part.y), part.groups, None)  # fails before the fit, not after
        fit_groups = None if given.groups is None else given.groups[fit_rows]
        self.fit_estimator(_safe_indexing(X, fit_rows), y[fit_rows], None, fit_groups)
        self.n_known_unknowns_ = int(np.sum(~given.known))
        if automatic:
            self.unknown_label_ = unwrap(self.estimator_).unknown_label_
        identities, others = None, np.empty((0, len(self.classes_)))
        if "unknown_groups" in point.takes:
            identities, others = identified(
                self.estimator, self.estimator_, given, fit_rows, self.random_state
            )
        self._calibrate(point, part, identities, others)
        return self

    def _divided(self, given: points.Samples, point, inner, label) -> tuple:
        """Rows to fit and rows to calibrate."""
        everything = np.arange(len(given.y))
        if isinstance(self.estimator, FrozenEstimator):
            return everything, everything
        stratify = f"{type(point).__name__}(within='class')" if point.within == "class" else ""
        fit_rows, rows = calibration_split(
            given.y, given.known, given.groups, self.calibration_size, self.random_state, stratify
        )
        if not takes_known_unknowns(inner, label):
            fit_rows = fit_rows[given.known[fit_rows]]
        return fit_rows, rows

    def _calibrate(self, point, samples, identities, others) -> None:
        """Set thresholds on samples of known classes; of withheld ones the scores are known."""
        codes = encode_labels(samples.y, self.classes_)
        if strange := np.unique(samples.y[codes == len(self.classes_)]).tolist():
            raise ValueError(
                f"y has labels that the estimator does not know: {strange!r} are not among its "
                f"classes {self.classes_.tolist()!r}. Calibrate with known classes only; samples "
                "of others can be passed as X_unknown."
            )
        transform, model = split_fitted(self.estimator_)
        known = points.finite_scores(model, transform(samples.X))
        slack = points.score_slack(model, transform, samples.X, known)
        scores = known, codes, others, self.classes_, model.far_scores(), slack
        given = CalibrationScores(*scores, samples.groups, identities)
        self.criterion_, self.within_ = point, point.within
        self.categories_, category = samples.in_categories()
        self._keep_scores(given, category)
        priced, found = given._replace(unknown=given.unknown[:0]), None
        if samples.others is not None:
            priced = priced._replace(unknown=points.finite_scores(model, transform(samples.others)))
        if samples.X_traffic is not None:
            found = self._mixture(priced.unknown)
            priced = priced._replace(share=found.unknown_share)
            point = self.criterion_ = point.with_share(round(found.unknown_share, 3))
            given = priced if point.needs_unknown else given
        thresholds, attributes = points.thresholds_of(point, model, transform, samples, given)
        for name in ("strangers_", "_cost_values", "traffic_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.__dict__.update(attributes)
        thresholds, lifted = points.lift(thresholds, given.far, self.prefer)
        self.promise_ = point.promises and not len(given.unknown) and not lifted.any()
        withheld = getattr(model, "withheld_scores_", None)
        self.price_ = points.price_of(priced, category, thresholds, withheld)
        one = 0 if self.categories_ is None else slice(None)
        self.thresholds_, self.lifted_ = thresholds[one], lifted[one]
        self._warn(point, found, priced, thresholds, lifted)

    def _warn(self, point, found: Mixture | None, priced: CalibrationScores, thresholds, lifted):
        """Say what speaks against thresholds (M, K), some lifted; tell about the traffic."""
        messages = points.doubts(point, priced, thresholds, lifted, self.price_)
        if found is not None:
            self.traffic_, told = points.traffic_told(point, priced, found, thresholds[0])
            self.price_["unknown"] |= told
            messages = chain(points.traffic_doubts(point, found), messages)
        for message in messages:
            # To the caller of fit or of calibrate, behind scikit-learn's decorator.
            warnings.warn(message, stacklevel=6)

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
        Their labels. Samples of no known class serve as `X_unknown`, for the price everywhere.
    X_traffic : array-like of shape (N, d), or whatever the model takes, default=None
        As for :meth:`CalibratedRejector.fit`; unknown samples in y are then left out.
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
    (X,) = indexable(transform(X) if inside else X)
    if X_traffic is not None and inside:
        X_traffic = transform(X_traffic)
    given = X, np.asarray(y), X_traffic, groups, categories
    rejector._fit(points.by_label(rejector._criterion(), final, *given))
    return replace_final(model, rejector) if inside else rejector
