"""Decision values on a GPU: tiles of kernel values, as on the CPU but larger.

Array work is written for CuPy and also runs on NumPy, see ``cuda.grid``.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...kernels import RBF
from ...utils.distances import squared_norms
from .._tuning import tuning
from . import to_host
from .grid import array_module


class CudaExpansion:
    """The kernel expansions of an ``_expansion.Expansion``, evaluated on the GPU."""

    def __init__(self, expansion):
        self._xp = xp = array_module()
        self._host = expansion
        self._center = xp.asarray(expansion.center)
        self._band = xp.asarray(expansion.band)
        support = expansion.scaled(expansion.points)
        norms = squared_norms(support)[:, None]
        # |z|^2 + |s|^2 - 2 z.s is one product of points with two more coordinates.
        extended = np.hstack([-2 * support, norms, np.ones_like(norms)]).T
        exact = xp.asarray(extended), xp.asarray(expansion.coef.T)
        self._exact = exact
        self._fast = [a.astype(np.float32) for a in exact] if expansion.fast else exact

    def evaluate(self, X, bias, scores, group):
        """Fill the columns `group` of `scores`."""
        xp, step = self._xp, tuning().cuda_chunk
        host_bias, bias = bias, xp.asarray(bias)
        for start in range(0, len(X), step):
            Z = (xp.asarray(X[start : start + step]) - self._center) * self._host.scale
            beyond = self._host.beyond(Z, self._host.far)
            xp.clip(Z, -self._host.far, self._host.far, out=Z)
            Z = xp.hstack([Z, xp.ones((len(Z), 1)), (Z * Z).sum(axis=1)[:, None]])
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
        """Kernel expansions at the extended points Z, in the precision of `coef`."""
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
                for ratio, own in self._host.widths:
                    scaled = s if ratio == 1 else s * coef.dtype.type(ratio)  # the largest is last
                    values = _kernel_values(xp, self._host.kernel, scaled)
                    out[k : k + rows, own] += values @ coef[start : start + columns, own]
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
