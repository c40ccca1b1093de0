"""Kernels as functions of the scaled squared distance ``s = gamma * r**2``.

A decaying kernel is one number-to-number function ``k(s)`` with ``k(0) = 1``, ``0 <= k <= 1``,
non-increasing, and ``k(s) -> 0`` as ``s -> inf``. That is all the boundedness theorem of the paper
needs: far from all data every kernel value vanishes and the decision value tends to the bias. The
width ``gamma`` belongs to the estimator, not to the kernel, so all widths share one distance
matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .utils.compiled import FAST, njit

__all__ = [
    "RBF",
    "InverseMultiquadric",
    "Kernel",
    "Linear",
    "RationalQuadratic",
    "TStudent",
    "check_kernel",
    "get_kernel",
]


class Kernel:
    """Base class of decaying kernels; subclass it to bring your own.

    A subclass defines ``value`` and ``inverse`` and is passed as ``kernel=`` to an estimator, which
    runs :func:`check_kernel` on it. It has to be positive definite, which no check can prove: with
    an indefinite kernel the solver still stops, but its answer is a stationary point only.
    """

    decaying = True

    def value(self, s: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Kernel values ``k(s)``, of the shape and dtype of `s`.

        Parameters
        ----------
        s : ndarray of any shape, float32 or float64
            Scaled squared distances, >= 0, possibly inf.
        out : ndarray, default=None
            Where to write, and what is returned then; may be ``s`` itself.

        Returns
        -------
        ndarray
        """
        raise NotImplementedError(f"{type(self).__name__} does not define value(s, out=None)")

    def inverse(self, t: float) -> float:
        """Return the smallest s with ``k(s) <= t``, for t in (0, 1].

        Parameters
        ----------
        t : float

        Returns
        -------
        float
        """
        raise NotImplementedError(f"{type(self).__name__} does not define inverse(t)")


