"""The grid engine and prediction on a GPU; nothing of CUDA is imported until it is requested."""

from __future__ import annotations

import importlib.util
import os

import numpy as np


def on_gpu(device: str) -> bool:
    """Whether `device` ("cpu", "cuda" or "auto") means the GPU on this computer."""
    if device not in ("cpu", "cuda", "auto"):
        raise ValueError(f"device={device!r} must be 'cpu', 'cuda' or 'auto'.")
    if device != "auto":
        return device == "cuda"
    if any(importlib.util.find_spec(name) is None for name in ("cupy", "numba_cuda")):
        return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
    import cupy

    return bool(cupy.cuda.is_available())


def to_host(array) -> np.ndarray:
    """A NumPy array, copied from the GPU if it is there."""
    return array if isinstance(array, np.ndarray) else array.get()
