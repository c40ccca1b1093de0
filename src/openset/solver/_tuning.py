"""Constants that trade time for memory: one frozen object, never an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tuning:
    """Constants that tune the solver; results agree to the tolerance whatever they are.

    Attributes
    ----------
    small : int
        A kernel matrix of up to this many rows is always computed as a whole.
    wide_solutions : float
        A larger one is computed as a whole if at least this many solutions share it and its rows
        are matrix products.
    narrow_solutions_per_row : float
        The same, per row of the matrix, for rows made from direct differences.
    tile : int
        Side of the square blocks in which a whole matrix is filled.
    product_rows, tile_rows : int
        Rows per matrix product for rows on demand and for tiles. Always that many, padded with
        zeros: BLAS may round differently for another shape, and results must not depend on which
        rows were requested together. Few on demand, because often only one is needed.
    uncached : int
        Rows that are computed and subtracted without caching before other solvers may evict some.
    reserve : int
        Cache slots that a compiled loop is given at a time.
    reserve_from : int
        Slots a cache must have for that: reserved slots cannot be evicted, and must not keep
        another solver from the rows it needs.
    look : int
        Iterations after which the solver checks which multipliers may still move.
    few : int
        Problems of up to this many rows are never shrunk.
    share : float
        A problem is shrunk once less than this share of its multipliers may still move.
    slice_seconds : float
        How often compiled loops return to Python to check the stop event.
    speed : float
        Elements of two rows that one core processes per second; only sizes the slices.
    points, support : int
        Test points and support vectors per tile of prediction: the tile of kernel values stays in
        the second-level cache between the product that makes it and the product that uses it.
    sum_points : int
        Points per block of `kernel_sums`.
    pooled_bytes : int
        Buffers of at least this size are pooled, in multiples of it.
    cuda_matrix, cuda_state : float
        Shares of the free GPU memory for the kernel matrix, and for multipliers, v and boxes.
    cuda_block : int
        Rows per block of float64 work on a float32 matrix.
    cuda_launch : float
        Rows times iterations per launch, so that a launch takes a fraction of a second.
    cuda_working : int
        Rows per working set where the matrix exceeds the GPU memory.
    cuda_rows_per_thread : int
        Rows whose state a GPU thread may hold in registers.
    cuda_chunk, cuda_points, cuda_support : int
        Test points transferred at a time; test points and support vectors per tile.
    """

    small: int = 2048
    wide_solutions: float = 8
    narrow_solutions_per_row: float = 1 / 300
    tile: int = 512
    product_rows: int = 16
    tile_rows: int = 64
    uncached: int = 256
    reserve: int = 16
    reserve_from: int = 1024
    look: int = 64
    few: int = 256
    share: float = 0.2
    slice_seconds: float = 0.2
    speed: float = 5e8
    points: int = 256
    support: int = 1024
    sum_points: int = 512
    pooled_bytes: int = 2**26
    cuda_matrix: float = 0.7
    cuda_state: float = 0.12
    cuda_block: int = 4096
    cuda_launch: float = 3e8
    cuda_working: int = 1024
    cuda_rows_per_thread: int = 8
    cuda_chunk: int = 2**17
    cuda_points: int = 2**14
    cuda_support: int = 2**11


_current = Tuning()


def tuning() -> Tuning:
    """The constants now in use."""
    return _current


@contextmanager
def tuned(**changes) -> Iterator[Tuning]:
    """Use other constants in all threads while inside; for tests and experiments.

    Parameters
    ----------
    **changes
        Fields of :class:`Tuning` and their values.

    Yields
    ------
    Tuning
        The constants now in use.

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
