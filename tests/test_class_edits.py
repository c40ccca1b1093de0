"""Classes are removed and renamed: the other scores do not change, names and parameters follow."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs

from openset import CalibratedRejector, OpenSetSVC, all_estimators
from openset.persistence import load_model, save_model

EDITABLE = [
    (name, cls)
    for name, cls in all_estimators()
    if name not in ("ThresholdRejector", "CascadeRejector")
]
ALL = pytest.mark.parametrize(("name", "cls"), EDITABLE, ids=[name for name, _ in EDITABLE])


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(160, n_features=3, centers=4, cluster_std=1.5, random_state=4)
    return X, np.array(["ash", "birch", "cedar", "date"])[y]


def fitted(cls, data):
    return cls().fit(*data)


@ALL
def test_removed_class_is_not_answered_and_the_others_stay(name, cls, data):
    X, _ = data
    before, model = fitted(cls, data), fitted(cls, data)
    assert model.remove_classes(["birch"]) is model
    assert model.classes_.tolist() == ["ash", "cedar", "date"]
    kept = [0, 2, 3]
    np.testing.assert_allclose(
        model.decision_function(X), before.decision_function(X)[:, kept], atol=1e-5
    )
    np.testing.assert_array_equal(model.bounded_, before.bounded_[kept])
    answers, old = model.predict(X), before.predict(X)
    assert "birch" not in answers
    changed = answers != old
    assert set(old[changed]) <= {"birch"}
    assert len(model.explain(X[:3])) == 3
    if hasattr(model, "known_radius_"):
        np.testing.assert_array_equal(model.known_radius_, before.known_radius_[kept])


@ALL
def test_renamed_classes_are_the_same_classes(name, cls, data):
    X, _ = data
    before, model = fitted(cls, data), fitted(cls, data)
    names = {"ash": "zelkova", "date": "a very much longer name"}
    assert model.rename_classes(names) is model
    assert model.classes_.tolist() == ["a very much longer name", "birch", "cedar", "zelkova"]
    expected = [names.get(label, label) for label in before.predict(X).tolist()]
    assert model.predict(X).tolist() == expected
    np.testing.assert_allclose(
        model.decision_function(X),
        before.decision_function(X)[:, [3, 1, 2, 0]],
        rtol=1e-9,
        atol=1e-9,
    )
    back = model.rename_classes({new: old for old, new in names.items()})
    np.testing.assert_array_equal(back.decision_function(X), before.decision_function(X))


@ALL
def test_an_edited_model_is_saved(name, cls, data, tmp_path):
    X, _ = data
    model = fitted(cls, data).remove_classes(["date"]).rename_classes({"ash": "yew"})
    save_model(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").predict(X), model.predict(X))


def test_renaming_equals_fitting_with_the_new_names(data):
    X, y = data
    model = OpenSetSVC(gamma=0.1).fit(X, y).rename_classes({"ash": "zelkova"})
    other = OpenSetSVC(gamma=0.1).fit(X, np.where(y == "ash", "zelkova", y))
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=5e-3)


def test_dict_parameters_follow(data):
    X, y = data
    lam = {"ash": 0.0, "birch": 0.1, "cedar": 0.2, "date": 0.3}
    model = OpenSetSVC(gamma=0.1, lam=lam).fit(X, y)
    model.remove_classes("birch").rename_classes({"ash": "oak"})
    assert model.lam == {"oak": 0.0, "cedar": 0.2, "date": 0.3}
    assert lam["birch"] == 0.1  # the dict of the caller is not changed
    np.testing.assert_allclose(model.lam_, [0.2, 0.3, 0.0], atol=1e-12)
    kept = y != "birch"
    clone(model).fit(X[kept], np.where(y[kept] == "ash", "oak", y[kept]))


def test_numbers(data):
    X, y = data
    model = OpenSetSVC(gamma=0.1).fit(X, np.unique(y, return_inverse=True)[1])
    assert model.rename_classes({0: 10}).remove_classes([2]).classes_.tolist() == [1, 3, 10]
    with pytest.raises(ValueError, match=r"'ten'.*numbers"):
        model.rename_classes({1: "ten"})
    with pytest.raises(ValueError, match="-1, which means unknown"):
        model.rename_classes({1: -1})


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.remove_classes(["oak"]), "'oak', which is not a class"),
        (lambda m: m.remove_classes(["ash", "birch", "cedar", "date"]), "one must remain"),
        (lambda m: m.rename_classes({"oak": "elm"}), "'oak', which is not a class"),
        (lambda m: m.rename_classes({"ash": "birch"}), "two classes 'birch'"),
        (lambda m: m.rename_classes({"ash": "unknown"}), "means unknown"),
        (lambda m: m.rename_classes({"ash": 3}), r"3.*texts"),
        (lambda m: m.rename_classes(["ash"]), "must be a mapping"),
    ],
)
def test_bad_edits_change_nothing(data, edit, message):
    model = OpenSetSVC(gamma=0.1).fit(*data)
    with pytest.raises(ValueError, match=message):
        edit(model)
    assert model.classes_.tolist() == ["ash", "birch", "cedar", "date"]


def test_wrappers_say_what_to_do(data):
    model = CalibratedRejector(OpenSetSVC(gamma=0.1), alpha=0.1, random_state=0).fit(*data)
    with pytest.raises(ValueError, match="the estimator inside"):
        model.remove_classes(["ash"])


@ALL
def test_added_classes_are_those_of_a_fit(name, cls, data):
    X, y = data
    old = y != "date"
    model = cls().fit(X[old], y[old])
    gamma = {"gamma": float(model.gamma_[0])} if "gamma" in model.get_params() else {}
    assert model.add_classes(X, y) is model
    other = cls(**gamma).fit(X, y)
    assert model.classes_.tolist() == ["ash", "birch", "cedar", "date"]
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(X), rtol=0, atol=2e-2
    )
    assert model.get_params() == cls().get_params()
    with pytest.raises(ValueError, match=r"y has no samples of \['date'\]"):
        model.add_classes(X[old], y[old])
    with pytest.raises(ValueError, match=r"y has no samples of \['ash', 'birch', 'cedar'\]"):
        model.add_classes(X[~old], y[~old])  # as if it were partial_fit
    with pytest.raises(ValueError, match="y has no samples of"):
        model.add_classes(X[old], y[old, None])


@pytest.mark.parametrize("label", [1, np.int64(1), 1.0])
def test_one_class_needs_no_list(label, data):
    X, y = data
    model = OpenSetSVC().fit(X, np.unique(y, return_inverse=True)[1])
    assert model.remove_classes(label).classes_.tolist() == [0, 2, 3]


class _Counting(OpenSetSVC):
    class_attributes = (*OpenSetSVC.class_attributes, "counts_")

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.counts_ = np.array([np.sum(np.asarray(y) == c) for c in self.classes_])
        return self


def test_attributes_that_an_author_lists_follow(data):
    model = fitted(_Counting, data)
    before = model.counts_
    model.rename_classes({"ash": "zebrano"}).remove_classes(["cedar"])
    np.testing.assert_array_equal(model.counts_, before[[1, 3, 0]])


def test_an_estimator_around_another_keeps_its_classes(data):
    model = CalibratedRejector(OpenSetSVC()).fit(*data)
    with pytest.raises(ValueError, match="change those of the estimator inside"):
        model.remove_classes(["ash"])
