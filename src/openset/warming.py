"""Compile or load what the usual calls need, before somebody waits for it."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class WarmReport(NamedTuple):
    """What :func:`warm` did.

    Attributes
    ----------
    seconds : float
        The time it took.
    compiled, loaded : int
        Number of functions that were compiled, and that were loaded.
    folder : str or None
        Where they are stored; None if no folder can be written.
    """

    seconds: float
    compiled: int
    loaded: int
    folder: str | None


def warm() -> WarmReport:
    """Compile all that fit, search, predict and calibrate need, or load it if it is stored.

    Fits, searches and calibrates every method on a few rows, dense and sparse, float64 and float32.
    Call it while a container is built, or in a service before it takes requests: constants of the
    solver change while it runs. What is compiled is stored in ``NUMBA_CACHE_DIR``, next to the
    source or in the user's cache folder.

    Returns
    -------
    WarmReport
        How long it took, how many functions were compiled and loaded, and where they are stored.

    Examples
    --------
    >>> import openset
    >>> openset.warm()  # doctest: +SKIP
    WarmReport(seconds=38.2, compiled=236, loaded=0, folder='/opt/numba')
    """
    from numba.core.dispatcher import Dispatcher

    from .utils.compiled import probe

    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        for estimator, X, y in _tasks():
            _use(estimator, X, y)
        probe(1.0)
    seconds = time.perf_counter() - begin
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "openset"]
    functions = {f for m in modules for f in vars(m).values() if isinstance(f, Dispatcher)}
    stats = [function.stats for function in functions if function.signatures]
    compiled = [s for s in stats if s.cache_misses]
    folders = {s.cache_path for s in compiled or stats if s.cache_path is not None}
    return WarmReport(
        round(seconds, 1),
        sum(sum(s.cache_misses.values()) for s in stats),
        sum(sum(s.cache_hits.values()) for s in stats),
        os.path.commonpath(folders) if folders else None,
    )


def _tasks() -> Iterator[tuple[Any, Any, np.ndarray]]:
    """Estimators, each with rows and labels, that together call the compiled functions."""
    from scipy.sparse import csr_array
    from sklearn.datasets import load_digits

    from .calibration import CalibratedRejector
    from .model_selection import OpenSetSearchCV
    from .registry import METHODS, all_estimators
    from .solver import tuned
    from .svm import OneVsRestSVC, OpenSetSVC

    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:80] / 16, y[:80]
    wide = np.hstack((X, X[:, ::-1]))  # more features than are subtracted one by one
    alone = {method.estimator for method in METHODS if method.command}
    methods = [cls for name, cls in all_estimators() if name in alone]
    for rows in (X, wide, csr_array(X)):
        for cls in methods:
            yield cls(), rows, y
            yield OpenSetSearchCV(cls(), n_repeats=1, random_state=0), rows, y
            yield cls(), rows.astype(np.float32), y
            yield cls(), rows[::-1], y[::-1]
        for cls in (OneVsRestSVC, OpenSetSVC):
            yield cls(landmarks=40, random_state=0), rows, y
            yield CalibratedRejector(cls(), random_state=0), rows, y
            yield OpenSetSearchCV(cls(), preset="paper", n_repeats=1, random_state=0), rows, y
            with tuned(small=16, wide_solutions=1e9, narrow_solutions_per_row=1e9):
                yield cls(), rows, y  # as if the kernel matrix did not fit
                yield cls(cache_size=0.001), rows, y
                yield OpenSetSearchCV(cls(), n_repeats=1, random_state=0), rows, y
    for cls in methods:
        yield cls(), np.asfortranarray(X), y


def _use(estimator, X, y):
    try:
        estimator.fit(X, y)
    except (TypeError, ValueError):  # a method for dense rows
        return
    estimator.predict(X)
    estimator.predict(X[:1])
    estimator.explain(X[:5])
