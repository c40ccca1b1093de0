"""From the samples of a calibration to thresholds, and what these cost.

With traffic, unlabelled rows stand in for samples of unknowns. B and A are the shares of traffic
and of known rows that a rule accepts, u the estimated share of unknown rows. Then
(B - (1 - u) A) / u of the unknown rows are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length

from ..base import OpenSetClassifier, group_codes
from ..metrics import encode_labels
from ._criterion import CalibrationScores, Criterion, rejected, width
from ._mixture import Mixture

# Scores closer than the band count as equal: those of equal samples may differ by rounding. It is
# _BAND and _SAFETY times the largest difference, over _LOOKUPS samples, between the score of a
# sample alone and in a batch.
_BAND, _SAFETY, _LOOKUPS = 1e-6, 10.0, 16
_LIFT = 1e-3  # height above the score far away of a threshold that is raised to bound the region
_RESAMPLES = 50  # of the traffic

# Warned of: the share of unknown samples that are rejected falls, to _LOW or less. It covers a fall
# by half. The estimate from withheld classes may be too high, and is warned of _MARGIN earlier.
_LOW, _MARGIN = 0.5, 0.15
_WITHHELD = "classes withheld in the search"
# Warned of: a lowered threshold has come this near to the score far away, in units of the distance
# from there to the median of the calibration samples.
_NEAR = 0.05


@dataclass(frozen=True)
class Samples:
    """What a calibration is given: samples of known classes, and of unknowns or of traffic."""

    X: Any
    y: Any
    X_unknown: Any = None
    X_traffic: Any = None
    groups: Any = None
    unknown_groups: Any = None
    categories: Any = None
    for_price: bool = False  # is X_unknown, where the criterion has no use for it
    known: Any = None  # (n,) bool: not the known unknowns among X

    @property
    def others(self) -> Any:
        """Samples of unknowns, or traffic; None without."""
        return self.X_unknown if self.X_traffic is None else self.X_traffic

    def checked(self, point: Criterion) -> Samples:
        """With groups as indices; ValueError if something is missing, or of no use."""
        if self.unknown_groups is not None and self.X_unknown is None:
            raise ValueError("unknown_groups was passed without X_unknown, whose samples it names.")
        given: dict[str, Any] = {}
        for name in ("groups", "unknown_groups", "categories"):
            if (values := getattr(self, name)) is None:
                continue
            if name not in point.takes:
                raise ValueError(f"{name} was passed, but {point} does not use it. Leave it out.")
            n = _num_samples(self.X_unknown if name == "unknown_groups" else self.y)
            names, codes = group_codes(values, n, name)
            given[name] = names[codes] if name == "categories" else codes
        if (point.within == "category") != ("categories" in given):
            raise ValueError(
                "KnownRejected(within='category') and categories, the category of each sample, "
                "belong together: pass both to fit, or neither."
            )
        if self.X_traffic is None:
            point.check_unknown(self.part(point, np.arange(len(self.y))).others, self.for_price)
        else:
            point.check_traffic(self.X_unknown)
            (given["X_traffic"],) = indexable(self.X_traffic)
        return replace(self, **given)

    def part(self, point: Criterion, rows: np.ndarray) -> Samples:
        """Rows of X of known classes; the others serve as `X_unknown`, though not as strangers."""
        unknown, seen, rows = self.X_unknown, rows[~self.known[rows]], rows[self.known[rows]]
        if self.others is None and seen.size and "unknown_groups" not in point.takes:
            unknown = _safe_indexing(self.X, seen)
        values = {name: getattr(self, name) for name in ("y", "known", "groups", "categories")}
        parts: Any = {k: None if v is None else np.asarray(v)[rows] for k, v in values.items()}
        return replace(self, X=_safe_indexing(self.X, rows), X_unknown=unknown, **parts)

    def in_categories(self) -> tuple[np.ndarray | None, np.ndarray]:
        """The categories (M,), None without, and the index (n,) of that of each row of X."""
        if self.categories is None:
            return None, np.zeros(len(self.y), dtype=np.intp)
        return np.unique(self.categories, return_inverse=True)


def by_label(point: Criterion, final: Any, X, y, X_traffic, groups, categories) -> Samples:
    """Samples X, of which those that are of no class of the estimator serve as `X_unknown`."""
    check_consistent_length(X, y, groups, categories)
    more: dict[str, Any] = {"X_traffic": X_traffic, "categories": categories}
    known = encode_labels(y, final.classes_) < len(final.classes_)
    if X_traffic is None and point.needs_unknown and known.all():
        raise ValueError(
            f"criterion={point} needs unknown samples, but all labels in y are known classes."
        )
    if "unknown_groups" in point.takes:
        if groups is None and np.any(y == final.unknown_label_):
            raise ValueError(
                f"{point} needs the identity of each unknown sample, but y has the label "
                f"{final.unknown_label_!r}. Pass groups."
            )
        others = np.flatnonzero(~known)
        more["unknown_groups"] = (y if groups is None else np.asarray(groups))[others]
        more["X_unknown"] = _safe_indexing(X, others) if X_traffic is None else None
    elif "groups" in point.takes:
        more["groups"] = groups
    given = Samples(X, y, **more, for_price=True, known=known)
    return given.part(point, np.arange(len(y)))


def finite_scores(model: Any, Z: Any) -> np.ndarray:
    """Scores (n, K) of transformed samples; ValueError if one is not finite."""
    scores = model.decision_function(Z)
    if not np.isfinite(scores).all():
        raise ValueError(
            f"decision_function of {type(model).__name__} gives scores that are not finite; an "
            "open-set estimator never does. Run check_open_set_estimator on it."
        )
    return scores


def thresholds_of(point: Criterion, model, transform, samples: Samples, given: CalibrationScores):
    """Thresholds (M, K) of the criterion for M categories, and attributes of the fitted model."""
    names, category = samples.in_categories()
    ask = point.needs_unknown and samples.others is not None
    Z_unknown = transform(samples.others) if ask else None
    parts: Any = [(np.arange(len(category)), given)]
    if names is not None:
        parts = given.parts(category, "category", names)
    chosen = []
    for rows, part in parts:
        X = _safe_indexing(samples.X, rows)
        t, part = _settled(point, model, transform, X, Z_unknown, part)
        chosen.append(t)
    return np.stack(chosen), point.attributes(part, withheld=not ask)


def _settled(point, model, transform, X, Z_unknown, given):
    """Thresholds (K,) for samples X of a category, and the scores that are compared with them."""
    # Where scores are exact near the thresholds only, the criterion is asked again once they are
    # nearly right. Unknown samples that are None have their scores already.
    t, Z = np.zeros(len(model.classes_)), transform(X)
    for _ in range(1 if np.isinf(model.exact_band) else 2):
        moved = model.with_thresholds(t)
        scores = finite_scores(moved, Z)
        # Those nearest to the thresholds; of equally near ones the scores, not the order, decide.
        best = scores.max(axis=1)
        rows = np.lexsort([*scores.T, np.abs(best)])[:_LOOKUPS]
        size = np.abs(scores + t).max(axis=1)
        band = _BAND * min(1.0, np.median(size) or size.max() or 1.0)
        band += _SAFETY * _noise(moved, transform, X, best[:, None], rows)
        given = given._replace(known=scores + t, band=band)
        if Z_unknown is not None:
            given = given._replace(unknown=finite_scores(moved, Z_unknown) + t)
        t = np.full(len(t), _choose(point, given))
    return t, given


def _choose(point: Criterion, scores: CalibrationScores) -> Any:
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


def _resampled(point, scores) -> Iterator[tuple[CalibrationScores, float | None]]:
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
                threshold = point.with_share(share).thresholds(part)
        yield part, threshold


def score_slack(model: OpenSetClassifier, transform, X, scores: np.ndarray) -> float:
    """Difference below which two scores count as equal; `scores` are those of X in one batch."""
    rows = np.unique(np.linspace(0, len(scores) - 1, _LOOKUPS).astype(int))
    largest = max(1.0, np.abs(scores).max())
    return float(width(largest, 0.0) + 2 * _noise(model, transform, X, scores, rows))


def _noise(model, transform, X, scores, rows) -> float:
    """Largest difference of scores (n, K), or highest ones (n, 1), of rows alone and in a batch."""
    # Sums in single precision, of a kernel machine or of a wrapped classifier, depend on the number
    # of samples in the batch. How much depends on the model, so it is measured.
    singles = (_safe_indexing(X, row) for row in rows[:, None])  # polars takes no list of np.intp
    alone = np.vstack([finite_scores(model, transform(single)) for single in singles])
    if scores.shape[1] == 1:
        alone = alone.max(axis=1, keepdims=True)
    return np.abs(alone - scores[rows]).max()


def lift(thresholds: np.ndarray, far: np.ndarray, prefer: str) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds (M, K), lifted to bound the accepted region if `prefer` says so; which were."""
    if prefer == "promise":
        return thresholds, np.zeros(thresholds.shape, dtype=bool)
    if np.any(far == np.inf):
        raise ValueError(
            "prefer='bounded', but the scores of the estimator far away from all samples are not "
            "known, so no threshold is known to bound what it accepts. Use prefer='promise', or an "
            "estimator with bounded regions."
        )
    lifted = (thresholds <= far) & np.isfinite(far)
    return np.where(lifted, far + _LIFT, thresholds), lifted


