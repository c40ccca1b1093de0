import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from openset.study import stats


@pytest.mark.parametrize("decimals", [1, 8])  # with and without ties
@pytest.mark.parametrize("shape", [(2, 3), (12, 4), (40, 9)])
def test_friedman_as_scipy(shape, decimals):
    scores = np.random.default_rng(0).random(shape).round(decimals)
    result = stats.friedman(scores)
    expected = scipy.stats.friedmanchisquare(*scores.T)
    assert_allclose([result.chi2, result.p_chi2], expected, rtol=1e-9)
    n, k = shape
    f = (n - 1) * expected.statistic / (n * (k - 1) - expected.statistic)
    assert_allclose(result.f, f)
    assert (result.df1, result.df2) == (k - 1, (k - 1) * (n - 1))
    assert_allclose(result.p_f, scipy.stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


def test_friedman_at_its_ends():
    alike = stats.friedman([[3, 2, 1]] * 5)
    assert_allclose(alike.chi2, 10)
    assert (alike.f, alike.p_f) == (np.inf, 0)
    tied = stats.friedman(np.ones((5, 3)))
    assert (tied.chi2, tied.p_chi2, tied.f, tied.p_f) == (0, 1, 0, 1)


@pytest.mark.parametrize("test", ["nemenyi", "bonferroni-dunn"])
@pytest.mark.parametrize("alpha", [0.05, 0.10])
@pytest.mark.parametrize("k", range(2, 11))
def test_tables_agree_with_the_exact_quantiles(test, alpha, k):
    exact = stats.critical_value(k, test=test, alpha=alpha)
    printed = stats.critical_value(k, test=test, alpha=alpha, tabulated=True)
    slip = (test, alpha, k) == ("bonferroni-dunn", 0.05, 9)
    assert (abs(exact - printed) > 0.0011) is slip


def test_ranks_are_invariant():
    rng = np.random.default_rng(1)
    scores = rng.random((7, 5))
    ranks = stats.ranks(scores)
    assert_allclose(ranks.sum(axis=1), 15)
    assert_allclose(stats.ranks(np.exp(3 * scores)), ranks)
    order = rng.permutation(5)
    assert_allclose(stats.ranks(scores[:, order]), ranks[:, order])


def test_p_values_say_what_the_critical_difference_says():
    methods = {
        name: rank for name, rank in zip("abcdef", [1.6, 2.1, 3.2, 4, 4.8, 5.3], strict=True)
    }
    for compared in (stats.compare_with_control(methods, "a", 15), stats.compare_all(methods, 15)):
        assert {c.differs for c in compared} == {True, False}
        for c in compared:
            assert c.differs == (c.p_value < 0.05)
            assert_allclose(c.difference, methods[c.method] - methods[c.other])
    assert len(stats.compare_all(methods, 15)) == 15


def test_no_plotting_library_and_no_pandas():
    code = (
        "import sys, sklearn.svm; before = set(sys.modules)\n"
        "import openset.study.stats\n"
        "added = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
        "assert not added & {'matplotlib', 'pandas', 'pyarrow', 'typer'}, added"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: stats.ranks([1, 2, 3]), r"shape \(3,\)"),
        (lambda: stats.ranks([[1], [2]]), "two methods"),
        (lambda: stats.ranks([[1, 2], [np.nan, 1]]), r"scores\[1\] is not finite"),
        (lambda: stats.friedman([[1, 2]]), "1 block"),
        (lambda: stats.critical_value(1), "n_methods=1"),
        (lambda: stats.critical_value(3, alpha=0), "alpha=0"),
        (lambda: stats.critical_value(3, test="dunn"), "test='dunn'"),
        (lambda: stats.critical_value(11, tabulated=True), "n_methods=11"),
        (lambda: stats.critical_value(5, alpha=0.01, tabulated=True), "alpha=0.01"),
        (lambda: stats.critical_difference(5, 0), "n_blocks=0"),
        (lambda: stats.compare_with_control({"a": 1, "b": 2}, "c", 5), "control='c'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
