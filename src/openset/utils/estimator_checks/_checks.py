"""The checks: decision rule, claimed boundedness, labels, unusual and invalid input."""

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
    answers,
    blobs,
    contract,
    far_points,
    fitted,
    fresh,
    probes,
    require,
    require_close,
    require_contract,
    require_equal,
    require_error,
    require_same,
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


@contract("decision_function(X) is (n, K), also for K = 2, and finite")
def check_decision_shape(estimator):
    for n_classes in (2, 3):
        X, y = blobs(n_classes)
        model = fresh(estimator).fit(X, y)
        require_equal(model.classes_, np.arange(n_classes), "classes_")
        require_contract(model, X, f"K = {n_classes}")
        require_contract(model, X[:1], f"K = {n_classes}, one row")


@contract("one class is fitted, or is a ValueError that names the number of classes")
def check_one_class(estimator):
    X, y = blobs(1)
    model = fresh(estimator)
    try:
        model.fit(X, y)
    except ValueError as error:
        names_it = re.search(r"class", str(error)) and re.search(r"\b(1|one|single)\b", str(error))
        require(names_it, f"the message does not name the number of classes: {error}")
        return
    require_contract(model, probes(X), "K = 1")
    require(np.any(model.predict(X) == 0), "a model of one class accepts none of its samples")


@contract("predict(X) is the accepted class with the highest score, the first on ties, or unknown")
def check_predict_rule(estimator):
    X, y = blobs(3)
    model = fresh(estimator).fit(X, y)
    require_contract(model, probes(X))
    # Two classes on the same points: equal scores, where the method is symmetric.
    twice = fresh(estimator).fit(np.vstack([X, X]), np.repeat([0, 1], len(X)))
    require_contract(twice, probes(X), "two classes on the same points")


@contract("predict_known(X) is the argmax of the scores, accepted or not")
def check_predict_known(estimator):
    model, Z = fitted(estimator)
    expected = model.classes_[model.decision_function(Z).argmax(axis=1)]
    require_equal(model.predict_known(Z), expected, "predict_known")


@contract("predict_set(X) is (n, K) bool, True where a class accepts")
def check_predict_set(estimator):
    model, Z = fitted(estimator)
    accepted, shape = model.predict_set(Z), (len(Z), 3)
    case = f"predict_set is {np.shape(accepted)} of {accepted.dtype}, not {shape} of bool"
    require(np.shape(accepted) == shape and accepted.dtype == bool, case)
    require_equal(accepted, model.decision_function(Z) >= 0, "predict_set")


@contract("known_score(X) is (n,), the highest acceptance score")
def check_known_score(estimator):
    model, Z = fitted(estimator)
    score = model.known_score(Z)
    require(np.shape(score) == (len(Z),), f"known_score has shape {np.shape(score)}, not (n,)")
    require_same(score, model.decision_function(Z).max(axis=1), "known_score")


@contract("inclusion_proba(X), where there is one, is (n, K) in [0, 1]")
def check_inclusion_proba(estimator):
    model, Z = fitted(estimator)
    if not hasattr(model, "inclusion_proba"):
        return
    proba = model.inclusion_proba(Z)
    require(np.shape(proba) == (len(Z), 3), f"inclusion_proba has shape {np.shape(proba)}")
    require(np.all((proba >= 0) & (proba <= 1)), "inclusion_proba leaves [0, 1]")


@contract("column c of decision_function belongs to classes_[c]: separated classes are learnt")
def check_training_accuracy(estimator):
    for n_classes in (2, 3):
        X, y = blobs(n_classes, n_per_class=40)
        model = fresh(estimator).fit(X.tolist(), y.tolist())
        closed = np.mean(model.predict_known(X) == y)
        require(closed > 0.83, f"predict_known is right for {closed:.0%} of the training set")
        if not get_tags(estimator).classifier_tags.poor_score:
            opened = np.mean(model.predict(X) == y)
            require(opened > 0.83, f"predict is right for {opened:.0%} of the training set")