@intrinsic
def _as_float32(typingctx, bits):
    """Reinterpret the bits of an int32 as a float32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(cache=True, nogil=True, fastmath=FAST)
def exp_neg(a):
    """a = exp(-a) in float32, relative error below 2e-7; vectorises, unlike a call of expf."""
    # exp(-a) = 2**n * exp(f): n the nearest integer to -a / ln 2, f the remainder in [-0.35, 0.35],
    # exp(f) by its Taylor polynomial. Below 2**-126 the result is flushed to zero, because denormal
    # numbers would slow every later pass over the row.
    log2e = np.float32(1.4426950408889634)
    # ln 2 in two parts, so that n * ln 2 is subtracted without rounding.
    ln2_hi = np.float32(0.693359375)
    ln2_lo = np.float32(-2.12194440e-4)
    for k in range(a.size):
        x = -a[k]
        live = x > np.float32(-87.0)
        x = x if live else np.float32(0.0)
        n = np.int32(x * log2e - np.float32(0.5))
        fn = np.float32(n)
        f = (x - fn * ln2_hi) - fn * ln2_lo
        p = np.float32(1.0 / 5040.0)
        p = p * f + np.float32(1.0 / 720.0)
        p = p * f + np.float32(1.0 / 120.0)
        p = p * f + np.float32(1.0 / 24.0)
        p = p * f + np.float32(1.0 / 6.0)
        p = p * f + np.float32(0.5)
        p = p * f + np.float32(1.0)
        p = p * f + np.float32(1.0)
        e = p * _as_float32(np.int32((n + np.int32(127)) << np.int32(23)))
        a[k] = e if live else np.float32(0.0)


@dataclass(frozen=True)
class RBF(Kernel):
    """Gaussian kernel, ``k(s) = exp(-s)``."""

    def value(self, s, out=None):
        if out is None:
            out = np.empty_like(s, order="C")
        if isinstance(s, np.ndarray) and s.dtype == np.float32 and out.flags.c_contiguous:
            # One array, in place: with two, the compiler must assume that they overlap.
            if out is not s:
                out[...] = s
            exp_neg(out.reshape(-1))
            return out
        return np.exp(np.negative(s, out=out), out=out)

    def inverse(self, t):
        return -np.log(t)


class _Parametrised:
    """A kernel whose parameters are positive."""

    def __post_init__(self):
        for name, value in vars(self).items():
            if not 0 < value < np.inf:
                owner = type(self).__name__
                raise ValueError(f"{owner}: {name} must be > 0 and finite, got {name}={value!r}.")


@dataclass(frozen=True)
class TStudent(_Parametrised, Kernel):
    """Generalised T-Student kernel, ``k(s) = 1 / (1 + s**(degree/2))``.

    With gamma = 1 this is ``1 / (1 + r**degree)``.

    Parameters
    ----------
    degree : float, default=2.0
        > 0.4, below which the kernel hardly decays; it is positive definite up to 2.
    """

    degree: float = 2.0

    def value(self, s, out=None):
        with np.errstate(over="ignore"):  # 1 / (1 + inf) = 0 is what is meant
            power = np.power(s, s.dtype.type(self.degree / 2), out=out)
        return np.reciprocal(np.add(power, 1, out=out), out=out)

    def inverse(self, t):
        with np.errstate(over="ignore"):
            return np.float64(1 / t - 1) ** (2 / self.degree)


@dataclass(frozen=True)
class RationalQuadratic(_Parametrised, Kernel):
    """Rational quadratic kernel, ``k(s) = c / (s + c)``.

    Parameters
    ----------
    c : float, default=1.0
        > 0, the value of s at which k is one half.
    """

    c: float = 1.0

    def value(self, s, out=None):
        c = s.dtype.type(self.c)
        return np.divide(c, np.add(s, c, out=out), out=out)

    def inverse(self, t):
        return self.c * (1 / t - 1)


@dataclass(frozen=True)
class InverseMultiquadric(_Parametrised, Kernel):
    """Inverse multiquadric kernel, ``k(s) = c / sqrt(s + c**2)``, normalised to k(0) = 1.

    Parameters
    ----------
    c : float, default=1.0
        > 0; from s of the order of c**2 on the kernel decays.
    """

    c: float = 1.0

    def value(self, s, out=None):
        c = s.dtype.type(self.c)
        return np.divide(c, np.sqrt(np.add(s, c * c, out=out), out=out), out=out)

    def inverse(self, t):
        return self.c**2 * (1 / t**2 - 1)


@dataclass(frozen=True)
class Linear:
    """The linear kernel: no decay, so no region it accepts is bounded."""

    decaying = False


_BY_NAME = {
    "rbf": RBF,
    "t_student": TStudent,
    "rational_quadratic": RationalQuadratic,
    "inverse_multiquadric": InverseMultiquadric,
    "linear": Linear,
}


def get_kernel(kernel: str | Kernel | Linear) -> Kernel | Linear:
    """Kernel object for a name, or the object itself after :func:`check_kernel`.

    Parameters
    ----------
    kernel : str or Kernel or Linear

    Returns
    -------
    Kernel or Linear

    Examples
    --------
    >>> from openset.kernels import get_kernel
    >>> get_kernel("rational_quadratic")
    RationalQuadratic(c=1.0)
    """
    if isinstance(kernel, str):
        if kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' is not supported: boundedness is a property of a kernel that "
                "decays with distance. Pass your kernel as a function of s = gamma * r**2: "
                "subclass openset.kernels.Kernel."
            )
        if kernel not in _BY_NAME:
            raise ValueError(
                f"kernel={kernel!r} is not known. Choose one of {sorted(_BY_NAME)} or pass an "
                "instance of openset.kernels.Kernel."
            )
        return _BY_NAME[kernel]()
    if isinstance(kernel, type) or not isinstance(kernel, Kernel | Linear):
        raise ValueError(
            f"kernel={kernel!r} is neither a name nor an instance of openset.kernels.Kernel. "
            f"Choose one of {sorted(_BY_NAME)} or pass an instance."
        )
    if isinstance(kernel, Kernel):
        (_check_once if type(kernel) in _BY_NAME.values() else check_kernel)(kernel)
    return kernel


def check_kernel(kernel: Kernel) -> None:
    """Raise ValueError unless `kernel` keeps the contract of a decaying kernel.

    Checked on a grid of s from 0 to 1e30 and at inf, in both precisions: ``k(0) = 1``,
    ``0 <= k <= 1``, non-increasing, ``k -> 0``; ``value`` leaves `s` alone, writes into `out`,
    returns it and accepts ``out is s``; ``inverse`` inverts ``value``.

    Parameters
    ----------
    kernel : Kernel
        An instance.

    Examples
    --------
    >>> from openset.kernels import RBF, check_kernel
    >>> check_kernel(RBF())
    """
    name = type(kernel).__name__

    def require(condition, what):
        if not condition:
            raise ValueError(f"kernel {name}: {what} (see openset.kernels.Kernel).")

    def attempt(what, function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise ValueError(
                f"kernel {name}: {what} raised {type(error).__name__}: {error} "
                "(see openset.kernels.Kernel)."
            ) from error

    grid = np.concatenate([[0.0], np.logspace(-6, 30, 400), [np.inf]])
    for dtype in (np.float64, np.float32):
        s = grid.astype(dtype)
        k = attempt("value(s)", kernel.value, s)
        require(np.array_equal(s, grid.astype(dtype)), "value(s) must leave s as it is")
        alike = isinstance(k, np.ndarray) and k.shape == s.shape and k.dtype == dtype
        require(alike, "value(s) must be an array of the shape and dtype of s")
        in_place = attempt("value(s, out=s)", kernel.value, s, out=s)
        same = in_place is s and np.array_equal(s, k, equal_nan=True)
        require(same, "value(s, out=s) must work in place and return out")
        eps = 4 * np.finfo(dtype).eps
        require(np.all(np.isfinite(k)), "k(s) must be finite, also for s = inf")
        require(abs(k[0] - 1) <= eps, f"k(0) must be 1, got {k[0]!r}")
        require(np.all((k >= 0) & (k <= 1 + eps)), "0 <= k(s) <= 1 must hold")
        require(np.all(np.diff(k) <= eps), "k(s) must not increase")
        require(k[-2] < 1e-6, f"k(s) must tend to 0, got k(1e30) = {k[-2]!r}")
    for t in (0.9, 0.5, 0.1, 1e-3):
        s = np.array([attempt(f"inverse({t})", kernel.inverse, t)], dtype=np.float64)
        back = float(kernel.value(s)[0])
        require(abs(back - t) <= 1e-6, f"value(inverse({t})) must be {t}, got {back!r}")


# For the kernels here, which cannot change; a parameter may still be too extreme.
_check_once = lru_cache(maxsize=64)(check_kernel)
