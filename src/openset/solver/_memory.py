"""A pool of one large buffer, so that the next fit finds its memory warm.

The first touch of fresh memory costs as much as computing what is written to it, several times
that in a virtual machine. So a large buffer that is no longer used is kept for the next fit. The
system may reclaim its pages at any time (``MADV_FREE``): they are a cache, not a claim.

Benchmark: ``python -m benchmarks pool``, section "Memory pool" of benchmarks/results.md. On 20,000
rows of letter, one-vs-rest fits take 1.5 times as long without the pool, one binary problem 1.1
times.
"""

from __future__ import annotations

import mmap
import threading
import weakref

import numpy as np

from ._tuning import tuning

_lock = threading.Lock()
_kept: list[mmap.mmap] = []


def empty_rows(n_slots: int, m: int) -> np.ndarray:
    """An uninitialised float32 array of shape (n_slots, m)."""
    size, unit = 4 * n_slots * m, tuning().pooled_bytes
    if size < unit or not hasattr(mmap, "MADV_FREE"):
        return np.empty((n_slots, m), dtype=np.float32)
    memory = _take(-(-size // unit) * unit)
    whole = np.frombuffer(memory, dtype=np.float32)
    # Every view keeps this array alive; when the last one is gone, nothing can read it any more.
    weakref.finalize(whole, _give_back, memory).atexit = False
    return whole[: n_slots * m].reshape(n_slots, m)


def _take(size):
    """The kept buffer if it is large enough, else a new one."""
    with _lock:
        for memory in _kept:
            if len(memory) >= size:
                _kept.remove(memory)
                return memory
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _give_back(memory):
    memory.madvise(mmap.MADV_FREE)
    with _lock:
        # One is enough: the largest.
        _kept.append(memory)
        _kept.sort(key=len)
        del _kept[:-1]
