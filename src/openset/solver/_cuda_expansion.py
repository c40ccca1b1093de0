"""Decision values on a GPU: tiles of kernel values, as on the CPU but larger.

Array work is written for CuPy and runs on NumPy as it is, see ``_cuda_grid``.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..kernels import RBF
from ._cuda_grid import array_module

# Test points on their way at once; test points and support vectors of one tile, large enough that
# starting the work costs nothing beside it.
_CHUNK = 2**17
_POINTS = 2**14
_SUPPORT = 2**11


class CudaExpansion:
    """The kernel expansions of an ``_expansion.Expansion`` on the GPU."""

    def __init__(self, expansion):
        self._xp = xp = array_module()
        self._host = expansion
        self._center = xp.asarray(expansion.center)
        self._band = xp.asarray(expansion.band)
        support, norms = expansion.support, expansion.norms[:, None]
        # |z|^2 + |s|^2 - 2 z.s is one product of points with two more coordinates.
        extended = np.hstack([-2 * support, norms, np.ones_like(norms)]).T
        exact = xp.asarray(extended), xp.asarray(expansion.coef)
        self._exact = exact
        self._fast = [a.astype(np.float32) for a in exact] if expansion.fast else exact

    def evaluate(self, X, bias, scores, group):
        """Fill the columns `group` of `scores`."""
        xp = self._xp
        bias = xp.asarray(bias)
        for start in range(0, len(X), _CHUNK):
            Z = (xp.asarray(X[start : start + _CHUNK]) - self._center) * self._host.scale
            xp.clip(Z, -self._host.far, self._host.far, out=Z)
            Z = xp.hstack([Z, xp.ones((len(Z), 1)), (Z * Z).sum(axis=1)[:, None]])
            out = self._sum(Z, *self._fast) + bias
            if self._host.fast:
                close = xp.flatnonzero((xp.abs(out) <= self._band).any(axis=1))
                out[close] = self._sum(Z[close], *self._exact) + bias
            target = scores[start : start + _CHUNK]
            if xp is not np and out.shape == target.shape:  # one width: straight to its place
                out.get(out=target)
            else:
                target[:, group] = out if xp is np else out.get()

    def _sum(self, Z, support, coef):
        """Kernel expansions at the extended points Z, in the precision of `coef`."""
        xp = self._xp
        Z = Z.astype(coef.dtype)
        out = xp.zeros((len(Z), coef.shape[1]))
        memory = xp.empty(_POINTS * _SUPPORT, dtype=coef.dtype)
        for k in range(0, len(Z), _POINTS):
            points = Z[k : k + _POINTS]
            for start in range(0, support.shape[1], _SUPPORT):
                part = support[:, start : start + _SUPPORT]
                s = memory[: len(points) * part.shape[1]].reshape(len(points), -1)
                xp.matmul(points, part, out=s)
                values = _kernel_values(xp, self._host.kernel, s)
                out[k : k + _POINTS] += values @ coef[start : start + _SUPPORT]
        return out


def _kernel_values(xp, kernel, s):
    """Kernel values in the place of squared distances, of which rounding may leave some below 0."""
    if xp is not np and type(kernel) is RBF:  # in one pass over the memory instead of three
        return _gaussian()(s, s)
    return kernel.value(xp.maximum(s, 0, out=s), out=s)


@cache
def _gaussian():
    import cupy

    return cupy.ElementwiseKernel("T s", "T k", "k = exp(-max(s, T(0)))", "openset_gaussian")
