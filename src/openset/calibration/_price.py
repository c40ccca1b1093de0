"""The price of an operating point: the shares of known and of unknown samples that are rejected."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

# Warned of: the share of unknown samples that are rejected falls, to this or less. It covers a fall
# by half.
_LOW = 0.5

# The estimate from withheld classes may be too high, and is warned of this much earlier.
_WITHHELD = "classes withheld in the search"
_MARGIN = 0.15

# Warned of: a lowered threshold has come this near to the score far away, in units of the distance
# from there to the median of the calibration samples.
_NEAR = 0.05


def price_of(
    known: np.ndarray, unknown: np.ndarray | None, withheld: np.ndarray | None, t: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Shares rejected before and after thresholds t (K,), and where they come from.

    `known` (n, K) and `unknown` (m, K) are scores before; `withheld` are the ``withheld_scores_``
    of a search.
    """
    shares = _rejected(known, t)
    price = {"known": _entry(shares, f"{len(known)} calibration samples")}
    if unknown is not None:
        source = f"{len(unknown)} unknown samples that were passed"
        return price | {"unknown": _entry(_rejected(unknown, t), source)}
    if withheld is None:
        return price | {"unknown": {"before": None, "after": None, "source": "not known"}}
    common = t[0]
    if np.any(t != common):  # the one threshold that rejects as many known samples
        common = np.quantile(known.max(axis=1), shares[1])
    shares = np.mean(withheld < 0), np.mean(withheld < common)
    return price | {"unknown": _entry(shares, _WITHHELD)}


def _rejected(scores, t):
    return [np.mean((scores - moved).max(axis=1) < 0) for moved in (0.0, t)]


def _entry(shares, source: str) -> dict[str, Any]:
    before, after = map(float, shares)
    return {"before": before, "after": after, "source": source}


def warn_of_price(price: dict, remedy: str, point: str, stacklevel: int) -> None:
    """Warn where few unknown samples are rejected any more."""
    known, unknown = price["known"], price["unknown"]
    if unknown["before"] is None or not unknown["after"] < unknown["before"]:
        return
    if unknown["after"] <= _LOW + _MARGIN * (unknown["source"] == _WITHHELD):
        warnings.warn(
            f"At the operating point ({point}) the share of unknown samples that are rejected "
            f"falls from {unknown['before']:.1%} to {unknown['after']:.1%} ({unknown['source']}); "
            f"{known['before']:.1%} of the known samples were rejected before, "
            f"{known['after']:.1%} are now. {remedy}",
            stacklevel=stacklevel + 1,
        )


def warn_of_far_away(
    thresholds: np.ndarray,
    far: np.ndarray,
    typical: float,
    classes: np.ndarray,
    remedy: str,
    point: str,
    stacklevel: int,
) -> None:
    """Warn where thresholds (K,) were lowered nearly to the scores far away, (K,).

    `typical` is the median of the highest scores of the calibration samples.
    """
    height = np.maximum(typical - far, 0.0)
    near = (thresholds > far) & (thresholds < 0) & (thresholds - far <= _NEAR * height)
    near &= np.isfinite(far)
    if near.any():
        warnings.warn(
            f"At the operating point ({point}) the thresholds of the classes "
            f"{classes[near].tolist()!r} are hardly above the score far away from all samples: "
            f"samples unlike any known one may be accepted. {remedy}",
            stacklevel=stacklevel + 1,
        )
