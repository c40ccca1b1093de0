"""Compiled functions whose cache may be missing, as in a read-only installation."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numba

# Fast-math flags under which LLVM vectorises loops over numbers that may be infinite, but not NaN.
FAST = {"contract", "nnan", "nsz"}


def njit(**options) -> Callable[[Callable], Callable]:
    """As :func:`numba.njit`, but without a cache where no folder for one can be written.

    Numba keeps compiled functions next to the source or in the home folder. If it can write to
    neither and ``NUMBA_CACHE_DIR`` is not set, it raises an error at import. Here the functions
    are then compiled in every process, and one warning names the remedy.

    Parameters
    ----------
    **options
        Options of :func:`numba.njit`.

    Returns
    -------
    callable
        A decorator.

    Examples
    --------
    >>> from openset.utils.compiled import njit
    >>> @njit(nogil=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(4)
    8
    """

    def decorate(function):
        try:
            return numba.njit(**options)(function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            _warn_once()
            return numba.njit(**(options | {"cache": False}))(function)

    return decorate


_warned = False


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "Compiled functions cannot be cached: neither the folder of openset nor the cache "
            "folder of the user can be written. They are compiled anew in every process, which "
            "takes about 40 seconds. Set the environment variable NUMBA_CACHE_DIR to a writable "
            "folder.",
            UserWarning,
            stacklevel=4,
        )