def price_of(
    given: CalibrationScores, category: np.ndarray, thresholds: np.ndarray, withheld: Any
) -> dict[str, dict[str, Any]]:
    """Shares rejected before and after thresholds (M, K); known rows are of categories (n,)."""
    # Unknown samples are of each category as often as known ones. Without any there may be
    # `withheld`, scores of classes that the search which chose the model has withheld.
    levels, n = (np.zeros_like(thresholds), thresholds), len(given.unknown)
    known = [rejected(given.known, t[category]) for t in levels]
    unknown: list[float | None] = [None, None]
    source = "not known"
    if given.share == 0:
        source = "no unknown rows in the traffic"
    elif n:
        traffic = f"estimated from {n} rows of traffic"
        source = f"{n} unknown samples that were passed" if given.share is None else traffic
        weights = np.bincount(category, minlength=len(thresholds)) / len(category)
        unknown = [float(weights @ [given.unknown_rejected(t) for t in level]) for level in levels]
    elif withheld is not None:
        common, source = thresholds[0, 0], _WITHHELD
        if np.any(thresholds != common):  # the one threshold that rejects as many known samples
            common = np.quantile(given.known.max(axis=1), known[1])
        unknown = [float(np.mean(withheld < t)) for t in (0.0, common)]
    names, of_known = ("before", "after", "source"), f"{len(category)} calibration samples"
    return {
        "known": dict(zip(names, (*known, of_known), strict=True)),
        "unknown": dict(zip(names, (*unknown, source), strict=True)),
    }


