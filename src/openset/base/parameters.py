"""Parameters that methods have in common: grids for a search, and constraints on their values."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from ..kernels import Kernel, Linear
from ._classifier import SearchSpec

__all__ = [
    "BOXES",
    "C_CONSTRAINTS",
    "FRACTIONS",
    "KERNEL_CONSTRAINTS",
    "PAPER_GAMMAS",
    "POSITIVE",
    "SCALED_GAMMAS",
    "SOLVER_CONSTRAINTS",
    "kernel_search",
    "per_class",
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
C_CONSTRAINTS = {"C": [POSITIVE, dict], "class_weight": [StrOptions({"balanced"}), dict, None]}
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


def kernel_search(
    default: dict, paper: dict, engine: tuple[str, ...] = (), **options
) -> SearchSpec:
    """Declare the search of a kernel machine: grids over gamma and what else the presets try.

    With a grid engine the paper's preset chooses one setting per class.
    """
    return SearchSpec(
        grids={
            "default": {"gamma": SCALED_GAMMAS, **default},
            "paper": {"gamma": PAPER_GAMMAS, **paper},
        },
        levels={"paper": "class"} if engine else {},
        scaled={"gamma": unit_gamma},
        engine=engine,
        **options,
    )


def per_class(estimator: Any, name: str, value: float | dict | None) -> np.ndarray:
    """Expand a number, None or a dict {class: number} to one value per class, shape (K,).

    `name` is the parameter, for messages and constraints; the estimator has ``classes_``.
    """
    classes = estimator.classes_.tolist()
    if value is None:
        return np.full(len(classes), None)
    if not isinstance(value, dict):
        return np.full(len(classes), float(value))
    if set(value) != set(classes):
        raise ValueError(
            f"{name} is a dict for the classes {sorted(value, key=str)}, but y has "
            f"{classes}; give exactly one value for each class."
        )
    rules = estimator._parameter_constraints[name]
    (interval,) = (rule for rule in rules if isinstance(rule, Interval))
    bad = [c for c in classes if not interval.is_satisfied_by(value[c])]
    if bad:
        raise ValueError(f"{name}[{bad[0]!r}] must be {interval}, got {value[bad[0]]!r} instead.")
    return np.array([value[c] for c in classes], dtype=np.float64)


def unit_gamma(X, weight: np.ndarray) -> float:
    """Return 1 / (features x variance): the width at which distances are of the order of one.

    X is an ndarray or a CSR matrix of shape (m, d), `weight` has shape (m,).
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
