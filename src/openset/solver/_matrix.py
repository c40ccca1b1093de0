"""Kernel values between the points of one training set, and matrices of them in memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from typing import cast

import numpy as np
from joblib import effective_n_jobs

from ..kernels import RBF, Kernel, Linear, exp_neg
from ..utils import thread_map
from ..utils.compiled import helper, njit
from ._expansion import TiledSums
from ._rows import KernelRows, RowMaker, ScratchPool, copy_rows, copying, empty_rows
from ._squares import Narrow, direct_distances
from ._state import add_outside, next_number, row_store, subtract_columns
from ._tuning import part_share, tuning
from .points import Points, scale_into_kernel

# Kernel values per cache line.
_LINE = 16


class KernelValues(Points):
    """Kernel values between the rows of X, at one of `gammas` at a time; at first the first."""

    # Distances are formed at the largest gamma and scaled down. Dot products have no width.
    # `direct`: points for compiled loops that make rows. `diagonal` is (n_points,) float32.

    def __init__(self, X, kernel: Kernel | Linear, gammas: np.ndarray):
        self.kernel, self._largest = kernel, gammas.max()
        self.direct: Narrow | None = None
        scale = np.sqrt(self._largest) if kernel.decaying else 1.0
        super().__init__(X, scale, kernel, bool(gammas.min() == self._largest))
        self.diagonal = self.norms if isinstance(kernel, Linear) else np.ones(self.n_points)
        self.diagonal = self.diagonal.astype(np.float32)
        self.batch = 1 if self.narrow else tuning().product_rows  # rows best computed together
        self.use(gammas[0])

    def use(self, gamma: float) -> None:
        """Change to another width."""
        self.gamma, self._ratio = gamma, gamma / self._largest
        self.ratio = np.float32(self.unit * self._ratio)  # one rounding, as in compiled loops
        if self.narrow and type(self.kernel) is RBF:
            self.direct = self.narrow_at(self._ratio)

    def subset(self, index: np.ndarray) -> KernelValues:
        part = cast(KernelValues, super().subset(index))
        part.diagonal = self.diagonal[index]
        part.use(self.gamma)
        return part

    def write(self, index, start: int, rows: np.ndarray, slots=slice(None)) -> None:
        """Write K[index, start:], as wide as `rows`, into ``rows[slots]``, float32."""
        self.kernel_values(self.kernel, self._ratio, self.own(index), start, rows, slots)

    def write_raw(self, index, start: int, rows: np.ndarray) -> None:
        """Write squares or dot products, from which kernel values of any width follow."""
        if self.kernel.decaying:
            self.raw_squares(self.own(index), start, rows)
        else:
            self.write(index, start, rows)

    def from_raw(self, raw: np.ndarray) -> np.ndarray:
        """Kernel values at the present width, see `write_raw`."""
        if isinstance(self.kernel, Linear):
            return raw
        values = np.empty(raw.shape, dtype=np.float32)
        scale_into_kernel(self.kernel, self.ratio, raw, values)
        return values

    def exact_sums(self, beta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """K[index] beta in float64, whatever the precision of the rows."""
        support = np.flatnonzero(beta)
        if isinstance(self.kernel, Linear):
            return self.X[index] @ (self.X.T @ beta)
        points = Points(self.X[support], np.sqrt(self.gamma))
        sums = TiledSums(points, beta[None, support], self.kernel, [(1.0, np.arange(1))])
        return sums.in_blocks(self.X[index])[:, 0]


class WholeMatrix(KernelRows):
    """All rows of the kernel matrix, computed at once, at one width or at several."""

    # `gammas` are the widths in memory at a time, empty for that of `values`. With `n_solved` only
    # the rows of the first samples are kept: the others take no part in the problems, which are
    # over the first samples, and have columns. With `keep_distances` other widths cost one pass
    # over the distances, and columns of samples that take no part are made from them when they are
    # needed.

    whole = True

    def __init__(self, values, n_jobs=1, gammas=(), n_solved=None, keep_distances=False):
        m, n_widths = values.n_points, max(1, len(gammas))
        n = m if n_solved is None else n_solved
        self._values, self._n_jobs = values, n_jobs
        self._n_columns = n if keep_distances else m
        size, kept = n_widths * n * self._n_columns, n * m if keep_distances else 0
        memory = empty_rows(1, size + kept)[0]
        self.matrices = memory[:size].reshape(n_widths, n, -1)
        self.store = row_store(self.matrices[0], values.diagonal[: self._n_columns])
        self.store.slot[:n] = np.arange(n)
        self._scratch = ScratchPool(scratch_size(n))
        self._distances = memory[size:].reshape(n, m) if keep_distances else None
        self._others: list[WholeMatrix] = []
        self._others = [self._at_other_width(matrix) for matrix in self.matrices[1:]]
        self._fill(gammas or [values.gamma], known=False)

    @property
    def widths(self) -> list[KernelRows]:
        return [self, *self._others]

    @property
    def has_outside(self) -> bool:
        """Whether the matrices have columns of samples that take no part."""
        return self._n_columns > len(self.store.rows)

    def use(self, *gammas: float) -> None:
        """Change to other widths, up to as many as `widths` has; the memory is kept."""
        if not self._filled_at(gammas):
            self._fill(gammas, known=self._distances is not None)

    def _at_other_width(self, matrix):
        other = copy(self)
        other._values = copy(self._values)
        other.store = self.store._replace(rows=matrix)
        return other

    def maker(self) -> AbstractContextManager[RowMaker]:
        return nullcontext(copying(self.store.rows))

    def subset(self, index: np.ndarray) -> WholeMatrix:
        return WholeMatrix(self._values.subset(index))

    def values(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self.store.rows[i[:, None], j]

    def sums_outside(self, betas: np.ndarray, sums: np.ndarray) -> None:
        if self._distances is None or not self._values.kernel.decaying:
            _add_outside(self.store.rows, betas, sums)
            return
        n, step = betas.shape[1], tuning().outside_rows
        # What moves from one total to the next: multipliers at a bound do not.
        changes = np.diff(betas, axis=0, prepend=0.0)
        used = np.flatnonzero(changes.any(axis=0))
        sums[...] = 0.0
        for part in (used[k : k + step] for k in range(0, len(used), step)):
            values = self._distances[part, n:]
            scale_into_kernel(self._values.kernel, self._values.ratio, values, values)
            _add_products(np.ascontiguousarray(changes[:, part]), values, sums)
        np.cumsum(sums, axis=0, out=sums)

    def _filled_at(self, gammas):
        """Whether the matrices are those of the widths."""
        filled = self.widths[: len(gammas)]
        return all(rows._values.gamma == g for rows, g in zip(filled, gammas, strict=True))

    def _fill(self, gammas, known):
        """Fill the matrices of the widths; `known`: the distances are there from other widths."""
        n, m, constants = len(self.store.rows), self._values.n_points, tuning()
        # Enough tiles for many threads, few enough that a matrix product pays.
        side = min(constants.tile, max(constants.tile // 4, n // 8))
        filled = self.widths[: len(gammas)]
        for rows, gamma in zip(filled, gammas, strict=True):
            rows._values.use(gamma)
        bounds, direct = _tile_bounds(n, n if known else m, side), self._values.direct
        if direct is None or self._distances is not None:
            task, items = partial(self._fill_tile, filled, known), bounds
        else:  # each thread is in compiled code until all is done
            ratios = np.array([rows._values.ratio for rows in filled])
            arguments = self.matrices, ratios, direct, bounds, np.zeros(1, dtype=np.int64)
            task = partial(fill_from_points, *arguments)
            items = range(min(len(bounds), effective_n_jobs(self._n_jobs)))
        for _ in thread_map(task, items, self._n_jobs):
            pass

    def _fill_tile(self, filled, known, bounds):
        """Fill a tile and its mirror image at all widths."""
        i, j = slice(*bounds[:2].tolist()), slice(*bounds[2:].tolist())
        index, values = np.arange(i.start, i.stop), self._values
        mirror = i != j and j.stop <= len(self.store.rows)
        if known:
            squares = self._distances[i, j]
        else:
            squares = np.empty((len(index), j.stop - j.start), dtype=np.float32)
            values.write_raw(index, j.start, squares)
            if self._distances is not None:
                self._distances[i, j] = squares
        if j.start >= self._n_columns:
            return
        if type(values.kernel) is RBF:
            # One call, because each return to Python waits for the other threads.
            ratios = np.array([rows._values.ratio for rows in filled])
            _fill_rbf_tiles(self.matrices, ratios, squares, i.start, j.start, mirror)
            return
        for rows in filled:
            part = rows._values.from_raw(squares)
            rows.store.rows[i, j] = part
            if mirror:
                rows.store.rows[j, i] = part.T


def _tile_bounds(n, m, side):
    """First and last row, first and last column of tiles of n rows on or above the diagonal."""
    # Columns n to m are in tiles of their own.
    start = np.concatenate([np.arange(0, n, side), np.arange(n, m, side)])
    stop = np.minimum(start + side, np.where(start < n, n, m))
    i, j = np.triu_indices(-(-n // side), m=len(start))
    return np.stack([start[i], stop[i], start[j], stop[j]], axis=1)


@helper()
def fill_rbf_tiles(matrices, ratios, distances, i, j, mirror):
    """matrices[w, i:, j:] = exp(-ratios[w] * distances), and the mirror image of it."""
    n, m = distances.shape
    for w in range(ratios.size):
        # A cache line of the mirror image at a time: one value at a time takes six times as long.
        for first in range(0, n, _LINE):
            strip = range(first, min(n, first + _LINE))
            for r in strip:
                row = matrices[w, i + r, j : j + m]
                for t in range(m):
                    row[t] = distances[r, t] * ratios[w]
                exp_neg(row)
            if mirror:
                for t in range(m):
                    for r in strip:
                        matrices[w, j + t, i + r] = matrices[w, i + r, j + t]


@njit(cache=True, nogil=True)
def _add_products(coef, rows, sums):
    """sums += coef @ rows, without the coefficients that are zero."""
    for k in range(len(coef)):
        index = np.flatnonzero(coef[k])
        subtract_columns(sums[k], -coef[k][index], index, rows, 0)


@njit(cache=True, nogil=True)
def fill_from_points(matrices, ratios, points, bounds, counter, _):
    """Fill tiles that no other thread has begun; `bounds` has their rows and columns."""
    n = len(matrices[0])
    while True:
        tile = next_number(counter)
        if tile >= len(bounds):
            return
        i, i_end, j, j_end = bounds[tile]
        distances = np.empty((i_end - i, j_end - j), dtype=np.float32)
        direct_distances(points.Z[i:i_end], points.columns, j, distances)
        fill_rbf_tiles(matrices, ratios, distances, i, j, i != j and j_end <= n)


# The same for Python.
_add_outside, _copy_rows, _fill_rbf_tiles = map(
    njit(cache=True, nogil=True), (add_outside, copy_rows, fill_rbf_tiles)
)


def scratch_size(n: int) -> int:
    """Numbers that the rows of parts of a problem over n rows take."""
    # A part, and the parts of that part, hold less than the same share of the rows each.
    share = part_share(n)
    return int((share * n) ** 2 / (1 - share**2))


class MatrixPart(KernelRows):
    """Samples (n,) of a whole matrix (m, m), for one solver: rows are copied when first needed."""

    def __init__(self, matrix: np.ndarray, samples: np.ndarray, diagonal: np.ndarray):
        n = len(samples)
        self._matrix, self._samples, self._scratch = matrix, samples, ScratchPool(0)
        self.store = row_store(empty_rows(n, n), diagonal)
        self._maker = copying(matrix, samples)

    def reading(self, index: np.ndarray) -> AbstractContextManager[None]:
        _copy_rows(index, self.store.rows, self.store.slot, self._matrix, self._samples)
        return nullcontext()

    def maker(self) -> AbstractContextManager[RowMaker]:
        return nullcontext(self._maker)

    def subset(self, index: np.ndarray) -> MatrixPart:
        return MatrixPart(self._matrix, self._samples[index], self.store.diagonal[index])

    def values(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self._matrix[self._samples[i][:, None], self._samples[j]]