def traffic_told(
    point: Criterion, scores: CalibrationScores, found: Mixture, thresholds: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a model says about the traffic, and of the price of thresholds (K,) the interval."""
    told = {
        "rows": found.n_traffic,
        "unknown_share": found.unknown_share,
        "unknown_interval": list(found.unknown_interval),
        "unknown_at_least": found.unknown_at_least,
        "threshold_interval": None,
    }
    if found.unknown_share == 0:
        return told, {}
    drawn = [(part.unknown_rejected(thresholds), t) for part, t in _resampled(point, scores)]
    samples = [share for share, _ in drawn], [t for _, t in drawn if t is not None]
    interval, told["threshold_interval"] = (
        np.quantile(values, [0.025, 0.975]).tolist() if values else None for values in samples
    )
    return told, {"interval": interval}


def traffic_doubts(point: Criterion, found: Mixture) -> Iterator[str]:
    """Warnings: the traffic is not what it should be, or may hold no unknown row at all."""
    if found.warning is not None:
        yield found.warning
    low, high = found.unknown_interval
    if low == 0 and (point.needs_unknown or point.states_share):
        yield (
            "The traffic may have no unknown rows: their estimated share is "
            f"{found.unknown_share:.1%}, with an interval from 0 to {high:.1%}. The thresholds "
            "rest on that share. Pass more traffic, state the share (unknown_share=), or use "
            "KnownRejected, which needs none."
        )


def doubts(
    point: Criterion, given: CalibrationScores, thresholds: np.ndarray, lifted: np.ndarray, price
) -> Iterator[str]:
    """Warnings about thresholds (M, K), some lifted: what they accept that they should reject."""
    unbounded = (thresholds <= given.far) & np.isfinite(given.far)
    if lifted.any():
        yield (
            f"The thresholds of {_named(given, lifted)} were lifted to keep their regions bounded: "
            f"the operating point ({point}) is not kept. See promise_ and lifted_."
        )
    elif unbounded.any():
        yield (
            f"At the operating point ({point}) {_named(given, unbounded)} accept samples however "
            "far away: bounded_ is False for them. Use prefer='bounded' to raise their thresholds, "
            "or a larger alpha."
        )
    known, unknown = price["known"], price["unknown"]
    before, after, low = unknown["before"], unknown["after"], _LOW
    if unknown["source"] == _WITHHELD:
        low += _MARGIN
    if before is not None and after < before and after <= low:
        yield (
            f"At the operating point ({point}) the share of unknown samples that are rejected "
            f"falls from {before:.1%} to {after:.1%} ({unknown['source']}); {known['before']:.1%} "
            f"of the known samples were rejected before, {known['after']:.1%} are now. "
            f"{point.remedy}"
        )
    height = thresholds - given.far
    near = ~lifted & ~unbounded & (thresholds < 0) & np.isfinite(given.far)
    near &= height <= _NEAR * np.maximum(np.median(given.best()[0]) - given.far, 0.0)
    if near.any():
        yield (
            f"At the operating point ({point}) the thresholds of {_named(given, near)} are hardly "
            "above the score far away from all samples: samples unlike any known one may be "
            f"accepted. {point.remedy}"
        )


def _named(given: CalibrationScores, which: np.ndarray) -> str:
    return f"the classes {given.classes[which.any(axis=0)].tolist()!r}"
