"""What mistakes cost, threshold by threshold, and the threshold of the least cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..metrics import encode_labels
from ..utils import unwrap
from ._criterion import CalibrationScores, Criterion, Thresholds, below, check_fraction, is_gap
from ._precision import check_share

COSTS = ("reject", "wrong", "accept_unknown")


@dataclass(frozen=True)
class Cost(Criterion):
    """The threshold at which the samples to come are expected to cost least; no promise.

    Price: whatever is cheap. The fitted model has the ``cost_curve_``.

    Parameters
    ----------
    reject : float
        Cost of a known sample that is rejected.
    wrong : float
        Cost of a known sample that is accepted by a class that is not its own.
    accept_unknown : float
        Cost of an unknown sample that is accepted.
    unknown_share : float in [0, 1), default=None
        Share of unknown samples among those to come. If it is not 0, ``fit`` needs samples of
        unknowns like those to come. None is 0.

    Examples
    --------
    >>> from openset.calibration import Cost
    >>> Cost(reject=1, wrong=10, accept_unknown=20, unknown_share=0.1).sentence
    'least expected cost (reject=1, wrong=10, accept_unknown=20) where 10 % are unknown'
    """

    reject: float
    wrong: float
    accept_unknown: float
    unknown_share: float | None = None

    def __post_init__(self) -> None:
        check_costs(self.costs, self.unknown_share or 0)
        if self.unknown_share is not None:
            check_fraction("Cost", "unknown_share", self.unknown_share, zero=True)

    @property
    def costs(self) -> dict[str, float]:
        """The costs by name."""
        return {name: getattr(self, name) for name in COSTS}

    @property
    def needs_unknown(self) -> bool:
        return bool(self.unknown_share)

    @property
    def sentence(self) -> str:
        costs = ", ".join(f"{name}={value:g}" for name, value in self.costs.items())
        share = f" where {self.unknown_share * 100:g} % are unknown" if self.unknown_share else ""
        return f"least expected cost ({costs}){share}"

    def check_unknown(self, X_unknown: Any, passed_for_price: bool) -> None:
        check_share(self, X_unknown, passed_for_price)

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        n_classes = len(scores.classes)
        codes = np.append(scores.codes, np.full(len(scores.unknown), n_classes))
        every = np.vstack([scores.known, scores.unknown])
        curve = cost_curve_of(codes, every, self.costs, self.unknown_share or 0.0)
        separate = is_gap(curve.thresholds, scores.band)
        best = int(np.where(separate, curve.cost, np.inf).argmin())
        if best == 0:
            raise ValueError(
                f"With {self} it is cheapest to reject every sample: an answer costs more than it "
                "saves. Check the costs, or train a better estimator."
            )
        values = np.full(n_classes, below(curve.thresholds, best, scores.far))
        return Thresholds(values, {"_cost_values": np.array(curve)})  # model files hold arrays


class CostCurve(NamedTuple):
    """The expected cost of a sample, one entry per threshold.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Smallest score that accepts, descending from infinity, which rejects all samples.
    cost : ndarray of shape (n_thresholds,)
        Expected cost of a sample.
    rejected : ndarray of shape (n_thresholds,)
        Share of the known samples that are rejected.
    wrong : ndarray of shape (n_thresholds,)
        Share of the known samples that are accepted by a class that is not their own.
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
    estimator : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d)
        Known samples and, unless `unknown_share` is 0, unknown ones, not used in fit.
    y : array-like of shape (n,)
        True labels; a label that is no known class is unknown.
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
    >>> from openset.calibration import cost_curve
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> curve = cost_curve(model, [[0, 0.4], [5, 5.8], [2, 2]], ["left", "right", "?"],
    ...                    costs={"reject": 1, "wrong": 10, "accept_unknown": 20},
    ...                    unknown_share=0.5)
    >>> curve.cost
    array([ 0.5 ,  0.25,  0.  , 10.  ])
    """
    check_costs(costs, unknown_share)
    classes = unwrap(estimator).classes_
    return cost_curve_of(
        encode_labels(y, classes), estimator.decision_function(X), costs, unknown_share
    )


def check_costs(costs: Any, unknown_share: float) -> None:
    """Raise ValueError for costs or a share that make no sense."""
    if not isinstance(costs, Mapping) or set(costs) != set(COSTS):
        raise ValueError(f"costs={costs!r} must be a dict with the keys {', '.join(COSTS)}.")
    for name, value in costs.items():
        if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
            raise ValueError(f"costs[{name!r}]={value!r} must be finite and not negative.")
    if not 0 <= unknown_share < 1:
        raise ValueError(f"unknown_share={unknown_share!r} must be at least 0 and less than 1.")


def cost_curve_of(
    codes: np.ndarray, scores: np.ndarray, costs: Mapping[str, float], unknown_share: float
) -> CostCurve:
    """The curve of scores (n, K) and class codes (n,); the code K is unknown."""
    best, is_known = scores.max(axis=1), codes < scores.shape[1]
    wrong = is_known & (scores.argmax(axis=1) != codes)
    if not is_known.any():
        raise ValueError("There is no sample of a known class; costs need some.")
    if unknown_share > 0 and is_known.all():
        raise ValueError(
            f"unknown_share={unknown_share:g} needs samples of unknown classes; give some, or set "
            "unknown_share=0."
        )
    thresholds = np.append(np.inf, np.unique(best)[::-1])

    def accepted(rows):
        return np.sum(rows) - np.searchsorted(np.sort(best[rows]), thresholds)

    n_known, n_unknown = is_known.sum(), max(1, np.sum(~is_known))
    shares = (
        1 - accepted(is_known) / n_known,
        accepted(wrong) / n_known,
        accepted(~is_known) / n_unknown,
    )
    known, unknown = 1 - unknown_share, unknown_share
    cost = known * (costs["reject"] * shares[0] + costs["wrong"] * shares[1])
    return CostCurve(thresholds, cost + unknown * costs["accept_unknown"] * shares[2], *shares)
