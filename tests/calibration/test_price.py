"""What an operating point costs: price_, and the warnings where rejection is lost."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC, make_pipeline
from openset.calibration import (
    Accuracy,
    Cost,
    KnownRejected,
    Precision,
    UnknownRejected,
    calibrate,
)
from openset.evaluation import fit_method
from openset.utils import unwrap

from .test_precision_and_cost import COSTS, FROZEN

CRITERIA = [
    KnownRejected(),
    Precision(0.5, unknown_share=0.1),
    Cost(**COSTS | {"wrong": 0}, unknown_share=0.1),
    UnknownRejected(),
    Accuracy(),
]


def _overlapping(n=600, seed=0):
    """Two classes that are often confused, and unknown samples that score in between."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    X = np.full((n, 2), -1.0) + 0.1 * rng.normal(size=(n, 2))
    answer = np.where(rng.uniform(size=n) < 0.2, 1 - codes, codes)
    X[np.arange(n), answer] = rng.normal(1.0, 0.5, size=n)
    unknown = rng.normal(-0.5, 0.1, size=(200, 2))
    return X, codes, unknown


def _shares(model, X):
    """Shares rejected by the estimator itself, and by the model."""
    return [float(np.mean(m.predict(X) == -1)) for m in (model.estimator_, model)]


