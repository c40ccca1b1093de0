"""Operating points for traffic: unlabelled rows stand in for samples of unknowns.

B and A are the shares of traffic and of known rows that a rule accepts, u the estimated share of
unknown rows. Then (B - (1 - u) A) / u of the unknown rows are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ._criterion import CalibrationScores, Criterion
from ._mixture import Mixture

_RESAMPLES = 50
_MOST = 0.999  # share of unknown rows


def check_traffic(point: Criterion, X_unknown: Any) -> None:
    """Raise ValueError if a criterion cannot be used with traffic."""
    if X_unknown is not None:
        raise ValueError("X_unknown and X_traffic were passed. Pass one of them.")
    if "unknown_groups" in point.takes or point.within == "category":
        raise ValueError(
            f"{point} cannot be used with X_traffic, whose rows have no identity and no category. "
            "Leave X_traffic out."
        )
    if point.unknown_share is not None:
        raise ValueError(
            f"X_traffic was passed, but {point} states unknown_share. Leave it at None to have it "
            "estimated, or leave X_traffic out."
        )


def with_share(point: Criterion, found: Mixture) -> Criterion:
    """The criterion with the estimated share of unknown rows; ValueError if it cannot be used."""
    if found.unknown_share == 0 and point.needs_unknown:
        raise ValueError(
            f"No row of X_traffic seems to be unknown, and {point} needs some. Use KnownRejected, "
            "or pass X_unknown."
        )
    return _told(point, round(found.unknown_share, 3))


def _told(point: Criterion, share: float) -> Criterion:
    """The criterion with this unknown_share, if it has one."""
    given: dict[str, Any] = {"unknown_share": min(share, _MOST)} if point.states_share else {}
    return replace(point, **given)


def share_doubt(point: Criterion, found: Mixture) -> str | None:
    """A warning where the traffic sets the thresholds, and may hold no unknown row at all."""
    low, high = found.unknown_interval
    if low > 0 or not (point.needs_unknown or point.states_share):
        return None
    return (
        "The traffic may have no unknown rows: their estimated share is "
        f"{found.unknown_share:.1%}, with an interval from 0 to {high:.1%}. The thresholds rest on "
        "that share. Pass more traffic, state the share (unknown_share=), or use KnownRejected, "
        "which needs none."
    )


def _resampled(
    point: Criterion, scores: CalibrationScores
) -> Iterator[tuple[CalibrationScores, float | None]]:
    """Bootstrap samples, each with its share and the threshold for it, None if there is none."""
    rng = np.random.default_rng(0)
    n, n_new = len(scores.known), len(scores.unknown)
    for _ in range(_RESAMPLES):
        part = scores.take(rng.integers(n, size=n))
        part = part._replace(unknown=scores.unknown[rng.integers(n_new, size=n_new)])
        best, others = (values[:, None] for values in part.best())
        how: dict[str, Any] = {"slack": scores.band, "reason": "only the share is asked for"}
        wrong = float(np.mean(part.known.argmax(axis=1) != part.codes))
        share = Mixture.from_rows(best, others, confused=wrong, **how).unknown_share
        if not share:
            continue
        part, threshold = part._replace(share=share), None
        if point.needs_unknown:
            with suppress(ValueError):  # no threshold keeps the criterion
                threshold = _told(point, share).thresholds(part)
        yield part, threshold


def settle(point: Criterion, scores: CalibrationScores) -> Any:
    """The thresholds of a criterion; a best one on traffic is the mean of bootstrap samples."""
    chosen = point.thresholds(scores)
    if scores.share is None or not point.maximizes:
        return chosen
    # The curve is flat at its maximum: the best threshold of one sample is a noisy one.
    drawn = [t for _, t in _resampled(point, scores) if t is not None]
    if not drawn:
        return chosen
    tried = np.unique(np.concatenate(scores.best()))[::-1]
    possible = np.flatnonzero(scores.is_gap(tried))
    nearest = possible[np.abs(tried[possible] - np.mean(drawn)).argmin()]
    return scores.below(tried, int(nearest))


def traffic_price(
    point: Criterion, scores: CalibrationScores, found: Mixture, thresholds: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a model says about the traffic, and what thresholds (K,) do to its unknown rows."""
    told = {
        "rows": found.n_traffic,
        "unknown_share": found.unknown_share,
        "unknown_interval": list(found.unknown_interval),
        "unknown_at_least": found.unknown_at_least,
        "threshold_interval": None,
    }
    if found.unknown_share == 0:
        return told, {"before": None, "after": None, "source": "no unknown rows in the traffic"}
    drawn = [(_rejected(part, thresholds), t) for part, t in _resampled(point, scores)]
    samples = [share for share, _ in drawn], [t for _, t in drawn if t is not None]
    interval, told["threshold_interval"] = (
        np.quantile(values, [0.025, 0.975]).tolist() if values else None for values in samples
    )
    return told, {
        "before": _rejected(scores, np.zeros_like(thresholds)),
        "after": _rejected(scores, thresholds),
        "source": f"estimated from {found.n_traffic} rows of traffic",
        "interval": interval,
    }


def _rejected(scores: CalibrationScores, thresholds: np.ndarray) -> float:
    """Estimated share of the unknown rows of the traffic that thresholds (K,) reject."""
    parts, share = (scores.known, scores.unknown), scores.share or 0.0
    known, traffic = (np.mean((part - thresholds).max(axis=1) >= 0) for part in parts)
    return float(np.clip(1 - (traffic - (1 - share) * known) / share, 0.0, 1.0))
