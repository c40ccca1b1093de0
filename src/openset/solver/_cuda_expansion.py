"""Decision values on a GPU, in float64 throughout.

Where double precision costs little more than single, nothing has to be scored again near zero.
Array work is written for CuPy and runs on NumPy as it is, see ``_cuda_grid``.
"""

from __future__ import annotations

import numpy as np

from ._cuda_grid import array_module

# Test points on their way at once, and of one tile; support vectors of one tile. A tile of kernel
# values stays in the cache between the product that makes it and the product that uses it.
_CHUNK = 2**17
_POINTS = 2048
_SUPPORT = 1024


class CudaExpansion:
    """The kernel expansions of an ``_expansion.Expansion`` on the GPU."""

    def __init__(self, expansion):
        self._xp = array_module()
        self._host = expansion
        self._support = self._xp.asarray(_extended(np, -2 * expansion.support, expansion.norms).T)
        self._coef = self._xp.asarray(expansion.coef)
        self._center = self._xp.asarray(expansion.center)

    def evaluate(self, X, bias, scores, group):
        """Fill the columns `group` of `scores`."""
        xp = self._xp
        bias = xp.asarray(bias)
        memory = xp.empty(_POINTS * _SUPPORT)
        for start in range(0, len(X), _CHUNK):
            Z = (xp.asarray(X[start : start + _CHUNK]) - self._center) * self._host.scale
            xp.clip(Z, -self._host.far, self._host.far, out=Z)
            Z = _extended(xp, Z, xp.einsum("ij,ij->i", Z, Z), norm_last=True)
            out = xp.empty((len(Z), self._coef.shape[1]))
            for k in range(0, len(Z), _POINTS):
                self._tile(Z[k : k + _POINTS], out[k : k + _POINTS], memory)
            out += bias
            scores[start : start + _CHUNK, group] = out if xp is np else out.get()

    def _tile(self, Z, out, memory):
        xp = self._xp
        out[...] = 0
        for start in range(0, self._support.shape[1], _SUPPORT):
            support = self._support[:, start : start + _SUPPORT]
            s = memory[: len(Z) * support.shape[1]].reshape(len(Z), -1)
            xp.matmul(Z, support, out=s)
            xp.maximum(s, 0, out=s)
            out += self._host.kernel.value(s, out=s) @ self._coef[start : start + _SUPPORT]


def _extended(xp, Z, norms, norm_last=False):
    """Columns that make |z|^2 + |s|^2 - 2 z.s one product."""
    ones = xp.ones((len(Z), 1))
    norms = norms[:, None]
    return xp.hstack([Z, ones, norms] if norm_last else [Z, norms, ones])
