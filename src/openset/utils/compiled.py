"""Compiled functions: a notice while they compile, and none of them fails without a cache."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from functools import cached_property

import numba
from numba.core import caching, event

from . import _precompiled

# Fast-math flags under which LLVM vectorises loops over numbers that may be infinite, but not NaN.
FAST = {"contract", "nnan", "nsz"}


def njit(**options) -> Callable[[Callable], Callable]:
    """As :func:`numba.njit`, but the cache may fail, and several processes may fill it at once.

    Compiled functions are loaded from the wheel if it contains them. Otherwise, Numba keeps them
    next to the source, in the home folder or in ``NUMBA_CACHE_DIR``. If none of these folders can
    be written, the functions are compiled in every process, and one warning names the remedy.

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
            compiled._cache = _Cache(function)
        return compiled

    return decorate


class _Cache:
    """What Numba asks for a function's code: the wheel first, then a folder that can be written."""

    def __init__(self, function: Callable):
        self._function = function
        if _precompiled.precompiled_folder() is None:
            self._folder  # noqa: B018 (warns at import if no folder can be written)

    @cached_property
    def _folder(self):
        """Numba's cache, opened only if the wheel lacks a function."""
        try:
            return _FolderCache(self._function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            _warn_once(
                "neither the folder of openset nor the cache folder of the user can be written"
            )
            return caching.NullCache()

    @property
    def cache_path(self):
        opened = "_folder" in vars(self)
        return self._folder.cache_path if opened else str(_precompiled.precompiled_folder())

    def load_overload(self, signature, target_context):
        target_context.refresh()
        found = _precompiled.load(self._function, signature, target_context)
        return found or self._folder.load_overload(signature, target_context)

    def save_overload(self, signature, compiled):
        self._folder.save_overload(signature, compiled)


class _FolderCache(caching.FunctionCache):
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
    """An entry names its source and signature: of several processes, each numbers its own files."""

    # Two that begin with an empty index give the same file to two signatures; and one that is
    # killed leaves an index that names a file of an older source.

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
    """Tells the logger "openset" what the user waits for."""

    # Once, as a warning, that the solver compiles, since the first fit would seem to hang; and at
    # level INFO, how far it is, with an empty message when it is done.

    def __init__(self):
        self._logger = logging.getLogger("openset")
        self._said, self._depth, self._count = False, 0, 0
        self._begin = self._seconds = 0.0

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if module.startswith("openset.solver.") and not (self._said or _warned):
            self._said = True
            self._logger.warning(
                "openset: compiling the solver, up to 40 s; later runs load it from a cache"
            )
        if self._depth or module.startswith("openset."):  # one function compiles those it calls
            self._begin = self._begin if self._depth else time.monotonic()
            self._depth += 1
            self._count += 1
            seconds = self._seconds + time.monotonic() - self._begin
            self._logger.info("compiling, %d functions so far, %.0f s", self._count, seconds)

    def on_end(self, event: event.Event) -> None:
        if self._depth:
            self._depth -= 1
            if not self._depth:
                self._seconds += time.monotonic() - self._begin
                self._logger.info("")


event.register("numba:compile", _Notice())


@njit(cache=True, nogil=True)
def probe(x):
    """A compiled function that shows whether the cache works."""
    return x
