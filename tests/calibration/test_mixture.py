"""Mixtures of known and unknown scores: the promise, the estimate, shares of classes, bad input."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom

from openset.calibration import mixture


def _draw(rng, share, n, n_new, step=None, copies=1):
    """Calibration and traffic scores two standard deviations apart; ties, and copies of rows."""
    known = rng.normal(2, 1, n // copies), rng.normal(2, 1, n_new // copies)
    is_unknown = rng.random(n_new // copies) < share
    new = np.where(is_unknown, rng.normal(0, 1, n_new // copies), known[1])
    if step:
        known, new = (np.round(known[0] / step) * step,), np.round(new / step) * step
    return known[0], new


@pytest.mark.parametrize("step", [None, 0.5, 2.0])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_promise_is_kept_with_its_confidence(share, step):
    rng = np.random.default_rng(1)
    n_broken = sum(
        mixture(*_draw(rng, share, 200, 400, step), confidence=0.8).unknown_at_least > share
        for _ in range(200)
    )
    assert n_broken <= 200 * 0.2 + 3 * np.sqrt(200 * 0.2 * 0.8)


def test_the_promise_holds_where_unknown_rows_score_as_known_ones():
    rng = np.random.default_rng(2)
    shares = mixture(rng.normal(size=500), rng.normal(size=500))
    assert shares.unknown_at_least == 0


def test_the_limit_solves_its_equation():
    # Perfectly separated: every threshold passes the same 400 rows of 1,000, except the ranks.
    known = np.arange(1.0, 101)
    traffic = np.concatenate([np.full(400, 1000.0), np.full(600, -1.0)])
    pi = 1 - mixture(known, traffic).unknown_at_least

    def p(m):  # of the m-th of 100 scores from above, by adaptive quadrature
        return quad(
            lambda a: binom.cdf(400, 1000, pi * a) * beta.pdf(a, m, 101 - m), 0, 1, limit=200
        )[0]

    ranks = (100, 99, 98, 95, 90, 85, 80, 70, 60, 40, 20)
    assert min(map(p, ranks)) == pytest.approx(0.05 / len(ranks), rel=1e-6)


def test_above_half_of_the_share_where_scores_differ_by_two_standard_deviations():
    rng = np.random.default_rng(3)
    for share in (0.2, 0.5):
        limits = [mixture(*_draw(rng, share, 2000, 2000)).unknown_at_least for _ in range(10)]
        assert np.median(limits) > share / 2


@pytest.mark.parametrize("apart, most", [(2, 0.045), (3, 0.03), (5, 0.03)])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.5])
def test_the_estimate_is_near_the_share_and_its_interval_holds_it(share, apart, most):
    rng = np.random.default_rng(8)
    errors, held = [], []
    for _ in range(10):
        is_unknown = rng.random(1500) < share
        traffic = rng.normal(np.where(is_unknown, 0, apart))
        found = mixture(rng.normal(apart, 1, 1500), traffic)
        errors.append(found.unknown_share - is_unknown.mean())
        low, high = found.unknown_interval
        held.append(low <= is_unknown.mean() <= high)
        assert low <= found.unknown_share <= high
    assert np.mean(np.abs(errors)) < most
    assert np.mean(held) >= 0.8


def test_models_of_folds_that_disagree_a_little_do_not_look_like_unknown_rows():
    """Rows of few values; each of five models scores a value a little differently."""
    rng = np.random.default_rng(9)
    values = np.array([0.5, 1.0, 2.0, 4.0])
    shift = rng.normal(0, 0.05, (5, 4))
    rows, fold = rng.integers(4, size=500), rng.integers(5, size=500)
    found = mixture(values[rows] + shift[fold, rows], values[rng.integers(4, size=800)])
    assert found.unknown_share < 0.05 and found.unknown_interval[0] == 0


def test_classes_that_are_confused_hide_unknown_rows():
    """The same highest scores: more unknown rows where known rows take each other's names."""
    rng = np.random.default_rng(10)
    known, traffic = rng.normal(2, 1, 600), np.append(rng.normal(2, 1, 600), rng.normal(0, 1, 300))
    other = np.full((2, 900), -9.0)
    scores, new = np.stack([known, other[0, :600]], axis=1), np.stack([traffic, other[0]], axis=1)
    codes = (np.arange(600) < 3).astype(int)  # class 1 has three rows, all named 0
    clear = mixture(scores, new, codes)
    codes[:150] = 1
    confused = mixture(scores, new, codes)
    assert clear.unknown_share < confused.unknown_share < confused.unknown_interval[1]
    assert clear.unknown_at_least == confused.unknown_at_least


