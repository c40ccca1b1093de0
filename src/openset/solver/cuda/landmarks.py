"""Landmark machines on a GPU: kernel values of all rows stay there, machines are solved together.

Array work is written for CuPy and also runs on NumPy, see ``cuda.grid``.
"""

from __future__ import annotations

import numpy as np

from .._problem import Solution, feasible_start
from .._solve import biases_of, warn_not_converged
from ..landmarks import TrainingRows, Worst
from . import to_host
from .grid import Batch, array_module, free_memory
from .kernels import Matrix
from .matrix import launch

# Every n-th row makes a block: fewest blocks, and most scores per block.
_BLOCKS, _SCORES = 16, 2**28
# Violators of a block that are listed and sorted; where there are more, the worst are found first.
_FOUND = 2**23
# Share of the free memory for kernel values of all rows, and for products of active rows.
_SHARE, _PRODUCTS = 0.6, 0.3
# Features gathered at a time, and the ratio of active rows in problems that are solved together.
_GATHERED, _ALIKE = 2**27, 2.0


class CudaRows(TrainingRows):
    """Training rows of a landmark machine on the GPU; see ``openset.solver.landmarks``.

    Parameters
    ----------
    X : ndarray of shape (m, d)
    codes, weight : ndarray of shape (m,)
    features_of : LandmarkFeatures
        Its kernel values have to come from matrix products (``by_products``).
    """

    on_gpu = True

    def __init__(self, X, codes, weight, features_of):
        self.codes, self.weight, self._map = codes, weight, features_of
        self._xp = xp = array_module()
        self._X = X
        support, norms = features_of.support, features_of.norms[:, None]
        # |z|^2 + |s|^2 - 2 z.s is one product of points with two more coordinates.
        self._support = xp.asarray(np.hstack([-2 * support, norms, np.ones_like(norms)]).T)
        self._center = xp.asarray(features_of.center)
        self._factor = xp.asarray(features_of.factor)
        self._single = self._factor.astype(np.float32)
        m, r = len(codes), features_of.n_features
        n = max(min(_BLOCKS, m), -(-m * max(r, int(codes.max()) + 1) // _SCORES))
        self._blocks = [slice(k, None, n) for k in range(n)]
        self._codes = [xp.asarray(codes[block]) for block in self._blocks]
        self._stored = None
        if 4 * m * r <= _SHARE * free_memory(xp):
            self._stored = [self._kernel_values(X[block]) for block in self._blocks]

    def features(self, index):
        values = self._kernel_values(self._X[index])
        if self._xp is np:
            from scipy.linalg import solve_triangular
        else:
            from cupyx.scipy.linalg import solve_triangular
        return self._xp.ascontiguousarray(
            solve_triangular(self._single, values.T, lower=True, overwrite_b=True).T
        )

    def coefficients(self, w):
        if self._xp is np:
            return self._map.coefficients(w)
        from cupyx.scipy.linalg import solve_triangular

        w = self._xp.asarray(w)
        return solve_triangular(self._factor, w.T, lower=True, trans="T").T.get()

    def violators(self, query, active):
        xp, n = self._xp, len(self._blocks)
        rows, position = map(xp.asarray, active)
        coef, bias = xp.asarray(query.coef.T), xp.asarray(query.bias.astype(np.float32))
        classes = xp.asarray(query.classes)
        worst = Worst(
            query._replace(
                floor=xp.asarray(query.floor.astype(np.float32)), most=xp.asarray(query.most)
            ),
            xp,
        )

        def find(k):
            values = self._stored[k] if self._stored else self._kernel_values(self._X[k::n])
            size = values @ coef
            size += bias
            codes = self._codes[k]
            place = xp.minimum(xp.searchsorted(classes, codes), len(classes) - 1)
            own = xp.flatnonzero(classes[place] == codes)
            size[own, place[own]] *= -1
            size += np.float32(query.target)
            here = xp.flatnonzero(rows % n == k)
            size[rows[here] // n, position[here]] = -np.inf
            beyond = size > worst.query.floor
            if int(beyond.sum()) > _FOUND:
                beyond = size > _cut(xp, size, worst.query.floor, worst.query.most)
            found, where = xp.nonzero(beyond)
            return found * n + k, where, size[found, where]

        found = worst.of(map(find, range(int(np.ceil(query.share * n)))))
        return tuple(to_host(array) for array in found)

    def _kernel_values(self, X):
        xp = self._xp
        Z = (xp.asarray(X) - self._center) * self._map.scale
        xp.clip(Z, -self._map.far, self._map.far, out=Z)
        norms = (Z * Z).sum(axis=1)[:, None]
        values = (xp.hstack([Z, xp.ones_like(norms), norms]) @ self._support).astype(np.float32)
        xp.maximum(values, 0, out=values)
        return self._map.kernel.value(values, out=values)


def _cut(xp, size, floor, most):
    """Raise the floor of columns until about `most` entries exceed it, by bisection."""
    high = size.max(axis=0)
    for _ in range(12):
        many = (size > floor).sum(axis=0) > most
        if not many.any():
            break
        middle = 0.5 * (floor + high)
        # Never below `most` entries: the floor follows only where enough exceed it.
        enough = (size > middle).sum(axis=0) >= most
        high = xp.where(many & ~enough, middle, high)
        floor = xp.where(many & enough, middle, floor)
    return floor


def solve_together(psi, places, problems, starts, tol, max_iter):
    """Solve problems over the linear kernel of features, many at a time.

    Parameters
    ----------
    psi : array of shape (n, r), float32
        Features, on the GPU.
    places : list of ndarray
        Rows of psi that belong to each problem.
    problems : list of Problem
    starts : list of ndarray or None
        Feasible multipliers.
    tol : float
    max_iter : int
        Largest number of iterations per problem.

    Returns
    -------
    list of tuple
        For each problem a Solution, and the weighted sum of its features, shape (r,), float64.
    """
    xp = array_module()
    found: list = [None] * len(problems)
    for group in _alike(np.array([len(place) for place in places]), _PRODUCTS * free_memory(xp)):
        n = max(len(places[k]) for k in group)
        # Shorter problems are padded with copies of the slack in empty boxes.
        place = np.zeros((len(group), n), dtype=np.intp)
        p, lower, upper, betas = np.zeros((4, len(group), n))
        for i, k in enumerate(group):
            own = slice(len(places[k]))
            problem = problems[k]
            place[i, own], p[i, own] = places[k], problem.p
            lower[i, own], upper[i, own] = problem.lower, problem.upper
            betas[i, own] = feasible_start(problem) if starts[k] is None else starts[k]
        place, p, lower, upper, betas = map(xp.asarray, (place, p, lower, upper, betas))
        values = xp.empty((len(group), n, n), dtype=np.float32)
        vs = p
        step = max(1, _GATHERED // (n * psi.shape[1]))
        parts = [slice(k, k + step) for k in range(0, len(group), step)]
        for part in parts:
            some = psi[place[part]]
            values[part] = some @ some.transpose(0, 2, 1)
            vs[part] -= (values[part].astype(np.float64) @ betas[part, :, None])[:, :, 0]
        batch = Batch.of(xp, (lower, upper), betas, vs)
        diagonal = xp.diagonal(values, axis1=1, axis2=2).reshape(-1).copy()
        matrix = Matrix(values.reshape(-1, n), n, diagonal)
        left = max_iter
        while left > 0 and batch.gap() > tol:
            left -= launch(batch, matrix, tol, left)
        del values, matrix
        sums = [
            (betas[part, None, :] @ psi[place[part]].astype(np.float64))[:, 0, :] for part in parts
        ]
        sums, gaps = to_host(xp.concatenate(sums)), to_host(batch.ends[:, 0] - batch.ends[:, 1])
        betas, vs, n_iter = map(to_host, (batch.betas, batch.vs, batch.n_iter))
        for i, k in enumerate(group):
            own = slice(len(places[k]))
            gap = max(float(gaps[i]), 0.0)
            beta, v = betas[i, own].copy(), vs[i, own].copy()
            (bias,), (interval,), (objective,) = biases_of(problems[k], beta[None], v[None])
            if gap > tol:
                warn_not_converged(n_iter[i], gap, tol)
            report = float(bias), tuple(interval), float(objective), gap, int(n_iter[i])
            status = "optimal" if gap <= tol else "max_iter"
            found[k] = Solution(beta, v, *report, status), sums[i]
    return found


def _alike(sizes, memory):
    """Indices of problems in groups of similar sizes whose matrices fit into memory."""
    order = np.argsort(sizes, kind="stable")
    group: list[int] = []
    for k in order:
        n = int(sizes[k])
        full = 4.0 * n * n * (len(group) + 1) > memory
        if group and (full or n > _ALIKE * sizes[group[0]]):
            yield group
            group = []
        group.append(int(k))
    yield group