@contract("a class with bounded_ accepts no point far away in any direction")
def check_bounded(estimator):
    for n_classes in (2, 3):
        X, y = blobs(n_classes)
        model = fresh(estimator).fit(X, y)
        bounded, scales = model.bounded_, np.logspace(6, 12, 7)
        fits = isinstance(bounded, np.ndarray) and bounded.shape == (n_classes,)
        case = f"bounded_ must be a bool array of shape ({n_classes},), got {bounded!r}"
        require(fits and bounded.dtype == bool, case)
        Z = far_points(X, scales)
        accepted = require_contract(model, Z, "far points")[:, bounded] >= 0
        if accepted.any():
            row = int(np.flatnonzero(accepted.any(axis=1))[0])
            scale = scales[row * len(scales) // len(Z)]
            require(False, f"a bounded class accepts a point {scale:.0e} times the spread away")


@contract("scores are finite for every finite X")
def check_huge_values(estimator):
    X, y = blobs(3)
    model = fresh(estimator).fit(X, y)
    require_contract(model, far_points(X, [1e20, 1e30]), "rows of size 1e20 and 1e30")


@contract("rows are scored one by one as in a batch")
def check_single_rows(estimator):
    model, Z = fitted(estimator)
    single = np.vstack([model.decision_function(Z[i : i + 1]) for i in range(len(Z))])
    require_close(single, model.decision_function(Z), "one row at a time")


@contract("the order of the training rows does not matter")
def check_row_permutation(estimator):
    random = any(name.split("__")[-1] == "random_state" for name in estimator.get_params())
    if random or get_tags(estimator).non_deterministic:
        return  # random draws depend on the order of the rows
    X, y = blobs(3)
    Z = probes(X)
    order = np.random.default_rng(3).permutation(len(X))
    scores = fresh(estimator).fit(X, y).decision_function(Z)
    permuted = fresh(estimator).fit(X[order], y[order]).decision_function(Z)
    require_close(permuted, scores, "after a permutation of the rows")


@contract("fit forgets the previous fit")
def check_refit(estimator):
    X, y = blobs(3)
    Z, z = blobs(2, seed=5)
    names = np.array(["a", "b", "c"])[y]
    for method in METHODS:
        reused = getattr(fresh(estimator).fit(X[:, :2], names).fit(Z, z), method)(Z)
        require_same(reused, getattr(fresh(estimator).fit(Z, z), method)(Z), method)


@contract("a parameter that acts after fitting acts as if it had been set before")
def check_post_params(estimator):
    X, y = blobs(3)
    Z = probes(X)
    spec = getattr(estimator, "search_spec", None)
    for name in getattr(spec, "after_fit", ()):
        value = 0.1 + 0.5 * estimator.get_params()[name]
        before = fresh(estimator, **{name: value}).fit(X, y)
        after = fresh(estimator).fit(X, y)
        raw = after.raw_scores(Z)
        scores = require_contract(after.set_params(**{name: value}), Z, f"{name} set after fit")
        require_close(scores, before.decision_function(Z), f"{name} set after fit")
        require_close(after.decide(raw), scores, f"decide with {name} set after raw_scores")
        require_equal(after.bounded_, before.bounded_, f"bounded_ with {name} set after fit")


def _require_labels(model, X, classes, unknown, dtype):
    case = f"classes {classes.tolist()!r} of {classes.dtype}"
    require_equal(model.classes_, classes, f"{case}: classes_")
    label = model.unknown_label_
    same = label == unknown and isinstance(label, str) == isinstance(unknown, str)
    require(same, f"{case}: unknown_label_ is {label!r}, not {unknown!r}")
    require(label not in model.classes_.tolist(), f"{case}: unknown_label_ {label!r} is a class")
    require_contract(model, X, case)
    for method in ("predict", "predict_known"):
        answered = getattr(model, method)(X).dtype
        require(dtype in (answered.kind, answered.name), f"{case}: {method} has dtype {answered}")
        kept = np.array([label], dtype=object).astype(answered)[0]
        require(kept == label, f"{case}: dtype {answered} of {method} cuts {label!r} to {kept!r}")


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


@contract("rows of an explicit unknown_label are known unknowns, or a ValueError that names it")
def check_known_unknowns(estimator):
    X, y = blobs(3)
    Z = probes(X)
    for names, label in ((np.arange(3), 1), (np.array(["bar", "baz", "foo"]), "foo")):
        labels, others = names[y], names[names != label]
        model = fresh(estimator, unknown_label=label)
        case = f"fit with known unknowns of label {label!r}"
        only = X[labels == label], labels[labels == label]
        require_error(ValueError, re.escape(repr(label)), f"{case} only", model.fit, *only)
        try:
            model.fit(X, labels)
        except ValueError as error:
            told = repr(label) in str(error) and "cannot" in str(error)
            missing = "the message does not name the label and what cannot be done"
            require(told, f"{case}: {missing}: {error}")
            continue
        require_equal(model.classes_, others, f"{case}: classes_")
        count = model.n_known_unknowns_
        require(count == np.sum(labels == label), f"{case}: n_known_unknowns_ is {count}")
        require_contract(model, Z, case)
        known = model.predict_known(Z)
        require(label not in known.tolist(), f"{case}: predict_known answers {label!r}")
        # Without any row of the label the model is the ordinary one.
        free = labels != label
        plain = fresh(estimator).fit(X[free], labels[free])
        none = fresh(estimator, unknown_label=label).fit(X[free], labels[free])
        require(none.n_known_unknowns_ == 0, f"{case}: n_known_unknowns_ without such rows")
        require_close(none.decision_function(Z), plain.decision_function(Z), f"{case}: none")


@contract("an unknown_label of another kind than the classes is a ValueError")
def check_unknown_label_refused(estimator):
    X, y = blobs(3)
    names = np.array(["bar", "baz", "foo"])[y]
    for labels, unknown, case in (
        (y, "none", "is a string among numbers"),
        (names, -1, "is a number among strings"),
        (y, None, "is None"),
        (y, np.nan, "is NaN, which equals nothing"),
    ):
        case = f"fit with unknown_label={unknown!r}, which {case},"
        fit = fresh(estimator, unknown_label=unknown).fit
        require_error(ValueError, "unknown_label", case, fit, X, labels)


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
        same = renamed.decision_function(Z)[:, column]
        require_close(same, scores, f"after renaming the classes to {names.tolist()}")
        # Compare answers only where rounding cannot change them.
        two = np.sort(np.hstack([scores, np.zeros((len(Z), 1))]), axis=1)[:, -2:]
        clear = two[:, 1] - two[:, 0] > 1e-3 * max(1.0, np.abs(scores).max())
        expected = answers(scores[clear], names, renamed.unknown_label_)
        require_equal(renamed.predict(Z[clear]), expected, "renamed answers")


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
    scores = model.decision_function(scaled(Z))
    require_close(pipeline.decision_function(Z), scores, "decision_function")
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
        case = f"{method} with columns in another order"
        require_error(ValueError, "feature names", case, getattr(model, method), other)


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
        told = re.search("distinct|equal|variance", str(error))
        require(told, f"the message does not say that the rows are equal: {error}")
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
        case = f"X of {same.dtype}, C order {same.flags.c_contiguous}"
        require_close(require_contract(model, same, case), scores, case)


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
            case = f"{method} with {columns} instead of 3 columns"
            other = np.ones((5, columns))
            require_error(ValueError, "feature", case, getattr(model, method), other)
        unfitted = getattr(fresh(estimator), method)
        require_error(NotFittedError, "fitted", f"{method} before fit", unfitted, X)


@contract("labels of mixed kinds, missing, continuous or too few are a ValueError")
def check_bad_labels(estimator):
    X, y = blobs(2)
    mixed = np.array(["a", 1], dtype=object)[y]
    holes = np.array(["a", "b"], dtype=object)[y]
    holes[4] = None
    for labels, pattern, case in (
        (mixed, "label", "strings and numbers in one object array"),
        (mixed[::-1], "label", "numbers and strings in one object array"),
        (mixed.tolist(), "label", "strings and numbers in one list"),
        (holes, "label", "a missing label"),
        (np.where(np.arange(len(y)) == 4, np.nan, y), "nan", "a NaN label"),
        (y + np.random.default_rng(0).normal(size=len(y)), "label", "continuous labels"),
        (y[:-1], "sample|inconsistent", "one label too few"),
        (None, "y", "no labels"),
    ):
        require_error(ValueError, pattern, f"fit with {case}", fresh(estimator).fit, X, labels)


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
    for bad, case in (
        (negative, "a negative weight"),
        (infinite, "an infinite weight"),
        (np.zeros(len(X)), "only zero weights"),
        (copies[:-1], "one weight too few"),
    ):
        fit = partial(fresh(estimator).fit, sample_weight=bad)
        require_error(ValueError, "weight", f"fit with {case}", fit, X, y)


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
