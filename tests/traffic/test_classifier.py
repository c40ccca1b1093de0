"""TrafficClassifier: two gates, honest estimates, abstention, and the contract of an estimator."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import openset
from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC, make_pipeline
from openset.gaussian import OpenSetCentroids
from openset.neighbors import OSNN
from openset.persistence import load_model, save_model
from openset.svm import MulticlassSVDD
from openset.traffic import TrafficClassifier
from openset.utils.estimator_checks import expected_failed_checks, open_set_checks

KNOWN, UNKNOWN = [(0, 0), (4, 0), (0, 4)], [(4, 4), (2, 2)]


def blobs(rng, n, centers):
    return np.concatenate([rng.normal(center, 0.6, (n, 2)) for center in centers])


@pytest.fixture(scope="module")
def data():
    """X, y, traffic of which 40 % are unknown, test rows of the same kinds, and their labels."""
    rng = np.random.default_rng(0)
    X, y = blobs(rng, 60, KNOWN), np.repeat(["a", "b", "c"], 60)
    traffic, test = (np.concatenate([blobs(rng, 60, c) for c in (KNOWN, UNKNOWN)]) for _ in "ab")
    return X, y, traffic, test, np.append(y, np.full(120, "unknown"))


@pytest.fixture(scope="module")
def learned(data):
    X, y, traffic, *_ = data
    return TrafficClassifier(OpenSetSVC(gamma=1.0), new_kinds=0, random_state=0).fit(X, y, traffic)


def test_kinds_that_recur_are_learned(data, learned):
    X, y, _, test, labels = data
    before = OpenSetSVC(gamma=1.0).fit(X, y).score(test, labels)
    assert learned.learned_ and learned.second_ is not None
    assert learned.score(test, labels) > before + 0.05
    assert learned.unknown_at_least_ <= 0.4 <= learned.unknown_share_ + 0.1


def test_scores_are_the_smaller_of_two_gates_and_the_first_names_the_class(data, learned):
    test = data[3]
    first = learned.estimator_.decision_function(test) - learned.thresholds_[0]
    second = learned.second_.decision_function(test).max(axis=1) - learned.thresholds_[1]
    scores = learned.decision_function(test)
    np.testing.assert_allclose(scores, np.minimum(first, second[:, None]), atol=1e-6)
    accepted = learned.predict(test) != "unknown"
    np.testing.assert_array_equal(accepted, (first.max(axis=1) >= 0) & (second >= 0))
    np.testing.assert_array_equal(learned.predict_known(test), learned.classes_[first.argmax(1)])
    np.testing.assert_array_equal(
        learned.predict(test)[accepted], learned.classes_[first.argmax(axis=1)][accepted]
    )


def test_probabilities_of_inclusion_are_those_of_the_estimator(data, learned):
    X, y, traffic, test, _ = data
    model = TrafficClassifier(openset.PISVM(), new_kinds=0, random_state=0).fit(X, y, traffic)
    expected = model.estimator_.inclusion_proba(test)
    np.testing.assert_array_equal(model.inclusion_proba(test), expected)
    assert not hasattr(learned, "inclusion_proba")


def test_certificate_holds_at_the_moved_threshold(data, learned):
    moved = learned.estimator_.with_thresholds(np.full(3, learned.thresholds_[0]))
    assert learned.thresholds_[0] != 0 and learned.bounded_.all()
    np.testing.assert_array_equal(learned.known_radius_, moved.known_radius_)
    np.testing.assert_array_equal(learned.far_scores(), moved.far_scores())
    rng = np.random.default_rng(1)
    rays = rng.normal(size=(500, 2))
    reach = 2 * np.linalg.norm(data[0], axis=1).max() + moved.known_radius_.max()
    far = rays / np.linalg.norm(rays, axis=1, keepdims=True) * reach
    assert (learned.predict(far) == "unknown").all()


@pytest.mark.parametrize("new_kinds", [0, 1])
def test_no_threshold_reaches_the_score_far_away(data, new_kinds):
    X, y, traffic, *_ = data
    model = OpenSetSVC(gamma=1.0, C=100.0)
    model = TrafficClassifier(model, new_kinds=new_kinds, random_state=0).fit(X, y, traffic)
    assert model.thresholds_[0] > model.estimator_.far_scores().max()


def test_known_traffic_alone_leaves_the_model_as_it_is(data):
    X, y, traffic, test, _ = data
    with pytest.warns(UserWarning, match="stays as it is: with confidence 0.95, at least 0.0%"):
        model = TrafficClassifier(OpenSetSVC(), random_state=0).fit(X, y, traffic[:180])
    assert not model.learned_ and model.second_ is None and model.price_ == {}
    assert "it learns from 5%" in model.reason_
    plain = OpenSetSVC().fit(X, y)
    np.testing.assert_array_equal(model.decision_function(test), plain.decision_function(test))
    np.testing.assert_array_equal(model.known_radius_, plain.known_radius_)


def test_copies_of_labelled_rows_are_not_unknown():
    rng = np.random.default_rng(0)
    X, y = blobs(rng, 40, KNOWN), np.repeat([0, 1, 2], 40)
    with pytest.warns(UserWarning, match="stays as it is"):
        model = TrafficClassifier(OpenSetCentroids(), random_state=0).fit(X, y, np.tile(X, (3, 1)))
    assert model.unknown_at_least_ == 0


def test_abstains_where_its_promise_says_so():
    """Without unknown rows the promise is wrong in at most one of twenty draws."""
    learned = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y, traffic = blobs(rng, 20, KNOWN), np.repeat([0, 1, 2], 20), blobs(rng, 20, KNOWN)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = TrafficClassifier(OpenSetCentroids(), random_state=0).fit(X, y, traffic)
        learned += model.learned_
    assert learned <= 3


def test_price_is_what_happens_to_new_rows():
    """Held-out labelled rows and known rows of the traffic are treated alike."""
    known, unknown, n = np.zeros(2), np.zeros(2), 6
    for seed in range(n):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(200, 4)), np.repeat([0, 1], 100)
        X[100:, 0] += 4
        new, other = rng.normal(size=(2, 2, 400, 4))
        new[:, 200:, 0] += 4
        other[..., 1] += 2.5  # rather like class 0
        model = TrafficClassifier(OpenSetSVC(gamma=0.1), new_kinds=0, random_state=0)
        model.fit(X, y, np.concatenate([new[0], other[0]]))
        known += model.price_["known"]["after"], np.mean(model.predict(new[1]) == -1)
        unknown += model.price_["unknown"]["after"], np.mean(model.predict(other[1]) == -1)
    assert abs(known[0] - known[1]) / n < 0.05
    assert abs(unknown[0] - unknown[1]) / n < 0.12  # the share of unknown rows is an estimate


METHODS = [cls for _, cls in openset.all_estimators() if cls.traits.known_unknowns]


@pytest.mark.parametrize("cls", METHODS, ids=lambda cls: cls.__name__)
def test_every_method_that_learns_known_unknowns(cls, data):
    X, y, traffic, test, labels = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TrafficClassifier(cls(), new_kinds=0, random_state=0).fit(X, y, traffic)
    assert model.unknown_at_least_ > 0.02
    assert model.score(test, labels) > cls().fit(X, y).score(test, labels) - 0.1
    first = model.estimator_.far_scores() - model.thresholds_[0]
    np.testing.assert_allclose(model.far_scores(), first)


@pytest.mark.parametrize(
    "estimator",
    [
        OpenSetSearchCV(OpenSetSVC(), random_state=0),
        make_pipeline(StandardScaler(), OpenSetSVC(gamma="scale")),
        make_pipeline(StandardScaler(), OpenSetSearchCV(OpenSetSVC(), random_state=0)),
        OpenSetSearchCV(make_pipeline(StandardScaler(), OpenSetSVC()), random_state=0),
        OSNN(),
    ],
    ids=["search", "pipeline", "search in pipeline", "pipeline in search", "osnn"],
)
def test_wrapped_estimators_copies_and_files(estimator, data, tmp_path):
    X, y, traffic, test, _ = data
    model = TrafficClassifier(estimator, random_state=0).fit(X, y, traffic)
    scores = model.decision_function(test)
    assert model.learned_
    again = clone(model).fit(X, y, traffic)
    np.testing.assert_array_equal(again.decision_function(test), scores)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(test), scores)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.decision_function(test), scores)
    assert loaded.reason_ == model.reason_ and loaded.price_ == model.price_


def test_damaged_model_is_refused(learned):
    damaged = pickle.loads(pickle.dumps(learned))
    damaged.thresholds_ = np.array([np.inf, 0.0])
    with pytest.raises(ValueError, match="thresholds_"):
        damaged.check_fitted()
    damaged.thresholds_ = np.array([0.0, -np.inf])
    with pytest.raises(ValueError, match="does not fit second_"):
        damaged.check_fitted()


def test_frozen_model_stays_inside(data):
    X, y, traffic, test, _ = data
    svc = OpenSetSVC(gamma=1.0).fit(X, y)
    model = TrafficClassifier(FrozenEstimator(svc), random_state=0).fit(X, y, traffic)
    assert model.estimator_.estimator is svc
    plain = TrafficClassifier(OpenSetSVC(gamma=1.0), random_state=0).fit(X, y, traffic)
    np.testing.assert_array_equal(model.decision_function(test), plain.decision_function(test))
    with pytest.raises(ValueError, match=r"y has the classes \['a', 'b'\].*trained on"):
        TrafficClassifier(FrozenEstimator(svc)).fit(X[:120], y[:120], traffic)
    with pytest.raises(ValueError, match="unknown_label='oos', but the frozen"):
        TrafficClassifier(FrozenEstimator(svc), unknown_label="oos").fit(X, y, traffic)


@pytest.mark.parametrize("outside", [True, False])
def test_known_unknowns_and_their_label(data, outside):
    X, y, traffic, test, _ = data
    X, y = np.concatenate([X, traffic[-9:]]), np.append(y, ["oos"] * 9)
    estimator = OpenSetSVC() if outside else OpenSetSVC(unknown_label="oos")
    model = TrafficClassifier(
        estimator, random_state=0, unknown_label="oos" if outside else "auto"
    ).fit(X, y, traffic)
    assert model.n_known_unknowns_ == 9 and model.unknown_label_ == "oos"
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert set(model.predict(test)) == {"a", "b", "c", "oos"}


def test_sparse_rows_and_tables(data):
    X, y, traffic, test, _ = data
    model = TrafficClassifier(OpenSetSVC(), random_state=0).fit(X, y, traffic)
    expected = model.predict(test)
    by_csr = clone(model).fit(sparse.csr_array(X), y, sparse.csr_array(traffic))
    assert np.mean(by_csr.predict(sparse.csr_array(test)) == expected) > 0.99
    X, traffic, test = (pd.DataFrame(rows, columns=["u", "v"]) for rows in (X, traffic, test))
    by_table = clone(model).fit(X, y, traffic)
    np.testing.assert_array_equal(by_table.predict(test), expected)
    assert by_table.feature_names_in_.tolist() == ["u", "v"]
    assert (by_table.explain(test).answer.to_numpy() == expected).all()


def test_it_can_be_calibrated(data, learned):
    test, labels = data[3:]
    known = labels != "unknown"
    rejector = CalibratedRejector(FrozenEstimator(learned), alpha=0.1)
    rejector.fit(test[known], labels[known])
    assert np.mean(rejector.predict(test[known]) == "unknown") <= 0.1


def test_large_traffic_is_thinned():
    rng = np.random.default_rng(0)
    X, y = blobs(rng, 50, KNOWN), np.repeat([0, 1, 2], 50)
    traffic = np.concatenate([blobs(rng, 5000, KNOWN), blobs(rng, 5000, UNKNOWN)])
    model = TrafficClassifier(OpenSetCentroids(), new_kinds=0, random_state=0).fit(X, y, traffic)
    assert "of the 20000 rows" in model.reason_
    assert abs(model.unknown_share_ - 0.4) < 0.15


def test_classes_are_edited_by_another_fit(learned, data):
    with pytest.raises(ValueError, match="Call fit with all samples and the traffic"):
        learned.add_classes(*data[:2])


@pytest.mark.parametrize(
    ("parameters", "change", "message"),
    [
        ({"new_kinds": 1.5}, {}, "'new_kinds' parameter .* Got 1.5"),
        ({"confidence": 1.0}, {}, "'confidence' parameter .* Got 1.0"),
        ({"estimator": MulticlassSVDD()}, {}, "estimator=MulticlassSVDD cannot learn.*OpenSetSVC"),
        ({"estimator": CalibratedRejector(OSNN())}, {}, "estimator=CalibratedRejector wraps"),
        ({}, {"X_traffic": None}, "X_traffic is None. Pass unlabelled"),
        ({}, {"X_traffic": np.zeros((9, 2))}, "X_traffic has 9 rows; at least 10"),
        ({}, {"X_traffic": np.zeros((20, 3))}, "X_traffic cannot be scored: .*3 features"),
        ({}, {"X_traffic": np.full((20, 2), np.nan)}, "X_traffic cannot be scored: .*NaN"),
        ({}, {"y": None}, "requires y"),
        ({}, {"y": np.zeros(7)}, "inconsistent numbers of samples"),
    ],
)
def test_wrong_use(parameters, change, message, data):
    arguments = dict(zip(("X", "y", "X_traffic"), data, strict=False)) | change
    with pytest.raises(ValueError, match=message):
        TrafficClassifier(**({"estimator": OSNN()} | parameters)).fit(**arguments)


def test_what_fits_it_without_traffic_is_told(data):
    X, y = data[:2]
    with pytest.raises(ValueError, match=r"X_traffic is None.*FrozenEstimator"):
        CalibratedRejector(TrafficClassifier(OpenSetSVC())).fit(X, y)
    with pytest.raises(ValueError, match="X_traffic is None"):
        TrafficClassifier(OpenSetSVC()).fit(X, y)


class OnItself(TrafficClassifier):
    """For checks that know of no traffic."""

    def fit(self, X, y):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The model stays as it is")
            return super().fit(X, y, X)


@parametrize_with_checks([OnItself(OpenSetSVC())], expected_failed_checks=expected_failed_checks)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", list(open_set_checks()), ids=lambda check: check.__name__)
def test_open_set(check):
    check(OnItself(OpenSetSVC(), random_state=0))


def test_traffic_that_is_not_like_the_labelled_rows_is_not_learned(data):
    X, y, *_ = data
    with pytest.warns(UserWarning, match="stays as it is: Above the score .* differ"):
        model = TrafficClassifier(OpenSetSVC(), random_state=0).fit(X, y, np.zeros((50, 2)))
    assert not model.learned_


def test_one_class_and_few_rows(data):
    X, y, traffic, *_ = data
    mixed = np.concatenate([traffic[:60], traffic[180:]])
    model = TrafficClassifier(OpenSetSVC(lam=0.3), new_kinds=0, random_state=0)
    assert model.fit(X[:60], y[:60], mixed).learned_
    with pytest.warns(UserWarning, match="stays as it is: 9 labelled rows can be held out"):
        TrafficClassifier(OpenSetSVC(), random_state=0).fit(X[::20], y[::20], traffic)
    model = TrafficClassifier(OpenSetSVC(), random_state=0).fit(X[:121], y[:121], traffic)
    assert model.classes_.tolist() == ["a", "b", "c"]  # one row of the last class
