"""The kernel matrix on a GPU: whole if it fits, otherwise computed piece by piece.

Both kinds compute K beta, and run a number of SMO iterations on many problems.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._tuning import tuning
from . import to_host
from .kernels import SIMULATED, Matrix, smo_kernel


def kernel_matrix(xp, X, kernel, gammas, memory: float, n_solved: int):
    """Rows of the kernel matrix of X at the widths `gammas`, whole if they fit into `memory` bytes.

    Parameters
    ----------
    xp : module
        CuPy, or NumPy under the simulator.
    X : ndarray or CSR matrix of shape (m, d)
    kernel : Kernel or Linear
    gammas : ndarray
    memory : float
    n_solved : int
        How many samples, the first, take part in the problems; the others have columns only.
    """
    if sparse.issparse(X):
        X = X.toarray()
    if not kernel.decaying:
        return LinearMatrix(xp, X, n_solved)
    size = 4.0 * n_solved * X.shape[0]
    if size > memory:
        return KernelPoints(xp, X, kernel, gammas, n_solved)
    return KernelMatrix(xp, X, kernel, gammas, n_solved, len(gammas) > 1 and 2 * size <= memory)


def whole_matrix(X, kernel, gamma: float):
    """The array module, and the kernel matrix of X at one width as an array (m, m), float32."""
    from .grid import array_module

    xp, gammas = array_module(), np.array([gamma])
    matrix = kernel_matrix(xp, X, kernel, gammas, np.inf, X.shape[0])
    matrix.use(gamma)
    return xp, matrix.values


class _Whole:
    """What is the same for every whole matrix, given `values` and `diagonal`."""

    def sample(self):
        rows = self.values[:: max(1, self.n_rows // 16), : self.n_rows]
        return to_host(rows)

    def product(self, betas):
        """K beta for every row of betas (n, m), in float64."""
        return self._product(betas, slice(0, self.n_rows))

    def outside(self, betas):
        """K beta at the samples that take no part."""
        return self._product(betas, slice(self.n_rows, None))

    def _product(self, betas, columns):
        out, step = 0.0, tuning().cuda_block
        for start in range(0, self.n_rows, step):
            rows = slice(start, start + step)
            out = out + betas[:, rows] @ self.values[rows, columns].astype(np.float64)
        return out

    def launch(self, batch, tol, max_iter):
        """Start at most `max_iter` iterations on every problem; return the limit used."""
        return launch(batch, Matrix(self.values, 0, self.diagonal), tol, max_iter)


class LinearMatrix(_Whole):
    """Dot products; there is no width."""

    def __init__(self, xp, X, n_solved):
        self._xp, self.n_rows = xp, n_solved
        X = xp.asarray(X)
        self.values = (X[:n_solved] @ X.T).astype(np.float32)
        self.diagonal = xp.diagonal(self.values).copy()

    def use(self, gamma):
        """Do nothing."""


class _Points:
    """Centred points, scaled to the largest width."""

    def __init__(self, xp, X, kernel, gammas, n_solved):
        self._xp, self._kernel = xp, kernel
        self.n_rows = n_solved
        self._largest = gammas.max()
        X = xp.asarray(X)
        self._Z = (X - X.mean(axis=0)) * np.sqrt(self._largest)
        self._norms = (self._Z * self._Z).sum(axis=1)

    def _distances(self, Z, norms, columns=slice(None)):
        """Scaled squared distances from some points to all, in float64."""
        s = Z @ self._Z[columns].T
        s *= -2
        s += self._norms[columns]
        s += norms[:, None]
        return self._xp.maximum(s, 0, out=s)


class KernelMatrix(_Points, _Whole):
    """A kernel matrix that fits, at one width after another."""

    def __init__(self, xp, X, kernel, gammas, n_solved, keep_distances):
        super().__init__(xp, X, kernel, gammas, n_solved)
        self.diagonal = xp.ones(n_solved, dtype=np.float32)
        self.values = xp.empty((n_solved, X.shape[0]), dtype=np.float32)
        self._kept = None
        if keep_distances:
            self._kept = xp.empty_like(self.values)
            self._fill(self._kept, 1.0)

    def _fill(self, out, ratio):
        step = tuning().cuda_block
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            s = self._distances(self._Z[rows], self._norms[rows])
            s *= ratio
            out[rows] = s
        index = self._xp.arange(self.n_rows)
        out[index, index] = 0

    def use(self, gamma):
        """Change to another width."""
        ratio = gamma / self._largest
        if self._kept is None:
            self._fill(self.values, ratio)
        else:
            self._xp.multiply(self._kept, np.float32(ratio), out=self.values)
        self._kernel.value(self.values, out=self.values)


class KernelPoints(_Points):
    """A kernel matrix that exceeds the memory: each problem works on a few rows at a time.

    The rows that violate the optimality conditions most are optimised by the same SMO on their own
    small matrix. Then v of all rows is updated, with kernel values computed block by block.
    """

    def use(self, gamma):
        """Change to another width."""
        self._ratio = gamma / self._largest

    def sample(self):
        values = self._values(self._Z[: self.n_rows : max(1, self.n_rows // 16)][:16])
        return to_host(values)

    def _values(self, Z, outside=False):
        columns = slice(self.n_rows, None) if outside else slice(0, self.n_rows)
        s = self._distances(Z, (Z * Z).sum(axis=1), columns)
        s *= self._ratio
        return self._kernel.value(s, out=s)

    def product(self, betas, outside=False):
        """K beta for every row of betas (n, m), in float64."""
        used = self._xp.flatnonzero(betas.any(axis=0))
        m = len(self._Z) - self.n_rows if outside else self.n_rows
        out, step = self._xp.zeros((len(betas), m)), tuning().cuda_working
        for start in range(0, len(used), step):
            rows = used[start : start + step]
            out += betas[:, rows] @ self._values(self._Z[rows], outside)
        return out

    def outside(self, betas):
        """K beta at the samples that take no part."""
        return self.product(betas, outside=True)

    def launch(self, batch, tol, max_iter):
        """Improve every problem on the rows that need it most; see ``_Whole.launch``."""
        xp = self._xp
        q = min(self.n_rows, tuning().cuda_working)
        index = self._working_sets(batch, q)
        problem = xp.arange(len(index))[:, None]
        part = batch.part(problem, index)
        Z = self._Z[index]
        s = Z @ Z.transpose(0, 2, 1)
        norms = self._norms[index]
        s = xp.maximum(norms[:, :, None] + norms[:, None, :] - 2 * s, 0) * self._ratio
        s[:, xp.arange(q), xp.arange(q)] = 0
        values = self._kernel.value(s.astype(np.float32)).reshape(-1, q)
        batch.measure()
        # Below a tenth of the gap the few rows say little about all.
        inner = max(tol, 0.1 * batch.gap())
        launch(part, Matrix(values, q, xp.ones(len(values), dtype=np.float32)), inner, max_iter)
        change = part.betas - batch.betas[problem, index]
        batch.betas[problem, index] = part.betas
        batch.n_iter += part.n_iter
        for b in range(len(index)):
            batch.vs[b] -= change[b] @ self._values(self._Z[index[b]])
        batch.measure()
        return int(part.n_iter.max()) or 1

    def _working_sets(self, batch, q):
        """The q rows to work on: half may grow and have a large v, half may shrink, a small v."""
        xp = self._xp
        lower, upper = batch.lower[batch.path], batch.upper[batch.path]
        up = xp.where(batch.betas < upper, batch.vs, -np.inf)
        down = xp.where(batch.betas > lower, -batch.vs, -np.inf)
        # The rank in either list; the better of the two decides.
        order = xp.arange(self.n_rows)
        rank = xp.empty((len(up), self.n_rows), dtype=np.int64)
        other = xp.empty_like(rank)
        problem = xp.arange(len(up))[:, None]
        rank[problem, xp.argsort(-up, axis=1)] = order
        other[problem, xp.argsort(-down, axis=1)] = order
        best = xp.argsort(xp.minimum(rank, other), axis=1)[:, :q]
        return xp.sort(best, axis=1)


def launch(batch, matrix: Matrix, tol, max_iter):
    """Start at most `max_iter` iterations on every problem of a batch; return the limit used."""
    m, per_thread = batch.vs.shape[1], tuning().cuda_rows_per_thread
    max_iter = min(max_iter, max(64, int(tuning().cuda_launch / m)))
    threads, in_registers = _block(m, per_thread)
    flags = batch.xp.empty((1, 1) if in_registers else batch.vs.shape, dtype=np.int8)
    matrix = Matrix(batch.view(matrix.values), matrix.stride, batch.view(matrix.diagonal))
    kernel = smo_kernel(per_thread if in_registers else 0)
    kernel[len(batch.path), threads](matrix, batch.arrays(), batch.view(flags), tol, max_iter)
    return max_iter


def _block(m, per_thread):
    """Threads of a block, and whether their registers hold a problem of m rows.

    More threads than 512 would need more registers than a multiprocessor has.
    """
    if SIMULATED:
        return 8, m <= 8 * per_thread
    for threads in (64, 128, 256, 512):
        if m <= threads * per_thread:
            return threads, True
    return 1024, False
