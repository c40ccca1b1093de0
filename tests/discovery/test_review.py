"""The data of the review page: the same for rows of every form, in their own order."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline as plain_pipeline
from sklearn.preprocessing import StandardScaler

from openset import CalibratedRejector, OpenSetSVC, ThresholdRejector, make_pipeline
from openset.discovery import group_unknowns, review_data

X, y = load_digits(return_X_y=True)
X, known = X / 16, y < 5
STREAM = np.vstack([X[known][1::4], X[~known][::4]])
COLUMNS = [f"pixel{i}" for i in range(64)]


def as_table(rows):
    return pd.DataFrame(rows, columns=COLUMNS, index=range(500, 500 + len(rows)))


@pytest.fixture(scope="module")
def expected():
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(X[known][::2], y[known][::2])
    return review_data(model, STREAM)


@pytest.mark.parametrize("form", [as_table, csr_array, np.ndarray.tolist])
def test_rows_of_every_form(form, expected):
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(form(X[known][::2]), y[known][::2])
    data = review_data(model, form(STREAM))
    assert data["samples"]["row"] == expected["samples"]["row"]
    assert data["groups"] == expected["groups"]
    np.testing.assert_allclose(
        data["samples"]["place"], expected["samples"]["place"], rtol=0, atol=2e-3
    )


def test_a_table_behind_a_calibrated_pipeline(expected):
    inner = make_pipeline(StandardScaler(), OpenSetSVC())
    model = CalibratedRejector(inner, alpha=0.2, random_state=0)
    data = review_data(model.fit(as_table(X[known]), y[known]), as_table(STREAM))
    rejected = np.flatnonzero(model.predict(as_table(STREAM)) == -1) + 1
    assert data["samples"]["row"] == rejected.tolist()


@pytest.mark.parametrize("name", ["texts", "images"])
def test_what_a_sample_is_follows_its_row_not_its_index(name, expected):
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(X[known][::2], y[known][::2])
    words = pd.Series([f"sample {row}" for row in range(1, len(STREAM) + 1)])
    words.index = words.index[::-1]  # as after sorting a table
    data = review_data(model, STREAM, **{name: words})
    told = data["samples"][name.removesuffix("s")]
    assert told == [f"sample {row}" for row in data["samples"]["row"]]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        review_data(model, STREAM, **{name: words[:5]})


def test_texts():
    classes = np.repeat(["cat", "dog"], 6)
    texts = [f"{animal} number {i}" for i, animal in enumerate(classes)]
    classifier = plain_pipeline(TfidfVectorizer(), LogisticRegression(C=100.0))
    model = ThresholdRejector(classifier, 0.9).fit(texts, classes)
    data = review_data(model, ["cat number 1", "a cow says moo"], texts=["cat", "cow"])
    assert data["samples"]["text"] == ["cow"]


def test_under_a_configuration_for_tables(expected):
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(X[known][::2], y[known][::2])
    with config_context(transform_output="pandas"):
        assert review_data(model, STREAM) == expected


def test_features_that_are_always_zero_change_nothing():
    """As many as texts have: more features than rejected samples."""
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(X[known][::2], y[known][::2])
    found = group_unknowns(model, STREAM)
    wide, rows = np.pad(X[known][::2], ((0, 0), (0, 5000))), np.pad(STREAM, ((0, 0), (0, 5000)))
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(csr_array(wide), y[known][::2])
    same = group_unknowns(model, csr_array(rows))
    assert len(found.groups) > 1
    np.testing.assert_array_equal(same.labels, found.labels)


def test_small_groups_come_last():
    rng = np.random.default_rng(0)
    train = np.vstack([rng.normal(c, 0.3, (30, 2)) for c in (0, 5)])
    model = OpenSetSVC(gamma=1.0, C=8.0).fit(train, np.repeat(["a", "b"], 30))
    first, second = (rng.normal(center, 0.5, (40, 2)) for center in ((30, 0), (-30, 0)))
    pair, triple, alone = [[0, -80]] * 2, [[0, 50], [0, 50.1], [0, 50.3]], [[90, 90]]
    data = review_data(model, np.vstack([alone, pair, first, second, triple]))
    sizes = [(len(group["members"]), group["small"]) for group in data["groups"]]
    assert sizes == [(40, False), (40, False), (3, True), (2, True)]
    assert data["groups"][3]["members"] == [1, 2]
    assert data["groups"][2]["tightness"] < data["groups"][0]["tightness"]
    assert [group["name"] for group in data["groups"]] == [f"group{k}" for k in (1, 2, 3, 4)]
    assert data["samples"]["group"] == [-1, 3, 3, *[0] * 40, *[1] * 40, 2, 2, 2]
    assert review_data(model, alone)["groups"] == []


def test_what_the_most_similar_training_sample_is(expected):
    model = OpenSetSVC(gamma=0.5, lam=0.1).fit(X[known][::2], y[known][::2])
    texts = [f"training sample {k}" for k in range(1, len(X[known][::2]) + 1)]
    train = review_data(model, STREAM, train_texts=texts)["train"]
    similar = set(expected["samples"]["similar"])
    assert train == {"text": {k: f"training sample {k}" for k in sorted(similar)}, "image": None}
    with pytest.raises(ValueError, match=r"train_images has 3 entries.*pass one entry per"):
        review_data(model, STREAM, train_images=["a", "b", "c"])
