"""Compiled functions: a notice while they compile, and none of them fails without a cache."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable

import numba
from numba.core import event

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


class _Notice(event.Listener):
    """Says once that the solver compiles, or the first fit would seem to hang."""

    said = False

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if module.startswith("openset.solver.") and not (self.said or _warned):
            self.said = True
            logging.getLogger("openset").warning(
                "openset: compiling the solver, about 40 s; later runs load it from a cache"
            )

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Notice())
