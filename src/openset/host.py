"""What openset runs on: versions, processor, BLAS, threads and compiled code."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

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
    """Collect what a maintainer needs to know about the machine that runs openset.

    Returns
    -------
    dict
        With the keys openset, python, platform, processor, cores, environment, blas, versions,
        compiled_code and gpu; made of strings, numbers, lists and dicts, so it can be JSON.

    Examples
    --------
    >>> from openset.utils import host_info
    >>> sorted(host_info())[:4]
    ['blas', 'compiled_code', 'cores', 'environment']
    """
    return {
        "openset": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": _cores(),
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
    openset 0.1.0, Python 3...
    """
    info = host_info()
    cores, code = info["cores"], info["compiled_code"]
    installed = [f"{name} {found}" for name, found in info["versions"].items() if found]
    missing = [name for name, found in info["versions"].items() if not found]
    print(f"openset {info['openset']}, Python {info['python']}, {info['platform']}")
    print(f"processor: {info['processor']['name']}, {info['processor']['level']}")
    print(f"cores: {cores['available']} of {cores['total']} available")
    for name, value in info["environment"].items():
        print(f"environment: {name}={value}")
    for blas in info["blas"]:
        core = f", core type {blas['core_type']}" if blas["core_type"] else ""
        print(f"BLAS: {blas['library']}{core}, threads: {blas['threads']} ({blas['file']})")
    print(f"installed: {', '.join(installed)}")
    print(f"not installed: {', '.join(missing) or 'nothing'}")
    print(f"compiled code: loaded {code['loaded']}, compiled {code['compiled']} functions")
    print(f"cache: {code['cache'] or 'none: no folder can be written; set NUMBA_CACHE_DIR'}")
    print(f"GPU: {info['gpu'] or 'none'}")


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


def _cores():
    from joblib import cpu_count

    return {"available": cpu_count(), "total": os.cpu_count()}


def _blas():
    """The BLAS libraries in use, as threadpoolctl sees them; else what numpy was built with."""
    import numpy as np
    import scipy.linalg  # noqa: F401 (its BLAS is another than numpy's)
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    if not found:  # Accelerate of macOS
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        name = f"{built.get('name')} {built.get('version')}"
        return [{"library": name, "core_type": None, "threads": None, "file": "numpy"}]
    return [
        {
            "library": f"{library['internal_api']} {library['version']}",
            "core_type": library.get("architecture"),
            "threads": library["num_threads"],
            "file": library["filepath"],
        }
        for library in found
    ]


def _compiled_code():
    """How many compiled functions this process loaded or made, after a call of a small one."""
    from .utils.compiled import probe

    probe(1.0)
    modules = [m for name, m in sys.modules.items() if name.startswith("openset.")]
    members = [value for module in modules for value in vars(module).values()]
    functions = {id(f): f.stats for f in members if hasattr(f, "py_func")}
    stats = functions.get(id(probe))  # None if NUMBA_DISABLE_JIT is set
    return {
        "cache": stats and stats.cache_path,
        "loaded": sum(sum(s.cache_hits.values()) for s in functions.values()),
        "compiled": sum(sum(s.cache_misses.values()) for s in functions.values()),
    }


def _gpu():
    """Name of the first GPU that CuPy can use, or None."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception:  # not installed, no driver, no device: each has an error of its own
        return None
