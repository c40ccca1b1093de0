import numpy as np
import pytest
from matplotlib.figure import Figure

from openset import metrics
from openset.plots import LambdaPathDisplay
from openset.svm import OpenSetSVC, lambda_path

LAMS = [0.0, 0.1, 0.3, 0.6]


@pytest.fixture(scope="module")
def validation(boat):
    X, y = boat
    strange = np.random.RandomState(1).uniform(-9, 9, (60, 2))
    return np.vstack([X, strange]), np.concatenate([y, np.full(60, 9)])


@pytest.fixture(scope="module")
def path(boat, validation):
    return lambda_path(*boat, lams=LAMS, gamma=1.0, tol=1e-6, X_validation=validation[0])


def test_bias(path, ax):
    display = LambdaPathDisplay.from_path(path, ax=ax)
    for line, bias in zip(display.lines_, path.bias, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), LAMS)
        np.testing.assert_array_equal(line.get_ydata(), bias)
    assert display.accuracy_lines_ == []


def test_unbounded_values_are_hollow_and_the_crossing_is_marked(path, ax):
    display = LambdaPathDisplay.from_path(path, ax=ax)
    hollow = [line for line in ax.lines if str(line.get_markerfacecolor()) == "white"]
    assert len(hollow) == 1
    np.testing.assert_array_equal(hollow[0].get_xdata(), np.array(LAMS)[~path.bounded[2]])
    (crossing,) = display.crossings_
    assert crossing.get_xdata()[0] == path.smallest_bounding[2]
    last = np.flatnonzero(~path.bounded[2])[-1]
    assert LAMS[last] < path.smallest_bounding[2] <= LAMS[last + 1]


def test_accuracies_are_those_of_the_classifier(path, boat, validation):
    axes = Figure().subplots(2)
    display = LambdaPathDisplay.from_path(path, y_validation=validation[1], ax=axes)
    for t, lam in enumerate(LAMS):
        model = OpenSetSVC(gamma=1.0, lam=lam, tol=1e-6, ensure_bounded=False).fit(*boat)
        labels = {"known": model.classes_, "unknown_label": -1}
        y_pred = model.predict(validation[0])
        aks = metrics.accuracy_known(validation[1], y_pred, **labels)
        aus = metrics.accuracy_unknown(validation[1], y_pred, **labels)
        drawn = [line.get_ydata()[t] for line in display.accuracy_lines_]
        np.testing.assert_allclose(drawn, [aks, aus, (aks + aus) / 2])


def test_bad_input(path, boat, validation, ax):
    with pytest.raises(ValueError, match="y_validation has 3 labels, the path scores of 160"):
        LambdaPathDisplay.from_path(path, y_validation=[1, 2, 3], ax=ax)
    with pytest.raises(ValueError, match="call lambda_path with X_validation="):
        plain = lambda_path(*boat, lams=[0.0], gamma=1.0)
        LambdaPathDisplay.from_path(plain, y_validation=validation[1], ax=ax)
    with pytest.raises(ValueError, match="ax has 1 axes; this display draws on 2"):
        LambdaPathDisplay.from_path(path, y_validation=validation[1], ax=ax)
