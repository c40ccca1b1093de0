"""Which engine solves: the choice between CPU and GPU, and what stands between them."""

from __future__ import annotations

import importlib.util
import os
import threading

from ._rows import KernelRows


def on_gpu(device: str) -> bool:
    """Whether `device` ("cpu", "cuda" or "auto") means the GPU here.

    Nothing of CUDA is imported unless it is asked for.
    """
    if device not in ("cpu", "cuda", "auto"):
        raise ValueError(f"device={device!r} must be 'cpu', 'cuda' or 'auto'.")
    if device != "auto":
        return device == "cuda"
    if any(importlib.util.find_spec(name) is None for name in ("cupy", "numba_cuda")):
        return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
    import cupy

    return bool(cupy.cuda.is_available())


class LazyRows:
    """Kernel rows on the CPU for what the GPU engine leaves to it, made when first looked at."""

    def __init__(self, X, kernel, cache_size, n_jobs):
        self._arguments = X, kernel, cache_size, n_jobs
        self._gamma = self._rows = None
        self._lock = threading.Lock()  # several threads may look first

    def use(self, gamma: float) -> None:
        """Turn to another width."""
        self._gamma, self._rows = gamma, None

    def __getattr__(self, name):
        with self._lock:
            if self._rows is None:
                X, kernel, cache_size, n_jobs = self._arguments
                self._rows = KernelRows(X, kernel, self._gamma, cache_size, 1, n_jobs)
        return getattr(self._rows, name)
