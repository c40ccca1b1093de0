"""The grid engine on a GPU: the same interface and the same answers as ``_grid``.

All totals of all machines are solved at once, a thread block each, so nothing is predicted along a
path; each problem starts from its own solution at the width before. The kernel matrix of a width
stays on the GPU. Array work is written for CuPy and runs on NumPy as it is, which is how it is
tested where there is no GPU (``NUMBA_ENABLE_CUDASIM=1``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from ._cuda_kernels import PER_THREAD, SIMULATED, smo_kernel
from ._path import Path
from ._problem import feasible_start
from ._solve import ONE_SIDED, Interrupted, warn_not_converged
from ._starts import near_identity

# Rows of a block of float64 work beside a matrix of float32.
_BLOCK = 4096
# Rows times iterations of one launch: it returns within a fraction of a second.
_LAUNCH = 3e8
# Bytes of state (multipliers, v, boxes) that are on the GPU at once.
_STATE = 16e9


def array_module():
    """CuPy, or NumPy under the simulator; a clear error without a GPU."""
    if SIMULATED:
        return np
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            'device="cuda" needs CuPy and numba-cuda: pip install "openset[cuda]".'
        ) from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f'device="cuda": no GPU can be used ({error}). Use device="cpu".'
        ) from error
    return cupy


def solve_grid_cuda(X, kernel, gammas, n_machines, machine, reduce, rows, *, tol, max_iter, stop):
    """See :func:`openset.solver.solve_grid`; `rows` is a :class:`LazyRows` for `reduce`."""
    xp = array_module()
    gammas = np.asarray(gammas, dtype=np.float64)
    order = np.argsort(-gammas, kind="stable")
    matrix = _KernelMatrix(xp, X, kernel, gammas[order])
    problems = [machine(k) for k in range(n_machines)]
    m = matrix.n_rows
    per_batch = max(1, int(_STATE / (m * 8 * 2 * max(len(totals) for _, totals in problems))))
    heads = [None] * n_machines
    for n, g in enumerate(order):
        matrix.use(gammas[g])
        rows.use(gammas[g])
        near = n == 0 and near_identity(matrix.sample())
        for first in range(0, n_machines, per_batch):
            batch = range(first, min(n_machines, first + per_batch))
            paths, betas = _solve_batch(
                xp,
                matrix,
                [problems[k] for k in batch],
                [heads[k] for k in batch],
                near,
                tol,
                max_iter,
                stop,
            )
            for k, path, beta in zip(batch, paths, betas, strict=True):
                if len(gammas) > 1:
                    heads[k] = beta
                yield int(g), k, reduce(k, path, rows)


def _solve_batch(xp, matrix, problems, heads, near, tol, max_iter, stop):
    counts = [len(totals) for _, totals in problems]
    machine = np.repeat(np.arange(len(problems)), counts).astype(np.int32)
    lower = xp.asarray(np.stack([p.lower for p, _ in problems]))
    upper = xp.asarray(np.stack([p.upper for p, _ in problems]))
    p = xp.asarray(np.stack([p.p for p, _ in problems]))
    if heads[0] is not None:
        betas = xp.concatenate(heads)
    elif near:
        totals = xp.asarray(np.concatenate([totals for _, totals in problems]))
        betas = _identity_solutions(xp, p[machine], lower[machine], upper[machine], totals)
    else:
        betas = xp.asarray(np.concatenate([_starts(*problem) for problem in problems]))
    vs = p[machine] - matrix.product(betas)
    n = len(machine)
    ends = xp.stack([xp.full(n, np.inf), xp.full(n, -np.inf)], axis=1)
    n_iter = xp.zeros(n, dtype=np.int64)
    boxes = (lower, upper, xp.asarray(machine))
    _iterate(xp, matrix, boxes, (betas, vs, ends, n_iter), tol, max_iter, stop)

    bias, interval, objective = _biases(xp, p[machine], lower[machine], upper[machine], betas, vs)
    host = [_to_host(xp, a) for a in (betas, vs, bias, interval, objective, n_iter)]
    edges = np.cumsum([0, *counts])
    paths, kept = [], []
    for (problem, totals), a, b in zip(problems, edges[:-1], edges[1:], strict=True):
        totals = np.asarray(totals, dtype=np.float64)
        path = Path(problem, totals, *(array[a:b] for array in host), tol)
        for k in np.flatnonzero(path.kkt_gap > tol):
            warn_not_converged(path.n_iter[k], path.kkt_gap[k], tol)
        paths.append(path)
        kept.append(betas[a:b])
    return paths, kept


def _to_host(xp, array):
    if xp is np:
        return array
    import cupyx

    # Page-locked memory is filled at several times the speed.
    out = cupyx.empty_pinned(array.shape, array.dtype)
    return array.get(out=out)


def _biases(xp, p, lower, upper, betas, vs):
    """Bias, bias interval and objective of every problem, as ``_smo.summarise`` has them."""
    dust = 1e-12 * (upper - lower)
    can_grow, can_shrink = betas < upper - dust, betas > lower + dust
    top = xp.where(can_grow, vs, -np.inf).max(axis=1)
    bottom = xp.where(can_shrink, vs, np.inf).min(axis=1)
    free = can_grow & can_shrink
    n_free = free.sum(axis=1)
    mean = (vs * free).sum(axis=1) / xp.maximum(n_free, 1)
    bias = xp.where(n_free > 0, mean, 0.5 * (top + bottom))
    if not bool(xp.isfinite(bias).all()):
        raise ValueError(ONE_SIDED)
    return bias, xp.stack([top, bottom], axis=1), -0.5 * (betas * (p + vs)).sum(axis=1)


def _starts(problem, totals):
    return np.stack([feasible_start(replace(problem, total=float(total))) for total in totals])


def _identity_solutions(xp, p, lower, upper, totals):
    """``identity_solution`` for all problems at once; the sums are right to rounding."""
    low, high = (lower - p).min(axis=1), (upper - p).max(axis=1)
    for _ in range(60):
        mu = 0.5 * (low + high)
        above = xp.clip(p + mu[:, None], lower, upper).sum(axis=1) > totals
        low, high = xp.where(above, low, mu), xp.where(above, mu, high)
    return xp.clip(p + (0.5 * (low + high))[:, None], lower, upper)


def _iterate(xp, matrix, boxes, state, tol, max_iter, stop):
    lower, upper, machine = boxes
    betas, vs, ends, n_iter = state
    m = matrix.n_rows
    limit = np.iinfo(np.int64).max if max_iter < 0 else max_iter
    threads = _threads(m)
    in_registers = m <= threads * PER_THREAD
    kernel = smo_kernel(in_registers)
    flags = xp.empty((1, 1) if in_registers else vs.shape, dtype=np.int8)
    per_launch = max(64, int(_LAUNCH / m))
    done = 0
    while True:
        kernel[len(machine), threads](
            matrix.values,
            matrix.diagonal,
            lower,
            upper,
            machine,
            betas,
            vs,
            flags,
            tol,
            min(per_launch, limit - done),
            n_iter,
            ends,
        )
        done += per_launch
        gap = float((ends[:, 0] - ends[:, 1]).max())
        if gap <= tol or done >= limit:
            return
        if stop is not None and stop.is_set():
            raise Interrupted


def _threads(m):
    if SIMULATED:
        return 8
    for threads in (64, 128, 256):
        if m <= threads * PER_THREAD:
            return threads
    return 512 if m <= 512 * PER_THREAD else 1024


class _KernelMatrix:
    """The kernel matrix of one training set on the GPU, at one width after another."""

    def __init__(self, xp, X, kernel, gammas):
        self._xp, self._kernel = xp, kernel
        self.n_rows = X.shape[0]
        self._largest = gammas.max()
        if sparse.issparse(X):
            X = X.toarray()
        X = xp.asarray(X)
        if not kernel.decaying:
            self.values = (X @ X.T).astype(np.float32)
            self.diagonal = xp.diagonal(self.values).copy()
            return
        self._Z = (X - X.mean(axis=0)) * np.sqrt(self._largest)
        self._norms = (self._Z * self._Z).sum(axis=1)
        self.diagonal = xp.ones(self.n_rows, dtype=np.float32)
        self.values = xp.empty((self.n_rows, self.n_rows), dtype=np.float32)
        self._distances = None
        if len(gammas) > 1:
            self._distances = xp.empty_like(self.values)
            self._fill(self._distances)

    def _fill(self, out):
        """Scaled squared distances, formed in float64."""
        xp = self._xp
        for start in range(0, self.n_rows, _BLOCK):
            rows = slice(start, start + _BLOCK)
            s = self._Z[rows] @ self._Z.T
            s *= -2
            s += self._norms
            s += self._norms[rows, None]
            out[rows] = xp.maximum(s, 0, out=s)
        index = xp.arange(self.n_rows)
        out[index, index] = 0

    def use(self, gamma):
        if not self._kernel.decaying:
            return
        if self._distances is None:
            self._fill(self.values)
        else:
            self._xp.multiply(self._distances, np.float32(gamma / self._largest), out=self.values)
        self._kernel.value(self.values, out=self.values)

    def sample(self):
        rows = self.values[:: max(1, self.n_rows // 16)]
        return rows if self._xp is np else self._xp.asnumpy(rows)

    def product(self, betas):
        """K beta for every row of betas (n, m), in float64."""
        xp = self._xp
        out = xp.zeros_like(betas)
        if not betas.any():
            return out
        for start in range(0, self.n_rows, _BLOCK):
            rows = slice(start, start + _BLOCK)
            out += betas[:, rows] @ self.values[rows].astype(np.float64)
        return out
