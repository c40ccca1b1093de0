"""Models to draw, drawn without a screen and in matplotlib's own style."""

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from openset.datasets import make_boat
from openset.svm import OneVsRestSVC, OpenSetSVC


@pytest.fixture(autouse=True)
def _default_style():
    with plt.style.context("default", after_reset=True):
        yield
    plt.close("all")


@pytest.fixture(scope="session")
def boat():
    return make_boat(random_state=0)


@pytest.fixture(scope="session")
def svm(boat):
    return OneVsRestSVC(gamma=1.0, tol=1e-6).fit(*boat)


@pytest.fixture(scope="session")
def bounded(boat):
    return OpenSetSVC(gamma=1.0, lam=0.2, tol=1e-6).fit(*boat)


@pytest.fixture
def ax():
    return matplotlib.figure.Figure(layout="constrained").subplots()


@pytest.fixture
def ax3d():
    return matplotlib.figure.Figure(layout="constrained").add_subplot(projection="3d")
