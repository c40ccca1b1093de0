"""The grid engine and prediction on a GPU; nothing of CUDA is imported until it is requested."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def on_gpu(device: str) -> bool:
    """Whether `device` ("cpu", "cuda" or "auto") means the GPU on this computer."""
    if device not in ("cpu", "cuda", "auto"):
        raise ValueError(f"device={device!r} must be 'cpu', 'cuda' or 'auto'.")
    if device != "auto":
        return device == "cuda"
    if any(importlib.util.find_spec(name) is None for name in ("cupy", "numba_cuda")):
        return SIMULATED
    import cupy

    return bool(cupy.cuda.is_available())


def array_module() -> Any:
    """CuPy, or NumPy under the simulator; a clear error without a GPU."""
    if SIMULATED:
        return np
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            'device="cuda" needs CuPy and numba-cuda: pip install "openset[cuda]".'
        ) from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f'device="cuda": no GPU can be used ({error}). Use device="cpu".'
        ) from error
    return cupy


def module_of(array) -> Any:
    """NumPy, or CuPy for an array of the GPU."""
    return np if isinstance(array, np.ndarray) else array_module()


def to_host(array) -> np.ndarray:
    """A NumPy array, copied from the GPU if it is there."""
    return array if isinstance(array, np.ndarray) else array.get()


def free_memory(xp) -> float:
    """Bytes that can still be allocated."""
    if xp is np:
        return 1e9
    pool = xp.get_default_memory_pool()
    return xp.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
