"""Statistics over many datasets: ranks, is there any difference, and which methods differ.

As Demšar (2006) recommends: rank the methods within each block (such as a dataset), test with
Friedman's test whether the average ranks differ by chance, then compare pairs of methods (Nemenyi)
or all methods with one control (Bonferroni-Dunn).

References
----------
J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine
Learning Research 7, 2006.
"""

from __future__ import annotations

from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, f, norm, rankdata, studentized_range

Test = Literal["bonferroni-dunn", "nemenyi"]

# q of k = 2, ..., 10 methods as printed in Demšar's tables 5(a) and 5(b), by (test, alpha). The
# Bonferroni-Dunn entry 2.724 for nine methods at 0.05 is an error of the table (the quantile is
# 2.734), which the paper's figures use.
_TABLE = {
    ("nemenyi", 0.05): (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    ("nemenyi", 0.10): (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
    ("bonferroni-dunn", 0.05): (1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.724, 2.773),
    ("bonferroni-dunn", 0.10): (1.645, 1.960, 2.128, 2.241, 2.326, 2.394, 2.450, 2.498, 2.539),
}


def critical_value(
    n_methods: int, *, test: Test = "bonferroni-dunn", alpha: float = 0.05, tabulated: bool = False
) -> float:
    """Return the quantile q of the critical difference.

    Parameters
    ----------
    n_methods : int
        k, including the control.
    test : {"bonferroni-dunn", "nemenyi"}, default="bonferroni-dunn"
        All methods against one control, or all pairs of methods.
    alpha : float, default=0.05
        Level of the whole family of comparisons.
    tabulated : bool, default=False
        Use the value printed in Demšar's tables (k = 2 to 10; alpha 0.05 or 0.10) instead of the
        exact quantile. They agree up to rounding, except for one error in the table: nine methods
        at 0.05 in the Bonferroni-Dunn test, which the paper used.

    Returns
    -------
    float

    Examples
    --------
    >>> from openset.study.stats import critical_value
    >>> round(critical_value(9), 3), critical_value(9, tabulated=True)
    (2.734, 2.724)
    """
    if n_methods < 2:
        raise ValueError(f"n_methods={n_methods!r} must be at least 2.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r} must lie in (0, 1).")
    if test not in ("bonferroni-dunn", "nemenyi"):
        raise ValueError(f"test={test!r} must be 'bonferroni-dunn' or 'nemenyi'.")
    if tabulated:
        values = _TABLE.get((test, alpha), ())
        if n_methods - 2 >= len(values):
            raise ValueError(
                f"n_methods={n_methods}, alpha={alpha} is not in the printed tables (2 to 10 "
                "methods, alpha 0.05 or 0.1); use tabulated=False."
            )
        return values[n_methods - 2]
    if test == "nemenyi":
        return float(studentized_range.isf(alpha, n_methods, np.inf) / np.sqrt(2))
    return float(norm.isf(alpha / (2 * (n_methods - 1))))


def critical_difference(
    n_methods: int,
    n_blocks: int,
    *,
    test: Test = "bonferroni-dunn",
    alpha: float = 0.05,
    tabulated: bool = False,
) -> float:
    """Return the difference of average ranks above which two methods differ significantly.

    Parameters
    ----------
    n_methods, n_blocks : int
        Number of ranked methods, and of blocks (datasets) over which ranks are averaged.
    test, alpha, tabulated
        As for `critical_value`.

    Returns
    -------
    float
        q sqrt(k (k + 1) / (6 N)).

    Examples
    --------
    >>> from openset.study.stats import critical_difference
    >>> round(critical_difference(9, 74), 4)  # the paper's experiment
    1.2311
    """
    q = critical_value(n_methods, test=test, alpha=alpha, tabulated=tabulated)
    if n_blocks < 1:
        raise ValueError(f"n_blocks={n_blocks!r} must be at least 1.")
    return q * float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))


__all__ = [
    "Comparison",
    "FriedmanResult",
    "average_ranks",
    "compare_all",
    "compare_with_control",
    "critical_difference",
    "critical_value",
    "friedman",
    "ranks",
]


class FriedmanResult(NamedTuple):
    """Friedman's test and its correction by Iman and Davenport.

    Attributes
    ----------
    chi2, p_chi2 : float
        Friedman's statistic, corrected for ties, and its p-value.
    f, p_f : float
        Iman and Davenport's statistic, less conservative, and its p-value.
    df1, df2 : int
        Degrees of freedom: k - 1 (also of `chi2`) and (k - 1)(N - 1).
    """

    chi2: float
    p_chi2: float
    f: float
    p_f: float
    df1: int
    df2: int


class Comparison(NamedTuple):
    """Two methods compared by their average ranks.

    Attributes
    ----------
    method, other : str
    difference : float
        Average rank of `method` minus that of `other`: negative where `method` is better.
    p_value : float
        Adjusted for the number of comparisons.
    differs : bool
        Whether the difference exceeds the critical difference.
    """

    method: str
    other: str
    difference: float
    p_value: float
    differs: bool


