import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from openset.datasets import load_dataset
from openset.evt import ExtremeValueMachine
from openset.plots import DecisionSurfaceDisplay
from openset.svm import OneVsRestSVC, OpenSetSVC


@pytest.mark.parametrize(
    ("label", "title"),
    [
        (1, "Class 1: $b = -0.832$, bounded"),
        (2, "Class 2: $b = -0.860$, bounded"),
        (3, "Class 3: $b = +0.594$, unbounded"),
    ],
)
def test_titles_of_the_paper(label, title, data_home, ax3d):
    X, y = load_dataset("boat", data_home, return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    model = OneVsRestSVC(C=1.0, gamma=16.0, tol=1e-6).fit(X, y)
    display = DecisionSurfaceDisplay.from_estimator(model, X, label, grid_resolution=10, ax=ax3d)
    assert ax3d.get_title() == display.title == title


def test_bounded_by_lambda(data_home, ax3d):
    X, y = load_dataset("boat", data_home, return_X_y=True)
    X = MinMaxScaler().fit_transform(X)
    model = OpenSetSVC(C=1.0, gamma=16.0, lam=0.2, tol=1e-6).fit(X, y)
    DecisionSurfaceDisplay.from_estimator(model, X, 3, grid_resolution=10, ax=ax3d)
    assert ax3d.get_title() == "Class 3: $b = -0.337$, bounded"


def test_values_are_the_decision_function(svm, boat, ax3d):
    display = DecisionSurfaceDisplay.from_estimator(svm, boat[0], 2, grid_resolution=15, ax=ax3d)
    point = [[display.x0[4], display.x1[11]]]
    assert display.values[11, 4] == pytest.approx(svm.decision_function(point)[0, 1])


def test_far_away_the_surface_is_the_bias(svm, boat, ax3d):
    display = DecisionSurfaceDisplay.from_estimator(
        svm, boat[0], 3, grid_resolution=15, margin=20, ax=ax3d
    )
    corners = display.values[[0, 0, -1, -1], [0, -1, 0, -1]]
    np.testing.assert_allclose(corners, svm.intercept_[2], atol=1e-9)


@pytest.mark.parametrize("azimuth", [-60, 30, 120, 210])
def test_walls_show_zero_behind_the_surface(azimuth, svm, boat, ax3d):
    ax3d.view_init(azim=azimuth)
    display = DecisionSurfaceDisplay.from_estimator(svm, boat[0], 3, grid_resolution=10, ax=ax3d)
    viewer = np.array([np.cos(np.deg2rad(azimuth)), np.sin(np.deg2rad(azimuth))])
    centre = np.array([display.x0.mean(), display.x1.mean()])
    for line in display.walls_:
        x, y, z = line.get_data_3d()
        np.testing.assert_array_equal(z, 0)
        middle = np.array([np.mean(x), np.mean(y)])
        assert (middle - centre) @ viewer < 0


def test_level_zero_is_always_in_view(boat, ax3d):
    X, y = boat
    model = OpenSetSVC(gamma=1.0, lam=0.9).fit(X, y)
    far = X + 100  # nothing is accepted there
    display = DecisionSurfaceDisplay.from_estimator(model, far, 1, grid_resolution=5, ax=ax3d)
    assert display.values.max() < 0
    assert display.border_ is None
    assert ax3d.get_zlim()[1] >= 0


def test_method_without_a_bias(boat, ax3d):
    model = ExtremeValueMachine().fit(*boat)
    DecisionSurfaceDisplay.from_estimator(model, boat[0], 1, grid_resolution=5, ax=ax3d)
    assert ax3d.get_title() == "Class 1: bounded"


def test_class_must_be_known(svm, boat, ax3d):
    with pytest.raises(ValueError, match=r"(?s)class_label=array\(.* is not one of the classes"):
        DecisionSurfaceDisplay.from_estimator(svm, *boat, ax=ax3d)
    with pytest.raises(ValueError, match=r"class_label=7 is not one of the classes \[1, 2, 3\]"):
        DecisionSurfaceDisplay.from_estimator(svm, boat[0], 7, ax=ax3d)


def test_flat_axes(svm, boat, ax):
    with pytest.raises(ValueError, match="projection='3d'"):
        DecisionSurfaceDisplay.from_estimator(svm, boat[0], 1, grid_resolution=5, ax=ax)
