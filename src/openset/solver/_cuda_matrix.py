"""The kernel matrix on a GPU: whole where it fits, made anew piece by piece where it does not.

Both kinds answer the same questions: K beta, and a number of SMO iterations on many problems.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ._cuda_kernels import PER_THREAD, SIMULATED, smo_kernel

# Rows of a block of float64 work beside a matrix of float32.
_BLOCK = 4096
# Rows times iterations of one launch: it returns within a fraction of a second.
_LAUNCH = 3e8
# Rows that a problem works on at a time where the matrix does not fit.
_WORKING = 1024


def kernel_matrix(xp, X, kernel, gammas, memory: float):
    """The matrix of X at the widths `gammas`, in `memory` bytes if it can be.

    Parameters
    ----------
    xp : module
        CuPy, or NumPy under the simulator.
    X : ndarray or CSR matrix of shape (m, d)
    kernel : Kernel or Linear
    gammas : ndarray
    memory : float
    """
    if sparse.issparse(X):
        X = X.toarray()
    if not kernel.decaying:
        return LinearMatrix(xp, X)
    size = 4.0 * X.shape[0] ** 2
    if size > memory:
        return KernelPoints(xp, X, kernel, gammas)
    return KernelMatrix(xp, X, kernel, gammas, len(gammas) > 1 and 2 * size <= memory)


class _Whole:
    """What is the same for every matrix at hand: `values` and `diagonal` are given."""

    def sample(self):
        rows = self.values[:: max(1, self.n_rows // 16)]
        return rows if self._xp is np else self._xp.asnumpy(rows)

    def product(self, betas):
        """K beta for every row of betas (n, m), in float64."""
        out = self._xp.zeros_like(betas)
        for start in range(0, self.n_rows, _BLOCK):
            rows = slice(start, start + _BLOCK)
            out += betas[:, rows] @ self.values[rows].astype(np.float64)
        return out

    def launch(self, batch, tol, max_iter):
        """Start at most `max_iter` iterations on every problem; return how many at most."""
        max_iter = min(max_iter, max(64, int(_LAUNCH / self.n_rows)))
        launch(self._xp, self.values, self.diagonal, 0, batch, tol, max_iter)
        return max_iter


class LinearMatrix(_Whole):
    """Dot products; there is no width."""

    def __init__(self, xp, X):
        self._xp, self.n_rows = xp, X.shape[0]
        X = xp.asarray(X)
        self.values = (X @ X.T).astype(np.float32)
        self.diagonal = xp.diagonal(self.values).copy()

    def use(self, gamma):
        """Nothing to do."""


class _Points:
    """Centred points, scaled to the largest width."""

    def __init__(self, xp, X, kernel, gammas):
        self._xp, self._kernel = xp, kernel
        self.n_rows = X.shape[0]
        self._largest = gammas.max()
        X = xp.asarray(X)
        self._Z = (X - X.mean(axis=0)) * np.sqrt(self._largest)
        self._norms = (self._Z * self._Z).sum(axis=1)

    def _distances(self, Z, norms):
        """Scaled squared distances from some points to all, in float64."""
        s = Z @ self._Z.T
        s *= -2
        s += self._norms
        s += norms[:, None]
        return self._xp.maximum(s, 0, out=s)


class KernelMatrix(_Points, _Whole):
    """A kernel matrix that fits, at one width after another; distances are kept if asked to."""

    def __init__(self, xp, X, kernel, gammas, keep_distances):
        super().__init__(xp, X, kernel, gammas)
        self.diagonal = xp.ones(self.n_rows, dtype=np.float32)
        self.values = xp.empty((self.n_rows, self.n_rows), dtype=np.float32)
        self._kept = None
        if keep_distances:
            self._kept = xp.empty_like(self.values)
            self._fill(self._kept, 1.0)

    def _fill(self, out, ratio):
        for start in range(0, self.n_rows, _BLOCK):
            rows = slice(start, start + _BLOCK)
            s = self._distances(self._Z[rows], self._norms[rows])
            s *= ratio
            out[rows] = s
        index = self._xp.arange(self.n_rows)
        out[index, index] = 0

    def use(self, gamma):
        """Turn to another width."""
        ratio = gamma / self._largest
        if self._kept is None:
            self._fill(self.values, ratio)
        else:
            self._xp.multiply(self._kept, np.float32(ratio), out=self.values)
        self._kernel.value(self.values, out=self.values)


class KernelPoints(_Points):
    """A kernel matrix beyond the memory: each problem works on a few rows at a time.

    The rows that violate the optimality conditions most, and their own small matrix, go through
    the same SMO; then v of all rows follows, the kernel values made block by block and forgotten.
    """

    def use(self, gamma):
        """Turn to another width."""
        self._ratio = gamma / self._largest

    def sample(self):
        values = self._values(self._Z[:: max(1, self.n_rows // 16)][:16])
        return values if self._xp is np else self._xp.asnumpy(values)

    def _values(self, Z):
        s = self._distances(Z, (Z * Z).sum(axis=1))
        s *= self._ratio
        return self._kernel.value(s, out=s)

    def product(self, betas):
        """K beta for every row of betas (n, m), in float64."""
        used = self._xp.flatnonzero(betas.any(axis=0))
        out = self._xp.zeros_like(betas)
        for start in range(0, len(used), _WORKING):
            rows = used[start : start + _WORKING]
            out += betas[:, rows] @ self._values(self._Z[rows])
        return out

    def launch(self, batch, tol, max_iter):
        """Improve every problem on the rows that need it most; see ``_Whole.launch``."""
        xp = self._xp
        q = min(self.n_rows, _WORKING)
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
        # Beyond a tenth of the gap the few rows say little about all.
        inner = max(tol, 0.1 * batch.gap())
        max_iter = min(max_iter, max(64, int(_LAUNCH / q)))
        diagonal = xp.ones(q, dtype=np.float32)
        launch(xp, values, diagonal, q, part, inner, max_iter)
        change = part.betas - batch.betas[problem, index]
        batch.betas[problem, index] = part.betas
        batch.n_iter += part.n_iter
        for b in range(len(index)):
            batch.vs[b] -= change[b] @ self._values(self._Z[index[b]])
        batch.measure()
        return int(part.n_iter.max()) or 1

    def _working_sets(self, batch, q):
        """Rows to work on: half of those that want to grow most, half to shrink; sorted."""
        xp = self._xp
        lower, upper = batch.lower[batch.machine], batch.upper[batch.machine]
        up = xp.where(batch.betas < upper, batch.vs, -np.inf)
        down = xp.where(batch.betas > lower, -batch.vs, -np.inf)
        # The rank in either list; every row is wanted by its better one.
        order = xp.arange(self.n_rows)
        rank = xp.empty((len(up), self.n_rows), dtype=np.int64)
        other = xp.empty_like(rank)
        problem = xp.arange(len(up))[:, None]
        rank[problem, xp.argsort(-up, axis=1)] = order
        other[problem, xp.argsort(-down, axis=1)] = order
        best = xp.argsort(xp.minimum(rank, other), axis=1)[:, :q]
        return xp.sort(best, axis=1)


def launch(xp, values, diagonal, stride, batch, tol, max_iter):
    """SMO on every problem of a batch; its matrix begins `stride` rows after the one before."""
    m = len(diagonal)
    threads = _threads(m)
    in_registers = m <= threads * PER_THREAD
    flags = xp.empty((1, 1) if in_registers else batch.vs.shape, dtype=np.int8)
    n_iter, ends = batch.views("n_iter", "ends")
    smo_kernel(in_registers)[len(batch.machine), threads](
        values,
        stride,
        diagonal,
        *batch.views("lower", "upper", "machine", "betas", "vs"),
        flags,
        tol,
        max_iter,
        n_iter,
        ends,
    )


def _threads(m):
    if SIMULATED:
        return 8
    for threads in (64, 128, 256):
        if m <= threads * PER_THREAD:
            return threads
    return 512 if m <= 512 * PER_THREAD else 1024
