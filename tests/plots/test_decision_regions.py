import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset.evt import ExtremeValueMachine
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OSNN
from openset.plots import DecisionRegionsDisplay
from openset.svm import OneVsRestSVC, OpenSetSVC
from openset.wrappers import ThresholdRejector


def _draw(model, X, y=None, **options):
    return DecisionRegionsDisplay.from_estimator(model, X, y, grid_resolution=40, **options)


@pytest.mark.parametrize(
    "model",
    [
        OpenSetSVC(gamma=1.0),
        ExtremeValueMachine(),
        OSNN(),
        ThresholdRejector(GaussianNB(), threshold=0.9),
        make_pipeline(StandardScaler(), OpenSetSVC()),
        OpenSetSearchCV(OpenSetSVC(), {"gamma": [0.5, 1.0], "lam": [0.2, 0.4]}, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_regions_are_the_predictions(model, boat, ax):
    X, y = boat
    display = _draw(model.fit(X, y), X, y, ax=ax)
    rng = np.random.RandomState(0)
    for i, j in rng.randint(0, 40, (20, 2)):
        (answer,) = model.predict([[display.x0[j], display.x1[i]]])
        expected = 3 if answer == -1 else answer - 1
        assert display.regions[i, j] == expected


def test_unknown_is_white_and_classes_are_not(bounded, boat, ax):
    display = _draw(bounded, *boat, margin=0.5, ax=ax)
    colors = display.image_.to_rgba(display.regions)[..., :3]
    white = np.all(colors == 1, axis=2)
    np.testing.assert_array_equal(white, display.regions == 3)
    assert white[0, 0]


def test_unbounded_region_reaches_the_corners(svm, boat, ax):
    regions = _draw(svm, *boat, margin=20, ax=ax).regions
    np.testing.assert_array_equal(regions[[0, 0, -1, -1], [0, -1, 0, -1]], 2)


def test_pixels_are_centred_on_the_grid(bounded, boat, ax):
    display = _draw(bounded, *boat, ax=ax)
    left, right, bottom, top = display.image_.get_extent()
    centres = left + (np.arange(40) + 0.5) * (right - left) / 40
    np.testing.assert_allclose(centres, display.x0)
    assert bottom < display.x1[0] < display.x1[-1] < top


def test_points_and_legend(bounded, boat, ax):
    X, y = boat
    y = np.where(y == 2, 99, y)  # a class that the model does not know
    display = _draw(bounded, X, y, ax=ax)
    drawn = [collection.get_offsets() for collection in display.points_]
    for rows, label in zip(drawn, [1, 3, 99], strict=True):
        np.testing.assert_array_equal(rows, X[y == label])
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts == ["class 1", "class 2", "class 3", "unknown"]
    assert _draw(bounded, X, ax=ax).points_ == []
    assert _draw(bounded, X, y, legend=False, ax=ax).legend_ is None


def test_no_legend_for_many_classes(ax):
    X = np.arange(24.0).reshape(12, 2)
    model = OSNN().fit(X, np.arange(12))
    assert _draw(model, X, np.arange(12), ax=ax).legend_ is None


def test_tables_and_names(ax):
    frame = pd.DataFrame({"width": [0.0, 0, 1, 1, 5, 5], "height": [0.0, 1, 0, 1, 5, 6]})
    y = ["a", "a", "a", "a", "b", "b"]
    model = OpenSetSVC(gamma=0.5).fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display = _draw(model, frame, y, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    assert [text.get_text() for text in display.legend_.get_texts()] == ["a", "b", "unknown"]
    assert set(np.unique(display.regions)) == {0, 1, 2}


@pytest.mark.parametrize("scaled", [False, True])
def test_certificate(scaled, boat, ax):
    """Negative exactly where a circle around a positive support vector reaches."""
    X, y = boat
    model = OpenSetSVC(gamma=1.0, lam={1: 0.0, 2: 0.1, 3: 0.3})
    estimator = make_pipeline(StandardScaler(), model) if scaled else model
    estimator.fit(X, y)
    display = _draw(estimator, X, y, margin=1.0, certificate=True, ax=ax)
    grid = np.stack(np.meshgrid(display.x0, display.x1), axis=-1).reshape(-1, 2)
    if scaled:
        grid = estimator[0].transform(grid)
    for c in range(3):
        nearest = cdist(grid, model.support_vectors_[model.dual_coef_[c] > 0]).min(axis=1)
        expected = nearest.reshape(40, 40) - model.known_radius_[c]
        np.testing.assert_allclose(display.certificates[c], expected, atol=1e-6)
        assert np.all(display.certificates[c][display.regions == c] <= 0)
    assert len(display.certificates_) == 3


def test_no_certificate_for_an_unbounded_class(svm, boat, ax):
    display = _draw(svm, *boat, margin=1.0, certificate=True, ax=ax)
    assert len(display.certificates_) == 2
    assert np.all(np.isnan(display.certificates[2]))


def test_certificate_needs_a_radius(boat, ax):
    model = OSNN().fit(*boat)
    with pytest.raises(ValueError, match="OSNN does not have"):
        _draw(model, *boat, certificate=True, ax=ax)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plane": "umap"}, "plane='umap' must be"),
        ({"plane": np.zeros((2, 4))}, r"shape \(2, 4\); pass three points, of shape \(3, 4\)"),
        ({"plane": np.outer([1, 2, 3], np.ones(4))}, "on one line"),
        ({"plane": np.zeros((3, 4))}, "on one line"),
        ({"plane": "means", "y": None}, "pass y"),
        ({"plane": "means", "y": np.zeros(150, int)}, "needs three classes"),
        ({"y": np.zeros(3, int)}, "inconsistent numbers of samples"),
        ({"margin": -1}, "margin=-1"),
        ({"margin": "wide"}, "margin='wide'"),
    ],
)
def test_bad_input(options, message, iris, ax):
    X, y = iris
    model = OneVsRestSVC().fit(X, y)
    with pytest.raises(ValueError, match=message):
        _draw(model, X, **{"y": y, "ax": ax, **options})


@pytest.mark.parametrize("resolution", [1, 2.5, "fine"])
def test_bad_resolution(resolution, bounded, boat, ax):
    with pytest.raises(ValueError, match="grid_resolution="):
        DecisionRegionsDisplay.from_estimator(bounded, *boat, grid_resolution=resolution, ax=ax)


def test_one_feature(ax):
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    model = OneVsRestSVC().fit(X, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="X has 1 feature; decision regions need at least 2"):
        _draw(model, X, ax=ax)


def test_closed_set_estimator(boat, ax):
    with pytest.raises(TypeError, match="GaussianNB is not an open-set estimator"):
        _draw(GaussianNB().fit(*boat), boat[0], ax=ax)
