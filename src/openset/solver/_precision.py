"""How accurate distances must be for kernel values, and which arithmetic is."""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel

# Largest error of a kernel value that the arithmetic may cause, by direct differences and by
# products. A float32 kernel value carries a rounding error of 6e-8 anyway.
_DIRECT_ERROR = 1e-6
PRODUCT_ERROR = 5e-6
EPS = float(np.finfo(np.float32).eps) / 2

# Largest coordinate of scaled points in float64.
LARGEST = 1e300

# Distances at which kernels are compared.
_RADII = np.concatenate([[0.0], np.logspace(-6, 3, 300)])


def safe_dtype(kernel: Kernel, norm: float, expanded: bool) -> type:
    """float32 where it is accurate enough for points of norm sqrt(gamma) * |x| <= `norm`."""
    error = _kernel_error(kernel, norm, expanded, EPS)
    return np.float32 if error <= (PRODUCT_ERROR if expanded else _DIRECT_ERROR) else np.float64


def exact_scaling(X: np.ndarray, gamma: float) -> tuple[np.ndarray, float]:
    """Points for direct differences in float64: neither centred nor rounded.

    The factor is a power of two near sqrt(gamma), so that every digit of X is kept, also of small
    numbers among huge ones.

    Returns
    -------
    Z : ndarray of the shape of X
    square : float
        The square of the factor; s is ``gamma / square`` times a squared distance of Z.
    """
    factor = 2.0 ** min(round(np.log2(gamma) / 2), 511)
    with np.errstate(over="ignore"):
        # No infinities, whose difference would be NaN.
        return np.clip(X * factor, -LARGEST, LARGEST), factor * factor


def needs_differences(kernel: Kernel, norm: float) -> bool:
    """Whether expanded distances are too inaccurate for a kernel even in float64.

    Parameters
    ----------
    kernel : Kernel
        What the distances are for.
    norm : float
        Largest norm of the points, each scaled by sqrt(gamma).

    Returns
    -------
    bool
    """
    return not product_error(kernel, norm) <= _DIRECT_ERROR


def product_error(kernel: Kernel, norm: float) -> float:
    """Largest error of a kernel value from products in float64; `norm` as above."""
    return _kernel_error(kernel, norm, True, float(np.finfo(np.float64).eps) / 2)


def _kernel_error(kernel, norm, expanded, eps):
    """Largest error of a kernel value for points of norm sqrt(gamma) * |x| <= `norm`.

    Expanding makes an error of up to 10 eps norm^2 in s (measured; from rounding coordinates,
    products and their sum), direct differences one of 2 eps norm in sqrt(s). The effect on a
    kernel value depends on the kernel: near zero some are much steeper than the RBF.
    """
    r = _RADII
    with np.errstate(over="ignore"):
        off = r**2 + 10 * eps * norm**2 if expanded else (r + 2 * eps * norm) ** 2
    return np.max(kernel.value(r**2) - kernel.value(off))
