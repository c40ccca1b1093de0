"""Checks of unusual and invalid input, and of use with scikit-learn's tools."""

from __future__ import annotations

import pickle
import re
from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import compute_sample_weight, get_tags
from sklearn.utils.validation import has_fit_parameter

from .. import unwrap
from ._tools import (
    METHODS,
    blobs,
    contract,
    fresh,
    probes,
    require,
    require_close,
    require_contract,
    require_equal,
    require_error,
    require_same,
)


@contract("a pickled model answers as before")
def check_pickle(estimator):
    X, y = blobs(3)
    model = fresh(estimator).fit(X, np.array(["bar", "baz", "foo"])[y])
    loaded = pickle.loads(pickle.dumps(model))
    for method in METHODS:
        require_same(getattr(loaded, method)(X), getattr(model, method)(X), method)
    require_equal(loaded.bounded_, model.bounded_, "bounded_")


@contract("clone and set_params work; the constructor only stores")
def check_clone_and_set_params(estimator):
    X, y = blobs(2)
    copy = clone(fresh(estimator).set_params(unknown_label=42).fit(X, y))
    require(not hasattr(copy, "classes_"), "clone of a fitted model is fitted")
    require(copy.get_params()["unknown_label"] == 42, "clone loses unknown_label")
    copy.set_params(unknown_label=43).fit(X, y)
    require(copy.unknown_label_ == 43, "set_params(unknown_label=43) has no effect on fit")
    require(copy.unknown_label == 43, "fit changes the parameter unknown_label")


@contract("a Pipeline answers as its last step, which unwrap finds")
def check_pipeline(estimator):
    X, y = blobs(3)
    Z = probes(X)
    pipeline = make_pipeline(StandardScaler(), fresh(estimator)).fit(X, y)
    scaled = pipeline[0].transform
    model = fresh(estimator).fit(scaled(X), y)
    require_equal(pipeline.predict(Z), model.predict(scaled(Z)), "predict of the Pipeline")
    require_close(
        pipeline.decision_function(Z), model.decision_function(scaled(Z)), "decision_function"
    )
    last = unwrap(pipeline)
    require(last is pipeline[-1], "unwrap does not return the last step")
    require(last.unknown_label_ == model.unknown_label_, "unknown_label_ of the last step")


@contract("feature_names_in_ are stored; other names at prediction are a ValueError")
def check_feature_names(estimator):
    if find_spec("pandas") is None:
        return
    import pandas as pd

    X, y = blobs(2)
    frame = pd.DataFrame(X, columns=["length", "width", "mass"])
    model = fresh(estimator).fit(frame, y)
    require_equal(model.feature_names_in_, frame.columns.to_numpy(), "feature_names_in_")
    plain = fresh(estimator).fit(X, y)
    require(not hasattr(plain, "feature_names_in_"), "feature_names_in_ for an array without names")
    for method in METHODS:
        require_same(getattr(model, method)(frame), getattr(plain, method)(X), method)
        other = frame[["width", "length", "mass"]]
        what = f"{method} with columns in another order"
        require_error(ValueError, "feature names", what, getattr(model, method), other)


@contract("constant features are fitted; if all are, a ValueError may say that rows are equal")
def check_constant_features(estimator):
    X, y = blobs(3)
    for constant in (0.0, 7.0):
        column = np.full((len(X), 1), constant)
        model = fresh(estimator).fit(np.hstack([X, column]), y)
        require_contract(model, np.hstack([X, column]), f"a constant feature {constant:g}")
        right = np.mean(model.predict_known(np.hstack([X, column])) == y)
        require(right > 0.83, f"a constant feature {constant:g} lowers accuracy to {right:.0%}")
    equal = np.ones((10, 3))
    try:
        model = fresh(estimator).fit(equal, np.arange(10) % 2)
    except ValueError as error:
        require(
            re.search("distinct|equal|variance", str(error)),
            f"the message does not say that the rows are equal: {error}",
        )
        return
    require_contract(model, np.vstack([equal, 2 * equal, 1e6 * equal]), "all rows equal")


@contract("duplicate rows, within a class and across classes, are fitted")
def check_duplicate_rows(estimator):
    X, y = blobs(3)
    within = np.repeat(np.arange(len(X)), 3)
    model = fresh(estimator).fit(X[within], y[within])
    require_contract(model, probes(X), "every row three times")
    first = np.flatnonzero(y == 0)[:5]
    model = fresh(estimator).fit(np.vstack([X, X[first]]), np.append(y, np.ones(5, int)))
    require_contract(model, probes(X), "five rows of class 0 repeated in class 1")


@contract("float32, integer and Fortran-ordered X answer as the same numbers in float64")
def check_input_dtypes(estimator):
    X, y = blobs(3)
    X = np.round(4 * X)  # exact in every type below
    scores = fresh(estimator).fit(X, y).decision_function(X)
    for same in (X.astype(np.float32), X.astype(np.int64), np.asfortranarray(X)):
        model = fresh(estimator).fit(same, y)
        what = f"X of {same.dtype}, C order {same.flags.c_contiguous}"
        require_close(require_contract(model, same, what), scores, what)


