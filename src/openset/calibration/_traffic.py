"""Operating points for traffic: unlabelled rows stand in for samples of unknowns.

B and A are the shares of traffic and of known rows that a rule accepts, u the estimated share of
unknown rows. Then (B - (1 - u) A) / u of the unknown rows are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ._criterion import CalibrationScores, Criterion
from ._mixture import Mixture

_RESAMPLES = 50
_MOST = 0.999  # share of unknown rows


def with_share(point: Criterion, found: Mixture) -> Criterion:
    """The criterion with the estimated share of unknown rows; ValueError if it cannot be used."""
    if point.states_share and point.unknown_share is not None:
        raise ValueError(
            f"X_traffic was passed, but {point} states unknown_share. Leave it at None to have it "
            "estimated, or leave X_traffic out."
        )
    if found.unknown_share == 0 and point.needs_unknown:
        raise ValueError(
            f"No row of X_traffic seems to be unknown, and {point} needs some. Use KnownRejected, "
            "or pass X_unknown."
        )
    if not point.states_share:
        return point
    return _told(point, round(found.unknown_share, 3))


def _told(point: Criterion, share: float) -> Criterion:
    """A criterion that has an unknown_share, with this one."""
    given: dict[str, Any] = {"unknown_share": min(share, _MOST)}
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


def accepted_unknown(traffic: np.ndarray, known: np.ndarray, n_known: int, share: float):
    """Estimated unknown rows among the accepted ones (m,) of traffic, from strict to lenient."""
    n = traffic[-1]
    estimate = traffic - (1 - share) * n * known / n_known
    return np.maximum.accumulate(np.clip(estimate, 0.0, share * n))


def check_traffic(point: Criterion, X_unknown: Any) -> None:
    """Raise ValueError if a criterion cannot be used with traffic."""
    if X_unknown is not None:
        raise ValueError("X_unknown and X_traffic were passed. Pass one of them.")
    if "unknown_groups" in point.takes or point.within == "category":
        raise ValueError(
            f"{point} cannot be used with X_traffic, whose rows have no identity and no category. "
            "Leave X_traffic out."
        )


def traffic_price(
    point: Criterion, scores: CalibrationScores, found: Mixture, thresholds: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a model says about the traffic, and what thresholds (K,) do to its unknown rows."""
    share = found.unknown_share
    told = {
        "rows": found.n_traffic,
        "unknown_share": share,
        "unknown_interval": list(found.unknown_interval),
        "unknown_at_least": found.unknown_at_least,
        "threshold_interval": None,
    }
    if share == 0:
        return told, {"before": None, "after": None, "source": "no unknown rows in the traffic"}
    intervals = _intervals(point, scores, thresholds)
    told["threshold_interval"] = intervals.get("threshold")
    before, after = (_rejected(scores, t, share) for t in (np.zeros_like(thresholds), thresholds))
    source = f"estimated from {found.n_traffic} rows of traffic"
    price = {"before": before, "after": after, "source": source}
    return told, price | {"interval": intervals.get("unknown")}


def _rejected(scores: CalibrationScores, thresholds: np.ndarray, share: float) -> float:
    """Estimated share of the unknown rows of the traffic that thresholds (K,) reject."""
    known, traffic = (
        np.mean((s - thresholds).max(axis=1) >= 0) for s in (scores.known, scores.unknown)
    )
    return float(np.clip(1 - (traffic - (1 - share) * known) / share, 0.0, 1.0))


def resampled(scores: CalibrationScores) -> Iterator[CalibrationScores]:
    """Bootstrap samples of calibration rows and traffic, each with its estimated share."""
    rng = np.random.default_rng(0)
    n, n_new = len(scores.known), len(scores.unknown)
    for _ in range(_RESAMPLES):
        rows, new = rng.integers(n, size=n), rng.integers(n_new, size=n_new)
        known, traffic = scores.known[rows], scores.unknown[new]
        best = known.max(axis=1, keepdims=True), traffic.max(axis=1, keepdims=True)
        found = Mixture.from_rows(*best, slack=scores.band, reason="only the share is asked for")
        if found.unknown_share:
            yield scores._replace(
                known=known,
                codes=scores.codes[rows],
                unknown=traffic,
                share=found.unknown_share,
            )


def drawn_threshold(point: Criterion, part: CalibrationScores) -> list[float]:
    """The threshold that a criterion sets on a bootstrap sample; empty if none keeps it."""
    again = _told(point, part.share or 0.0) if point.unknown_share else point
    try:
        return again.thresholds(part).values[:1].tolist()
    except ValueError:
        return []


def _intervals(
    point: Criterion, scores: CalibrationScores, thresholds: np.ndarray
) -> dict[str, list[float]]:
    """Bootstrap intervals: of the threshold, if traffic sets it, and of rejected unknown rows."""
    drawn: dict[str, list[float]] = {"threshold": [], "unknown": []}
    for part in resampled(scores):
        drawn["unknown"].append(_rejected(part, thresholds, part.share or 0.0))
        if point.needs_unknown:
            drawn["threshold"] += drawn_threshold(point, part)
    return {k: np.quantile(v, [0.025, 0.975]).tolist() for k, v in drawn.items() if v}
