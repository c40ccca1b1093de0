"""Learning from decisions: the model is that of a fit to all rows; the report is honest."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from openset import (
    OSNN,
    CalibratedRejector,
    MulticlassOneClassSVM,
    OpenSetSearchCV,
    OpenSetSVC,
    ThresholdRejector,
)
from openset.calibration import calibrate
from openset.discovery import DecisionError, Decisions
from openset.evaluation import learn_decisions
from openset.gaussian import OpenSetLDA


@pytest.fixture(scope="module")
def blobs():
    """Three known classes, one new class and junk, all apart."""
    centers = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [3, 3]])
    X, y = make_blobs([40] * 5, centers=centers, cluster_std=0.8, random_state=0)
    known = y < 3
    return X[known], np.array(list("abc"))[y[known]], X[y == 3], X[y == 4]


def decisions(n_new, n_junk=0, label="d"):
    kinds = ["new"] * n_new + ["junk"] * n_junk
    labels = [label] * n_new + [None] * n_junk
    return Decisions(np.arange(n_new + n_junk), kinds, labels)


@pytest.mark.parametrize("final", [OpenSetSVC(gamma=1.0, C=8.0), OSNN(), OpenSetLDA()])
def test_the_model_is_that_of_a_fit_to_all_rows(blobs, final):
    X, y, new, _ = blobs
    model = make_pipeline(StandardScaler(), final).fit(X, y)
    before = model.predict(new)
    learned = learn_decisions(model, X, y, new, decisions(40))
    assert np.array_equal(model.predict(new), before)  # the old model is not touched
    scaler = model[0]
    expected = type(final)(**final.get_params()).fit(
        scaler.transform(np.vstack([X, new])), np.r_[y, ["d"] * 40]
    )
    grid = np.random.default_rng(0).uniform(-5, 15, (200, 2))
    np.testing.assert_allclose(
        learned.model.decision_function(grid),
        expected.decision_function(scaler.transform(grid)),
        atol=5e-3,
    )
    assert learned.report["old"]["rows"] == 24
    assert learned.report["new"]["rows"] == 8
    assert learned.report["new"]["rejected_before"] > 0.8
    assert learned.report["new"]["after"] > 0.7
    assert learned.changes["new"] == {"d": 40}
    assert learned.warnings == []


def test_junk_becomes_known_unknowns_where_the_method_can(blobs):
    X, y, new, junk = blobs
    both = np.vstack([new, junk])
    for model in (OpenSetLDA(), OpenSetSVC(gamma=1.0, C=8.0)):
        learned = learn_decisions(model.fit(X, y), X, y, both, decisions(40, 40))
        assert learned.model.n_known_unknowns_ == 40
        assert learned.model.classes_.tolist() == list("abcd")
        assert learned.warnings == []
    one_class = MulticlassOneClassSVM(gamma=1.0).fit(X, y)
    learned = learn_decisions(one_class, X, y, both, decisions(40, 40))
    assert "40 junk rows were left out: MulticlassOneClassSVM" in learned.warnings[0]
    assert learned.changes["junk"] == 40


def test_a_loss_of_the_old_classes_is_told(blobs):
    # Rows in the middle of an old class are declared to be a new one.
    X, y, _, _ = blobs
    model = OSNN().fit(X, y)
    wrong = X[y == "a"] + 0.01
    learned = learn_decisions(model, X, y, wrong, decisions(40))
    assert "the old classes suffer" in learned.warnings[0]
    assert learned.report["old"]["after"] < learned.report["old"]["before"]


def test_remove_and_rename_alone_need_no_fit(blobs):
    X, y, new, _ = blobs
    model = OpenSetSVC(gamma=1.0, C=8.0).fit(X, y)
    learned = learn_decisions(model, X, y, new, decisions(0), remove=["a"], rename={"b": "z"})
    assert learned.model.classes_.tolist() == ["c", "z"]
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert learned.report == {}


def test_parameters_per_class_and_corrections(blobs):
    X, y, new, _ = blobs
    model = OpenSetSVC(gamma={"a": 0.5, "b": 1.0, "c": 2.0}, C=8.0).fit(X, y)
    told = Decisions(np.arange(2), ["new", "class"], ["d", "a"])
    learned = learn_decisions(model, X, y, new, told)
    assert learned.model.gamma == {"a": 0.5, "b": 1.0, "c": 2.0, "d": 1.0}
    assert learned.changes["corrected"] == 1


def test_a_calibrated_model_is_calibrated_again(blobs):
    X, y, new, _ = blobs
    model = CalibratedRejector(OpenSetSVC(gamma=1.0, C=8.0), alpha=0.1, random_state=0).fit(X, y)
    learned = learn_decisions(model, X, y, new, decisions(40))
    assert len(learned.model.thresholds_) == 4
    assert learned.model.promise_


@pytest.mark.parametrize("scaled", [True, False])
def test_an_operating_point_set_on_other_samples_is_dropped(blobs, scaled):
    X, y, new, _ = blobs
    svc = OpenSetSVC(gamma=1.0, C=8.0)
    plain = (make_pipeline(StandardScaler(), svc) if scaled else svc).fit(X[::2], y[::2])
    model = calibrate(plain, X[1::2], y[1::2], alpha=0.1)
    learned = learn_decisions(model, X[::2], y[::2], new, decisions(40))
    assert "operating point was dropped" in learned.warnings[0]
    expected = learn_decisions(plain, X[::2], y[::2], new, decisions(40))
    assert np.array_equal(learned.model.predict(new), expected.model.predict(new))
    assert (learned.model.predict(new) == "d").mean() > 0.7
    again = calibrate(learned.model, np.vstack([X[1::2], new]), np.r_[y[1::2], ["d"] * 40])
    assert again.classes_.tolist() == list("abcd")
    renamed = learn_decisions(model, X, y, new, decisions(0), rename={"a": "z"})
    assert len(renamed.warnings) == 1
    assert np.array_equal(renamed.model.predict(X) == "z", plain.predict(X) == "a")


def test_a_search_learns_as_its_best_estimator(blobs):
    X, y, new, _ = blobs
    inner = OpenSetSearchCV(
        make_pipeline(MinMaxScaler(), OpenSetSVC(lam=0.1)),
        {"opensetsvc__gamma": [4.0]},
        n_repeats=1,
        random_state=0,
    )
    search = make_pipeline(StandardScaler(), inner).fit(X, y)
    best = make_pipeline(search[0], *inner.best_estimator_)
    learned = learn_decisions(search, X, y, new, decisions(40))
    expected = learn_decisions(best, X, y, new, decisions(40))
    scores = expected.model.decision_function(new)
    assert np.array_equal(learned.model.decision_function(new), scores)
    assert learned.report == expected.report
    assert (learned.model.predict(new) == "d").mean() > 0.7


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: pd.DataFrame(rows, columns=["x", "y"], index=range(100, 100 + len(rows))),
        csr_array,
        np.ndarray.tolist,
    ],
    ids=["table", "sparse", "list"],
)
@pytest.mark.parametrize("calibrated", [True, False])
def test_rows_of_every_form(blobs, form, calibrated):
    X, y, new, junk = blobs
    model = OpenSetSVC(gamma=1.0, C=8.0)
    if calibrated:
        model = CalibratedRejector(model, alpha=0.1, random_state=0)
    rows, told = np.vstack([new, junk]), decisions(40, 40)
    expected = learn_decisions(clone(model).fit(X, y), X, y, rows, told)
    learned = learn_decisions(clone(model).fit(form(X), y), form(X), y, form(rows), told)
    np.testing.assert_allclose(
        learned.model.decision_function(form(rows)),
        expected.model.decision_function(rows),
        atol=2e-3,  # sparse rows are summed in another order
    )
    assert learned.report == expected.report
    assert not calibrated or learned.model.thresholds_.shape == (4,)
    if hasattr(form(X), "columns"):
        assert learned.model.feature_names_in_.tolist() == ["x", "y"]


def test_texts_are_learned_by_a_wrapped_classifier():
    y = np.repeat(["cat", "dog"], 6)
    texts = [f"{animal} number {i}" for i, animal in enumerate(y)]
    new = ["cow says moo"] * 6
    classifier = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100.0))
    model = ThresholdRejector(classifier, 0.4).fit(texts, y)
    learned = learn_decisions(model, texts, y, new, decisions(6, label="cow"))
    assert learned.model.predict(["moo"]).tolist() == ["cow"]


@pytest.mark.parametrize(
    ("rows", "kinds", "labels", "message"),
    [
        ([-1], ["new"], ["d"], "there is no row -1; the data have the rows 0 to 39"),
        ([40], ["new"], ["d"], "there is no row 40; the data have the rows 0 to 39"),
        ([3, 3], ["new"] * 2, ["d", "e"], "row 3 was decided twice"),
        ([0], ["now"], ["d"], "row 0: the decision 'now' is none of new, class, junk"),
        ([0], ["new"], ["unknown"], "row 0: the label 'unknown' means unknown; use .* junk"),
        ([0], ["new"], ["a"], "row 0: the model has a class 'a' already; use the decision class"),
        ([0], ["class"], ["d"], "row 0: the model has no class 'd'; use the decision new"),
        ([0], ["new"], [7], "row 0: the label 7 is not a text, but the classes of the model are"),
        ([0], ["new"], [None], "row 0: the label is missing"),
        ([0, 1], ["new"], ["d"], "one entry per decision; they have 2, 1 and 1"),
    ],
)
def test_decisions_that_cannot_be_followed(blobs, rows, kinds, labels, message):
    X, y, new, _ = blobs
    model = OpenSetSVC(gamma=1.0, C=8.0).fit(X, y)
    with pytest.raises(DecisionError, match=message):
        learn_decisions(model, X, y, new, Decisions(np.array(rows), kinds, labels))


def test_known_unknowns_of_the_first_training_stay(blobs):
    X, y, new, junk = blobs
    X, y = np.vstack([X, junk]), np.r_[y, ["none"] * 40]
    model = OpenSetSVC(gamma=1.0, C=8.0, unknown_label="none").fit(X, y)
    learned = learn_decisions(model, X, y, new, decisions(40))
    assert learned.model.classes_.tolist() == list("abcd")
    assert learned.model.n_known_unknowns_ == 40
    assert learned.report["old"]["rows"] == 24  # of the classes only
