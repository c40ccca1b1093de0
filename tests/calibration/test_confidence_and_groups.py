"""Promises with a confidence, for objects, for strangers and within categories."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC
from openset import make_pipeline as make_open_set_pipeline
from openset.calibration import (
    KnownRejected,
    Precision,
    StrangersAccepted,
    calibrate,
    find_unknowns,
    group_scores,
    predict_groups,
)
from openset.persistence import load_model, save_model

from .test_precision_and_cost import FROZEN

N_RUNS = 400


def _known(scores):
    """Samples of class 0 with these highest scores, which are for the own class."""
    return np.column_stack([scores, scores - 1]), np.zeros(len(scores), dtype=int)


def _objects(rng, n_objects, most=20, spread=0.3):
    """Scores of samples of objects of different sizes that are alike, and the objects."""
    sizes = rng.integers(1, most, size=n_objects)
    groups = np.repeat(np.arange(n_objects), sizes)
    level = rng.normal(size=n_objects) + 0.1 * sizes  # small objects are harder
    return level[groups] + spread * rng.normal(size=len(groups)), groups


def _model(rng, point, X, y, *more, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CalibratedRejector(FROZEN, criterion=point).fit(X, y, *more, **given)


@pytest.mark.parametrize(("alpha", "n"), [(0.05, 59), (0.05, 100), (0.05, 500), (0.01, 299)])
def test_the_confidence_is_about_the_set_that_was_drawn(alpha, n):
    # Of uniform scores the share below a threshold is the threshold.
    rng = np.random.default_rng(n)
    point = KnownRejected(alpha, confidence=0.95)
    rejected = [
        np.clip(_model(rng, point, *_known(rng.uniform(size=n))).thresholds_[0], 0, 1)
        for _ in range(N_RUNS)
    ]
    assert np.mean(np.array(rejected) > alpha) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / N_RUNS)
    if n == 500:
        assert np.mean(rejected) >= alpha / 2


def test_too_few_samples_for_a_confidence():
    point = KnownRejected(0.05, confidence=0.95)
    with pytest.raises(ValueError, match=r"at least 59 .*there are 58.*raise alpha to 0.0504"):
        _model(None, point, *_known(np.arange(58.0)))
    with pytest.raises(ValueError, match="a confidence is for independent samples"):
        _model(None, point, *_known(np.arange(80.0)), groups=np.arange(80))


@pytest.mark.parametrize("alpha", [0.1, 0.05])
def test_objects_keep_the_promise_that_rows_break(alpha):
    rng = np.random.default_rng(0)
    broken, kept = [], []
    for _ in range(N_RUNS):
        scores, groups = _objects(rng, 30)
        new, owner = _objects(rng, 300)
        weight = 1 / np.bincount(owner)[owner] / 300  # a random sample of a random object
        for shares, given in ((broken, {}), (kept, {"groups": groups})):
            model = _model(rng, KnownRejected(alpha), *_known(scores), **given)
            shares.append(weight @ (new < model.thresholds_[0]))
    error = 2 * np.std(kept) / np.sqrt(N_RUNS)
    assert np.mean(kept) <= alpha + error
    assert np.mean(kept) >= alpha - 3 / 31 - error  # and not for nothing
    assert np.mean(broken) > 1.2 * alpha


def test_one_sample_per_object_is_the_promise_about_samples():
    rng = np.random.default_rng(1)
    X, y = _known(rng.normal(size=120).round(1))
    plain = _model(rng, KnownRejected(0.1), X, y)
    grouped = _model(rng, KnownRejected(0.1), X, y, groups=rng.permutation(120))
    assert plain.thresholds_.tolist() == grouped.thresholds_.tolist()
    np.testing.assert_allclose(plain.known_p_value(X), grouped.known_p_value(X))
    np.testing.assert_allclose(plain.p_values(X), grouped.p_values(X))


def test_p_values_of_objects_by_definition():
    rng = np.random.default_rng(2)
    scores, groups = _objects(rng, 25)
    model = _model(rng, KnownRejected(0.1), *_known(scores), groups=groups)
    new = rng.normal(size=10)
    for s, p in zip(new, model.known_p_value(_known(new)[0]), strict=True):
        shares = [np.mean(scores[groups == g] <= s) for g in range(25)]
        assert p == pytest.approx((1 + sum(shares)) / 26)
    with pytest.raises(ValueError, match="calibrated on groups: pass"):
        find_unknowns(model, _known(new)[0])
    with pytest.raises(ValueError, match="calibrated on groups"):
        model.check(_known(new)[0])


@pytest.mark.parametrize("aggregate", ["mean", "median", "votes"])
def test_one_answer_per_object(aggregate):
    rng = np.random.default_rng(3)
    rejected = []
    for _ in range(N_RUNS // 4):
        scores, groups = _objects(rng, 40, spread=1.0)
        point = KnownRejected(0.1, aggregate=aggregate)
        model = _model(rng, point, *_known(scores), groups=groups)
        new, owner = _objects(rng, 200, spread=1.0)
        _, answers = predict_groups(model, _known(new)[0], owner)
        rejected.append(np.mean(answers == -1))
    error = 2 * np.std(rejected) / np.sqrt(len(rejected))
    assert 0.1 - 2 / 41 - error <= np.mean(rejected) <= 0.1 + error
    assert point.sentence == "at most 10 % of the known objects are rejected"
    mixed = _known(scores)[0], rng.integers(2, size=len(scores))
    with pytest.raises(ValueError, match="samples of more than one class"):
        _model(rng, point, *mixed, groups=groups)
    with pytest.raises(ValueError, match="needs groups in fit"):
        _model(rng, point, *_known(scores))


def test_the_level_of_a_group_is_where_its_answer_changes():
    # By definition: the highest threshold at which predict_groups gives a class.
    rng = np.random.default_rng(8)
    scores, groups = rng.normal(size=(200, 2)).round(1), np.sort(rng.integers(30, size=200))
    names = np.unique(groups)
    for aggregate in ("mean", "median", "votes"):
        point = KnownRejected(0.2, aggregate=aggregate)
        model = _model(rng, point, scores, np.isin(groups, names[::2]).astype(int), groups=groups)
        for t in np.unique(scores.max(axis=1)):
            moved = group_scores(scores - t - 1e-9, groups, aggregate=aggregate)[1].max(axis=1)
            assert np.sum(moved >= 0) == np.sum(model._group_levels >= t + 1e-9)
    for wrong in ({"own_class": True}, {"within": "class"}):
        with pytest.raises(ValueError, match="votes are counted at one threshold"):
            KnownRejected(0.1, aggregate="votes", **wrong)
    with pytest.raises(ValueError, match="must be None or one of mean, median, votes"):
        KnownRejected(0.1, aggregate="max")


def test_false_alarms_among_objects():
    rng = np.random.default_rng(9)
    shares, found = [], []
    for _ in range(N_RUNS // 2):
        scores, groups = _objects(rng, 99)
        known, owner = _objects(rng, 30)
        far, strange = _objects(rng, 10)
        batch = _known(np.append(known, far - 6))[0]
        tracks = np.append(owner, 100 + strange)
        is_known = np.arange(len(batch)) < len(known)
        model = _model(rng, KnownRejected(0.1), *_known(scores), groups=groups)
        reported = find_unknowns(model, batch, q=0.2, groups=tracks)
        _, first = np.unique(tracks, return_index=True)
        assert_array_equal(reported, reported[first][np.unique(tracks, return_inverse=True)[1]])
        once = reported[first]
        shares.append(np.sum(once & is_known[first]) / max(1, once.sum()))
        found.append(np.mean(once[~is_known[first]]))
    error = 2 * np.std(shares) / np.sqrt(N_RUNS // 2)
    assert np.mean(shares) <= 0.2 * 30 / 40 + error
    assert np.mean(found) > 0.8
    plain = _model(rng, KnownRejected(0.1), *_known(scores))
    with pytest.raises(ValueError, match="calibrated without"):
        find_unknowns(plain, batch, groups=tracks)
    with pytest.raises(ValueError, match="calibrated without"):
        plain.check(batch, groups=tracks)
    with pytest.raises(ValueError, match="at least 199 calibration groups; there are 99"):
        find_unknowns(model, batch, q=0.005, groups=tracks)
    with pytest.raises(ValueError, match="groups has shape"):
        find_unknowns(model, batch, groups=tracks[1:])


def test_objects_are_compared_with_objects():
    rng = np.random.default_rng(10)
    kept, changed = [], []
    for _ in range(N_RUNS // 2):
        scores, groups = _objects(rng, 60)
        model = _model(rng, KnownRejected(0.1), *_known(scores), groups=groups)
        new, owner = _objects(rng, 60)
        kept.append(model.check(_known(new)[0], groups=owner).p_value)
        changed.append(model.check(_known(new - 0.8)[0], groups=owner).p_value)
    assert np.mean(np.array(kept) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert np.mean(np.array(changed) <= 0.05) > 0.4


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("mean", [0, -1, -1]), ("median", [0, 0, -1]), ("votes", [0, 0, -1])],
)
def test_aggregates(aggregate, expected):
    X = np.array([[1, 0], [0.5, 0], [0.1, 0], [0.2, -1], [-9, -9], [-1, -1], [-2, -1]], dtype=float)
    names, answers = predict_groups(
        FROZEN.estimator, X, ["a", "a", "b", "b", "b", "c", "c"], aggregate=aggregate
    )
    assert names.tolist() == ["a", "b", "c"] and answers.tolist() == expected
    with pytest.raises(ValueError, match="must be one of mean, median, votes"):
        predict_groups(FROZEN.estimator, X, np.arange(7), aggregate="max")
    with pytest.raises(ValueError, match="inconsistent"):
        predict_groups(FROZEN.estimator, X, [1, 2])
    rng = np.random.default_rng(0)
    point = KnownRejected(0.4, aggregate=aggregate)
    model = _model(rng, point, X[:, [0, 0]], np.zeros(7, int), groups=[0, 0, 1, 1, 2, 3, 3])
    default = predict_groups(model, X, ["a", "a", "b", "b", "b", "c", "c"])[1]
    chosen = predict_groups(model, X, ["a", "a", "b", "b", "b", "c", "c"], aggregate=aggregate)[1]
    assert default.tolist() == chosen.tolist()


@pytest.mark.parametrize(("n_strangers", "rate"), [(19, 0.1), (60, 0.05), (19, 0.05), (99, 0.01)])
@pytest.mark.parametrize("ties", [False, True])
def test_strangers_are_accepted_at_most_as_often_as_promised(n_strangers, rate, ties):
    rng = np.random.default_rng(4)
    X, y = _known(np.linspace(-4, 9, 300))
    accepted = []
    for _ in range(N_RUNS):
        scores, groups = _objects(rng, n_strangers)
        new, owner = _objects(rng, 400)
        if ties:
            scores, new = scores.round(1), new.round(1)
        model = _model(rng, StrangersAccepted(rate), X, y, _known(scores)[0], unknown_groups=groups)
        assert model.promise_
        weight = 1 / np.bincount(owner)[owner] / 400
        accepted.append(weight @ (new >= model.thresholds_[0]))
    error = 2 * np.std(accepted) / np.sqrt(N_RUNS)
    assert np.mean(accepted) <= rate + error
    if not ties:
        assert np.mean(accepted) >= rate - 2 / (n_strangers + 1) - error


def test_too_few_strangers():
    X, y = _known(np.linspace(0, 1, 100))
    strangers = _known(np.linspace(-0.5, 0.5, 20))[0]
    with pytest.raises(ValueError, match=r"least 99 identities.*there are 10.*rate .* 0.09091.*%"):
        _model(None, StrangersAccepted(0.01), X, y, strangers, unknown_groups=np.arange(20) // 2)
    with pytest.raises(ValueError, match="needs unknown_groups in fit"):
        _model(None, StrangersAccepted(0.1), X, y, strangers)
    with pytest.raises(ValueError, match="rejects all known samples"):
        _model(None, StrangersAccepted(0.1), X, y, strangers + 9, unknown_groups=np.arange(20))
    with pytest.raises(ValueError, match="a fitted model cannot withhold classes"):
        _model(None, StrangersAccepted(0.1), X, y)
    with pytest.raises(ValueError, match="without X_unknown, whose samples"):
        _model(None, StrangersAccepted(0.1), X, y, unknown_groups=np.arange(20))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def test_trade_off_of_strangers(digits, tmp_path):
    pytest.importorskip("skops")
    X, y = digits
    known = y < 5
    svc = OpenSetSVC(gamma=0.2).fit(X[known][::2], y[known][::2])
    rows = np.r_[np.flatnonzero(known)[1::2], np.flatnonzero(~known)]
    identities = np.arange(len(X)) // 9  # of unknown rows: their writers, say
    point = StrangersAccepted(0.05)
    model = calibrate(svc, X[rows], y[rows], groups=identities[rows], criterion=point)
    table = model.strangers_["trade_off"]
    assert [row["rate"] for row in table] == [0.1, 0.05, 0.01]
    assert table[1]["threshold"] == model.thresholds_[0]
    for row in table:
        assert row["accepted"] <= row["rate"]
        moved = svc.with_thresholds(np.full(5, row["threshold"]))
        right = moved.predict(X[known][1::2]) == y[known][1::2]
        assert row["named_right"] == pytest.approx(right.mean())
    assert model.strangers_["source"] == "X_unknown"
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.strangers_ == model.strangers_ and loaded.criterion == point
    # Labels are identities where nothing else is said.
    few = calibrate(svc, X[rows], y[rows], criterion=StrangersAccepted(0.2))
    assert few.strangers_["identities"] == 5


def test_withheld_classes_are_an_estimate(digits):
    X, y = digits
    model = CalibratedRejector(
        make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.01)),
        criterion=StrangersAccepted(0.2),
        random_state=0,
    )
    model.fit(X[y < 8], y[y < 8])
    assert not model.promise_
    assert "estimate" in model.strangers_["source"] and model.strangers_["identities"] == 8
    assert np.mean(model.predict(X[y >= 8]) != -1) < 0.5
    with pytest.raises(ValueError, match="2 are too few"):
        model.fit(X[y < 2], y[y < 2])


def test_known_unknowns_of_the_fit_are_no_strangers(digits):
    X, y = digits
    labels = np.where(y < 6, y, 99)
    svc = OpenSetSVC(gamma=0.2, unknown_label=99).fit(X[::2], labels[::2])
    cal = np.flatnonzero(y < 6)[1::2]
    cal = cal[cal % 2 == 1]
    point = StrangersAccepted(0.2)
    seen = np.flatnonzero((y >= 6) & (np.arange(len(y)) % 2 == 0))
    frozen = CalibratedRejector(FrozenEstimator(svc), criterion=point)
    with pytest.raises(ValueError, match="known unknowns that the model was fitted to"):
        frozen.fit(X[cal], y[cal], X[seen], unknown_groups=np.arange(len(seen)))
    fresh = np.flatnonzero((y >= 6) & (np.arange(len(y)) % 2 == 1))
    assert frozen.fit(X[cal], y[cal], X[fresh], unknown_groups=fresh).promise_


def test_a_group_is_not_on_both_sides(digits):
    X, y = digits
    groups = np.arange(len(y)) // 6
    model = CalibratedRejector(OpenSetSVC(gamma=0.2), alpha=0.1, random_state=0)
    model.fit(X, y, groups=groups)
    rest = np.setdiff1d(np.arange(len(y)), model._fit_rows)
    assert np.intersect1d(groups[rest], groups[model._fit_rows]).size == 0
    assert 0.15 < len(rest) / len(y) < 0.35
    with pytest.raises(ValueError, match="one group"):
        model.fit(X, y, groups=np.zeros(len(y)))


def _two_cameras(rng, n):
    """Scores of two cameras: those of the second are lower."""
    cameras = np.where(rng.random(n) < 0.3, "b", "a")
    return rng.normal(np.where(cameras == "a", 2.0, 0.0)), cameras


def test_each_category_keeps_the_promise():
    rng = np.random.default_rng(5)
    rejected = {"a": [], "b": []}
    for _ in range(N_RUNS // 2):
        scores, cameras = _two_cameras(rng, 200)
        point = KnownRejected(0.1, within="category")
        model = _model(rng, point, *_known(scores), categories=cameras)
        new, where = _two_cameras(rng, 1000)
        answers = model.predict(_known(new)[0], categories=where)
        for name, shares in rejected.items():
            shares.append(np.mean(answers[where == name] == -1))
    for shares in rejected.values():
        assert 0.07 <= np.mean(shares) <= 0.1 + 3 * np.std(shares) / np.sqrt(len(shares))


def test_categories_in_all_methods(tmp_path):
    pytest.importorskip("skops")
    rng = np.random.default_rng(6)
    scores, cameras = _two_cameras(rng, 400)
    X, y = _known(scores)
    point = KnownRejected(0.1, within="category")
    model = _model(rng, point, X, y, categories=cameras)
    assert model.categories_.tolist() == ["a", "b"] and model.thresholds_.shape == (2, 2)
    for m, name in enumerate("ab"):
        rows = cameras == name
        alone = _model(rng, KnownRejected(0.1), X[rows], y[rows])
        assert_array_equal(alone.thresholds_, model.thresholds_[m])
        given = {"categories": cameras[rows]}
        for method in ("predict", "decision_function", "known_score", "predict_set"):
            expected = getattr(alone, method)(X[rows])
            assert_array_equal(getattr(model, method)(X[rows], **given), expected)
        assert_array_equal(model.p_values(X[rows], **given), alone.p_values(X[rows]))
        assert_array_equal(model.known_p_value(X[rows], **given), alone.known_p_value(X[rows]))
    with pytest.raises(ValueError, match=r"pass categories, the category .* \['a', 'b'\]"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"within the categories \['c'\]"):
        model.predict(X[:1], categories=["c"])
    with pytest.raises(ValueError, match="has shape"):
        model.predict(X, categories=["a"])
    with pytest.raises(ValueError, match="was not calibrated within categories"):
        alone.predict(X, categories=cameras)
    with pytest.raises(ValueError, match="belong together"):
        _model(rng, point, X, y)
    with pytest.raises(ValueError, match="of category 'c'; there are 2"):
        _model(rng, point, X, y, categories=np.r_[["c", "c"], cameras[2:]])
    with pytest.raises(ValueError, match="does not use it"):
        _model(rng, Precision(0.5), X, y, groups=cameras)


def test_a_category_model_in_a_file(digits, tmp_path):
    pytest.importorskip("skops")
    X, y = digits
    category = np.where(np.arange(len(y)) % 3, "x", "y")
    model = CalibratedRejector(
        OpenSetSVC(gamma=0.2), criterion=KnownRejected(0.1, within="category"), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, categories=category)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert_array_equal(
        loaded.predict(X, categories=category), model.predict(X, categories=category)
    )
    assert_array_equal(loaded.bounded_, model.bounded_)
    onnx = pytest.importorskip("openset.export")
    with pytest.raises(ValueError, match="per category cannot be exported"):
        onnx.to_onnx(model)


def test_check_tells_when_not_to_rely_on_a_promise():
    rng = np.random.default_rng(7)
    p_values, changed = [], []
    for _ in range(N_RUNS):
        model = _model(rng, KnownRejected(0.05), *_known(rng.normal(size=300)))
        p_values.append(model.check(_known(rng.normal(size=200))[0]).p_value)
        changed.append(model.check(_known(rng.normal(-0.8, size=200))[0]).p_value)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / N_RUNS)
    assert np.mean(np.array(changed) <= 0.05) > 0.9
    result = model.check(_known(rng.normal(-0.8, size=200))[0])
    assert "CHANGED" in str(result) and result.shift < 0
    with pytest.raises(ValueError, match="of 5 new ones look known; 10 of each are needed"):
        model.check(_known(rng.normal(size=5))[0])


@pytest.mark.parametrize(
    ("point", "name"),
    [
        (KnownRejected(0.3), "groups"),
        (KnownRejected(0.3, within="category"), "categories"),
        (StrangersAccepted(0.3), "unknown_groups"),
    ],
)
def test_objects_that_are_missing_or_of_two_types(point, name):
    X, y = _known(np.arange(20.0))
    more = [X] if name == "unknown_groups" else []
    for values, message in (
        ([1.0, np.nan] * 10, r"\[1\] is missing"),
        (np.array(["a", None] * 10, dtype=object), r"\[1\] is missing"),
        (np.array(["a", 1] * 10, dtype=object), " mixes int and str"),
        (np.zeros((20, 2)), r" has shape \(20, 2\)"),
        ([1], r" has shape \(1,\), which is inconsistent with 20 rows"),
    ):
        with pytest.raises(ValueError, match=name + message):
            _model(None, point, X, y, *more, **{name: values})


def test_a_search_inside_gets_the_objects():
    rng = np.random.default_rng(8)
    objects = np.repeat(np.arange(60), 5)
    X = rng.normal(size=(60, 4))[objects] + 0.1 * rng.normal(size=(300, 4))
    y = objects % 3
    svc = OpenSetSVC(ensure_bounded=False)
    search = OpenSetSearchCV(svc, {"gamma": [0.1, 10.0]}, n_repeats=2, random_state=0)
    model = CalibratedRejector(search, alpha=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, groups=objects)
        rows = model._fit_rows
        scores = [
            clone(search).fit(X[rows], y[rows], groups=groups).best_score_
            for groups in (objects[rows], None)
        ]
    assert model.estimator_.best_score_ == scores[0] < scores[1]


def test_a_pipeline_answers_as_its_last_step():
    X, y = load_digits(n_class=4, return_X_y=True)
    site = np.where(np.arange(len(y)) % 3, "a", "b")
    fitted = make_open_set_pipeline(StandardScaler(), OpenSetSVC()).fit(X[::2], y[::2])
    point = KnownRejected(0.2, within="category")
    Z, scaled = X[1::2], fitted[:-1].transform(X[1::2])
    model = calibrate(fitted, Z, y[1::2], criterion=point, categories=site[1::2])
    for name in ("predict", "decision_function", "known_score", "p_values", "known_p_value"):
        own = getattr(model[-1], name)(scaled, categories=site[1::2])
        assert_array_equal(getattr(model, name)(Z, categories=site[1::2]), own)
    own = model[-1].predict_set(scaled, alpha=0.1, categories=site[1::2])
    assert_array_equal(model.predict_set(Z, alpha=0.1, categories=site[1::2]), own)
    assert model.check(Z) == model[-1].check(scaled)
    objects = np.arange(len(Z)) // 4
    _, answers = predict_groups(model, Z, objects, categories=site[1::2])
    _, expected = predict_groups(model[-1], scaled, objects, categories=site[1::2])
    assert_array_equal(answers, expected)
    plain = calibrate(fitted, Z, y[1::2])
    assert_array_equal(find_unknowns(plain, Z), find_unknowns(plain[-1], scaled))
    assert not hasattr(fitted, "p_values") and not hasattr(fitted, "check")


def test_the_quantile_of_masses_by_fractions():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n_groups = int(rng.integers(1, 12))
        sizes = rng.integers(1, 8, size=n_groups)
        groups = np.repeat(np.arange(n_groups), sizes)
        scores = rng.integers(6, size=len(groups)).astype(float)  # ties
        alpha = Fraction(int(rng.integers(1, n_groups + 1)), n_groups + 1)
        model = _model(rng, KnownRejected(float(alpha)), *_known(scores), groups=groups)
        lowest = next(
            score
            for score in np.unique(scores)
            if Fraction(1, n_groups + 1)
            + sum(
                Fraction(int(np.sum(scores[groups == g] <= score)), int(sizes[g] * (n_groups + 1)))
                for g in range(n_groups)
            )
            > alpha
        )
        assert lowest - 1 <= model.thresholds_[0] <= lowest
        assert not np.any((scores >= model.thresholds_[0]) & (scores < lowest))
