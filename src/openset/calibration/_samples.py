"""Samples that fit, that calibrate, that are strangers; and the thresholds from their scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold, train_test_split
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..base import OpenSetClassifier
from ..metrics import encode_labels
from ._conformal import finite_scores
from ._criterion import CalibrationScores, Criterion, Thresholds

# Scores closer than the band count as equal: those of equal samples may differ by rounding. It is
# _BAND and _SAFETY times the largest difference, over _LOOKUPS samples, between the score of a
# sample alone and in a batch.
_BAND = 1e-6
_SAFETY = 10.0
_LOOKUPS = 16

# Folds of classes that are withheld one after the other.
_FOLDS = 5


def check_not_fitted(estimator: BaseEstimator) -> None:
    """Raise ValueError if an estimator that is to be fitted here is fitted already."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return
    raise ValueError(
        f"estimator={type(estimator).__name__} is fitted already, and fit would train it "
        "again. To calibrate it as it is, pass FrozenEstimator(estimator) (of sklearn.frozen) "
        "and samples that it has not seen. To have it trained here, pass it unfitted, for "
        "instance clone(estimator), and all the samples."
    )


def split_rows(
    y: np.ndarray,
    known: np.ndarray,
    size: float,
    stratify: bool,
    random_state: Any,
    groups: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to calibrate, a share `size` of all; every known class is fitted.

    A group is never on both sides.
    """
    labels, first, inverse = np.unique(y, return_index=True, return_inverse=True)
    single = np.bincount(inverse) < 2
    n_rest = int(np.ceil(size * len(y)))
    if stratify and single.any():
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
    if groups is not None:
        n_parts = min(max(2, round(1 / size)), len(np.unique(groups)))
        if n_parts < 2:
            raise ValueError(
                "groups has one group, which can be used either to fit or to calibrate. Give "
                "samples of more groups, or calibrate a fitted estimator: FrozenEstimator."
            )
        parts = StratifiedGroupKFold(n_parts, shuffle=True, random_state=random_state)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            fit, rest = next(parts.split(y, first[inverse], groups))
    else:
        fit, rest = train_test_split(
            np.arange(len(y)),
            test_size=size,
            stratify=first[inverse] if stratify else None,  # whatever the names are
            random_state=random_state,
        )
    lost = np.setdiff1d(y[known], y[fit])
    if lost.size:
        raise ValueError(
            f"All samples of {lost.tolist()!r} were drawn for calibration and none is left to "
            f"fit. Give more samples, or lower calibration_size={size!r}."
        )
    return fit, rest


def encode_known(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Indices of the labels among the classes of the estimator; all of them must be known."""
    codes = encode_labels(y, classes)
    strange = codes == len(classes)
    if strange.any():
        raise ValueError(
            f"y has labels that the estimator does not know: {np.unique(y[strange]).tolist()!r}"
            f" are not among its classes {classes.tolist()!r}. Calibrate with known "
            "classes only; samples of others can be passed as X_unknown."
        )
    return codes


def withheld_scores(
    estimator: BaseEstimator, X: Any, y: np.ndarray, known: np.ndarray, fit_rows, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Highest scores of known classes by models that have not seen them, and class indices, (m,).

    The classes are withheld in folds; each model is fitted to the fitting rows of the others.
    """
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            "StrangersAccepted needs X_unknown and unknown_groups in fit, strangers with their "
            "identities: a fitted model cannot withhold classes. Or pass the estimator unfitted, "
            "for an estimate from known classes that are withheld."
        )
    classes, codes = np.unique(y[known], return_inverse=True)
    if len(classes) < 3:
        raise ValueError(
            f"StrangersAccepted without X_unknown withholds known classes; {len(classes)} are too "
            "few. Pass X_unknown and unknown_groups, strangers with their identities."
        )
    n_folds = min(_FOLDS, len(classes))
    fold_of = check_random_state(random_state).permutation(np.arange(len(classes)) % n_folds)
    fold = np.full(len(y), -1)  # known unknowns are fitted in every fold, and never scored
    fold[known] = fold_of[codes]
    scores = np.empty(len(y))
    for k in range(n_folds):
        rows = fit_rows[fold[fit_rows] != k]
        model = clone(estimator).fit(_safe_indexing(X, rows), y[rows])
        withheld = np.flatnonzero(fold == k)
        scores[withheld] = model.decision_function(_safe_indexing(X, withheld)).max(axis=1)
    return scores[known], codes


def check_unseen(model: Any, Z_unknown: Any, known_unknowns: Any, X_unknown: Any) -> None:
    """Raise ValueError if strangers are among the known unknowns that the model was fitted to.

    `Z_unknown` are the strangers as the model sees them; `known_unknowns` were passed with y.
    """
    kept = model.kept_samples() if getattr(model, "n_known_unknowns_", 0) else None
    pairs = [(X_unknown, known_unknowns)]
    if kept is not None:
        pairs.append((Z_unknown, kept[0]))
    for strangers, seen in pairs:
        n_seen = _n_shared_rows(strangers, seen)
        if n_seen:
            raise ValueError(
                f"{n_seen} samples of X_unknown are known unknowns that the model was fitted to; "
                "a model rejects what it has seen. Pass strangers that are new to it."
            )


def _n_shared_rows(first: Any, second: Any) -> int:
    """Number of rows of one numeric matrix that are rows of another; 0 for other data."""
    dense = [m.toarray() if sparse.issparse(m) else np.asarray(m) for m in (first, second)]
    if any(m.ndim != 2 or m.dtype.kind not in "iuf" or not m.size for m in dense):
        return 0
    rows = [[row.tobytes() for row in np.asarray(m, dtype=np.float64)] for m in dense]
    return len(set(rows[0]) & set(rows[1]))


def check_given(point: Criterion, given: dict, y, X_unknown):
    """groups (n,) and unknown_groups (m,) as indices, and categories (n,); None where not given."""
    arrays: dict[str, Any] = {k: None if v is None else np.asarray(v) for k, v in given.items()}
    for name, values in arrays.items():
        if values is not None and name not in point.takes:
            raise ValueError(f"{name} was passed, but {point} does not use it. Leave it out.")
        rows = X_unknown if name == "unknown_groups" else y
        if values is not None and rows is None:
            raise ValueError("unknown_groups was passed without X_unknown, whose samples it names.")
        if values is not None:
            check_consistent_length(rows, values)
    if (point.within == "category") != (arrays["categories"] is not None):
        raise ValueError(
            "KnownRejected(within='category') and categories, the category of each sample, belong "
            "together: pass both to fit, or neither."
        )
    for name in ("groups", "unknown_groups"):
        if arrays[name] is not None:
            arrays[name] = np.unique(arrays[name], return_inverse=True)[1]
    return arrays["groups"], arrays["categories"], arrays["unknown_groups"]


def settled_thresholds(point, model, transform, samples, others, whose: str) -> Thresholds:
    """Thresholds (K,) of the criterion.

    `samples` are X, class indices and groups; `others` are unknown samples, their groups, and
    highest scores of withheld classes instead of samples. Where scores are exact near the
    thresholds only, the criterion is asked again once they are nearly right.
    """
    (X, codes, groups), (X_unknown, unknown_groups, fixed) = samples, others
    n_classes = len(model.classes_)
    chosen, Z = Thresholds(np.zeros(n_classes)), transform(X)
    unknown = np.empty((0, n_classes)) if fixed is None else fixed[:, None]
    Z_unknown = None if X_unknown is None else transform(X_unknown)
    for _ in range(1 if np.isinf(model.exact_band) else 2):
        t = chosen.values
        moved = model.with_thresholds(t)
        scores = finite_scores(moved, Z)
        band = _band(moved, transform, X, scores, t)
        if Z_unknown is not None:
            unknown = finite_scores(moved, Z_unknown) + t
        far = model.far_scores()
        chosen = point.thresholds(
            CalibrationScores(
                *(scores + t, codes, unknown, model.classes_, far, band),
                *(groups, unknown_groups, whose),
            )
        )
    return chosen


def _band(model: OpenSetClassifier, transform: Callable, X, scores, thresholds) -> float:
    """Difference below which two scores near the thresholds count as equal.

    Sums in single precision, of a kernel machine or of a wrapped classifier, depend on the number
    of samples in the batch. How much depends on the model, so it is measured.
    """
    best = scores.max(axis=1)
    # Those nearest to the thresholds; among equally near ones the scores, not the order, decide.
    rows = np.lexsort([*scores.T, np.abs(best)])[:_LOOKUPS]
    alone = np.vstack([finite_scores(model, transform(_safe_indexing(X, [i]))) for i in rows])
    noise = np.abs(alone.max(axis=1) - best[rows]).max()
    size = np.abs(scores + thresholds).max(axis=1)
    typical = np.median(size) or size.max() or 1.0
    return _BAND * min(1.0, typical) + _SAFETY * noise
