"""Which samples fit the estimator, which calibrate it, and their class indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from ..metrics import encode_labels


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
    y: np.ndarray, known: np.ndarray, size: float, stratify: bool, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to calibrate, a share `size` of all; every known class is fitted."""
    labels, first, inverse = np.unique(y, return_index=True, return_inverse=True)
    single = np.bincount(inverse) < 2
    n_rest = int(np.ceil(size * len(y)))
    if stratify and single.any():
        raise ValueError(
            "per_class=True needs samples of each class both to fit and to calibrate; y has 1 "
            f"sample of {labels[single].tolist()!r}. Give more, or leave these classes out."
        )
    if stratify and not len(labels) <= n_rest <= len(y) - len(labels):
        raise ValueError(
            f"per_class=True needs samples of each of the {len(labels)} classes both to fit and "
            f"to calibrate; calibration_size={size!r} takes {n_rest} of {len(y)} samples to "
            "calibrate. Choose another size, or give more samples."
        )
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
            f"fit. Give more samples, lower calibration_size={size!r} or set per_class=True."
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
