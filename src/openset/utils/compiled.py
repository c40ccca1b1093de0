"""Compiled functions: a notice while they compile, and none of them fails without a cache."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable

import numba
from numba.core import caching, event

# Fast-math flags under which LLVM vectorises loops over numbers that may be infinite, but not NaN.
FAST = {"contract", "nnan", "nsz"}


def njit(**options) -> Callable[[Callable], Callable]:
    """As :func:`numba.njit`, but the cache may fail, and several processes may fill it at once.

    Numba keeps compiled functions next to the source, in the home folder or in ``NUMBA_CACHE_DIR``.
    Where none of them can be written, at import or later, the functions are compiled in every
    process, and one warning names the remedy.

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
    cached = options.pop("cache", False)

    def decorate(function):
        compiled = numba.njit(**options)(function)
        if cached:
            try:
                compiled._cache = _Cache(function)
            except RuntimeError as error:
                if "cannot cache function" not in str(error):
                    raise
                _warn_once(
                    "neither the folder of openset nor the cache folder of the user can be written"
                )
        return compiled

    return decorate


class _Cache(caching.FunctionCache):
    """A cache that costs time when it fails, and nothing else."""

    def __init__(self, function):
        super().__init__(function)
        theirs = self._cache_file
        self._cache_file = _CacheFile(
            self.cache_path, self._impl.filename_base, theirs._source_stamp
        )

    def load_overload(self, *args):
        try:
            return super().load_overload(*args)
        except Exception:  # a damaged file may raise anything; it is written again
            return None

    def save_overload(self, *args):
        try:
            super().save_overload(*args)
        except OSError as error:
            _warn_once(error)


class _CacheFile(caching.IndexDataCacheFile):
    """An entry names its source and signature: of several processes, each numbers its own files.

    Two that begin with an empty index give the same file to two signatures; and one that is killed
    leaves an index that names a file of an older source.
    """

    def save(self, key, data):
        super().save(key, (self._source_stamp, key, data))

    def load(self, key):
        *belongs, data = super().load(key) or (None,)
        return data if belongs == [self._source_stamp, key] else None

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:  # damaged: begin anew
            return {}


_warned = False


def _warn_once(reason) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"Compiled functions cannot be cached: {reason}. They are compiled anew in every "
            "process, which takes about 40 seconds. Set the environment variable NUMBA_CACHE_DIR "
            "to a writable folder.",
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


@njit(cache=True, nogil=True)
def probe(x):
    """A compiled function that shows whether the cache works."""
    return x