def test_classes_may_have_any_shares():
    """Class 1 scores lower; where all known traffic is of it, only the weaker promise holds."""
    rng = np.random.default_rng(4)
    codes = np.repeat([0, 1], [900, 300])
    scores = np.full((1200, 2), -9.0)
    scores[np.arange(1200), codes] = rng.normal(np.where(codes == 0, 4, 2), 1)
    traffic = np.stack([np.full(1000, -9.0), rng.normal(2, 1, 1000)], axis=1)
    shares = mixture(scores, traffic, codes)
    assert shares.unknown_at_least > 0.2
    assert shares.unknown_at_least_any_mix == 0
    np.testing.assert_allclose(shares.class_shares, [0, 1], atol=0.02)


def test_known_rows_that_changed_are_warned_of():
    rng = np.random.default_rng(4)
    known = rng.normal(size=1000)
    assert "p = " in mixture(known, 2 * rng.normal(size=1000)).warning
    assert mixture(known, rng.normal(size=1000)).warning is None


def test_shares_of_classes_that_are_confused():
    rng = np.random.default_rng(5)
    n, true = 3000, np.array([0.7, 0.2, 0.1])

    def scores(codes):
        s = rng.normal(0, 0.7, (len(codes), 3))
        s[np.arange(len(codes)), codes] += 1
        return s

    codes = rng.integers(0, 3, n)
    traffic = scores(rng.choice(3, n, p=true))
    shares = mixture(scores(codes), np.vstack([traffic, np.full((1000, 3), -5.0)]), codes)
    naive = np.bincount(traffic.argmax(axis=1)) / n
    assert np.abs(shares.class_shares - true).max() < 0.03 < np.abs(naive - true).max()
    inside = (shares.class_intervals[:, 0] <= true) & (true <= shares.class_intervals[:, 1])
    assert inside.sum() >= 2
    assert shares.unknown_share == pytest.approx(0.25, abs=0.04)


def test_rejection_of_unknown_rows_at_any_threshold():
    rng = np.random.default_rng(6)
    known, unknown = rng.normal(3, 1, 2000), rng.normal(0, 1, 2000)
    shares = mixture(rng.normal(3, 1, 4000), np.append(known, unknown))
    thresholds = np.array([-1.0, 0.5, 2.0])
    true = np.mean(unknown < thresholds[:, None], axis=1)
    np.testing.assert_allclose(shares.unknown_rejected(thresholds), true, atol=0.06)
    assert shares.known_rejected(-10.0) == 0 and shares.unknown_rejected(100.0) == 1


def test_slack_keeps_copies_of_a_row_together():
    known = np.repeat([0.0, 1.0, 2.0], 100)
    lower = known - 1e-9  # as rounding has it
    assert mixture(known, lower).unknown_at_least > 0.2
    assert mixture(known, lower, slack=1e-8).unknown_at_least == 0


def test_order_of_rows_does_not_matter():
    rng = np.random.default_rng(7)
    a, b = _draw(rng, 0.3, 300, 300)
    one, other = mixture(a, b), mixture(rng.permutation(a), rng.permutation(b))
    assert (one.unknown_at_least, one.unknown_share) == (
        other.unknown_at_least,
        other.unknown_share,
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0] * 20, [1.0] * 9), "traffic has 9 rows"),
        (([1.0] * 3, [1.0] * 20), "calibration has 3 rows"),
        (([np.nan] * 20, [1.0] * 20), "calibration contains NaN"),
        ((np.ones((20, 2)), np.ones((20, 3))), "2 columns of scores and traffic has 3"),
        ((np.ones((20, 2)), np.ones((20, 2)), np.zeros(20, int)), r"missing \[1\]"),
        ((np.ones((20, 1)), np.ones((20, 1)), np.ones(20, int)), "0 to 0"),
        ((np.ones((20, 1)), np.ones((20, 1)), np.zeros(19, int)), "inconsistent numbers"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        mixture(*arguments)


@pytest.mark.parametrize("keywords", [{"confidence": 1.0}, {"confidence": 0}, {"slack": -1.0}])
def test_bad_parameters(keywords):
    with pytest.raises(ValueError, match=next(iter(keywords))):
        mixture(np.arange(20.0), np.arange(20.0), **keywords)
