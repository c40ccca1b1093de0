"""Parameters that methods have in common: grids for a search, and constraints on their values."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from ..kernels import Kernel, Linear

__all__ = [
    "BOXES",
    "C_CONSTRAINTS",
    "FRACTIONS",
    "KERNEL_CONSTRAINTS",
    "PAPER_GAMMAS",
    "POSITIVE",
    "SCALED_GAMMAS",
    "SOLVER_CONSTRAINTS",
    "unit_gamma",
]

# Thresholds and fractions: 20 values, linear in [0, 1).
FRACTIONS = [k / 20 for k in range(20)]
# Kernel widths: the paper's, for data in [0, 1], and multiples of `unit_gamma`, for any data.
PAPER_GAMMAS = [2.0**k for k in range(-15, 16, 2)]
SCALED_GAMMAS = [2.0**k for k in range(-7, 10, 2)]
# Values of C.
BOXES = [1.0, 8.0]

# Entries of scikit-learn's ``_parameter_constraints``.
POSITIVE = Interval(Real, 0.0, None, closed="neither")
C_CONSTRAINTS = {
    "C": [POSITIVE, dict],
    "class_weight": [StrOptions({"balanced"}), dict, None],
}
KERNEL_CONSTRAINTS = {
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE, dict],
    "kernel": [str, Kernel, Linear],
}
SOLVER_CONSTRAINTS = {
    "tol": [POSITIVE],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "cache_size": [POSITIVE],
    "n_jobs": [Integral, None],
    "device": [StrOptions({"cpu", "cuda", "auto"})],
    "verbose": ["verbose"],
    "unknown_label": "no_validation",
}


def unit_gamma(X, weight: np.ndarray) -> float:
    """Return 1 / (features x variance): the width at which distances are of the order of one.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
    weight : ndarray of shape (m,)

    Returns
    -------
    float
    """
    total = weight.sum() * X.shape[1]
    first = (weight @ X).sum() / total
    if sparse.issparse(X):
        stored = np.repeat(weight, np.diff(X.indptr))
        squares = stored @ (X.data - first) ** 2 + (total - stored.sum()) * first**2
    else:
        squares = (weight @ (X - first) ** 2).sum()
    variance = squares / total
    if np.sqrt(variance) <= 1e-13 * abs(first):  # equal numbers, up to rounding
        return 1.0
    gamma = 1.0 / (X.shape[1] * variance)
    if not 0 < gamma < np.inf:
        raise ValueError(
            f"The variance of X is {variance:g}: too large or too small for gamma='scale'. "
            "Scale X, for instance with sklearn.preprocessing.StandardScaler."
        )
    return gamma
