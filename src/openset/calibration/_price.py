"""What an operating point costs: its price, and thresholds that bound nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._criterion import Criterion

# How far above the score far away a threshold is raised, to bound the accepted region.
_LIFT = 1e-3

# Warned of: the share of unknown samples that are rejected falls, to this or less. It covers a fall
# by half.
_LOW = 0.5

# The estimate from withheld classes may be too high, and is warned of this much earlier.
_WITHHELD = "classes withheld in the search"
_MARGIN = 0.15

# Warned of: a lowered threshold has come this near to the score far away, in units of the distance
# from there to the median of the calibration samples.
_NEAR = 0.05


def resolve_conflict(
    thresholds: np.ndarray, far: np.ndarray, classes: np.ndarray, prefer: str, point: Criterion
) -> tuple[np.ndarray, np.ndarray, str | None]:
    """Thresholds (M, K) that bound the accepted region if `prefer` says so; which were lifted; why.

    `far` (K,) are the scores far away from all samples, inf where they are not known.
    """
    conflict = (thresholds <= far) & np.isfinite(far)
    if prefer == "bounded" and np.any(far == np.inf):
        raise ValueError(
            "prefer='bounded', but the scores of the estimator far away from all samples are not "
            "known, so no threshold is known to bound what it accepts. Use prefer='promise', or an "
            "estimator with bounded regions."
        )
    if not conflict.any():
        return thresholds, conflict, None
    where = f"the classes {classes[conflict.any(axis=0)].tolist()!r}"
    if prefer == "bounded":
        text = (
            f"The thresholds of {where} were lifted to keep their regions bounded: the operating "
            f"point ({point}) is not kept. See promise_ and lifted_."
        )
        return np.where(conflict, far + _LIFT, thresholds), conflict, text
    text = (
        f"At the operating point ({point}) {where} accept samples however far away: bounded_ is "
        "False for them. Use prefer='bounded' to raise their thresholds, or a larger alpha."
    )
    return thresholds, np.zeros_like(conflict), text


def price_of(
    known: np.ndarray,
    categories: np.ndarray,
    unknown: np.ndarray | None,
    withheld: np.ndarray | None,
    thresholds: np.ndarray,
) -> dict[str, dict[str, Any]]:
    """Shares rejected before and after thresholds (M, K) of M categories.

    `known` (n, K), with category indices (n,), and `unknown` (m, K) are scores before; `withheld`
    are the ``withheld_scores_`` of a search. Unknown samples are of each category as often as
    known ones.
    """
    shares = _rejected(known, 0.0), _rejected(known, thresholds[categories])
    price = {"known": _entry(*shares, f"{len(known)} calibration samples")}
    if unknown is not None:
        source = f"{len(unknown)} unknown samples that were passed"
        weights = np.bincount(categories, minlength=len(thresholds)) / len(categories)
        after = weights @ [_rejected(unknown, t) for t in thresholds]
        return price | {"unknown": _entry(_rejected(unknown, 0.0), after, source)}
    if withheld is None:
        return price | {"unknown": {"before": None, "after": None, "source": "not known"}}
    common = thresholds[0, 0]
    if np.any(thresholds != common):  # the one threshold that rejects as many known samples
        common = np.quantile(known.max(axis=1), shares[1])
    return price | {"unknown": _entry(np.mean(withheld < 0), np.mean(withheld < common), _WITHHELD)}


def _rejected(scores, thresholds):
    return np.mean((scores - thresholds).max(axis=1) < 0)


def _entry(before, after, source: str) -> dict[str, Any]:
    return {"before": float(before), "after": float(after), "source": source}


def lost_rejection(price: dict, point: Criterion) -> str | None:
    """The warning where few unknown samples are rejected any more."""
    known, unknown = price["known"], price["unknown"]
    if unknown["before"] is None or not unknown["after"] < unknown["before"]:
        return None
    if unknown["after"] > _LOW + _MARGIN * (unknown["source"] == _WITHHELD):
        return None
    return (
        f"At the operating point ({point}) the share of unknown samples that are rejected falls "
        f"from {unknown['before']:.1%} to {unknown['after']:.1%} ({unknown['source']}); "
        f"{known['before']:.1%} of the known samples were rejected before, {known['after']:.1%} "
        f"are now. {point.remedy}"
    )


def hardly_bounded(
    thresholds: np.ndarray, far: np.ndarray, typical: float, classes: np.ndarray, point: Criterion
) -> str | None:
    """The warning where thresholds (M, K) were lowered nearly to the scores far away, (K,).

    `typical` is the median of the highest scores of the calibration samples.
    """
    height = np.maximum(typical - far, 0.0)
    near = (thresholds > far) & (thresholds < 0) & (thresholds - far <= _NEAR * height)
    near &= np.isfinite(far)
    if not near.any():
        return None
    return (
        f"At the operating point ({point}) the thresholds of the classes "
        f"{classes[near.any(axis=0)].tolist()!r} are hardly above the score far away from all "
        f"samples: samples unlike any known one may be accepted. {point.remedy}"
    )
