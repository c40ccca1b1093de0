"""What a model file must satisfy before it is unpacked, and a model before it answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector
from sklearn.svm._base import BaseLibSVM

from ..base import OpenSetClassifier
from ..base.fitted import check_array, require

# A file is refused if it unpacks to more bytes than this and than this ratio of its own size.
_MOST_BYTES = 2**30
_MOST_RATIO = 100


def check_sizes(archive: ZipFile, schema: str, n_bytes: int) -> None:
    """Raise ValueError if the archive would unpack to far more than its own size.

    An array counts as often as the description refers to it, and a sparse matrix, which is an
    archive in the archive, with what is inside. Nothing but the headers of those is unpacked.
    """
    allowed = max(_MOST_BYTES, _MOST_RATIO * n_bytes)
    total = archive.getinfo(schema).file_size
    require(total <= allowed, _too_large(total, n_bytes))
    text = archive.read(schema).decode()
    references = Counter(re.findall(r'"file"\s*:\s*"([^"]*)"', text))
    for name in archive.namelist():
        size = archive.getinfo(name).file_size
        total += size * max(1, references[name])
    require(total <= allowed, _too_large(total, n_bytes))
    for name, count in references.items():
        if name.endswith(".npz"):
            with ZipFile(BytesIO(archive.read(name))) as inner:
                total += count * sum(member.file_size for member in inner.infolist())
    require(total <= allowed, _too_large(total, n_bytes))
    json.loads(text)  # a repeated key or an odd escape is then seen by skops as it is by us


def _too_large(total, n_bytes):
    return (
        f"it has {n_bytes / 1e6:.1f} MB and would unpack to {total / 1e6:,.0f} MB or more; at most "
        f"{_MOST_BYTES / 1e6:,.0f} MB, or {_MOST_RATIO} times the size of the file, are unpacked"
    )


def check_model(model: BaseEstimator) -> None:
    """Raise ValueError if an estimator inside the model has arrays that do not fit together."""
    for part in _estimators(model, set()):
        try:
            if isinstance(part, OpenSetClassifier):
                if "classes_" in vars(part):
                    part.check_fitted()
            elif isinstance(part, BaseLibSVM):
                _check_libsvm(part)
            if is_classifier(part) or is_outlier_detector(part):
                _check_finite(part)
        except Exception as error:  # attributes of odd types may raise anything
            raise ValueError(f"{type(part).__name__}: {error}") from error


def _estimators(part: Any, seen: set[int]) -> Iterator[BaseEstimator]:
    """Every estimator inside, at any depth."""
    if id(part) in seen:
        return
    seen.add(id(part))
    inner: Any = ()
    if isinstance(part, list | tuple):
        inner = part
    elif isinstance(part, dict):
        inner = part.values()
    elif isinstance(part, BaseEstimator):
        yield part
        inner = vars(part).values()
    for value in inner:
        yield from _estimators(value, seen)


def _check_finite(part):
    """The public fitted arrays of a classifier or detector have finite numbers."""
    if isinstance(part, OpenSetClassifier):
        return  # its arrays are declared, or unknown
    for name, value in vars(part).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            require(np.isfinite(value).all(), f"{name} has entries that are not finite")


def _check_libsvm(part):
    """libsvm reads its arrays without looking at their lengths."""
    if "support_vectors_" not in vars(part):
        return  # not fitted
    require("_impl" not in vars(part), "_impl is not an attribute of a model")
    # A detector and a regressor count as two classes, the second without support vectors.
    n_classes = len(part.classes_) if hasattr(part, "classes_") else 2
    n_pairs, n_rows = n_classes * (n_classes - 1) // 2, n_classes - 1
    sizes = {"d": part.n_features_in_, "rows": n_rows, "pairs": n_pairs, "classes": n_classes}
    layouts = {"support_vectors_": "n d", "_dual_coef_": "rows n", "dual_coef_": "rows n"}
    layouts |= {"_intercept_": "pairs", "intercept_": "pairs", "support_": "n int"}
    for name, layout in layouts.items():
        check_array(name, getattr(part, name), layout, sizes)
    counts = part._n_support
    check_array("_n_support", counts, "classes int", sizes)
    own = counts if hasattr(part, "classes_") else counts[:1]
    require(own.sum() == sizes["n"], "_n_support does not add up to the support vectors")
    for name in ("_probA", "_probB"):
        values = getattr(part, name)
        check_array(name, values, "a", {})
        require(len(values) in (0, n_pairs), f"{name} has {len(values)} entries")
    require(part._sparse is False or part._sparse is True, "_sparse is not a bool")
    is_sparse = not isinstance(part.support_vectors_, np.ndarray)
    require(part._sparse == is_sparse, "_sparse does not fit support_vectors_")
    require(np.isfinite(part._gamma) and part._gamma >= 0, "_gamma is not finite")
    part._validate_params()
