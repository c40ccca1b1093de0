"""How much of the traffic is unknown, for a model: promise, estimate, their text, bad input."""

import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import CalibratedRejector, OpenSetLDA, OpenSetSVC
from openset.calibration import KnownRejected, calibrate, mixture
from openset.persistence import load_model, save_model
from openset.traffic import estimate_traffic

CENTRES = {"ash": (0, 0), "birch": (6, 0), "cedar": (0, 6), "unseen": (7, 7)}


def draw(rng, counts):
    """Rows of 2-D clouds, shuffled, and their classes."""
    y = np.repeat([*counts], [*counts.values()])
    X = np.array([CENTRES[c] for c in y]) + rng.normal(size=(len(y), 2))
    order = rng.permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    train = draw(rng, {"ash": 100, "birch": 100, "cedar": 100})
    calibration = draw(rng, {"ash": 200, "birch": 200, "cedar": 200})
    traffic, truth = draw(rng, {"ash": 250, "birch": 150, "cedar": 100, "unseen": 200})
    return train, calibration, traffic, truth


@pytest.fixture(scope="module")
def model(data):
    return make_pipeline(StandardScaler(), OpenSetLDA()).fit(*data[0])


def test_a_table_without_labels_and_a_calibrated_model(data, model):
    _, calibration, traffic, truth = data
    calibrated = calibrate(model, *calibration)
    report = estimate_traffic(calibrated, traffic)
    share = np.mean(truth == "unseen")
    assert 0.2 < report.unknown_at_least < share
    assert 0 < report.unknown_at_least_any_mix < report.unknown_at_least
    assert report.unknown_share == pytest.approx(share, abs=0.04)
    assert report.unknown_interval[0] < share < report.unknown_interval[1]
    np.testing.assert_allclose(report.class_shares, [0.5, 0.3, 0.2], atol=0.05)
    assert report.rejected == np.mean(calibrated.predict(traffic) == "unknown")
    assert (report.n_traffic, report.n_calibration) == (700, 600)
    assert report.warning is None and report.reason is None
    np.testing.assert_array_equal(report.thresholds, calibrated[-1].thresholds_)


def test_calibration_rows_may_be_passed(data, model):
    """The numbers are those of the scores of the model; rows of other classes are left out."""
    _, (X, y), traffic, _ = data
    more = np.vstack([X, np.full((30, 2), 50.0)]), np.append(y, ["elsewhere"] * 30)
    report = estimate_traffic(model, traffic, more, confidence=0.9)
    codes = np.searchsorted(model.classes_, y)
    expected = mixture(
        *(model.decision_function(X), model.decision_function(traffic), codes), confidence=0.9
    )
    for name in ("unknown_at_least", "unknown_share", "unknown_at_least_any_mix"):
        assert getattr(report, name) == pytest.approx(getattr(expected, name), abs=1e-9)
    np.testing.assert_allclose(report.class_shares, expected.class_shares)
    assert not report.thresholds.any()


def test_the_promise_is_kept(data):
    """Over calibration sets and traffic, with classes that overlap the unknown one."""
    rng = np.random.default_rng(1)
    svc = OpenSetSVC(gamma=0.3).fit(*data[0])
    broken = 0
    for _ in range(60):
        old, new = (
            draw(rng, dict(zip(CENTRES, rng.multinomial(n, shares).tolist(), strict=False)))
            for n, shares in ((150, [1 / 3] * 3), (220, [0.3, 0.3, 0.3, 0.1]))
        )
        broken += estimate_traffic(svc, new[0], old, confidence=0.8).unknown_at_least > 0.1
    assert broken <= 60 * 0.2 + 3 * np.sqrt(60 * 0.2 * 0.8)


