"""Checks of what is passed to fit and predict: samples, weights, labels and the unknown label."""

from __future__ import annotations

import itertools
import sys
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, assert_all_finite, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from ..solver.points import with_sorted_indices
from ..utils import refuse_masked
from .fitted import check_compressed, require


class TrainingData(NamedTuple):
    """What remains of the arguments of fit after validation; rows of weight zero are dropped."""

    X: Any  # ndarray or CSR matrix of shape (m, d), float64
    codes: np.ndarray  # (m,) index of each label in classes_; K for known unknowns
    weight: np.ndarray  # (m,) float64
    rows: np.ndarray  # (m,) index of each row in the X that was passed


def validate_training_data(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    *,
    accept_sparse: bool | str = False,
    min_classes: int = 1,
) -> TrainingData:
    """Validate the arguments of fit; set the attributes that describe the labels.

    These are ``classes_``, ``unknown_label_`` and ``n_known_unknowns_``. Known unknowns are refused
    unless ``traits.known_unknowns`` says how the method uses them.

    Parameters
    ----------
    estimator : OpenSetClassifier
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), default=None
    accept_sparse : bool or str, default=False
        As for :func:`sklearn.utils.check_array`.
    min_classes : int, default=1
        Fewest classes that the method is defined for; known unknowns count as one.

    Returns
    -------
    TrainingData
        X, codes, weight and rows.
    """
    _require_labels(estimator, y)
    X, y = validate_data(estimator, canonical(X), y, accept_sparse=accept_sparse, dtype=np.float64)
    X, y, weight, rows = _weighted(X, y, sample_weight)
    codes = set_labels(estimator, y, min_classes)
    vars(estimator)["_prepared"] = []  # see OpenSetClassifier.prepared
    return TrainingData(X, codes, weight, rows)


def validate_targets(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: ArrayLike | None = None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """X, y and weights or None, validated for an estimator that passes X on unchanged to others."""
    _require_labels(estimator, y)
    X, y = indexable(canonical(X), y)
    if len(y) == 0:
        raise ValueError("Found 0 samples in X and y; at least one is required.")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    X, y, weight, _ = _weighted(X, y, sample_weight)
    return X, y, None if sample_weight is None else weight


def validate_samples(estimator: BaseEstimator, X: Any, *, accept_sparse: bool | str = False) -> Any:
    """Validate the argument of a prediction method of a fitted estimator.

    Parameters
    ----------
    estimator : OpenSetClassifier
    X : array-like or sparse matrix of shape (n, d)
    accept_sparse : bool or str, default=False
        As for :func:`sklearn.utils.check_array`.

    Returns
    -------
    ndarray or CSR matrix of shape (n, d), float64
    """
    check_is_fitted(estimator)
    refuse_ensembles(estimator)
    X = canonical(X)
    return validate_data(estimator, X, accept_sparse=accept_sparse, dtype=np.float64, reset=False)


def canonical(X: Any) -> Any:
    """Sparse X as CSR with sorted indices and one stored number per cell; others as they are."""
    refuse_masked("X", X)
    if not sparse.issparse(X):
        return X
    _check_sparse(X)
    if X.format in ("csr", "csc", "bsr"):
        # Rebuilt, as flags kept by the matrix may be out of date; its arrays are shared.
        X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    X = with_sorted_indices(X.tocsr())
    if X.count_nonzero() < X.nnz:
        X = X.copy()
        X.eliminate_zeros()
    return X


def _check_sparse(X):
    """Raise ValueError if a sparse matrix has indices out of range, which compiled code follows."""
    try:
        if X.format in ("csr", "csc"):
            check_compressed("X", X)
        elif X.format == "bsr":
            X.check_format(full_check=True)
        elif X.format == "coo":
            for at, size in zip(X.coords, X.shape, strict=True):
                fits = len(at) == len(X.data) and at.min(initial=0) >= 0
                require(fits and at.max(initial=-1) < size, "X has coordinates out of range")
        elif X.format == "lil":
            check_compressed("X", X.tocsr())
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{error}: X is a damaged sparse matrix of format {X.format}; build it again from "
            "(data, (row, column))."
        ) from error


# Meta-estimators that number the classes 0 to K - 1, so that -1, unknown, is their last class.
_CLOSED_SET = (
    "sklearn.calibration",
    "sklearn.ensemble",
    "sklearn.model_selection._classification_threshold",
    "sklearn.multiclass",
    "imblearn.ensemble",
)
_BETWEEN = ("openset.", "sklearn.", "joblib.", "imblearn.")


