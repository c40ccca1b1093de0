"""Critical differences of average ranks, by the tests of Nemenyi and Bonferroni-Dunn."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.stats import norm, studentized_range

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
    >>> from openset.utils import critical_value
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
    >>> from openset.utils import critical_difference
    >>> round(critical_difference(9, 74), 4)  # the paper's experiment
    1.2311
    """
    q = critical_value(n_methods, test=test, alpha=alpha, tabulated=tabulated)
    if n_blocks < 1:
        raise ValueError(f"n_blocks={n_blocks!r} must be at least 1.")
    return q * float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))