def _refuse_warnings():
    """Make warnings errors, but for those that a toy estimator has no model file."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "save_model will not save")


@pytest.mark.parametrize("alpha", [0.02, 0.05, 0.1])
def test_the_default_is_the_tightest_threshold_that_keeps_the_promise(alpha):
    X, y, unknown = _overlapping()
    Z, z, _ = _overlapping(20_000, seed=1)
    with warnings.catch_warnings():
        _refuse_warnings()
        model = CalibratedRejector(FROZEN, alpha=alpha).fit(X, y, X_unknown=unknown)
    error = 3 * np.sqrt(alpha * (1 - alpha) * (1 / len(X) + 1 / len(Z)))
    assert abs(np.mean(model.predict(Z) == -1) - alpha) <= error
    assert np.mean(model.predict(unknown) == -1) == 1
    # The stronger promise, that the own class accepts, is kept, and loses all rejection.
    with pytest.warns(UserWarning, match=r"rejected falls from 100.0% to .* or own_class=False"):
        point = KnownRejected(alpha, own_class=True)
        strong = CalibratedRejector(FROZEN, criterion=point).fit(X, y, X_unknown=unknown)
    own = strong.decision_function(Z)[np.arange(len(Z)), z]
    assert abs(np.mean(own < 0) - alpha) <= error
    assert strong.price_["unknown"]["after"] == 0


def test_the_own_class_counts_per_class():
    X, y, _ = _overlapping()
    plain, own = (
        CalibratedRejector(FROZEN, criterion=KnownRejected(0.1, within="class", own_class=own)).fit(
            X, y
        )
        for own in (False, True)
    )
    assert plain.thresholds_.tolist() == own.thresholds_.tolist()


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_shares_before_and_after(criterion):
    X, y, unknown = _overlapping()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CalibratedRejector(FROZEN, criterion=criterion).fit(X, y, X_unknown=unknown)
    for kind, rows in (("known", X), ("unknown", unknown)):
        found = model.price_[kind]
        assert [found["before"], found["after"]] == _shares(model, rows)
        assert str(len(rows)) in found["source"]


@pytest.mark.parametrize("params", [{}, {"criterion": Precision(0.5)}])
def test_unknown_rows_of_calibrate_tell_the_price(params):
    # Also where the criterion does not look at them.
    X, y, unknown = _overlapping()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = calibrate(FROZEN.estimator, [*X, *unknown], [*y, *[7] * len(unknown)], **params)
    found = model.price_["unknown"]
    assert [found["before"], found["after"]] == _shares(model, unknown)


def test_without_unknown_samples_the_price_is_not_known():
    X, y, _ = _overlapping()
    with warnings.catch_warnings():
        _refuse_warnings()
        price = CalibratedRejector(FROZEN).fit(X, y).price_
    assert price["unknown"] == {"before": None, "after": None, "source": "not known"}
    assert 0.03 < price["known"]["after"] <= 0.05


def test_a_low_threshold_that_was_chosen_low_before_is_no_loss():
    X, y, unknown = _overlapping()
    with warnings.catch_warnings():
        _refuse_warnings()  # few are rejected, but more than before
        CalibratedRejector(FROZEN, alpha=0.5).fit(X, y, X_unknown=unknown + 2)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    known = rng.permutation(np.flatnonzero(y < 7))
    return X, y, known[:600], known[600:], np.flatnonzero(y >= 7)


@pytest.fixture(scope="module")
def search(digits):
    X, y, fit, _, _ = digits
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC())
    return OpenSetSearchCV(pipeline, random_state=0).fit(X[fit], y[fit])


PATHS = {
    "frozen search": lambda s, X, y, **p: CalibratedRejector(FrozenEstimator(s), **p).fit(X, y),
    "best estimator": lambda s, X, y, **p: CalibratedRejector(
        FrozenEstimator(s.best_estimator_), **p
    ).fit(X, y),
    "calibrate a search": lambda s, X, y, **p: calibrate(s, X, y, **p),
    "calibrate a pipeline": lambda s, X, y, **p: calibrate(s.best_estimator_, X, y, **p),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("per_class", [False, True])
def test_withheld_classes_tell_the_price(digits, search, path, per_class):
    X, y, _, rows, others = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        within = "class" if per_class else None
        model = PATHS[path](search, X[rows], y[rows], criterion=KnownRejected(0.1, within=within))
    found = unwrap(model).price_["unknown"]
    assert found["source"] == "classes withheld in the search"
    for share, judged in ((found["before"], search), (found["after"], model)):
        true = np.mean(judged.predict(X[others]) == unwrap(judged).unknown_label_)
        assert abs(share - true) < 0.2
    with pytest.warns(UserWarning, match="classes withheld in the search"):
        PATHS[path](search, X[rows], y[rows], criterion=KnownRejected(0.02, within=within))


def test_an_estimate_is_warned_of_earlier_than_a_count():
    X, y, _ = _overlapping()
    X = X - 2
    t = CalibratedRejector(FROZEN).fit(X, y).thresholds_[0]
    # All of them are rejected before, 57 % after: below t.
    lost = np.repeat([[t - 0.01] * 2, [t / 2] * 2], [57, 43], axis=0)
    with warnings.catch_warnings():
        _refuse_warnings()
        CalibratedRejector(FROZEN).fit(X, y, X_unknown=lost)
    searched = copy.deepcopy(FROZEN.estimator)
    searched.withheld_scores_ = lost[:, 0]
    with pytest.warns(UserWarning, match=r"falls from 100.0% to 57.0% \(classes withheld"):
        CalibratedRejector(FrozenEstimator(searched)).fit(X, y)


def test_withheld_scores_do_not_depend_on_the_number_of_threads(digits, search):
    X, y, fit, _, _ = digits
    again = OpenSetSearchCV(search.estimator, random_state=0, n_jobs=2).fit(X[fit], y[fit])
    assert again.withheld_scores_.tolist() == search.withheld_scores_.tolist()
    # A search that only tells the parameters keeps them, too, and so does the model after it.
    fitted = fit_method(search, X[fit], y[fit])
    assert unwrap(fitted.model).withheld_scores_.tolist() == search.withheld_scores_.tolist()


def test_no_class_was_withheld(digits):
    X, y, fit, rows, _ = digits
    two = fit[y[fit] < 2]
    grid = {"gamma": [0.001, 0.01]}
    for params in ({"scenario": "closed"}, {"level": "class"}):
        search = OpenSetSearchCV(OpenSetSVC(), grid, n_repeats=2, random_state=0, **params)
        part = two if "scenario" in params else fit
        assert search.fit(X[part], y[part]).withheld_scores_ is None
        some = rows[np.isin(y[rows], search.classes_)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = CalibratedRejector(FrozenEstimator(search)).fit(X[some], y[some])
        assert model.price_["unknown"]["source"] == "not known"


def _clusters():
    X = np.array([[-0.5], [0.0], [0.5], [9.5], [10.0], [10.5]])
    return OpenSetSVC(gamma=0.5, lam=0.5).fit(X, np.repeat([0, 1], 3))


def test_a_threshold_near_the_score_far_away_is_warned_of_without_unknown_samples():
    frozen = FrozenEstimator(_clusters())
    near = np.append(np.linspace(-0.5, 0.5, 60), np.linspace(-3.4, -3.0, 10))[:, None]
    with pytest.warns(UserWarning, match="hardly above the score far away") as caught:
        model = CalibratedRejector(frozen, alpha=0.05).fit(near, np.zeros(70, dtype=int))
    assert caught[0].filename == __file__
    assert model.bounded_.all()  # still, and no other warning tells it
    assert len(caught) == 1
    with warnings.catch_warnings():
        _refuse_warnings()
        CalibratedRejector(frozen, alpha=0.3).fit(near, np.zeros(70, dtype=int))


def test_warnings_point_to_the_caller():
    X, y, unknown = _overlapping()
    with pytest.warns(UserWarning, match="rejected falls") as caught:
        point = KnownRejected(own_class=True)
        CalibratedRejector(FROZEN, criterion=point).fit(X, y, X_unknown=unknown)
    (warned,) = (w for w in caught if "rejected falls" in str(w.message))
    assert warned.filename == __file__
    with pytest.warns(UserWarning, match="rejected falls") as caught:
        calibrate(FROZEN.estimator, [*X, *unknown], [*y, *[7] * len(unknown)], criterion=point)
    (warned,) = (w for w in caught if "rejected falls" in str(w.message))
    assert warned.filename == __file__
