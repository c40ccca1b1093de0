"""The Weibull module against worked numbers, SciPy, the likelihood equation and its limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import weibull_min

from openset.evt import WeibullTail, fit_weibull


def residual(z, scale, shape):
    """How far the maximum-likelihood equations are from holding, relative to 1."""
    x = np.log(z / z.max())
    w = np.exp(shape * x)
    return (
        shape * ((w @ x) / w.sum() - x.mean()) - 1,
        np.log(w.mean()) / shape - np.log(scale / z.max()),
    )


def test_low_tail_of_positive_scores():
    tail = WeibullTail.low_positives([2.0, 0.5, 1.6, 0.9, 1.1, 0.2, 1.3], size=5)
    assert_allclose([tail.scale, tail.shape], [1.654645, 4.160633], atol=5e-7)
    assert_allclose(
        tail.probability([-0.5, 0.0, 0.5, 1.0, 2.0, 2.3]),
        [0.000133, 0.019524, 0.241828, 0.693126, 0.999179, 1.0],
        atol=5e-7,
    )
    assert tail.probability(2.3) == tail.probability(100.0) == 1.0


def test_high_tail_of_negative_scores():
    positive = WeibullTail.low_positives([0.2, 0.5, 0.9, 1.1, 1.3, 1.6, 2.0], size=5)
    tail = WeibullTail.high_negatives([-2, -1.6, -1.4, -1.2, -1.1, -0.9, -0.4, 0.1], size=4)
    assert_allclose([tail.scale, tail.shape], [1.696968, 3.622791], atol=5e-7)
    assert_allclose(tail.probability([-1, 0, 0.5]), [0.187728, 0.885144, 0.990826], atol=5e-7)
    assert tail.probability(-2.1) == 0.0
    assert_allclose(positive.probability(0.5) * tail.probability(0.5), 0.239609, atol=5e-7)


def test_low_tail_of_distances():
    tail = WeibullTail.low_distances([1.0, 0.5, 0.75, 0.6], size=3)
    assert_allclose([tail.scale, tail.shape], [1.179587, 13.448776], atol=5e-7)
    assert_allclose(
        tail.probability([0.5, 0.6, 0.75, 1.0]), [0.887062, 0.508655, 0.102796, 0.002262], atol=5e-7
    )
    assert_array_equal(tail.probability([1.75, 2.0, 1e300, np.inf]), 0.0)


def test_survivor_form():
    tail = WeibullTail.low_margins([1.0, 0.5, 0.75, 0.6], size=3)
    assert_allclose([tail.scale, tail.shape], [0.661125, 6.679547], atol=5e-7)
    assert_allclose(tail.probability([0.5, 0.6, 0.75]), [0.856614, 0.592688, 0.098063], atol=5e-7)
    assert_array_equal(tail.probability([0.0, np.inf]), [1.0, 0.0])


@pytest.mark.parametrize("width", [2, 3, 10, 200])
def test_fit_against_scipy(width):
    rng = np.random.default_rng(width)
    z = rng.weibull(rng.uniform(0.3, 8.0, size=(5, 1)), size=(5, width)) * 10.0
    scale, shape = fit_weibull(z)
    for i, row in enumerate(z):
        # SciPy stops at a relative step of about 1e-5, and so never has the greater likelihood.
        expected_shape, _, expected_scale = weibull_min.fit(row, floc=0)
        assert_allclose([scale[i], shape[i]], [expected_scale, expected_shape], rtol=1e-3)
        ours = weibull_min.logpdf(row, shape[i], scale=scale[i]).sum()
        theirs = weibull_min.logpdf(row, expected_shape, scale=expected_scale).sum()
        assert ours >= theirs - 1e-9 * abs(theirs)


@pytest.mark.parametrize(
    "z",
    [
        [1e-300, 1.0],
        [1e-300, 2e-300, 5e-300],
        [1e300, 2e300, 1.7e308],
        [1.0, 1.0 + 2.3e-16],
        1.0 + 1e-9 * np.arange(50),
        np.r_[np.ones(999), 0.5],
        np.r_[np.ones(999), 2.0],
        np.exp(np.random.default_rng(0).normal(size=100) * 40),
        1e6 + np.random.default_rng(1).random(30),
    ],
)
def test_hard_rows_solve_the_likelihood_equations(z):
    z = np.asarray(z)
    scale, shape = fit_weibull(z)
    assert np.isfinite([scale, shape]).all()
    # ln(z / max) has an error of about 1e-16, which counts relative to its spread.
    tolerance = 1e-12 + 4e-16 / np.ptp(np.log(z / z.max()))
    assert_allclose(residual(z, scale, shape), 0, atol=tolerance)


def test_rows_are_fitted_independently_and_counts_cut_them():
    rng = np.random.default_rng(0)
    z = rng.random((4, 3, 20)) + 0.1
    scale, shape = fit_weibull(z)
    assert scale.shape == shape.shape == (4, 3)
    assert_array_equal(fit_weibull(z[2, 1]), (scale[2, 1], shape[2, 1]))
    counts = rng.integers(2, 21, size=(4, 3))
    padded = np.where(np.arange(20) < counts[..., None], z, np.nan)
    cut_scale, cut_shape = fit_weibull(padded, counts)
    for i in np.ndindex(4, 3):
        assert_array_equal(fit_weibull(z[i][: counts[i]]), (cut_scale[i], cut_shape[i]))


@pytest.mark.parametrize("factor", [1e-5, 3.0, 1e8])
def test_scale_equivariance(factor):
    z = np.random.default_rng(0).random((6, 12)) + 0.01
    scale, shape = fit_weibull(z)
    scaled, same = fit_weibull(factor * z)
    assert_allclose(scaled, factor * scale, rtol=1e-12)
    assert_allclose(same, shape, rtol=1e-12)


def test_degenerate_rows_are_points():
    scale, shape = fit_weibull([[2.0, 2.0], [3.0, 1.0], [0.3, 0.3]], counts=[2, 1, 0])
    assert_array_equal(scale, [2.0, 3.0, 0.0])
    assert_array_equal(shape, np.inf)


@pytest.mark.parametrize("common", [0.1, 0.3, -7.1, 1e9, 1e-20])
def test_a_tail_of_equal_scores_is_a_step_that_includes_it(common):
    scores = np.full(6, common)
    gap = 1e-12 * max(1.0, abs(common))
    for constructor in (WeibullTail.low_positives, WeibullTail.high_negatives):
        for tail in (constructor(scores, 4), constructor(scores[:1], 4)):
            p = tail.probability([-1e10, common - gap, common, common + gap, 1e10])
            assert_array_equal(p, [0, 0, 1, 1, 1])
    common = abs(common)
    for constructor in (WeibullTail.low_distances, WeibullTail.low_margins):
        tail = constructor(np.abs(scores), 4)
        p = tail.probability([0.0, common, common + gap, 1e10])
        assert_array_equal(p, [1, 1, 0, 0])
        assert tail.score_at(0.5) == common


def test_distance_tails_grow_until_two_values_differ():
    d = np.array([[0.3, 0.2, 0.2, 0.2, 0.2, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]])
    for constructor in (WeibullTail.low_distances, WeibullTail.low_margins):
        tail = constructor(d, 3)
        for i, size in enumerate((5, 3)):
            expected = constructor(d[i], size)
            for name in ("scale", "shape", "location"):
                assert getattr(tail, name)[i] == getattr(expected, name)
        assert np.isfinite(tail.shape).all()


def test_zero_margins_are_left_out_of_the_survivor_form():
    tail = WeibullTail.low_margins([[0.0, 0.0, 0.5, 0.6, 0.75, 1.0], [0.0] * 6], 3)
    alone = WeibullTail.low_margins([0.5, 0.6, 0.75, 1.0], 3)
    assert (tail.scale[0], tail.shape[0]) == (alone.scale, alone.shape)
    assert_array_equal(tail[1:].probability([[0.0], [1e-9]]), [[1.0], [0.0]])


@pytest.mark.parametrize(
    "name", ["low_positives", "high_negatives", "low_distances", "low_margins"]
)
def test_probabilities_are_monotone_and_inverted_by_score_at(name):
    rng = np.random.default_rng(0)
    tails = getattr(WeibullTail, name)(rng.gamma(2.0, size=(30, 40)), 12)
    s = np.linspace(-3, 8, 300)[:, None]
    p = tails.probability(s)
    assert p.shape == (300, 30)
    assert p.min() >= 0 and p.max() <= 1
    direction = 1 if name in ("low_positives", "high_negatives") else -1
    assert np.all(direction * np.diff(p, axis=0) >= 0)
    for q in (0.01, 0.5, 0.99):
        assert_allclose(tails.probability(tails.score_at(q)), q, rtol=1e-9)


def test_indexing_and_concatenation():
    tails = WeibullTail.low_distances(np.random.default_rng(0).random((5, 9)), 4)
    joined = WeibullTail.concatenate([tails[:2], tails[np.array([2, 3, 4])]])
    assert_array_equal(joined.probability(0.3), tails.probability(0.3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_weibull([1.0, 0.0]), "positive"),
        (lambda: fit_weibull([1.0, -2.0]), "positive"),
        (lambda: fit_weibull([1.0, np.nan]), "finite"),
        (lambda: fit_weibull([1.0, np.inf]), "finite"),
        (lambda: fit_weibull(3.0), "row of values"),
        (lambda: fit_weibull([[1.0, 2.0]], counts=[3]), "counts"),
        (lambda: fit_weibull([[1.0, 2.0]], counts=[-1]), "counts"),
        (lambda: fit_weibull([[1.0, 2.0]], counts=[1, 2]), "counts"),
        (lambda: fit_weibull([[1.0, 2.0]], counts=[1.5]), "counts"),
        (lambda: WeibullTail.low_positives([1.0, 2.0], 0), "size"),
        (lambda: WeibullTail.high_negatives([], 2), "at least one score"),
        (lambda: WeibullTail.low_positives([1.0, np.nan], 2), "finite"),
        (lambda: WeibullTail.low_positives([1.0, 2.0], 2).score_at(1.0), "strictly between"),
        (lambda: WeibullTail.low_positives([1.0, 2.0], 2).score_at(0.0), "strictly between"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("spread", [0.0, 1e-9, 0.9e-3])
def test_a_tail_no_wider_than_the_resolution_is_a_step_below_it(spread):
    scores = 1.0 + spread * np.linspace(0, 1, 6)
    low = WeibullTail.low_positives(scores, size=6, resolution=1e-3)
    assert_array_equal(low.probability(scores), 1.0)
    assert_array_equal(low.probability([-5.0, 0.9985, 0.9995, 7.0]), [0.0, 0.0, 1.0, 1.0])
    high = WeibullTail.high_negatives(-scores, size=6, resolution=1e-3)
    assert_array_equal(high.probability(-scores), 1.0)
    below = -1.0 - spread
    assert_array_equal(high.probability([below - 0.0015, below - 0.0005, 3.0]), [0.0, 1.0, 1.0])


def test_a_tail_wider_than_the_resolution_is_fitted():
    scores = np.linspace(1.0, 1.1, 6)
    fitted = WeibullTail.low_positives(scores, size=6)
    assert_array_equal(
        WeibullTail.low_positives(scores, size=6, resolution=0.09).shape, fitted.shape
    )