def refuse_ensembles(estimator: BaseEstimator) -> None:
    """Raise TypeError where an ensemble that knows no unknown fits or asks the estimator."""
    # Nothing else tells an estimator who calls it, and the answers would be wrong without a word.
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_CLOSED_SET):
            name = type(estimator).__name__
            raise TypeError(
                f"{name} cannot be used inside an ensemble or meta-estimator of "
                f"{module.partition('._')[0]}: it knows only the classes of y and would turn "
                "unknown into one of them. Put the ensemble inside, for example "
                f"ThresholdRejector(BaggingClassifier(...)), or use {name} alone: it separates "
                "many classes, and CalibratedRejector calibrates it."
            )
        if not module.startswith(_BETWEEN):  # whoever wrote this looks after the answers
            return
        frame = frame.f_back


def _require_labels(estimator, y):
    refuse_ensembles(estimator)
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    refuse_masked("y", y)
    check_labels(y)


def _weighted(X, y, sample_weight):
    """X, y and the weights of the rows whose weight is positive, and these rows."""
    # Each class twice: one sample per class is no sign of a regression, as scikit-learn warns.
    check_classification_targets(np.repeat(np.unique(y), 2))
    refuse_masked("sample_weight", sample_weight)
    like = np.empty((len(y), 0))  # X may be no array
    weight = _check_sample_weight(sample_weight, like, dtype=np.float64, ensure_non_negative=True)
    rows = np.flatnonzero(weight)
    if rows.size == 0:
        raise ValueError("sample_weight is zero for every sample; give at least one a weight.")
    if len(rows) < len(y):
        X, y, weight = _safe_indexing(X, rows), y[rows], weight[rows]
    return X, y, weight, rows


def check_labels(y: Any) -> None:
    """Raise ValueError unless y holds strings only, or numbers only in a numeric dtype."""
    listed = isinstance(y, list | tuple)
    labels = np.asarray(y, dtype=object if listed else None)  # a list keeps 1 and "1" apart
    if labels.ndim != 1 or labels.size == 0 or labels.dtype.kind in "biufcU":
        return
    if labels.dtype.kind != "O":
        raise ValueError(f"Unknown label type: y has dtype {labels.dtype}. Convert it to strings.")
    is_text = {type(label).__name__: isinstance(label, str) for label in labels}
    if all(is_text.values()):
        _check_strings(labels, np.asarray(y))
    elif any(is_text.values()) or not listed:
        raise ValueError(
            f"Unknown label type: y is an array of objects of types {sorted(is_text)}. Convert all "
            "of them to strings, or y to an array of numbers; a missing label is neither."
        )


def _check_strings(labels, stored):
    """Raise ValueError unless an array keeps the strings; NumPy cuts Enums and zero bytes."""
    for label, kept in zip(labels.tolist(), stored.tolist(), strict=True):
        if label != kept:
            raise ValueError(
                f"Unknown label type: in an array of strings {label!r} would become {kept!r}. "
                "Convert y to plain strings."
            )


def set_labels(estimator: BaseEstimator, y: np.ndarray, min_classes: int = 1) -> np.ndarray:
    """Set ``classes_``, ``unknown_label_``, ``n_known_unknowns_``; return the codes (n,) of y."""
    name, label = type(estimator).__name__, estimator.unknown_label
    classes, codes = known_classes(label, y)
    count = int(np.sum(codes == len(classes)))
    traits = getattr(estimator, "traits", None)
    if count and not getattr(traits, "known_unknowns", ""):
        reason = (
            "each of its machines is trained on the samples of one class alone"
            if getattr(traits, "one_class", False)
            else "its definition has no use for samples of no class"
        )
        raise ValueError(
            f"{name} cannot learn from the {count} rows of y that carry unknown_label={label!r}: "
            f"{reason}. Leave them out, or pass them to CalibratedRejector as X_unknown."
        )
    if len(classes) + (count > 0) < min_classes:
        explicit = not _is_auto(label)
        hint = f" No row carries unknown_label={label!r}." if explicit else ""
        raise ValueError(
            f"{name} needs at least {min_classes} classes; y has {len(classes)} class: "
            f"{classes.tolist()!r}.{hint}"
        )
    estimator.classes_ = classes
    estimator.unknown_label_ = resolve_unknown_label(label, classes)
    estimator.n_known_unknowns_ = count
    return codes