def test_held_out_scores_of_other_models_give_an_estimate_only(data, model, tmp_path):
    (X, y), _, traffic, truth = data
    svc = OpenSetSVC(gamma=0.3).fit(X, y)
    half = OpenSetSVC(gamma=0.3).fit(X[::2], y[::2])
    scores = half.decision_function(X[1::2])
    codes = np.searchsorted(svc.classes_, y[1::2])
    svc.fold_rows_ = np.column_stack([scores.max(axis=1), scores.argmax(axis=1), codes])
    save_model(svc, tmp_path / "m.skops")
    report = estimate_traffic(load_model(tmp_path / "m.skops"), traffic)
    assert report.unknown_at_least is None and report.unknown_at_least_any_mix is None
    assert "fitted to a part of the training rows" in report.reason
    assert "promise: none, because" in str(report)
    assert report.unknown_share == pytest.approx(np.mean(truth == "unseen"), abs=0.08)
    svc.rename_classes({"ash": "zelkova"})
    with pytest.raises(ValueError, match="holds no scores"):
        estimate_traffic(svc, traffic)


def test_objects_and_categories(data, model):
    _, (X, y), traffic, _ = data
    on_objects = calibrate(model, X, y, groups=np.arange(len(y)) // 5)
    report = estimate_traffic(on_objects, traffic)
    assert report.unknown_at_least is None and "objects" in report.reason
    sites = np.arange(len(y)) % 2
    point = KnownRejected(within="category")
    report = estimate_traffic(calibrate(model, X, y, categories=sites, criterion=point), traffic)
    assert report.rejected is None and report.unknown_at_least > 0


def test_a_model_file_keeps_what_is_needed(data, model, tmp_path):
    _, calibration, traffic, _ = data
    calibrated = calibrate(model, *calibration)
    save_model(calibrated, tmp_path / "m.skops")
    report = estimate_traffic(load_model(tmp_path / "m.skops"), traffic)
    assert report.as_dict() == estimate_traffic(calibrated, traffic).as_dict()


def test_known_rows_that_moved_are_warned_of(data, model):
    """Here they have come closer to the centre of their class."""
    _, calibration, traffic, truth = data
    centres = np.array([CENTRES[c] for c in truth])
    report = estimate_traffic(calibrate(model, *calibration), (traffic + 2 * centres) / 3)
    assert "WARNING: Above the score" in str(report)


def test_text_and_json(data, model):
    _, calibration, traffic, _ = data
    report = estimate_traffic(calibrate(model, *calibration), traffic)
    text = str(report)
    assert f"promise: at least {report.unknown_at_least:.1%} of the traffic" in text
    assert f"estimate: {report.unknown_share:.1%} unknown" in text
    assert "known rows by class, an estimate: ash" in text
    read = json.loads(report.to_json())
    assert read == report.as_dict()
    assert read["classes"]["birch"]["share"] == report.class_shares[1]
    known = traffic[model.predict(traffic) != "unknown"]
    few = estimate_traffic(calibrate(model, *calibration), known)
    assert few.unknown_at_least == 0 and "0 % unknown is possible" in str(few)


def test_bad_input(data, model):
    _, (X, y), traffic, _ = data
    with pytest.raises(ValueError, match="OpenSetLDA holds no scores of rows"):
        estimate_traffic(model, traffic)
    with pytest.raises(ValueError, match="calibration is a ndarray; pass a pair"):
        estimate_traffic(model, traffic, X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimate_traffic(model, traffic, (X, y[:-1]))
    with pytest.raises(ValueError, match="calibration has no row of a known class"):
        estimate_traffic(model, traffic, (X, np.full(len(y), "elsewhere")))
    with pytest.raises(ValueError, match="traffic has 5 rows"):
        estimate_traffic(model, traffic[:5], (X, y))
    with pytest.raises(ValueError, match="calibration has 3 rows"):
        estimate_traffic(model, traffic, (X[:3], y[:3]))
    with pytest.raises(ValueError, match="confidence=1"):
        estimate_traffic(model, traffic, (X, y), confidence=1)
    with pytest.raises(ValueError, match="3 features"):
        estimate_traffic(model, np.ones((20, 3)), (X, y))
    with pytest.raises(TypeError, match="not an open-set estimator"):
        estimate_traffic(StandardScaler().fit(X), traffic, (X, y))
    old = CalibratedRejector(OpenSetLDA(), random_state=0).fit(X, y)
    del old._calibration_rows
    with pytest.raises(ValueError, match="calibrated by an older version"):
        estimate_traffic(old, traffic)
