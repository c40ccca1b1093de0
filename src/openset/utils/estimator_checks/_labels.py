"""Checks of the unknown label, the types of the answers, and the renaming of classes."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from ._tools import (
    answers,
    blobs,
    contract,
    fresh,
    probes,
    require,
    require_close,
    require_contract,
    require_equal,
    require_error,
)

# Classes, the unknown label that "auto" must choose, and the dtype or its kind for answers.
AUTO = [
    (np.array([0, 1, 2]), -1, "i"),
    (np.array([-5, 0, 3]), -1, "i"),
    (np.array([-1, 1]), -2, "i"),
    (np.array([-7, -1, 4]), -8, "i"),
    (np.array([-128, -1, 5], dtype=np.int8), -129, "i"),
    (np.array([0, 1, 255], dtype=np.uint8), -1, "int64"),
    (np.array([False, True]), -1, "int64"),
    (np.array([0.0, 1.0, 2.0]), -1.0, "f"),
    (np.array([-1.0, 0.0, 2.0], dtype=np.float32), -2.0, "f"),
    (np.array(["bar", "baz", "foo"]), "unknown", "U"),
    (np.array(["known", "unknown", "unknown_"]), "unknown__", "U"),
    (np.array(["bar", "baz", "foo"], dtype=object), "unknown", "O"),
    (np.array(["a", "unknown"], dtype=object), "unknown_", "O"),
]


def _require_labels(model, X, classes, unknown, dtype):
    what = f"classes {classes.tolist()!r} of {classes.dtype}"
    require_equal(model.classes_, classes, f"{what}: classes_")
    label = model.unknown_label_
    require(
        label == unknown and isinstance(label, str) == isinstance(unknown, str),
        f"{what}: unknown_label_ is {label!r}, not {unknown!r}",
    )
    require(label not in model.classes_.tolist(), f"{what}: unknown_label_ {label!r} is a class")
    require_contract(model, X, what)
    for method in ("predict", "predict_known"):
        found = getattr(model, method)(X).dtype
        require(dtype in (found.kind, found.name), f"{what}: {method} has dtype {found}")
        kept = np.array([label], dtype=object).astype(found)[0]
        require(kept == label, f"{what}: dtype {found} of {method} cuts {label!r} to {kept!r}")


@contract("classes_ are the sorted classes; unknown_label='auto' is free and fits their kind")
def check_unknown_label_auto(estimator):
    for classes, unknown, dtype in AUTO:
        X, y = blobs(len(classes))
        model = fresh(estimator, unknown_label="auto").fit(X, classes[y])
        _require_labels(model, probes(X), classes, unknown, dtype)


@contract("pandas strings and categories are answered as objects, pandas integers as numbers")
def check_pandas_labels(estimator):
    if find_spec("pandas") is None:
        return
    import pandas as pd

    X, y = blobs(3)
    names = np.array(["bar", "baz", "foo"], dtype=object)
    for dtype in ("string", "str", "category"):
        model = fresh(estimator).fit(X, pd.Series(names[y], dtype=dtype))
        _require_labels(model, probes(X), names, "unknown", "O")
    model = fresh(estimator).fit(X, pd.Series(y, dtype="category"))
    _require_labels(model, probes(X), np.arange(3), -1, "i")


@contract("an explicit unknown_label is the answer for unknown samples")
def check_unknown_label_explicit(estimator):
    X, y = blobs(3)
    names = np.array(["bar", "baz", "foo"])
    for classes, label, dtype in (
        (np.arange(3), 99, "i"),
        (np.arange(3), -2.5, "f"),
        (names, "nobody we know", "U"),
        (names.astype(object), "nobody we know", "O"),
    ):
        model = fresh(estimator).set_params(unknown_label=label).fit(X, classes[y])
        _require_labels(model, probes(X), classes, label, dtype)


@contract("an unknown_label that is a class, or of another kind than the classes, is a ValueError")
def check_unknown_label_refused(estimator):
    X, y = blobs(3)
    names = np.array(["bar", "baz", "foo"])[y]
    for labels, unknown, what in (
        (y, 1, "collides with a class"),
        (y, 1.0, "equals a class"),
        (names, "foo", "collides with a class"),
        (y, "none", "is a string among numbers"),
        (names, -1, "is a number among strings"),
        (y, None, "is None"),
        (y, np.nan, "is NaN, which equals nothing"),
    ):
        what = f"fit with unknown_label={unknown!r}, which {what},"
        fit = fresh(estimator, unknown_label=unknown).fit
        require_error(ValueError, "unknown_label", what, fit, X, labels)


@contract("renaming the classes renames the answers")
def check_label_renaming(estimator):
    X, y = blobs(3)
    Z = probes(X)
    model = fresh(estimator).fit(X, y)
    scores = model.decision_function(Z)
    for names in (["a", "b", "c"], ["z", "y", "x"], ["m", "n", "a"], [30, 10, 20]):
        names = np.array(names)
        renamed = fresh(estimator).fit(X, names[y])
        column = np.searchsorted(renamed.classes_, names)  # of each old class
        found = renamed.decision_function(Z)[:, column]
        require_close(found, scores, f"after renaming the classes to {names.tolist()}")
        # Compare answers only where rounding cannot change them.
        two = np.sort(np.hstack([scores, np.zeros((len(Z), 1))]), axis=1)[:, -2:]
        clear = two[:, 1] - two[:, 0] > 1e-3 * max(1.0, np.abs(scores).max())
        expected = answers(scores[clear], names, renamed.unknown_label_)
        require_equal(renamed.predict(Z[clear]), expected, "renamed answers")
