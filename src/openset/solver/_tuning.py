"""What computers differ in: constants that trade time for memory, never an answer; the GPU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tuning:
    """Constants that tune the solver; results agree to the tolerance whatever they are."""

    # A kernel matrix of up to `small` rows is always computed as a whole. A larger one is if enough
    # solutions share it: `wide_solutions` if its rows are matrix products; if they are made from
    # direct differences, `narrow_solutions_per_row` times the rows.
    small: int = 2048
    wide_solutions: float = 8
    narrow_solutions_per_row: float = 1 / 300
    # Widths of a grid that are in memory at a time: kernel values of them all, and solutions.
    widths_numbers: int = 2**26
    widths_solutions: int = 20_000
    # Decision values of held-out rows up to which groups of problems are solved without paths.
    swept_numbers: int = 2**24
    # Decision values of a group up to which one thread reads those of all widths.
    read_at_once: int = 2**20
    # Multipliers up to which all problems of one width are solved before any is reduced.
    kept_solutions: int = 2**21
    # Solutions per width from which a part of the samples has a kernel matrix of its own.
    part_solutions: int = 64
    # Rows of distances that become kernel values at a time, for the samples outside a part.
    outside_rows: int = 32
    # Largest side of the square blocks in which a whole matrix is filled.
    tile: int = 1024
    # Rows that are requested together, and rows per matrix product: for rows on demand (few,
    # because most of those requested are in the cache) and for tiles. Always that many, padded with
    # zeros: BLAS may round differently for another shape, and results must not depend on which rows
    # were requested together. And columns, so that products become kernel values while they are in
    # the second-level cache.
    product_rows: int = 64
    block_rows: int = 32
    product_columns: int = 4096
    tile_rows: int = 256
    # Rows that are made and subtracted without caching before other solvers may evict some.
    uncached: int = 256
    # Cache slots that a compiled loop is given at a time, and how many a cache must have for that:
    # reserved slots cannot be evicted, and must not keep another solver from the rows it needs.
    reserve: int = 16
    reserve_from: int = 1024
    # Wide data whose kernel matrix does not fit: smallest working set, and the number of working
    # sets after which pairs of multipliers are optimised instead.
    working: int = 512
    working_rounds: int = 50
    # Shrinking: after every `look` iterations the solver checks which multipliers may still move.
    # If there are more than `few` in all and less than `share` of them may, these are solved alone.
    # Up to `small_share_rows`, where the memory for their rows is small, `small_share` of them.
    look: int = 64
    few: int = 32
    share: float = 0.2
    small_share: float = 0.5
    small_share_rows: int = 1024
    # How often compiled loops return to Python to check the stop event, in seconds, and elements
    # of two rows that one core processes per second.
    slice_seconds: float = 0.2
    speed: float = 5e8
    # Prediction: test points and support vectors per tile, whose kernel values stay in the
    # second-level cache between the product that makes them and the product that uses them.
    points: int = 256
    support: int = 1024
    # Points per block of `kernel_sums`.
    sum_points: int = 512
    # Problems times rows up to which the problems of a grid are described once, not per width.
    kept_problems: int = 2**23
    # Buffers of at least this size are pooled, in multiples of it.
    pooled_bytes: int = 2**26
    # Shares of the free GPU memory for the kernel matrix, and for multipliers, v and boxes.
    cuda_matrix: float = 0.7
    cuda_state: float = 0.12
    # Rows per block of float64 work on a float32 matrix.
    cuda_block: int = 4096
    # Rows times iterations per launch, so that a launch takes a fraction of a second.
    cuda_launch: float = 3e8
    # Rows per working set where the matrix exceeds the GPU memory.
    cuda_working: int = 1024
    # Rows whose state a GPU thread may hold in registers.
    cuda_rows_per_thread: int = 8
    # Prediction: test points transferred at a time; test points and support vectors per tile.
    cuda_chunk: int = 2**17
    cuda_points: int = 2**14
    cuda_support: int = 2**11


_current = Tuning()


def tuning() -> Tuning:
    """The constants now in use."""
    return _current


def part_share(n: int) -> float:
    """Share of n multipliers below which those that may still move are solved alone."""
    return _current.small_share if n <= _current.small_share_rows else _current.share


@contextmanager
def tuned(**changes) -> Iterator[Tuning]:
    """Use other constants in all threads while inside; for tests and experiments.

    Examples
    --------
    >>> from openset.solver import tuned
    >>> with tuned(share=0.5) as constants:
    ...     constants.share
    0.5
    """
    global _current
    before, _current = _current, replace(_current, **changes)
    try:
        yield _current
    finally:
        _current = before


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
