"""What openset runs on: versions, processor, BLAS, compiled code, and compiling all of it."""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from . import __version__

_CORE = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "threadpoolctl", "joblib")
_EXTRAS = (
    *("typer", "rich", "skops", "pandas", "pyarrow", "matplotlib", "onnx", "dask", "distributed"),
    *("numba-cuda", "cupy-cuda13x"),
)

# What the levels of x86-64 add, by LLVM's names.
_LEVELS = {
    "x86-64-v2": {"cx16", "popcnt", "sse4.2", "ssse3"},
    "x86-64-v3": {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"},
    "x86-64-v4": {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"},
}
_SETTINGS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE"),
    *("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"),
)


def host_info() -> dict[str, Any]:
    """What a maintainer needs to know about the machine that runs openset, as JSON allows."""
    from joblib import cpu_count

    return {
        "openset": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": {"available": cpu_count(), "total": os.cpu_count()},
        "environment": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
        "blas": _blas(),
        "versions": {name: _version(name) for name in (*_CORE, *_EXTRAS)},
        "compiled_code": _compiled_code(),
        "gpu": _gpu(),
    }


def show_versions() -> None:
    """Print versions, BLAS, threads and compiled code, to be included in a report of a problem.

    Examples
    --------
    >>> import openset
    >>> openset.show_versions()
    openset 0.2.0, Python 3...
    """
    print(*version_lines(host_info()), sep="\n")


def version_lines(info: dict[str, Any]) -> Iterator[str]:
    """What :func:`host_info` found, as lines of text."""
    cores, code = info["cores"], info["compiled_code"]
    installed = [f"{name} {found}" for name, found in info["versions"].items() if found]
    missing = [name for name, found in info["versions"].items() if not found]
    yield f"openset {info['openset']}, Python {info['python']}, {info['platform']}"
    yield f"processor: {info['processor']['name']}, {info['processor']['level']}"
    yield f"cores: {cores['available']} of {cores['total']} available"
    yield from (f"environment: {name}={value}" for name, value in info["environment"].items())
    for blas in info["blas"]:
        core = f", core type {blas['core_type']}" if blas["core_type"] else ""
        yield f"BLAS: {blas['library']}{core}, threads: {blas['threads']} ({blas['file']})"
    yield f"installed: {', '.join(installed)}"
    yield f"not installed: {', '.join(missing) or 'nothing'}"
    yield f"compiled code: loaded {code['loaded']}, compiled {code['compiled']} functions"
    yield f"cache: {code['cache'] or 'none: no folder can be written; set NUMBA_CACHE_DIR'}"
    yield f"GPU: {info['gpu'] or 'none'}"


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor():
    from llvmlite import binding

    has = {name for name, there in binding.get_host_cpu_features().items() if there}
    level = platform.machine()
    if level in ("x86_64", "AMD64"):
        level = "x86-64"
        for name, adds in _LEVELS.items():
            if not adds <= has:
                break
            level = name
    return {"name": binding.get_host_cpu_name(), "level": level}


def _blas() -> list[dict[str, Any]]:
    """The BLAS libraries in use, as threadpoolctl sees them; else what numpy was built with."""
    import scipy.linalg  # noqa: F401 (its BLAS is another than numpy's)
    from threadpoolctl import threadpool_info

    found = [
        {
            "library": f"{library['internal_api']} {library['version']}",
            "core_type": library.get("architecture"),
            "threads": library["num_threads"],
            "file": library["filepath"],
        }
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]
    if not found:  # Accelerate of macOS
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        name = f"{built.get('name')} {built.get('version')}"
        found = [{"library": name, "core_type": None, "threads": None, "file": "numpy"}]
    return found


def _compiled_code():
    """How many compiled functions this process loaded or made, after a call of a small one."""
    from .utils.compiled import probe

    probe(1.0)
    stats = getattr(probe, "stats", None)  # missing if NUMBA_DISABLE_JIT is set
    everything = [function.stats for function in compiled_functions()]
    return {
        "cache": stats and stats.cache_path,
        "loaded": sum(sum(s.cache_hits.values()) for s in everything),
        "compiled": sum(sum(s.cache_misses.values()) for s in everything),
    }


def compiled_functions() -> set:
    """All compiled functions of the modules of openset that are loaded."""
    from numba.core.dispatcher import Dispatcher

    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "openset"]
    return {f for m in modules for f in vars(m).values() if isinstance(f, Dispatcher)}


def _gpu():
    """Name of the first GPU that CuPy can use, or None."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception:  # not installed, no driver, no device: each has an error of its own
        return None


class WarmReport(NamedTuple):
    """What :func:`warm` did."""

    seconds: float
    compiled: int  # number of functions that were compiled
    loaded: int
    folder: str | None  # where they are stored; None if no folder can be written


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
    from .utils.compiled import probe

    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")
        for estimator, X, y in _tasks():
            try:
                estimator.fit(X, y)
            except (TypeError, ValueError):  # a method for dense rows
                continue
            estimator.predict(X)
            estimator.predict(X[:1])
            estimator.explain(X[:5])
        probe(1.0)
    seconds = time.perf_counter() - begin
    stats = [function.stats for function in compiled_functions() if function.signatures]
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
