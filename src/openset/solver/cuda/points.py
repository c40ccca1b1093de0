"""Kernel values on a GPU: matrices for the solver, expansions for prediction, landmark features.

Array work is written for CuPy and also runs on NumPy; that is how it is tested where there is no
GPU (``NUMBA_ENABLE_CUDASIM=1``).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import linalg, sparse

from ...kernels import RBF
from .._tuning import tuning
from ..points import Points, left_factor, right_factor
from . import array_module, free_memory, to_host
from .smo import Matrix, launch

# Fewest blocks of the rows of a landmark machine, and most scores per block.
_BLOCKS, _SCORES = 16, 2**28
# Share of the free memory for their kernel values.
_SHARE = 0.6


class DevicePoints:
    """Points on the GPU, and squared distances to them."""

    # Z are the points, of shape (n, d), centred and scaled; other points are brought to their
    # units, and clipped at `far`. A square is one product of points with two more coordinates.

    def __init__(self, Z, center=0.0, scale: float = 1.0, far: float = np.inf):
        self.xp = array_module()
        self._center, self._scale, self._far = self.xp.asarray(center), scale, far
        self.right = right_factor(self.xp.asarray(Z), xp=self.xp)

    @classmethod
    def of(cls, points: Points, far: float) -> DevicePoints:
        """Points of the host."""
        return cls(points.scaled(points.X), points.center, points.scale, far)

    def scaled(self, X):
        """Other points in the units of these."""
        return (self.xp.asarray(X) - self._center) * self._scale

    def left(self, Z):
        """The left factor of scaled points, (n, d + 2); these are clipped."""
        return left_factor(self.xp.clip(Z, -self._far, self._far, out=Z), xp=self.xp)

    def left_of(self, index):
        """The left factor of some of the points themselves."""
        right = self.right[index]
        left = -0.5 * right
        left[..., -2], left[..., -1] = 1.0, right[..., -2]
        return left

    def squares(self, left, index=slice(None)):
        """Squared distances to the points `index`, in float64."""
        s = left @ self.xp.swapaxes(self.right[index], -1, -2)
        return self.xp.maximum(s, 0, out=s)


def kernel_matrix(xp, X, kernel, gammas, memory: float, n_solved: int):
    """Rows of the kernel matrix of X at `gammas`, whole if they fit into `memory` bytes."""
    # `n_solved` samples, the first, take part in the problems; the others have columns only. Both
    # kinds compute K beta, and run a number of SMO iterations on many problems.
    if sparse.issparse(X):
        X = X.toarray()
    size = 4.0 * n_solved * X.shape[0]
    if kernel.decaying and size > memory:
        return MatrixInPieces(xp, X, kernel, gammas, n_solved)
    return WholeMatrix(xp, X, kernel, gammas, n_solved, len(gammas) > 1 and 2 * size <= memory)


def whole_matrix(X, kernel, gamma: float):
    """The array module, and the kernel matrix of X at one width as an array (m, m), float32."""
    xp, gammas = array_module(), np.array([gamma])
    matrix = kernel_matrix(xp, X, kernel, gammas, np.inf, X.shape[0])
    matrix.use(gamma)
    return xp, matrix.values


def _scaled_points(xp, X, gamma):
    """Centred points, scaled to a width."""
    X = xp.asarray(X)
    return DevicePoints((X - X.mean(axis=0)) * np.sqrt(gamma))


class WholeMatrix:
    """A kernel matrix that fits, at one width after another; dot products have no width."""

    def __init__(self, xp, X, kernel, gammas, n_solved, keep_distances):
        self._xp, self._kernel, self.n_rows = xp, kernel, n_solved
        self.values = xp.empty((n_solved, X.shape[0]), dtype=np.float32)
        self.diagonal = xp.ones(n_solved, dtype=np.float32)
        self._kept = None
        if not kernel.decaying:
            X = xp.asarray(X)
            self.values[...] = X[:n_solved] @ X.T
            self.diagonal[...] = xp.diagonal(self.values)
            return
        self._largest = gammas.max()
        self._points = _scaled_points(xp, X, self._largest)
        if keep_distances:
            self._kept = xp.empty_like(self.values)
            self._fill(self._kept, 1.0)

    def _fill(self, out, ratio):
        step = tuning().cuda_block
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            out[rows] = self._points.squares(self._points.left_of(rows)) * ratio
        index = self._xp.arange(self.n_rows)
        out[index, index] = 0

    def use(self, gamma):
        """Change to another width."""
        if not self._kernel.decaying:
            return
        ratio = gamma / self._largest
        if self._kept is None:
            self._fill(self.values, ratio)
        else:
            self._xp.multiply(self._kept, np.float32(ratio), out=self.values)
        self._kernel.value(self.values, out=self.values)

    def sample(self):
        """Some rows of the matrix, on the host."""
        return to_host(self.values[:: max(1, self.n_rows // 16), : self.n_rows])

    def product(self, betas, outside=False):
        """K beta for every row of betas (n, m), in float64, also at the samples `outside`."""
        out, step = 0.0, tuning().cuda_block
        columns = slice(self.n_rows, None) if outside else slice(0, self.n_rows)
        for start in range(0, self.n_rows, step):
            rows = slice(start, start + step)
            out = out + betas[:, rows] @ self.values[rows, columns].astype(np.float64)
        return out

    def launch(self, batch, tol, max_iter):
        """Start at most `max_iter` iterations on every problem; return the limit used."""
        return launch(Matrix(self.values, 0, self.diagonal), batch, tol, max_iter)


class MatrixInPieces:
    """A kernel matrix that exceeds the memory: each problem works on a few rows at a time."""

    # The rows that violate the optimality conditions most are optimised by the same SMO on their
    # own small matrix. Then v of all rows is updated, with kernel values computed block by block.

    def __init__(self, xp, X, kernel, gammas, n_solved):
        self._xp, self._kernel, self.n_rows = xp, kernel, n_solved
        self._n_outside = X.shape[0] - n_solved
        self._largest = gammas.max()
        self._points = _scaled_points(xp, X, self._largest)

    def use(self, gamma):
        """Change to another width."""
        self._ratio = gamma / self._largest

    def sample(self):
        """Some rows of the matrix, on the host."""
        rows = slice(None, self.n_rows, max(1, self.n_rows // 16))
        return to_host(self._values(rows)[:16])

    def _values(self, rows, outside=False):
        columns = slice(self.n_rows, None) if outside else slice(0, self.n_rows)
        s = self._points.squares(self._points.left_of(rows), columns) * self._ratio
        return self._kernel.value(s, out=s)

    def product(self, betas, outside=False):
        """K beta for every row of betas (n, m), in float64, also at the samples `outside`."""
        used = self._xp.flatnonzero(betas.any(axis=0))
        m, step = self._n_outside if outside else self.n_rows, tuning().cuda_working
        out = self._xp.zeros((len(betas), m))
        for start in range(0, len(used), step):
            rows = used[start : start + step]
            out += betas[:, rows] @ self._values(rows, outside)
        return out

    def launch(self, batch, tol, max_iter):
        """Improve every problem on the rows that need it most; see ``WholeMatrix.launch``."""
        xp = self._xp
        q = min(self.n_rows, tuning().cuda_working)
        index = self._working_sets(batch, q)
        problem = xp.arange(len(index))[:, None]
        part = batch.part(problem, index)
        s = self._points.squares(self._points.left_of(index), index) * self._ratio
        s[:, xp.arange(q), xp.arange(q)] = 0
        values = self._kernel.value(s.astype(np.float32)).reshape(-1, q)
        batch.measure()
        # Below a tenth of the gap the few rows say little about all.
        inner = max(tol, 0.1 * batch.gap())
        launch(Matrix(values, q, xp.ones(len(values), dtype=np.float32)), part, inner, max_iter)
        change = part.betas - batch.betas[problem, index]
        batch.betas[problem, index] = part.betas
        batch.n_iter += part.n_iter
        for b in range(len(index)):
            batch.vs[b] -= change[b] @ self._values(index[b])
        batch.measure()
        return int(part.n_iter.max()) or 1

    def _working_sets(self, batch, q):
        """The q rows to work on: half may grow and have a large v, half may shrink, a small v."""
        xp = self._xp
        lower, upper = batch.lower[batch.path], batch.upper[batch.path]
        up = xp.where(batch.betas < upper, batch.vs, -np.inf)
        down = xp.where(batch.betas > lower, -batch.vs, -np.inf)
        # The rank in either list; the better of the two decides.
        ranks = (xp.argsort(xp.argsort(-v, axis=1), axis=1) for v in (up, down))
        best = xp.argsort(xp.minimum(*ranks), axis=1)[:, :q]
        return xp.sort(best, axis=1)


class CudaExpansion:
    """The kernel expansions of an ``_expansion.Expansion``, evaluated on the GPU."""

    def __init__(self, expansion):
        self._xp = xp = array_module()
        self._host = expansion
        self._band = xp.asarray(expansion.band)
        self._points = DevicePoints.of(expansion.points, expansion.far)
        self._exact = self._points.right.T, xp.asarray(expansion.coef.T)
        self._fast = [a.astype(np.float32) for a in self._exact] if expansion.fast else self._exact

    def evaluate(self, X, bias, scores, group):
        """Fill the columns `group` of `scores`."""
        xp, step = self._xp, tuning().cuda_chunk
        host_bias, bias = bias, xp.asarray(bias)
        for start in range(0, len(X), step):
            Z = self._points.scaled(X[start : start + step])
            beyond = self._host.beyond(Z, self._host.far)
            Z = self._points.left(Z)
            out = self._sum(Z, *self._fast) + bias
            if self._host.fast:
                close = xp.flatnonzero((xp.abs(out) <= self._band).any(axis=1))
                out[close] = self._sum(Z[close], *self._exact) + bias
            target = scores[start : start + step]
            if xp is not np and out.shape == target.shape:  # one width: copy straight into place
                out.get(out=target)
            else:
                target[:, group] = to_host(out)
            rows = np.flatnonzero(to_host(beyond))
            if rows.size:
                target[np.ix_(rows, group)] = self._host.exact(X[start + rows]) + host_bias

    def _sum(self, Z, support, coef):
        """Kernel expansions at the factors Z of points, in the precision of `coef`."""
        xp, rows, columns = self._xp, tuning().cuda_points, tuning().cuda_support
        Z = Z.astype(coef.dtype)
        out = xp.zeros((len(Z), coef.shape[1]))
        memory = xp.empty(rows * columns, dtype=coef.dtype)
        for k in range(0, len(Z), rows):
            points = Z[k : k + rows]
            for start in range(0, support.shape[1], columns):
                part = support[:, start : start + columns]
                s = memory[: len(points) * part.shape[1]].reshape(len(points), -1)
                xp.matmul(points, part, out=s)
                for ratio, classes in self._host.widths:
                    scaled = s if ratio == 1 else s * coef.dtype.type(ratio)  # the largest is last
                    values = _kernel_values(xp, self._host.kernel, scaled)
                    out[k : k + rows, classes] += values @ coef[start : start + columns, classes]
        return out


def _kernel_values(xp, kernel, s):
    """Replace squared distances, some of which may be negative by rounding, by kernel values."""
    if xp is not np and type(kernel) is RBF:  # in one pass over the memory instead of three
        return _gaussian()(s, s)
    return kernel.value(xp.maximum(s, 0, out=s), out=s)


@cache
def _gaussian():
    import cupy

    return cupy.ElementwiseKernel("T s", "T k", "k = exp(-max(s, T(0)))", "openset_gaussian")


class CudaFeatures:
    """The map of ``LandmarkFeatures`` that allows products (``by_products``), on the GPU."""

    on_gpu = True

    def __init__(self, features, n_rows: int, n_classes: int):
        self.xp = xp = array_module()
        self._kernel, self.n_features = features.kernel, features.n_features
        self._points = DevicePoints.of(features.points, features.far)
        self._factor = xp.asarray(features.factor)
        self._single = self._factor.astype(np.float32)
        largest = max(self.n_features, n_classes)
        self.block_rows = -(-n_rows // max(min(_BLOCKS, n_rows), -(-n_rows * largest // _SCORES)))
        self.memory = _SHARE * free_memory(xp)

    def kernel_values(self, X):
        """Kernel values of samples with the landmarks, shape (n, r), float32."""
        s = self._points.squares(self._points.left(self._points.scaled(X))).astype(np.float32)
        return self._kernel.value(s, out=s)

    def in_blocks(self, X, n_jobs=None):
        """Features of samples, shape (n, r), float32, all at once."""
        values = self.kernel_values(X).T
        return self.xp.ascontiguousarray(
            self._solve(self._single, values, lower=True, overwrite_b=True).T
        )

    def coefficients(self, w):
        """Coefficients on the landmarks from weights of the features, shape (K, r)."""
        w = self.xp.asarray(w).T
        return to_host(self._solve(self._factor, w, lower=True, trans="T").T)

    @property
    def _solve(self):
        if self.xp is np:
            return linalg.solve_triangular
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular
