"""The grid engine on a GPU: the same interface and the same answers as ``_grid``.

All totals of all machines are solved at once, a thread block each, so nothing is predicted along a
path; each problem starts from its own solution at the width before. The kernel matrix of a width
stays on the GPU, and while one width is solved the host looks at the results of the one before.
Array work is written for CuPy and runs on NumPy as it is, which is how it is tested where there is
no GPU (``NUMBA_ENABLE_CUDASIM=1``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import cuda

from ..utils import thread_map
from ._cuda_kernels import SIMULATED
from ._cuda_matrix import kernel_matrix
from ._path import Path
from ._problem import feasible_start
from ._solve import Interrupted, biases_of, warn_not_converged
from ._starts import near_identity

# Shares of the free memory that the kernel matrix, and the multipliers, v and boxes may take.
_MATRIX = 0.7
_STATE = 0.12


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


def solve_grid_cuda(X, kernel, gammas, problems, reduce, rows, *, tol, max_iter, n_jobs, stop):
    """See :func:`openset.solver.solve_grid`; `rows` is a :class:`LazyRows` for `reduce`."""
    xp = array_module()
    gammas = np.asarray(gammas, dtype=np.float64)
    order = np.argsort(-gammas, kind="stable")
    free = free_memory(xp)
    matrix = kernel_matrix(xp, X, kernel, gammas[order], _MATRIX * free)
    longest = max(len(totals) for _, totals in problems)
    # Four arrays of float64 a problem: multipliers, v, boxes.
    per_batch = max(1, int(_STATE * free / (32.0 * X.shape[0] * longest)))
    firsts = range(0, len(problems), per_batch)
    batches = [Batch(xp, first, problems[first : first + per_batch]) for first in firsts]
    ready = None
    for n, g in enumerate(order):
        matrix.use(gammas[g])
        near = n == 0 and near_identity(matrix.sample())
        for batch in batches:
            if n == 0:
                batch.begin(near)
            batch.refresh(matrix)
            left = np.iinfo(np.int64).max if max_iter < 0 else max_iter
            left -= matrix.launch(batch, tol, left)
            # The GPU is at work meanwhile.
            if ready is not None:
                yield from _reduced(*ready, problems, reduce, rows, n_jobs, tol)
            while batch.gap() > tol and left > 0:
                if stop is not None and stop.is_set():
                    raise Interrupted
                left -= matrix.launch(batch, tol, left)
            ready = g, gammas[g], batch.first, batch.to_host()
    yield from _reduced(*ready, problems, reduce, rows, n_jobs, tol)


def free_memory(xp) -> float:
    """Bytes that can still be allocated."""
    if xp is np:
        return 1e9
    pool = xp.get_default_memory_pool()
    return xp.cuda.runtime.memGetInfo()[0] + pool.free_bytes()


def _reduced(g, gamma, first, solutions, problems, reduce, rows, n_jobs, tol):
    """Results of a batch, from what it left on the host."""
    rows.use(gamma)
    betas, vs, n_iter = solutions
    parts = []
    end = 0
    for k in range(first, len(problems)):
        if end == len(betas):
            break
        start, end = end, end + len(problems[k][1])
        parts.append((k, slice(start, end)))

    def result(task):
        k, part = task
        problem, totals = problems[k]
        summary = biases_of(problem, betas[part], vs[part])
        totals = np.asarray(totals, dtype=np.float64)
        path = Path(problem, totals, betas[part], vs[part], *summary, n_iter[part], tol)
        for t in np.flatnonzero(path.kkt_gap > tol):
            warn_not_converged(path.n_iter[t], path.kkt_gap[t], tol)
        return int(g), k, reduce(k, path, rows)

    yield from thread_map(result, parts, n_jobs)


class Batch:
    """Problems that are solved together, all totals of some machines.

    Attributes
    ----------
    first : int
        Index of the first machine.
    lower, upper, p : array of shape (n_machines, m)
    machine : array of shape (n,), int32
        The machine of each problem.
    betas, vs : array of shape (n, m)
    ends : array of shape (n, 2)
        Bias interval when last looked at.
    n_iter : array of shape (n,), int64
    """

    def __init__(self, xp, first, problems):
        self._xp, self.first = xp, first
        self._problems = problems
        counts = [len(totals) for _, totals in problems]
        machine = np.repeat(np.arange(len(problems), dtype=np.int32), counts)
        self.machine = xp.asarray(machine)
        self.lower = xp.asarray(np.stack([problem.lower for problem, _ in problems]))
        self.upper = xp.asarray(np.stack([problem.upper for problem, _ in problems]))
        self._p = xp.asarray(np.stack([problem.p for problem, _ in problems]))
        n = len(machine)
        self.vs = xp.empty((n, self.lower.shape[1]))
        self._open = _open(xp, n)
        self.ends = self._open.copy()
        self.n_iter = xp.empty(n, dtype=np.int64)
        self._views = {}

    def views(self, *names):
        """Arrays as Numba takes them; finding out costs as much as a small kernel, so once."""
        for name in names:
            if name not in self._views:
                array = getattr(self, name)
                self._views[name] = array if self._xp is np else cuda.as_cuda_array(array)
        return [self._views[name] for name in names]

    def begin(self, near):
        """Feasible multipliers; near the identity, those of the identity."""
        xp = self._xp
        self._zero = False
        if near:
            totals = xp.asarray(np.concatenate([totals for _, totals in self._problems]))
            own = self.machine
            self.betas = _identity_solutions(
                xp, self._p[own], self.lower[own], self.upper[own], totals
            )
            return
        betas = np.concatenate([_starts(*problem) for problem in self._problems])
        self._zero = not betas.any()
        self.betas = xp.asarray(betas)

    def refresh(self, matrix):
        """v and the counters, for the matrix as it is now."""
        self.vs[...] = self._p[self.machine]
        if not self._zero:
            self.vs -= matrix.product(self.betas)
        self._zero = False
        self.ends[...] = self._open
        self.n_iter[...] = 0

    def part(self, problem, index):
        """The rows `index` of each problem as a batch, for problems restricted to them."""
        xp = self._xp
        part = object.__new__(Batch)
        part._xp, part._views = xp, {}
        own = self.machine[problem]
        part.lower, part.upper = self.lower[own, index], self.upper[own, index]
        part.machine = xp.arange(len(index), dtype=np.int32)
        part.betas, part.vs = self.betas[problem, index], self.vs[problem, index]
        part.ends = _open(xp, len(index))
        part.n_iter = xp.zeros(len(index), dtype=np.int64)
        return part

    def measure(self):
        """Bring `ends` up to date, where the kernel has not done it."""
        xp = self._xp
        can_grow = self.betas < self.upper[self.machine]
        can_shrink = self.betas > self.lower[self.machine]
        self.ends[:, 0] = xp.where(can_grow, self.vs, -np.inf).max(axis=1)
        self.ends[:, 1] = xp.where(can_shrink, self.vs, np.inf).min(axis=1)

    def gap(self) -> float:
        """The largest gap; waits for the GPU."""
        ends = self.ends if self._xp is np else self.ends.get()
        return float((ends[:, 0] - ends[:, 1]).max())

    def to_host(self):
        """Multipliers, v and numbers of iterations."""
        return [_to_host(self._xp, array) for array in (self.betas, self.vs, self.n_iter)]


def _open(xp, n):
    """Bias intervals of problems that were not looked at yet."""
    return xp.tile(xp.asarray([np.inf, -np.inf]), (n, 1))


def _to_host(xp, array):
    if xp is np:
        return array.copy()
    import cupyx

    # Page-locked memory is filled at several times the speed.
    out = cupyx.empty_pinned(array.shape, array.dtype)
    return array.get(out=out)


def _starts(problem, totals):
    return np.stack([feasible_start(replace(problem, total=float(total))) for total in totals])


def _identity_solutions(xp, p, lower, upper, totals):
    """``identity_solution`` for all problems at once; the sums are right to rounding."""
    low, high = (lower - p).min(axis=1), (upper - p).max(axis=1)
    for _ in range(48):
        mu = 0.5 * (low + high)
        above = xp.clip(p + mu[:, None], lower, upper).sum(axis=1) > totals
        low, high = xp.where(above, low, mu), xp.where(above, mu, high)
    return xp.clip(p + (0.5 * (low + high))[:, None], lower, upper)
