"""Training rows of landmark machines on a GPU: kernel values stay there, violators come back.

Array work is written for CuPy and also runs on NumPy, see ``cuda.grid``.
"""

from __future__ import annotations

import numpy as np

from ..landmarks import TrainingRows, Worst
from .grid import array_module, free_memory

# Every n-th row makes a block: so many blocks at least, and so many scores in each at most.
_BLOCKS, _SCORES = 16, 2**28
# Share of the free memory for kernel values.
_SHARE = 0.6


class CudaRows(TrainingRows):
    """Training rows of a landmark machine on the GPU; see ``openset.solver.landmarks``.

    Parameters
    ----------
    X : ndarray of shape (m, d)
    codes, weight : ndarray of shape (m,)
    features_of : LandmarkFeatures
        Its kernel values have to come from matrix products (``by_products``).
    """

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
        rows, position = active
        coef, bias = xp.asarray(query.coef.T), xp.asarray(query.bias.astype(np.float32))
        classes, most = xp.asarray(query.classes), xp.asarray(query.most)
        worst = Worst(query)

        def find(k):
            values = self._stored[k] if self._stored else self._kernel_values(self._X[k::n])
            size = values @ coef
            size += bias
            codes = self._codes[k]
            place = xp.minimum(xp.searchsorted(classes, codes), len(classes) - 1)
            own = xp.flatnonzero(classes[place] == codes)
            size[own, place[own]] *= -1
            size += np.float32(query.target)
            here = rows % n == k
            size[xp.asarray(rows[here] // n), xp.asarray(position[here])] = -np.inf
            floor = _cut(xp, size, xp.asarray(worst.query.floor.astype(np.float32)), most)
            found, where = xp.nonzero(size > floor)
            answer = found * n + k, where, size[found, where]
            return answer if xp is np else tuple(a.get() for a in answer)

        return worst.of(map(find, range(int(np.ceil(query.share * n)))))

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
