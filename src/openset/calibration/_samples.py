"""The samples of a calibration: drawn, scored, checked; and what its thresholds cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ..base import OpenSetClassifier, group_codes
from ..metrics import encode_labels
from ._criterion import CalibrationScores, Criterion, width
from ._traffic import settle

# Scores closer than the band count as equal: those of equal samples may differ by rounding. It is
# _BAND and _SAFETY times the largest difference, over _LOOKUPS samples, between the score of a
# sample alone and in a batch.
_BAND, _SAFETY, _LOOKUPS = 1e-6, 10.0, 16

# How far above the score far away a threshold is raised, to bound the accepted region.
_LIFT = 1e-3

# Warned of: the share of unknown samples that are rejected falls, to _LOW or less. It covers a fall
# by half. The estimate from withheld classes may be too high, and is warned of _MARGIN earlier.
_LOW, _MARGIN = 0.5, 0.15
_WITHHELD = "classes withheld in the search"

# Warned of: a lowered threshold has come this near to the score far away, in units of the distance
# from there to the median of the calibration samples.
_NEAR = 0.05


def check_given(point: Criterion, given: dict, y, X_unknown) -> dict[str, Any]:
    """The given arrays, or None; groups (n,) and unknown_groups (m,) as indices."""
    if given["unknown_groups"] is not None and X_unknown is None:
        raise ValueError("unknown_groups was passed without X_unknown, whose samples it names.")
    given = given.copy()
    for name, values in given.items():
        if values is None:
            continue
        if name not in point.takes:
            raise ValueError(f"{name} was passed, but {point} does not use it. Leave it out.")
        n = _num_samples(X_unknown if name == "unknown_groups" else y)
        names, codes = group_codes(values, n, name)
        given[name] = names[codes] if name == "categories" else codes
    if (point.within == "category") != (given["categories"] is not None):
        raise ValueError(
            "KnownRejected(within='category') and categories, the category of each sample, belong "
            "together: pass both to fit, or neither."
        )
    return given


def split_rows(
    y: np.ndarray, known: np.ndarray, size: float, stratify: bool, random_state: Any, groups: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to calibrate, a share `size` of all; every known class is fitted."""
    labels, first, inverse = np.unique(y, return_index=True, return_inverse=True)
    of_class, n_rest = first[inverse], int(np.ceil(size * len(y)))  # whatever the names are
    if stratify and (single := np.bincount(inverse) < 2).any():
        raise ValueError(
            "KnownRejected(within='class') needs samples of each class both to fit and to "
            f"calibrate; y has 1 sample of {labels[single].tolist()!r}. Give more, or leave these "
            "classes out."
        )
    if stratify and not len(labels) <= n_rest <= len(y) - len(labels):
        raise ValueError(
            f"KnownRejected(within='class') needs samples of each of the {len(labels)} classes "
            f"both to fit and to calibrate; calibration_size={size!r} takes {n_rest} of {len(y)} "
            "samples to calibrate. Choose another size, or give more samples."
        )
    if groups is None:
        shares = {"test_size": size, "stratify": of_class if stratify else None}
        fit, rest = train_test_split(np.arange(len(y)), random_state=random_state, **shares)
    else:  # a group is never on both sides
        n_parts = min(max(2, round(1 / size)), len(np.unique(groups)))
        if n_parts < 2:
            raise ValueError(
                "groups has one group, which can be used either to fit or to calibrate. Give "
                "samples of more groups, or calibrate a fitted estimator: FrozenEstimator."
            )
        parts = StratifiedGroupKFold(n_parts, shuffle=True, random_state=random_state)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            fit, rest = next(parts.split(of_class, of_class, groups))
    if lost := np.setdiff1d(y[known], y[fit]).tolist():
        raise ValueError(
            f"All samples of {lost!r} were drawn for calibration and none is left to fit. Give "
            f"more samples, or lower calibration_size={size!r}."
        )
    return fit, rest


