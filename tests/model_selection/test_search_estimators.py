"""The search around every kind of estimator, and its own place in the contract."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import OneClassSVM

from openset import OneVsRestSVC, OpenSetSVC
from openset.base import OpenSetClassifier, validate_samples, validate_training_data
from openset.evt import ExtremeValueMachine
from openset.model_selection import OpenSetSearchCV, OpenSetSplit, get_scorer
from openset.neighbors import OSNN
from openset.utils import unwrap
from openset.wrappers import CascadeRejector, ThresholdRejector


@pytest.fixture(scope="module")
def blobs():
    """Five overlapping classes, 20 samples each."""
    return make_blobs([20] * 5, n_features=3, cluster_std=2.5, random_state=3)


def counting(kind):
    """A subclass of an estimator that counts its fits."""

    class Counting(kind):
        fits = 0

        def fit(self, X, y, **weights):
            type(self).fits += 1
            return super().fit(X, y, **weights)

        # scikit-learn reads the parameters off the constructor.
        __init__ = kind.__init__

    return Counting


@pytest.mark.parametrize(
    ("kind", "arguments", "grid", "n_fits"),
    [
        (ExtremeValueMachine, (), {"threshold": [0.05, 0.3, 0.5, 0.9]}, 3),
        (ExtremeValueMachine, (), {"threshold": [0.1, 0.5], "tail_size": [5, 20]}, 6),
        (OSNN, (), {"threshold": [0.3, 0.5, 0.7, 1.0]}, 3),
        (ThresholdRejector, (GaussianNB(),), {"threshold": [0.3, 0.6, 0.9, 0.99]}, 3),
        (
            ThresholdRejector,
            (LogisticRegression(),),
            {"threshold": [0.4, 0.9], "estimator__C": [0.1, 10.0]},
            6,
        ),
        (
            CascadeRejector,
            (OneClassSVM(nu=0.1), GaussianNB()),
            {"rejector__gamma": [0.02, 0.2], "rejector__nu": [0.1, 0.3]},
            12,
        ),
    ],
)
@pytest.mark.parametrize("scaler", [None, StandardScaler()], ids=["bare", "pipeline"])
def test_thresholds_need_one_fit(blobs, kind, arguments, grid, n_fits, scaler):
    X, y = blobs
    kind = counting(kind)
    model = kind(*arguments)
    if scaler is not None:
        model = Pipeline([("scale", scaler), ("reject", model)])
        grid = {f"reject__{name}": values for name, values in grid.items()}
    search = OpenSetSearchCV(model, grid, n_repeats=3, random_state=0).fit(X, y)
    assert kind.fits == n_fits + 1  # and the refit
    stock = GridSearchCV(
        model,
        grid,
        scoring=get_scorer("normalized_accuracy"),
        cv=OpenSetSplit(3, random_state=0),
    ).fit(X, y)
    theirs = {repr(p): i for i, p in enumerate(stock.cv_results_["params"])}
    order = [theirs[repr({k: p[k] for k in sorted(p)})] for p in search.cv_results_["params"]]
    for s in range(3):
        name = f"split{s}_test_score"
        np.testing.assert_allclose(
            search.cv_results_[name], stock.cv_results_[name][order], atol=1e-12
        )
    assert search.best_score_ == pytest.approx(stock.best_score_)


def test_a_threshold_that_is_not_in_the_grid_stays(blobs):
    X, y = blobs
    grid = [{"threshold": [0.9]}, {"rule": ["ratio"]}]
    model = OSNN(threshold=0.3)
    search = OpenSetSearchCV(model, grid, random_state=0).fit(X, y)
    alone = OpenSetSearchCV(model, {"rule": ["ratio"]}, random_state=0).fit(X, y)
    assert search.cv_results_["mean_test_score"][1] == alone.best_score_
    assert search.cv_results_["mean_test_score"][0] != alone.best_score_


class Nearest(OpenSetClassifier):
    """An estimator of somebody else: the nearest mean, within a radius."""

    def __init__(self, radius=1.0, unknown_label="auto"):
        self.radius = radius
        self.unknown_label = unknown_label

    def fit(self, X, y):
        X, codes, _, _ = validate_training_data(self, X, y)
        if self.radius == 13:
            raise RuntimeError("an unlucky radius")
        self.means_ = np.array([X[codes == c].mean(axis=0) for c in range(len(self.classes_))])
        return self

    def far_scores(self):
        return np.full(len(self.classes_), -np.inf)

    def decision_function(self, X):
        X = validate_samples(self, X)
        return self.radius - np.linalg.norm(X[:, None] - self.means_, axis=2)


def test_an_estimator_of_somebody_else_is_cloned_and_fitted(blobs):
    X, y = blobs
    grid = {"radius": [1.0, 4.0, 9.0, 60.0]}
    search = OpenSetSearchCV(Nearest(), grid, random_state=0).fit(X, y)
    scorer = get_scorer("normalized_accuracy")
    stock = GridSearchCV(Nearest(), grid, scoring=scorer, cv=OpenSetSplit(random_state=0))
    stock.fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], stock.cv_results_["mean_test_score"]
    )
    assert search.best_params_ == stock.best_params_
    np.testing.assert_array_equal(search.predict(X), stock.predict(X))


def test_a_fit_that_fails_scores_minus_infinity(blobs):
    X, y = blobs
    search = OpenSetSearchCV(Nearest(), {"radius": [13, 4.0]}, n_repeats=2, random_state=0)
    with pytest.warns(FitFailedWarning, match="2 fits failed.*an unlucky radius"):
        search.fit(X, y)
    assert search.cv_results_["mean_test_score"][0] == -np.inf
    assert search.best_params_ == {"radius": 4.0}
    with pytest.raises(RuntimeError, match="an unlucky radius"):
        OpenSetSearchCV(Nearest(), {"radius": [13]}).fit(X, y)
    pipeline = make_pipeline(PolynomialFeatures(), OpenSetSVC())
    grid = {"polynomialfeatures__degree": [(3, 1), 1]}  # the first is no range
    with pytest.warns(FitFailedWarning, match="polynomialfeatures|degree"):
        search = OpenSetSearchCV(pipeline, grid, n_repeats=2, random_state=0).fit(X, y)
    assert search.best_params_ == {"polynomialfeatures__degree": 1}


class Recorder(TransformerMixin, BaseEstimator):
    """Keeps the first column, the number of the row, to itself, and remembers it."""

    fitted_on: list = []

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y=None):
        self.fitted_on.append((self.factor, X[:, 0].astype(int).tolist(), list(y)))
        self.fitted_ = True
        return self

    def transform(self, X):
        return self.factor * X[:, 1:]


@pytest.mark.parametrize("final", [OpenSetSVC(), ExtremeValueMachine()])
def test_transformers_see_the_fitting_part_only(blobs, final):
    X, y = blobs
    X = np.column_stack([np.arange(len(y)), X])
    name = type(final).__name__.lower()
    grid = {"recorder__factor": [0.5, 2.0]}
    grid |= {f"{name}__lam": [0.1, 0.4]} if name == "opensetsvc" else {f"{name}__threshold": [0.5]}
    Recorder.fitted_on.clear()
    search = OpenSetSearchCV(make_pipeline(Recorder(), final), grid, n_repeats=3, random_state=0)
    search.fit(X, y)
    parts = [s.fit.tolist() for s in OpenSetSplit(3, random_state=0).simulate(y)]
    parts_by_factor = [(factor, part) for factor in (0.5, 2.0) for part in parts]
    refit = (search.best_params_["recorder__factor"], list(range(len(y))))
    assert [(f, rows) for f, rows, _ in Recorder.fitted_on] == [*parts_by_factor, refit]
    assert all(labels == y[rows].tolist() for _, rows, labels in Recorder.fitted_on)


def test_the_default_grid_is_measured_on_the_first_fitting_part(blobs):
    X, y = blobs
    X = np.column_stack([np.arange(len(y)), X])
    Recorder.fitted_on.clear()
    OpenSetSearchCV(make_pipeline(Recorder(), OneVsRestSVC()), n_repeats=2, random_state=0).fit(
        X, y
    )
    parts = [s.fit.tolist() for s in OpenSetSplit(2, random_state=0).simulate(y)]
    # For the units of the grid, for the grid, for the estimator's own setting, and for the refit.
    assert [rows for _, rows, _ in Recorder.fitted_on] == [
        parts[0],
        *parts,
        *parts,
        list(range(len(y))),
    ]


def test_transformer_parameters(blobs):
    X, y = blobs
    X = X * [1.0, 50.0, 0.02]
    pipeline = Pipeline([("scale", StandardScaler()), ("svc", OpenSetSVC(tol=1e-6))])
    grid = {
        "scale": [StandardScaler(), MinMaxScaler(), "passthrough"],
        "svc__gamma": [0.3, 3.0],
        "svc__lam": [0.3, 0.6],
    }
    search = OpenSetSearchCV(pipeline, grid, n_repeats=2, random_state=0).fit(X, y)
    assert len(search.cv_results_["params"]) == 12
    for params, *scores in zip(
        search.cv_results_["params"],
        search.cv_results_["split0_test_score"],
        search.cv_results_["split1_test_score"],
        strict=True,
    ):
        for s, score in zip(OpenSetSplit(2, random_state=0).simulate(y), scores, strict=True):
            single = clone(pipeline).set_params(**params, svc__ensure_bounded=False)
            single.fit(X[s.fit], y[s.fit])
            if np.isneginf(score):
                assert not np.all(unwrap(single).bounded_)
                continue
            expected = get_scorer("normalized_accuracy")(single, X[s.validation], y[s.validation])
            assert score == pytest.approx(expected, abs=0.5 / 20 + 1e-12)


class FixedLambda(OpenSetSVC):
    """A subclass with fewer parameters than the method."""

    def __init__(self, C=1.0, gamma="scale", unknown_label="auto"):
        super().__init__(C=C, gamma=gamma, lam=0.2, unknown_label=unknown_label)


class FixedWidth(OpenSetSVC):
    def __init__(self, lam=0.1, unknown_label="auto"):
        super().__init__(gamma=0.1, lam=lam, unknown_label=unknown_label)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("kind", [FixedLambda, FixedWidth])
@pytest.mark.parametrize("wrap", [None, StandardScaler])
def test_the_grid_is_that_of_the_parameters_which_a_subclass_has(kind, preset, wrap, blobs):
    model = kind() if wrap is None else make_pipeline(wrap(), kind())
    search = OpenSetSearchCV(model, preset=preset, n_repeats=1, random_state=0).fit(*blobs)
    names = {"gamma", "C"} if kind is FixedLambda else {"lam"}
    assert {name.rpartition("__")[2] for name in search.best_params_} <= names
    described = search.describe()
    assert {*described["grid"]} <= names and {*described["scaled"]} <= names


def test_a_fixed_parameter_counts_in_a_search(blobs):
    grid = {"C": [0.5, 4.0]}
    expected = OpenSetSearchCV(OpenSetSVC(lam=0.2), grid, random_state=0).fit(*blobs)
    search = OpenSetSearchCV(FixedLambda(), grid, random_state=0).fit(*blobs)
    scores = (s.cv_results_["mean_test_score"] for s in (search, expected))
    np.testing.assert_array_equal(*scores)