def known_classes(unknown_label: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes (K,) of y (n,), and the codes of all labels; K for known unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import known_classes
    >>> known_classes("oos", np.array(["pay", "oos", "call", "pay"]))
    (array(['call', 'pay'], dtype='<U4'), array([1, 2, 0, 1]))
    """
    classes, codes = np.unique(y, return_inverse=True)
    unknown = find_unknown_label(unknown_label, classes)
    if unknown < 0:
        return classes, codes
    if len(classes) == 1:
        raise ValueError(
            f"y has no class: all {len(y)} rows carry unknown_label={unknown_label!r}, which is "
            "the label of the unknown. Add rows of at least one known class."
        )
    codes = np.where(codes == unknown, len(classes) - 1, codes - (codes > unknown))
    return np.delete(classes, unknown), codes


def find_unknown_label(unknown_label: Any, labels: np.ndarray) -> int:
    """Index of an explicit unknown label in sorted labels; -1 where it is missing or "auto".

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import find_unknown_label
    >>> find_unknown_label("oos", np.array(["balance", "oos", "transfer"]))
    1
    >>> find_unknown_label("auto", np.array(["auto", "bus"]))
    -1
    """
    if _is_auto(unknown_label):
        return -1
    values = labels.tolist()
    same_kind = isinstance(unknown_label, str if isinstance(values[0], str) else Real)
    return values.index(unknown_label) if same_kind and unknown_label in values else -1


def group_codes(groups: Any, n: int, name: str = "groups") -> tuple[np.ndarray, np.ndarray]:
    """Sorted groups, and the index (n,) of the group of each of n rows; `name` is for messages.

    Examples
    --------
    >>> from openset.base import group_codes
    >>> group_codes(["b", "a", "b"], 3)
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    values = np.asarray(groups)
    if values.shape != (n,):
        raise ValueError(
            f"{name} has shape {values.shape}, which is inconsistent with {n} rows. Pass one for "
            "each row."
        )
    missing = np.array([v is None or v != v for v in values.tolist()], dtype=bool)
    if missing.any():
        raise ValueError(
            f"{name}[{missing.argmax()}] is missing; rows without one would count as one of "
            "them. Name it for each row, or leave these rows out."
        )
    try:
        names, codes = np.unique(values, return_inverse=True)
    except TypeError:  # no order
        kinds = sorted({type(v).__name__ for v in values.tolist()})
        raise ValueError(f"{name} mixes {' and '.join(kinds)}; use one type for all.") from None
    return names, codes


def takes_known_unknowns(estimator: BaseEstimator, unknown_label: Any) -> bool:
    """Whether the label is the explicit unknown label and its rows are learnt from.

    Examples
    --------
    >>> from openset import MulticlassSVDD, OpenSetSVC
    >>> from openset.base import takes_known_unknowns
    >>> takes_known_unknowns(OpenSetSVC(unknown_label="oos"), "oos")
    True
    >>> takes_known_unknowns(MulticlassSVDD(unknown_label="oos"), "oos")
    False
    """
    traits = getattr(estimator, "traits", None)
    same = find_unknown_label(estimator.unknown_label, np.array([unknown_label])) >= 0
    return same and bool(getattr(traits, "known_unknowns", ""))


def usable_rows(estimator: BaseEstimator, y: np.ndarray) -> np.ndarray:
    """Rows that an estimator can be fitted to: without known unknowns if it refuses them.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import MulticlassSVDD
    >>> from openset.base import usable_rows
    >>> usable_rows(MulticlassSVDD(unknown_label="oos"), np.array(["pay", "oos", "call"]))
    array([0, 2])
    """
    if takes_known_unknowns(estimator, estimator.unknown_label):
        return np.arange(len(y))
    classes, codes = known_classes(estimator.unknown_label, y)
    return np.flatnonzero(codes < len(classes))


def resolve_unknown_label(unknown_label: Any, classes: np.ndarray) -> Any:
    """The label of unknown samples for classes (K,).

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import resolve_unknown_label
    >>> resolve_unknown_label("auto", np.array([-1, 1]))
    -2
    >>> resolve_unknown_label("auto", np.array(["known", "unknown"]))
    'unknown_'
    """
    labels = classes.tolist()
    if _is_auto(unknown_label):
        return _unused_label(labels)
    if not isinstance(unknown_label, str if isinstance(labels[0], str) else Real):
        raise ValueError(
            f"unknown_label={unknown_label!r} and the classes ({labels[0]!r}, ...) are of "
            "different kinds. Pass a string for string classes, a number for numeric ones."
        )
    if unknown_label != unknown_label:
        raise ValueError("unknown_label=nan is not equal to itself. Choose another number.")
    if unknown_label in labels:
        raise ValueError(
            f"unknown_label={unknown_label!r} is also a class in y. Choose a label that is not, "
            'or unknown_label="auto".'
        )
    return unknown_label


def _unused_label(labels):
    """A string or number, as the labels are, that is none of them."""
    if isinstance(labels[0], str):
        label = "unknown"
        while label in labels:
            label += "_"
        return label
    if not isinstance(labels[0], Real):
        raise ValueError(
            f"unknown_label='auto' cannot name the unknown among classes of type "
            f"{type(labels[0]).__name__}; pass unknown_label."
        )
    number = -1 if -1 not in labels else min(labels) - 1
    if number in labels:  # a float so large that less 1 it is still the same
        number = next(-n for n in itertools.count(2) if -n not in labels)
    return float(number) if isinstance(labels[0], float) else int(number)


def _is_auto(unknown_label):
    return isinstance(unknown_label, str) and unknown_label == "auto"