def ranks(scores: ArrayLike) -> np.ndarray:
    """Rank the methods within each block: 1 is the highest score, equal scores share a rank.

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)
        Higher is better; finite.

    Returns
    -------
    ndarray of shape (n_blocks, n_methods)

    Examples
    --------
    >>> from openset.study.stats import ranks
    >>> ranks([[0.9, 0.7, 0.7], [0.2, 0.4, 0.3]])
    array([[1. , 2.5, 2.5],
           [3. , 1. , 2. ]])
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] < 1 or scores.shape[1] < 2:
        raise ValueError(
            f"scores has shape {scores.shape}; it must be (n_blocks, n_methods) with at least one "
            "block and two methods."
        )
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
        raise ValueError(
            f"scores[{row}] is not finite: {scores[row]}; drop blocks that are not complete."
        )
    return rankdata(-scores, axis=1)


def average_ranks(scores: ArrayLike) -> np.ndarray:
    """Mean over the blocks of the ranks of each method.

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)

    Returns
    -------
    ndarray of shape (n_methods,)

    Examples
    --------
    >>> from openset.study.stats import average_ranks
    >>> average_ranks([[0.9, 0.7, 0.7], [0.2, 0.4, 0.3]])
    array([2.  , 1.75, 2.25])
    """
    return ranks(scores).mean(axis=0)


def friedman(scores: ArrayLike) -> FriedmanResult:
    """Test whether all methods are alike (Friedman; Iman and Davenport).

    Parameters
    ----------
    scores : array-like of shape (n_blocks, n_methods)
        Higher is better; finite; at least two blocks.

    Returns
    -------
    FriedmanResult

    Examples
    --------
    >>> from openset.study.stats import friedman
    >>> result = friedman([[3, 2, 1], [3, 2, 1], [3, 1, 2], [2, 3, 1]])
    >>> round(result.chi2, 3), round(result.f, 3)
    (4.5, 3.857)
    """
    within = ranks(scores)
    n, k = within.shape
    if n < 2:
        raise ValueError(f"scores has {n} block; Friedman's test needs at least 2.")
    mean = within.mean(axis=0)
    statistic = 12 * n / (k * (k + 1)) * (np.sum(mean**2) - k * (k + 1) ** 2 / 4)
    # Shared ranks spread less than distinct ones; without ties the correction is 1.
    spread = np.sum((within - (k + 1) / 2) ** 2) / (n * k * (k * k - 1) / 12)
    statistic = float(max(statistic, 0.0) / spread) if spread > 0 else 0.0
    df1, df2 = k - 1, (k - 1) * (n - 1)
    room = n * (k - 1) - statistic
    # All blocks rank the methods alike: no room for chance, whatever rounding says.
    corrected = (n - 1) * statistic / room if room > 1e-9 * n * k else np.inf
    return FriedmanResult(
        statistic,
        float(chi2.sf(statistic, df1)),
        float(corrected),
        float(f.sf(corrected, df1, df2)),
        df1,
        df2,
    )


def compare_with_control(
    ranks: dict[str, float],
    control: str,
    n_blocks: int,
    *,
    alpha: float = 0.05,
    tabulated: bool = False,
) -> list[Comparison]:
    """Bonferroni-Dunn: every method against the control, best rank first.

    Parameters
    ----------
    ranks : dict {str: float}
        Average rank of each method.
    control : str
        One of the methods.
    n_blocks : int
        How many blocks the ranks are means over.
    alpha, tabulated
        As for `critical_value`. The p-values are those of the exact quantile.

    Returns
    -------
    list of Comparison

    Examples
    --------
    >>> from openset.study.stats import compare_with_control
    >>> ranks = {"OSSVM": 1.5, "EVM": 1.9, "SVM": 2.6}
    >>> [(c.method, c.differs) for c in compare_with_control(ranks, "OSSVM", 20)]
    [('EVM', False), ('SVM', True)]
    """
    if control not in ranks:
        raise ValueError(f"control={control!r} is none of the methods {list(ranks)}.")
    pairs = [(method, control) for method in ranks if method != control]
    return _compare(ranks, pairs, n_blocks, "bonferroni-dunn", alpha, tabulated)


def compare_all(
    ranks: dict[str, float], n_blocks: int, *, alpha: float = 0.05, tabulated: bool = False
) -> list[Comparison]:
    """Nemenyi: every pair of methods, the better one first.

    Parameters
    ----------
    ranks, n_blocks, alpha, tabulated
        As for `compare_with_control`.

    Returns
    -------
    list of Comparison

    Examples
    --------
    >>> from openset.study.stats import compare_all
    >>> pairs = compare_all({"OSSVM": 1.5, "EVM": 1.9, "SVM": 2.6}, 20)
    >>> [(c.method, c.other) for c in pairs if c.differs]
    [('OSSVM', 'SVM')]
    """
    pairs = list(combinations(sorted(ranks, key=ranks.__getitem__), 2))
    return _compare(ranks, pairs, n_blocks, "nemenyi", alpha, tabulated)


def _compare(ranks, pairs, n_blocks, test, alpha, tabulated) -> list[Comparison]:
    """The pairs, sorted by the rank of the first method of each."""
    k = len(ranks)
    limit = critical_difference(k, n_blocks, test=test, alpha=alpha, tabulated=tabulated)
    compared = []
    for method, other in sorted(pairs, key=lambda pair: ranks[pair[0]]):
        difference = ranks[method] - ranks[other]
        z = abs(difference) * critical_value(k) / critical_difference(k, n_blocks)
        if test == "nemenyi":
            p = studentized_range.sf(z * 2**0.5, k, np.inf)
        else:
            p = min(1.0, (k - 1) * 2 * norm.sf(z))
        compared.append(Comparison(method, other, difference, float(p), abs(difference) > limit))
    return compared
