"""The checks can fail: a right toy passes all of them, and every check catches a broken one."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils.estimator_checks import parametrize_with_checks

from openset import OpenSetSVC
from openset.base import (
    OpenSetClassifier,
    SearchSpec,
    validate_samples,
    validate_training_data,
)
from openset.calibration import CalibratedRejector
from openset.utils import answer_labels
from openset.utils.estimator_checks import (
    EXPECTED_FAILED_CHECKS,
    check_open_set_estimator,
    expected_failed_checks,
    open_set_checks,
)

CHECKS = {check.__name__: check for check in open_set_checks()}


class Balls(OpenSetClassifier):
    """Nearest centroid; a class accepts the ball of one radius around its centroid."""

    def __init__(self, radius=4.0, unknown_label="auto"):
        self.radius = radius
        self.unknown_label = unknown_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X, y, sample_weight=None):
        X, codes, weight, _ = validate_training_data(self, X, y, sample_weight, accept_sparse="csr")
        member = weight * (codes == np.arange(len(self.classes_))[:, None])
        self.centroids_ = (member @ X) / member.sum(axis=1, keepdims=True)
        return self

    def far_scores(self):
        return np.full(len(self.classes_), -np.inf)

    def decision_function(self, X):
        X = validate_samples(self, X, accept_sparse="csr")
        X = X.toarray() if sparse.issparse(X) else X
        return self.radius - cdist(X, self.centroids_)


@parametrize_with_checks([Balls()], expected_failed_checks=expected_failed_checks)
def test_toy_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_toy_passes_the_open_set_checks(check):
    check(Balls())


def test_all_checks_at_once():
    check_open_set_estimator(Balls())


class OneScore(Balls):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores


class Nan(Balls):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return np.where(scores < 0, np.nan, scores)


class SilentAboutOneClass(Balls):
    def fit(self, X, y, sample_weight=None):
        if len(np.unique(y)) == 1:
            raise ValueError("X cannot be fitted.")
        return super().fit(X, y, sample_weight)


class CrashesOnOneClass(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.runner_up_ = self.classes_[1]
        return self


class NeverUnknown(Balls):
    def predict(self, X):
        return self.predict_known(X)


class LastOnTies(Balls):
    def predict(self, X):
        scores = self.decision_function(X)
        best = len(self.classes_) - 1 - scores[:, ::-1].argmax(axis=1)
        codes = np.where(scores.max(axis=1) >= 0, best, len(self.classes_))
        return answer_labels(self.classes_, self.unknown_label_)[codes]


class KnownMayBeUnknown(Balls):
    def predict_known(self, X):
        return self.predict(X)


class StrictSet(Balls):
    def predict_set(self, X):
        return self.decision_function(X) > 1


class IntegerSet(Balls):
    def predict_set(self, X):
        return super().predict_set(X).astype(int)


class MeanScore(Balls):
    def known_score(self, X):
        return self.decision_function(X).mean(axis=1)


class LargeProbabilities(Balls):
    def inclusion_proba(self, X):
        return np.exp(self.decision_function(X))


class SwappedColumns(Balls):
    def decision_function(self, X):
        return super().decision_function(X)[:, ::-1]


class AcceptsTheHorizon(Balls):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return np.where(scores < -1e10, 1.0, scores)


class AcceptsOneDirection(Balls):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return np.where(np.asarray(X)[:, :1] > 1e8, 0.0, scores)


class ListOfBounded(Balls):
    @property
    def bounded_(self):
        return super().bounded_.tolist()


class Overflows(Balls):
    def decision_function(self, X):
        X = validate_samples(self, X, accept_sparse="csr")
        Z, C = X.astype(np.float32), self.centroids_.astype(np.float32)
        with np.errstate(all="ignore"):
            squares = (Z**2).sum(1)[:, None] - 2 * Z @ C.T + (C**2).sum(1)
            return self.radius - np.sqrt(squares)


class LooksAtTheBatch(Balls):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores - 0.1 * scores.mean(axis=0)


class FirstRowsOnly(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        first = [np.flatnonzero(np.asarray(y) == c)[:5] for c in self.classes_]
        self.centroids_ = np.array([np.asarray(X)[rows].mean(axis=0) for rows in first])
        return self


class Remembers(Balls):
    def fit(self, X, y, sample_weight=None):
        self.n_fits_ = getattr(self, "n_fits_", 0) + 1
        return super().fit(X, y, sample_weight)

    def decision_function(self, X):
        return super().decision_function(X) / self.n_fits_


class RadiusOfTheFit(Balls):
    """Claims that its radius acts after fitting, but reads it in fit."""

    search_spec = SearchSpec(after_fit=("radius",))

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.radius_ = self.radius
        return self

    def raw_scores(self, X):
        return super().decision_function(X) - self.radius

    def decide(self, raw):
        return raw + self.radius_

    def decision_function(self, X):
        return self.decide(self.raw_scores(X))


class AlwaysMinusOne(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.classes_.dtype.kind != "U":
            self.unknown_label_ = -1
        return self


class UnsortedClasses(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.classes_ = self.classes_[::-1]
        self.centroids_ = self.centroids_[::-1]
        return self


class CutsStrings(Balls):
    def predict(self, X):
        return super().predict(X).astype(self.classes_.dtype)


class UnknownAmongClasses(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.classes_ = answer_labels(self.classes_, self.unknown_label_)
        return self

    def decision_function(self, X):
        scores = super().decision_function(X)
        return np.hstack([scores, -scores.max(axis=1, keepdims=True) - 1])


class PandasAsFixedWidth(Balls):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y.to_numpy().astype(str) if hasattr(y, "iloc") else y, sample_weight)


class IgnoresTheLabel(Balls):
    def fit(self, X, y, sample_weight=None):
        label, self.unknown_label = self.unknown_label, "auto"
        try:
            return super().fit(X, y, sample_weight)
        finally:
            self.unknown_label = label


class TakesAnyLabel(Balls):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except ValueError as error:
            if "unknown_label" not in str(error):
                raise
        label, self.unknown_label = self.unknown_label, "auto"
        super().fit(X, y, sample_weight)
        self.unknown_label = self.unknown_label_ = label
        return self


class LearnsTheUnknown(Balls):
    def fit(self, X, y, sample_weight=None):
        label, self.unknown_label = self.unknown_label, "auto"
        if len(np.unique(y)) == 1 and label in np.unique(y):
            raise ValueError(f"only rows of {label!r}")
        super().fit(X, y, sample_weight)
        self.unknown_label = label
        return self


class SayNothingOfTheLabel(Balls):
    def fit(self, X, y, sample_weight=None):
        try:
            return super().fit(X, y, sample_weight)
        except ValueError as error:
            raise ValueError("invalid label") from error


class FavoursTheLast(Balls):
    def decision_function(self, X):
        return super().decision_function(X) + 0.1 * np.arange(len(self.classes_))


class LosesTheFit(Balls):
    def __getstate__(self):
        return {name: v for name, v in super().__getstate__().items() if name != "centroids_"}


class WritesItsParameter(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.unknown_label = None
        return self


class Random(Balls):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores + np.random.default_rng().normal(size=scores.shape)


class ForgetsNames(Balls):
    def fit(self, X, y, sample_weight=None):
        return super().fit(np.asarray(X), y, sample_weight)

    def decision_function(self, X):
        return super().decision_function(np.asarray(X))


class Standardises(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        with np.errstate(all="ignore"):
            self.centroids_ = self.centroids_ / np.std(X, axis=0) * np.std(X, axis=0)
        return self


class RefusesDuplicates(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if len(np.unique(X, axis=0)) < len(X):
            raise RuntimeError("two rows are equal")
        return self


class KeepsTheTypeOfX(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.centroids_ = self.centroids_.astype(np.asarray(X).dtype)
        return self


class ForgetsZeros(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if sparse.issparse(X):
            self.centroids_ = self.centroids_ * np.prod(X.shape) / X.nnz
        return self


class RepairsNan(Balls):
    def decision_function(self, X):
        return super().decision_function(np.nan_to_num(X))


class CutsColumns(Balls):
    def decision_function(self, X):
        columns = np.asarray(X)[:, : self.n_features_in_]
        padding = np.zeros((len(columns), self.n_features_in_ - columns.shape[1]))
        return super().decision_function(np.hstack([columns, padding]))


class EverythingIsText(Balls):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, None if y is None else np.asarray(y).astype(str), sample_weight)


class KeepsZeroWeights(Balls):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)  # refuses what is to be refused
        return super().fit(X, y)


class IgnoresWeights(Balls):
    def fit(self, X, y, sample_weight=None):
        _, _, _, kept = validate_training_data(self, X, y, sample_weight)
        return super().fit(np.asarray(X)[kept], np.asarray(y)[kept])


class AbsoluteWeights(Balls):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, None if sample_weight is None else np.abs(sample_weight))


class IgnoresClassWeight(Balls):
    def __init__(self, radius=4.0, class_weight=None, unknown_label="auto"):
        super().__init__(radius, unknown_label)
        self.class_weight = class_weight

    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores if self.class_weight is None else scores + 1


# Estimator, the check that has to catch it, and a part of the message it has to give.
BROKEN = [
    (OneScore, "check_decision_shape", r"\(n, K\), also for K = 2.*shape \(30,\), not \(30, 2\)"),
    (Nan, "check_decision_shape", "finite.*entries that are not finite"),
    (SilentAboutOneClass, "check_one_class", "does not name the number of classes"),
    (CrashesOnOneClass, "check_one_class", "one class is fitted, or is a ValueError.*IndexError"),
    (NeverUnknown, "check_predict_rule", "or unknown.*rows differ"),
    (LastOnTies, "check_predict_rule", "first on ties.*two classes on the same points"),
    (KnownMayBeUnknown, "check_predict_known", "accepted or not.*instead of"),
    (StrictSet, "check_predict_set", "True where a class accepts"),
    (IntegerSet, "check_predict_set", "not .* of bool"),
    (MeanScore, "check_known_score", "the highest acceptance score"),
    (LargeProbabilities, "check_inclusion_proba", r"leaves \[0, 1\]"),
    (SwappedColumns, "check_training_accuracy", "belongs to classes_.*predict_known is right for"),
    (AcceptsTheHorizon, "check_bounded", r"bounded class accepts a point 1e\+09 times"),
    (AcceptsOneDirection, "check_bounded", r"bounded class accepts a point 1e\+07 times"),
    (ListOfBounded, "check_bounded", "bounded_ must be a bool array"),
    (Overflows, "check_huge_values", "finite for every finite X"),
    (LooksAtTheBatch, "check_single_rows", "one by one as in a batch.*differ by"),
    (FirstRowsOnly, "check_row_permutation", "order of the training rows does not matter"),
    (Remembers, "check_refit", "forgets the previous fit"),
    (RadiusOfTheFit, "check_post_params", "as if it had been set before.*radius set after fit"),
    (AlwaysMinusOne, "check_unknown_label_auto", "unknown_label_ is -1, not -2"),
    (UnsortedClasses, "check_unknown_label_auto", "sorted classes"),
    (CutsStrings, "check_unknown_label_auto", "predict"),
    (UnknownAmongClasses, "check_unknown_label_auto", "classes_: 4 rows, not 3"),
    (PandasAsFixedWidth, "check_pandas_labels", "answered as objects.*predict has dtype <U"),
    (IgnoresTheLabel, "check_unknown_label_explicit", "unknown_label_ is -1, not 99"),
    (TakesAnyLabel, "check_unknown_label_refused", "string among numbers, raises no error"),
    (LearnsTheUnknown, "check_known_unknowns", "classes_: 3 rows, not 2"),
    (SayNothingOfTheLabel, "check_unknown_label_refused", "does not match 'unknown_label'"),
    (FavoursTheLast, "check_label_renaming", "renaming the classes renames the answers"),
    (LosesTheFit, "check_pickle", "pickled model answers as before.*AttributeError"),
    (WritesItsParameter, "check_clone_and_set_params", "clone loses unknown_label"),
    (Random, "check_pipeline", "answers as its last step"),
    (ForgetsNames, "check_feature_names", "feature_names_in_"),
    (Standardises, "check_constant_features", "constant features are fitted"),
    (RefusesDuplicates, "check_duplicate_rows", "RuntimeError: two rows are equal"),
    (KeepsTheTypeOfX, "check_input_dtypes", "X of int64"),
    (ForgetsZeros, "check_sparse", "CSR: scores differ"),
    (RepairsNan, "check_bad_input", "decision_function with nan in X raises no error"),
    (CutsColumns, "check_bad_input", "with 2 instead of 3 columns raises no error"),
    (EverythingIsText, "check_bad_labels", "strings and numbers in one.* raises no error"),
    (KeepsZeroWeights, "check_sample_weight", "rows of weight zero: scores differ"),
    (IgnoresWeights, "check_sample_weight", "weights 0 to 3 against copies: scores differ"),
    (AbsoluteWeights, "check_sample_weight", "a negative weight raises no error"),
    (IgnoresClassWeight, "check_class_weight", "depends on the class.*differ by"),
]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("broken", "name", "message"), BROKEN, ids=[broken.__name__ for broken, _, _ in BROKEN]
)
def test_broken_estimator_is_caught(broken, name, message):
    opening = f"{broken.__name__} breaks the open-set contract"
    with pytest.raises(AssertionError, match=f"(?s)^{opening}.*{message}"):
        CHECKS[name](broken())
    with pytest.raises(AssertionError, match=f"^{opening}"):
        check_open_set_estimator(broken())


def test_every_check_can_fail():
    assert {name for _, name, _ in BROKEN} == set(CHECKS)


def test_a_class_is_not_an_estimator():
    with pytest.raises(TypeError, match=r"Balls\(\)"):
        check_open_set_estimator(Balls)


def test_checks_leave_the_estimator_unfitted_and_the_data_alone():
    estimator = Balls(radius=3.5)
    check_open_set_estimator(estimator)
    assert vars(estimator) == {"radius": 3.5, "unknown_label": "auto"}


def test_expected_failures_are_sentences_and_fit_the_estimator():
    for reason in EXPECTED_FAILED_CHECKS.values():
        assert reason.endswith(".") and len(reason) > 20
    for_balls = expected_failed_checks(Balls())
    assert for_balls.items() <= EXPECTED_FAILED_CHECKS.items()
    # A nearest centroid has no solver to blame.
    assert "check_sample_weight_equivalence_on_dense_data" not in for_balls


@pytest.mark.filterwarnings("ignore:At the operating point")
def test_warnings_inside_a_check_do_not_disturb_the_list_of_checks():
    # A warning adds __warningregistry__ to the module whose names are the list.
    check_open_set_estimator(CalibratedRejector(OpenSetSVC(), alpha=0.3))
