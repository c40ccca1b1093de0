import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from openset.datasets import make_boat, make_cone_torus, make_four_gauss, make_regular
from openset.svm import OneVsRestSVC

RANDOM = [make_boat, make_cone_torus, make_four_gauss]


@pytest.mark.parametrize("make", RANDOM)
def test_same_seed_same_points(make):
    X, y = make(random_state=3)
    again, _ = make(random_state=3)
    other, _ = make(random_state=4)
    np.testing.assert_array_equal(X, again)
    assert not np.array_equal(X, other)
    assert np.all(np.diff(y) >= 0)


@pytest.mark.parametrize("make", RANDOM)
@pytest.mark.parametrize("n_samples", [50, 101])
def test_number_of_samples(make, n_samples):
    X, y = make(n_samples, random_state=0)
    assert X.shape == (n_samples, 2)
    assert y.shape == (n_samples,)


@pytest.mark.parametrize("make", RANDOM)
@pytest.mark.parametrize("n_samples", [0, 5, 10.0, "100"])
def test_bad_number_of_samples(make, n_samples):
    with pytest.raises(ValueError, match="n_samples="):
        make(n_samples)


@pytest.mark.parametrize("seed", range(5))
def test_boat_has_the_biases_of_the_paper_about(seed):
    X, y = make_boat(random_state=seed)
    bias = OneVsRestSVC(gamma=16.0).fit(MinMaxScaler().fit_transform(X), y).intercept_
    np.testing.assert_allclose(bias, [-0.832, -0.86, 0.594], atol=0.15)


@pytest.mark.parametrize(
    ("name", "make"),
    [("boat", make_boat), ("cone-torus", make_cone_torus), ("four-gauss", make_four_gauss)],
)
def test_like_the_file(name, make, data_home):
    from openset.datasets import load_dataset

    X, y = load_dataset(name, data_home, return_X_y=True)
    ours, labels = make(30 * len(X), random_state=0)
    np.testing.assert_array_equal(np.unique(labels), np.unique(y))
    scale = np.ptp(X, axis=0)
    for c in np.unique(y):
        difference = ours[labels == c].mean(axis=0) - X[y == c].mean(axis=0)
        np.testing.assert_array_less(np.abs(difference) / scale, 0.1)
        ratio = ours[labels == c].std(axis=0) / X[y == c].std(axis=0)
        assert np.all((ratio > 0.6) & (ratio < 1.6))


def test_regular_is_the_file(data_home):
    from openset.datasets import load_dataset

    X, y = load_dataset("regular", data_home, return_X_y=True)
    ours, labels = make_regular()
    expected = {(*point, label) for point, label in zip(X.tolist(), y.tolist(), strict=True)}
    found = {(*point, label) for point, label in zip(ours.tolist(), labels.tolist(), strict=True)}
    assert found == expected
    assert len(ours) == len(X) == 144