def encode_known(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Indices of the labels among the classes of the estimator; all of them must be known."""
    codes = encode_labels(y, classes)
    if strange := np.unique(y[codes == len(classes)]).tolist():
        raise ValueError(
            f"y has labels that the estimator does not know: {strange!r} are not among its classes "
            f"{classes.tolist()!r}. Calibrate with known classes only; samples of others can be "
            "passed as X_unknown."
        )
    return codes


def finite_scores(model: Any, Z: Any) -> np.ndarray:
    """Scores (n, K) of transformed samples; ValueError if one is not finite."""
    scores = model.decision_function(Z)
    if not np.isfinite(scores).all():
        raise ValueError(
            f"decision_function of {type(model).__name__} gives scores that are not finite; an "
            "open-set estimator never does. Run check_open_set_estimator on it."
        )
    return scores


def settled_thresholds(
    point: Criterion,
    model: OpenSetClassifier,
    transform: Callable,
    samples: tuple[Any, Any],
    given: CalibrationScores,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Thresholds (K,) of the criterion, and further attributes, for known and unknown samples."""
    # Where scores are exact near the thresholds only, the criterion is asked again once they are
    # nearly right. Unknown samples that are None have their scores already.
    X, X_unknown = samples
    t, Z = np.zeros(len(model.classes_)), transform(X)
    Z_unknown = None if X_unknown is None else transform(X_unknown)
    for _ in range(1 if np.isinf(model.exact_band) else 2):
        moved = model.with_thresholds(t)
        scores = finite_scores(moved, Z)
        # Those nearest to the thresholds; of equally near ones the scores, not the order, decide.
        best = scores.max(axis=1)
        rows = np.lexsort([*scores.T, np.abs(best)])[:_LOOKUPS]
        size = np.abs(scores + t).max(axis=1)
        typical = np.median(size) or size.max() or 1.0
        band = _BAND * min(1.0, typical)
        band += _SAFETY * _noise(moved, transform, X, best[:, None], rows)
        given = given._replace(known=scores + t, band=band)
        if Z_unknown is not None:
            given = given._replace(unknown=finite_scores(moved, Z_unknown) + t)
        t = np.full(len(t), settle(point, given))
    return t, point.attributes(given, withheld=X_unknown is None)


def score_slack(model: OpenSetClassifier, transform: Callable, X, scores: np.ndarray) -> float:
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
    known: np.ndarray, category: np.ndarray, thresholds: np.ndarray, unknown: Any, withheld: Any
) -> dict[str, dict[str, Any]]:
    """Shares rejected before and after thresholds (M, K) of M categories."""
    # `known` (n, K), with category indices (n,), and `unknown` (m, K) are scores before; `withheld`
    # are the `withheld_scores_` of a search. Unknown samples are of each category as often as known
    # ones.
    levels = np.zeros_like(thresholds), thresholds
    shares = [float(_rejected(known, t[category])) for t in levels]
    others: list[float | None] = [None, None]
    source = "not known"
    if unknown is not None:
        source = f"{len(unknown)} unknown samples that were passed"
        weights = np.bincount(category, minlength=len(thresholds)) / len(category)
        others = [float(weights @ [_rejected(unknown, t) for t in level]) for level in levels]
    elif withheld is not None:
        common, source = thresholds[0, 0], _WITHHELD
        if np.any(thresholds != common):  # the one threshold that rejects as many known samples
            common = np.quantile(known.max(axis=1), shares[1])
        others = [float(np.mean(withheld < t)) for t in (0.0, common)]
    kinds = {"known": (*shares, f"{len(known)} calibration samples"), "unknown": (*others, source)}
    return {k: dict(zip(("before", "after", "source"), v, strict=True)) for k, v in kinds.items()}


def _rejected(scores, thresholds):
    return np.mean((scores - thresholds).max(axis=1) < 0)


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
