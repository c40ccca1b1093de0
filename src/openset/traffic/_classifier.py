"""A classifier that learns from unlabelled rows what unknown samples look like, or leaves it be."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, indexable
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..base import OpenSetClassifier, Traits, known_classes
from ..base.fitted import require
from ..base.parameters import SHARE, param, with_parameters
from ..calibration import Mixture
from ..utils import Progress, split_fitted, unwrap
from ..wrappers import OpenSetWrapper, ShiftedWrapper
from ._crossed import FOLDS, CrossedData, Gates

_FEWEST = 0.05  # promised share of unknown rows from which the model learns
_ROWS = 10  # fewest rows of either kind that a share is estimated from
_INSIDE = 0.999  # a moved threshold stays above the score far away
_TIE = 1e-9


@with_parameters
class TrafficClassifier(ShiftedWrapper):
    """An open-set estimator that learns from unlabelled rows in use.

    The estimator is fitted to the labelled samples. The traffic then moves its threshold, and
    teaches a second model of the same method, in which the rows of the traffic are known unknowns
    with the probability of being unknown as their weight. A sample is accepted where both accept;
    the first names the class. Where too few rows of the traffic are certainly unknown, or nothing
    would be gained, the estimator stays as it is, with a warning.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator that can learn from known unknowns, or a Pipeline or a search of one.
        To keep a fitted model as it is, pass it in a :class:`sklearn.frozen.FrozenEstimator`, and
        to ``fit`` the samples that it was trained on.
    new_kinds : float in [0, 1], default=0.3
        Share of the unknown samples to come that are of kinds which the traffic does not show.
        With 0 all kinds recur: more is gained then, and more lost if they do not. Classes withheld
        in turns tell what a moved threshold would do to new kinds; with less than three classes it
        is not moved unless `new_kinds` is 0.
    confidence : float in (0, 1), default=0.95
        Of ``unknown_at_least_``.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds; pass an int for the same result in every call.
    verbose : int, default=0
        If positive, show progress.
    unknown_label : "auto" or label, default="auto"
        Answer for unknown samples; "auto" is that of the estimator. Rows of y that carry an
        explicit label are known unknowns.

    Attributes
    ----------
    learned_ : bool
        Whether the traffic changed anything.
    reason_ : str
        What is known about the traffic, and why nothing was learned from it.
    unknown_at_least_ : float
        With `confidence`, at least this share of the traffic is unknown. The model learns from 5 %
        on, by these scores or by those of the second model.
    unknown_share_ : float
        Estimated share of unknown rows in the traffic.
    price_ : dict
        Estimated shares of rows rejected for ``"known"`` and ``"unknown"`` rows of this traffic:
        ``"before"``, ``"after"``, and their ``"source"``. Empty where nothing was learned.
    estimator_ : estimator
        The first model.
    second_ : estimator or None
        The model that has learned from the traffic; it sees samples after the transformers of the
        first.
    thresholds_ : ndarray of shape (2,)
        Subtracted from the scores of the two; -inf for a second one that is not used.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    n_known_unknowns_ : int
        Number of labelled rows with an explicit unknown label.
    bounded_ : ndarray of shape (K,), bool
        That of the first model at its moved threshold; the second can only reject more.
    known_radius_ : ndarray of shape (K,)
        Its certificate there; only for methods that have one.
    n_features_in_, feature_names_in_
        Only if the fitted estimator has them.

    Notes
    -----
    Scores are the smaller one of the first score of the class and the highest second score, each
    less its threshold. The thresholds maximise the estimated accuracy on known rows plus that on
    unknown rows, in which kinds that the traffic does not show weigh `new_kinds`; they are medians
    over 15 bootstrap samples. Both are estimates, from models that were fitted to four fifths of
    the rows. The more kinds are assumed new, the less the first threshold moves: by default 82 % of
    the way, and never to where 10 % more rows of withheld classes would be accepted.

    The rows of the traffic are independent of each other and of the labelled rows, and their known
    part is distributed as the labelled rows are; else known rows that have changed would be learned
    as unknown. A second OpenSetSVC has ``lam=0`` and C at most 1: the traffic shows where the
    unknown is, and some of its rows are known ones. A method without sample weights takes the rows
    that are rather unknown than known. More than 20,000 rows of traffic are thinned at random, and
    those that stay weigh more, except with landmarks.

    References
    ----------
    C. Elkan, K. Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008, for
    the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.traffic import TrafficClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(0, 1, (200, 2)), np.repeat([0, 1], 100)
    >>> X[100:] += [6, 0]
    >>> traffic = np.concatenate([X + rng.normal(0, 0.1, X.shape), rng.normal(0, 1, (200, 2)) + 3])
    >>> model = TrafficClassifier(OpenSetSVC(), new_kinds=0, random_state=0).fit(X, y, traffic)
    >>> model.learned_, bool(model.unknown_at_least_ > 0.2)
    (True, True)
    >>> model.predict([[0, 0], [6, 0], [3, 3]])
    array([ 0,  1, -1])
    """

    estimator: BaseEstimator
    new_kinds: float = param(0.3, SHARE)
    confidence: float = param(0.95, Interval(Real, 0.0, 1.0, closed="neither"))
    random_state: Any = None
    verbose: int = 0
    unknown_label: Any = "auto"

    _parameter_constraints = {"estimator": [HasMethods(["fit", "decision_function"])]}
    fitted_attributes = {
        **{"estimator_": "", "second_": "", "learned_": "", "reason_": "", "price_": ""},
        "thresholds_": "gates inf",
    }
    traits = Traits(
        "traffic",
        condition="the moved threshold of the estimator lies above its scores far away",
        known_unknowns="passed to the estimator",
    )

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, X_traffic: Any = None) -> TrafficClassifier:
        """Fit the estimator to the labelled samples, and learn from the traffic if that helps.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
            Labelled samples.
        y : array-like of shape (n,)
            Their classes.
        X_traffic : array-like of shape (N, d), or whatever the estimator takes
            Unlabelled samples, known and unknown ones mixed; must be passed.

        Returns
        -------
        self
        """
        _check_method(unwrap(self.estimator))
        if X_traffic is None:  # as where another estimator, such as a search, fits this one
            raise ValueError(
                "X_traffic is None. Pass unlabelled samples, or fit the estimator alone. To "
                "calibrate a TrafficClassifier, fit it first and pass FrozenEstimator(it)."
            )
        X, y, _ = self.check_targets(X, y)
        (X,) = indexable(X)
        self._fit_first(X, y)
        X_traffic = self._checked_traffic(X_traffic)
        kinds, rng = self._n_class_folds(), check_random_state(self.random_state)
        progress = Progress(2 * FOLDS + kinds, type(self).__name__, self.verbose > 0)
        data = CrossedData.of(self.estimator_, X, y, X_traffic, rng, progress)
        self.second_, self.thresholds_ = None, np.array([0.0, -np.inf])
        self.price_: dict[str, dict[str, Any]] = {}
        self.unknown_at_least_ = self.unknown_share_ = 0.0
        if data.held_out.sum() < _ROWS:
            self.reason_ = (
                f"{data.held_out.sum()} labelled rows can be held out, and {_ROWS} are needed"
            )
        else:
            self._learn(data, kinds)
        self.learned_ = bool(self.price_)
        if not self.learned_:
            warnings.warn(f"The model stays as it is: {self.reason_.rstrip('.')}.", stacklevel=3)
        return self

    def _fit_first(self, X, y) -> None:
        """Fit the estimator, and set the attributes of the labels."""
        model = clone(self.estimator)
        label = unwrap(model).unknown_label
        if self.unknown_label not in ("auto", label):
            if isinstance(model, FrozenEstimator):
                raise ValueError(
                    f"unknown_label={self.unknown_label!r}, but the frozen estimator has "
                    f"{label!r}. Leave it at 'auto'."
                )
            unwrap(model).set_params(unknown_label=self.unknown_label)
            label = self.unknown_label
        self.estimator_ = model.fit(X, y)
        _, final = split_fitted(self.estimator_)
        classes, codes = known_classes(label, y)
        if classes.tolist() != final.classes_.tolist():
            raise ValueError(
                f"y has the classes {classes.tolist()!r}, but the frozen estimator knows "
                f"{final.classes_.tolist()!r}. Pass the samples that it was trained on."
            )
        self.classes_, self.unknown_label_ = final.classes_, final.unknown_label_
        self.n_known_unknowns_ = int(np.sum(codes == len(classes)))
        self._take_features()

    def _checked_traffic(self, X_traffic):
        """The traffic, which the fitted estimator is able to score."""
        (X_traffic,) = indexable(X_traffic)
        if _num_samples(X_traffic) < _ROWS:
            raise ValueError(
                f"X_traffic has {_num_samples(X_traffic)} rows; at least {_ROWS} are needed to "
                "estimate how many are unknown. Pass more, or fit the estimator alone."
            )
        try:
            self.estimator_.decision_function(X_traffic)
        except ValueError as error:
            raise ValueError(f"X_traffic cannot be scored: {error}") from error
        return X_traffic

    def _learn(self, data: CrossedData, kinds: int) -> None:
        """Set the second model, the thresholds and the price, if they help, and the reason."""
        first = data.first_scores()
        confused = 1 - float(first.right[data.held_out].mean())
        shares = self._shares(data, first.best, confused)
        self.unknown_at_least_ = shares.unknown_at_least or 0.0
        self.unknown_share_ = shares.unknown_share
        self.reason_ = (
            f"with confidence {self.confidence:g}, at least {self.unknown_at_least_:.1%} of the "
            f"{shares.n_traffic} rows of traffic are unknown"
        )
        too_few = f"{self.reason_}; it learns from {_FEWEST:.0%}"
        if shares.warning is not None or self.unknown_share_ < _FEWEST:
            self.reason_ = shares.warning or too_few
            return
        second = data.second_scores(first, shares.unknown_share)
        # Scores that tell known and unknown rows apart better find more of the unknown ones.
        improved = self._shares(data, second, confused)
        if max(self.unknown_at_least_, improved.unknown_at_least or 0.0) < _FEWEST:
            self.reason_ = too_few
            return
        self.unknown_share_ = max(self.unknown_share_, improved.unknown_share)
        both = np.stack([first.best, second])
        known, traffic = both[:, : data.n][:, data.held_out], both[:, data.n :]
        transform, final = split_fitted(self.estimator_)
        far = final.far_scores()
        self.thresholds_, self.price_ = Gates(
            known, traffic, first.right[data.held_out], self.unknown_share_
        ).choose(
            data.withheld_scores(kinds) if kinds else None,
            self.new_kinds,
            _INSIDE * far[far < 0].max(initial=-np.inf),
            data.rng,
        )
        if not self.price_:
            self.reason_ += "; no threshold is clearly better"
        elif np.isfinite(self.thresholds_[1]):
            weight = data.weights(second, traffic[1], shares.unknown_share, np.isfinite(second))
            rows = np.arange(len(weight))
            self.second_ = data.fit_second(final, data.stacked(transform), weight, rows)

    def _shares(self, data: CrossedData, scores: np.ndarray, confused: float) -> Mixture:
        """The traffic as a mixture, from the scores (n + N,) of rows that were held out."""
        known, new = scores[: data.n][data.held_out, None], scores[data.n :, None]
        # Copies of a row may be scored in different batches.
        slack = _TIE * float(np.abs(known).max())
        how: dict[str, Any] = {"confidence": self.confidence, "slack": slack}
        return Mixture.from_rows(known, new, confused=confused, **how)

    def _n_class_folds(self) -> int:
        """Number of models with classes withheld; 0 if none is needed or possible."""
        final, n_classes = split_fitted(self.estimator_)[1], len(self.classes_)
        if self.new_kinds == 0 or n_classes < 3:
            return 0
        by_class = any(isinstance(v, dict) for v in final.get_params(deep=False).values())
        return 0 if by_class else min(FOLDS, n_classes)

    def decision_function(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        transform, moved = self.moved()
        Z = transform(X)
        scores = moved.decision_function(Z)
        if self.second_ is None:
            return scores
        t = np.full(len(self.second_.classes_), self.thresholds_[1])
        # It was fitted without names of columns.
        gate = self.second_.with_thresholds(t).known_score(Z if issparse(Z) else np.asarray(Z))
        # The first model names the class, also where the gate makes classes equal.
        behind = scores.max(axis=1, keepdims=True) - scores
        return np.minimum(scores, gate[:, None]) - _TIE * behind

    def moved(self):
        transform, final = split_fitted(self.estimator_)
        if self.thresholds_[0] == 0:
            return transform, final
        return transform, final.with_thresholds(np.full(len(self.classes_), self.thresholds_[0]))

    def add_classes(self, X: Any, y: Any) -> NoReturn:
        """Not available: a ValueError says what to do instead.

        Parameters
        ----------
        X : array-like of shape (m, d)
        y : array-like of shape (m,)
        """
        raise ValueError(
            "add_classes is not available for TrafficClassifier: rows of the new classes may have "
            "been unknown in the traffic. Call fit with all samples and the traffic."
        )

    def check_fitted(self):
        sizes = super().check_fitted()
        t = self.thresholds_
        require(len(t) == 2 and np.isfinite(t[0]) and t[1] < np.inf, f"thresholds_ is {t}")
        require(np.isfinite(t[1]) == (self.second_ is not None), "thresholds_ does not fit second_")
        require(self.second_ is None or isinstance(self.second_, OpenSetClassifier), "second_")
        split_fitted(self.estimator_)
        return sizes


def _check_method(final: BaseEstimator) -> None:
    """Raise ValueError if a method cannot learn from rows of the traffic."""
    name = type(final).__name__
    if isinstance(final, OpenSetWrapper):
        raise ValueError(
            f"estimator={name} wraps another one. Pass an open-set method such as OpenSetSVC, or a "
            "search or Pipeline of one; a fitted TrafficClassifier can be calibrated afterwards."
        )
    if not getattr(getattr(final, "traits", None), "known_unknowns", ""):
        raise ValueError(
            f"estimator={name} cannot learn from unknown rows: its machines are trained on known "
            "ones alone. Use OpenSetSVC, or another method that takes known unknowns."
        )
