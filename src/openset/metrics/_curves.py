"""Measures at every threshold that all classes share: what is accepted, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..utils import unwrap
from ._counts import acceptance_curve, check_scores, encode_labels, harmonic_mean

COSTS = ("reject", "wrong", "accept_unknown")


class Acceptance(NamedTuple):
    """Samples that score each threshold or more, one entry per threshold.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Infinity, which rejects all samples, and the distinct scores, descending.
    right, wrong, unknown : ndarray of shape (n_thresholds,)
        Numbers of known samples that are accepted and named right, or wrong, and of accepted
        unknown ones; the last entry is that of all samples.
    """

    thresholds: np.ndarray
    right: np.ndarray
    wrong: np.ndarray
    unknown: np.ndarray

    @classmethod
    def of_scores(cls, codes: NDArray[np.intp], scores: np.ndarray) -> Acceptance:
        """Count samples.

        Parameters
        ----------
        codes : ndarray of shape (n,)
            Classes, from :func:`encode_labels`: K is unknown.
        scores : ndarray of shape (n, K)

        Returns
        -------
        Acceptance
        """
        shape = (len(codes), scores.shape[-1])
        scores = check_scores(scores, shape, "one row per sample of y, one column per class")
        is_known = codes < shape[1]
        is_right = is_known & (scores.argmax(axis=1) == codes)
        kinds = is_right, is_known & ~is_right, ~is_known
        return cls(*acceptance_curve(scores.max(axis=1), *kinds))

    @property
    def known(self) -> np.ndarray:
        """(n_thresholds,) number of accepted known samples."""
        return self.right + self.wrong

    def operating_curve(self) -> OperatingCurve:
        """Return the shares that :func:`operating_curve` tells.

        Returns
        -------
        OperatingCurve
        """
        n_known, n_unknown = self.known[-1], self.unknown[-1]
        if not (n_known and n_unknown):
            kind = "unknown" if n_known else "known"
            raise ValueError(f"y has no {kind} sample; the curve needs known and unknown ones.")
        aks, aus = self.right / n_known, 1.0 - self.unknown / n_unknown
        fu = (n_known - self.known) / n_known
        return OperatingCurve(self.thresholds, aks, fu, aus, harmonic_mean(aks, aus))

    def cost_curve(self, costs: Mapping[str, float], unknown_share: float) -> CostCurve:
        """Return the expected cost of a sample.

        Parameters
        ----------
        costs, unknown_share
            As for :func:`cost_curve`.

        Returns
        -------
        CostCurve
        """
        n_known, n_unknown = self.known[-1], self.unknown[-1]
        if not n_known:
            raise ValueError("There is no sample of a known class; costs need some.")
        if unknown_share > 0 and not n_unknown:
            raise ValueError(
                f"unknown_share={unknown_share:g} needs samples of unknown classes; give some, or "
                "set unknown_share=0."
            )
        rejected, wrong = 1 - self.known / n_known, self.wrong / n_known
        accepted = self.unknown / max(1, n_unknown)
        cost = (1 - unknown_share) * (costs["reject"] * rejected + costs["wrong"] * wrong)
        cost = cost + unknown_share * costs["accept_unknown"] * accepted
        return CostCurve(self.thresholds, cost, rejected, wrong, accepted)


class OperatingCurve(NamedTuple):
    """The trade-off between known and unknown samples, one entry per threshold.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Smallest score that accepts, descending from infinity, which rejects all samples; 0 is the
        threshold of the estimator itself.
    aks, fu : ndarray of shape (n_thresholds,)
        Shares of the known samples that their own class accepts (the accuracy on known samples),
        and that are rejected.
    aus, hna : ndarray of shape (n_thresholds,)
        Accuracy on unknown samples (the share that is rejected), and its harmonic mean with `aks`.
    """

    thresholds: np.ndarray
    aks: np.ndarray
    fu: np.ndarray
    aus: np.ndarray
    hna: np.ndarray


def operating_curve(estimator: Any, X: Any, y: Any) -> OperatingCurve:
    """Measures of an estimator under every threshold common to all classes.

    :class:`openset.plots.OSCRDisplay` draws `aks` against 1 - `aus`.

    Parameters
    ----------
    estimator : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d)
        Known and unknown samples that were not used in fit.
    y : array-like of shape (n,)
        True labels; a label that is no known class is unknown.

    Returns
    -------
    OperatingCurve

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.metrics import operating_curve
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> curve = operating_curve(model, [[0, 0.4], [5, 5.8], [2, 2]], ["left", "right", "?"])
    >>> curve.aks
    array([0. , 0.5, 1. , 1. ])
    >>> curve.aus
    array([1., 1., 1., 0.])
    """
    return _count(estimator, X, y).operating_curve()


class CostCurve(NamedTuple):
    """The expected cost of a sample, one entry per threshold.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Smallest score that accepts, descending from infinity, which rejects all samples.
    cost : ndarray of shape (n_thresholds,)
        Expected cost of a sample.
    rejected, wrong : ndarray of shape (n_thresholds,)
        Shares of the known samples that are rejected, and that are accepted by a class that is not
        their own.
    accepted_unknown : ndarray of shape (n_thresholds,)
        Share of the unknown samples that are accepted; 0 without any.
    """

    thresholds: np.ndarray
    cost: np.ndarray
    rejected: np.ndarray
    wrong: np.ndarray
    accepted_unknown: np.ndarray


def cost_curve(
    estimator: Any, X: Any, y: Any, *, costs: Mapping[str, float], unknown_share: float
) -> CostCurve:
    """Expected cost of an estimator under every threshold common to all classes.

    Parameters
    ----------
    estimator, X, y
        As for :func:`operating_curve`; unknown samples are not needed if `unknown_share` is 0.
    costs : mapping
        Cost of a known sample that is rejected (``"reject"``), of a known sample that is accepted
        by a wrong class (``"wrong"``) and of an unknown sample that is accepted
        (``"accept_unknown"``).
    unknown_share : float in [0, 1)
        Share of unknown samples among those to come; the share in `X` does not matter.

    Returns
    -------
    CostCurve

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.metrics import cost_curve
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> curve = cost_curve(model, [[0, 0.4], [5, 5.8], [2, 2]], ["left", "right", "?"],
    ...                    costs={"reject": 1, "wrong": 10, "accept_unknown": 20},
    ...                    unknown_share=0.5)
    >>> curve.cost
    array([ 0.5 ,  0.25,  0.  , 10.  ])
    """
    check_costs(costs)
    if not 0 <= unknown_share < 1:
        raise ValueError(f"unknown_share={unknown_share!r} must be at least 0 and less than 1.")
    return _count(estimator, X, y).cost_curve(costs, unknown_share)


def _count(estimator, X, y) -> Acceptance:
    scores = estimator.decision_function(X)
    return Acceptance.of_scores(encode_labels(y, unwrap(estimator).classes_), scores)


def check_costs(costs: Any) -> None:
    """Raise ValueError for costs that make no sense.

    Parameters
    ----------
    costs : mapping
        As for :func:`cost_curve`.
    """
    if not isinstance(costs, Mapping) or set(costs) != set(COSTS):
        raise ValueError(f"costs={costs!r} must be a dict with the keys {', '.join(COSTS)}.")
    for name, value in costs.items():
        if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
            raise ValueError(f"costs[{name!r}]={value!r} must be finite and not negative.")