@contract("sparse X, where it is accepted, answers as the dense X")
def check_sparse(estimator):
    if not get_tags(estimator).input_tags.sparse:
        return
    X, y = blobs(3)
    X[np.abs(X) < 1] = 0
    scores = fresh(estimator).fit(X, y).decision_function(X)
    model = fresh(estimator).fit(sparse.csr_matrix(X), y)
    require_close(require_contract(model, sparse.csr_matrix(X), "CSR"), scores, "CSR")


@contract("NaN, inf, other columns or no fit before are clear errors in every method")
def check_bad_input(estimator):
    X, y = blobs(2)
    model = fresh(estimator).fit(X, y)
    for value in (np.nan, np.inf, -np.inf):
        bad = X.copy()
        bad[3, 1] = value
        require_error(ValueError, "nan|inf", f"fit with {value} in X", fresh(estimator).fit, bad, y)
        for method in METHODS:
            call = getattr(model, method)
            require_error(ValueError, "nan|inf", f"{method} with {value} in X", call, bad)
    for method in METHODS:
        for columns in (2, 4):
            what = f"{method} with {columns} instead of 3 columns"
            other = np.ones((5, columns))
            require_error(ValueError, "feature", what, getattr(model, method), other)
        unfitted = getattr(fresh(estimator), method)
        require_error(NotFittedError, "fitted", f"{method} before fit", unfitted, X)


@contract("labels of mixed kinds, missing, continuous or too few are a ValueError")
def check_bad_labels(estimator):
    X, y = blobs(2)
    mixed = np.array(["a", 1], dtype=object)[y]
    holes = np.array(["a", "b"], dtype=object)[y]
    holes[4] = None
    for labels, pattern, what in (
        (mixed, "label", "strings and numbers in one object array"),
        (mixed[::-1], "label", "numbers and strings in one object array"),
        (mixed.tolist(), "label", "strings and numbers in one list"),
        (holes, "label", "a missing label"),
        (np.where(np.arange(len(y)) == 4, np.nan, y), "nan", "a NaN label"),
        (y + np.random.default_rng(0).normal(size=len(y)), "label", "continuous labels"),
        (y[:-1], "sample|inconsistent", "one label too few"),
        (None, "y", "no labels"),
    ):
        require_error(ValueError, pattern, f"fit with {what}", fresh(estimator).fit, X, labels)


@contract("rows of sample_weight zero are as if absent; a bad sample_weight is a ValueError")
def check_sample_weight(estimator):
    if not has_fit_parameter(estimator, "sample_weight"):
        return
    X, y = blobs(3)
    Z = probes(X)
    copies = np.random.default_rng(4).integers(0, 4, size=len(X))
    kept = copies > 0
    without = fresh(estimator).fit(X[kept], y[kept], sample_weight=copies[kept])
    model = fresh(estimator).fit(X, y, sample_weight=copies)
    scores = require_contract(model, Z, "weights 0 to 3")
    require_close(scores, without.decision_function(Z), "rows of weight zero")
    if not any("__" in name for name in estimator.get_params()):
        # The meaning of a weight in a wrapped estimator is up to that estimator.
        repeated = fresh(estimator).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
        require_close(scores, repeated.decision_function(Z), "weights 0 to 3 against copies")
    model = fresh(estimator).fit(X, y, sample_weight=1.0 * (y != 1))
    require_equal(model.classes_, [0, 2], "classes_ when all rows of class 1 have weight zero")
    negative, infinite = copies.astype(float), copies.astype(float)
    negative[2], infinite[2] = -1.0, np.inf
    for bad, what in (
        (negative, "a negative weight"),
        (infinite, "an infinite weight"),
        (np.zeros(len(X)), "only zero weights"),
        (copies[:-1], "one weight too few"),
    ):
        fit = partial(fresh(estimator).fit, sample_weight=bad)
        require_error(ValueError, "weight", f"fit with {what}", fit, X, y)


@contract("class_weight is a sample_weight that depends on the class")
def check_class_weight(estimator):
    parameters = estimator.get_params()
    if not ("class_weight" in parameters and has_fit_parameter(estimator, "sample_weight")):
        return
    X, y = blobs(3)
    X, y = X[y.argsort()][:-5], np.sort(y)[:-5]  # unequal classes
    for class_weight in ({0: 10.0, 1: 0.5, 2: 2.0}, "balanced"):
        model = fresh(estimator, class_weight=class_weight).fit(X, y)
        weight = compute_sample_weight(class_weight, y)
        same = fresh(estimator, class_weight=None).fit(X, y, sample_weight=weight)
        scores = require_contract(model, X, f"class_weight={class_weight!r}")
        require_close(scores, same.decision_function(X), f"class_weight={class_weight!r}")
