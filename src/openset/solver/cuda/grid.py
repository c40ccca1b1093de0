"""Problems on a GPU, with the answers of ``_engine``.

All totals of all paths are solved at once, one thread block each, so nothing is predicted along a
path; each problem starts from its own solution at the previous width. The kernel matrix of a width
stays on the GPU. While one width is solved, the host reads the results of the previous one.
Array work is written for CuPy and also runs on NumPy; that is how it is tested where there is no
GPU (``NUMBA_ENABLE_CUDASIM=1``).
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
from numba import cuda

from .._problem import Solved, feasible_start, near_identity
from .._row_cache import kernel_rows
from .._solve import Interrupted, biases_of, iteration_limit, solution_of, warn_not_converged
from .._tuning import tuning
from . import array_module, free_memory, to_host
from .points import kernel_matrix
from .smo import Matrix, Problems, launch

# Share of the free memory for products of the active rows of landmark machines.
_PRODUCTS = 0.3
# Features gathered at a time, and the ratio of active rows in problems that are solved together.
_GATHERED, _ALIKE = 2**27, 2.0


class LazyRows:
    """Kernel rows on the CPU for what follows a solution, created on first use."""

    def __init__(self, X, kernel, cache_size, n_jobs):
        self._arguments = X, kernel, cache_size, n_jobs
        self.gamma = self._rows = None
        self._lock = threading.Lock()  # several threads may be first

    def use(self, gamma: float) -> None:
        """Change to another width."""
        self.gamma, self._rows = gamma, None

    def __getattr__(self, name):
        with self._lock:
            if self._rows is None:
                X, kernel, cache_size, n_jobs = self._arguments
                self._rows = kernel_rows(X, kernel, self.gamma, cache_size, 1, n_jobs)
        return getattr(self._rows, name)


def solve_grid_cuda(X, kernel, gammas, problems, n_outside, limits):
    """Yield the index of a gamma, and a list of (problem, Solved, K beta at further samples)."""
    # The last `n_outside` samples take part in no problem; `problems` are pairs with totals.
    xp, tol, stop = array_module(), limits["tol"], limits["stop"]
    order = np.argsort(-gammas, kind="stable")
    free = free_memory(xp)
    m = len(problems[0][0].p)
    matrix = kernel_matrix(xp, X, kernel, gammas[order], tuning().cuda_matrix * free, m)
    longest = max(len(totals) for _, totals in problems)
    # Four arrays of float64 per problem: multipliers, v, boxes.
    per_batch = max(1, int(tuning().cuda_state * free / (32.0 * X.shape[0] * longest)))
    firsts = range(0, len(problems), per_batch)
    batches = [Batch(xp, first, problems[first : first + per_batch]) for first in firsts]
    matrix.use(gammas[order[0]])
    near, ready = near_identity(matrix.sample()), None
    for batch in batches:
        batch.begin(near)
    for n, g in enumerate(order.tolist()):
        if n > 0:
            matrix.use(gammas[g])
        for batch in batches:
            batch.refresh(matrix)
            left = iteration_limit(limits["max_iter"])
            left -= matrix.launch(batch, tol, left)
            # The GPU works meanwhile.
            if ready is not None:
                yield ready[0], _solved(*ready[1:], problems, tol)
            _iterate(matrix.launch, batch, tol, left, stop)
            found = [batch.betas, batch.vs, batch.n_iter]
            if n_outside:
                found.append(matrix.product(batch.betas, outside=True))
            ready = g, batch.first, [_pinned_copy(xp, array) for array in found]
    yield ready[0], _solved(*ready[1:], problems, tol)


def _iterate(launch_on, batch, tol, left, stop=None):
    """Run SMO on a batch until all gaps are closed or no iterations are left."""
    while left > 0 and batch.gap() > tol:
        if stop is not None and stop.is_set():
            raise Interrupted
        left -= launch_on(batch, tol, left)


def _solved(first, arrays, problems, tol):
    """The results of a batch that was copied to the host."""
    betas, vs, n_iter, *sums = arrays
    results, end = [], 0
    for k in range(first, len(problems)):
        if end == len(betas):
            break
        problem, totals = problems[k]
        start, end = end, end + len(totals)
        own = slice(start, end)
        summary = biases_of(problem, betas[own], vs[own])
        path = Solved(problem, totals, betas[own], vs[own], *summary, n_iter[own], tol)
        for t in np.flatnonzero(path.kkt_gap > tol):
            warn_not_converged(path.n_iter[t], path.kkt_gap[t], tol)
        results.append((k, path, sums[0][own] if sums else None))
    return results


class BatchArrays:
    """Problems that are solved together, from where they are."""

    # `lower` and `upper` are boxes, (n_paths, m), and `path` says which of these each problem has,
    # (n,); `betas` and `vs` are the multipliers and p - K beta, (n, m); `n_iter` (n,) counts
    # iterations, `ends` (n, 2) is the bias interval when it was last computed.

    def __init__(self, xp, lower, upper, path, betas, vs):
        self.xp, self.lower, self.upper, self.path = xp, lower, upper, path
        self.betas, self.vs = betas, vs
        self.ends = xp.empty((len(vs), 2))
        self.n_iter = xp.empty(len(vs), dtype=np.int64)
        self.restart()
        self._arrays = None

    def restart(self):
        """Reset the counters."""
        self.n_iter[...] = 0
        self.ends[:, 0], self.ends[:, 1] = np.inf, -np.inf

    def view(self, array):
        """An array as Numba takes it."""
        return array if self.xp is np else cuda.as_cuda_array(array)

    def arrays(self) -> Problems:
        """The arrays as Numba takes them; converting costs as much as a small kernel, so once."""
        if self._arrays is None:
            self._arrays = Problems(*(self.view(getattr(self, f)) for f in Problems._fields))
        return self._arrays

    def part(self, problem, index):
        """The rows `index` of each problem as a batch, for problems restricted to them."""
        boxes = self.path[problem]
        return BatchArrays(
            self.xp,
            self.lower[boxes, index],
            self.upper[boxes, index],
            self.xp.arange(len(index), dtype=np.int32),
            self.betas[problem, index],
            self.vs[problem, index],
        )

    def measure(self):
        """Update `ends`, where the kernel has not done it."""
        xp = self.xp
        can_grow = self.betas < self.upper[self.path]
        can_shrink = self.betas > self.lower[self.path]
        self.ends[:, 0] = xp.where(can_grow, self.vs, -np.inf).max(axis=1)
        self.ends[:, 1] = xp.where(can_shrink, self.vs, np.inf).min(axis=1)

    def gap(self) -> float:
        """The largest gap; waits for the GPU."""
        ends = to_host(self.ends)
        return float((ends[:, 0] - ends[:, 1]).max())


class Batch(BatchArrays):
    """All totals of some paths, the first of which has the index `first`."""

    def __init__(self, xp, first, problems):
        self.first, self._problems = first, problems
        lower, upper, self._p = (
            xp.asarray(np.stack([getattr(problem, name) for problem, _ in problems]))
            for name in ("lower", "upper", "p")
        )
        counts = [len(totals) for _, totals in problems]
        path = xp.asarray(np.repeat(np.arange(len(problems), dtype=np.int32), counts))
        betas, vs = xp.empty((2, len(path), lower.shape[1]))
        super().__init__(xp, lower, upper, path, betas, vs)

    def begin(self, near):
        """Feasible multipliers; near the identity, those of the identity."""
        xp, path = self.xp, self.path
        if near:
            totals = xp.asarray(np.concatenate([totals for _, totals in self._problems]))
            data = self._p[path], self.lower[path], self.upper[path]
            self.betas[...] = _identity_solutions(xp, *data, totals)
        else:
            sums = (replace(problem, total=t[:, None]) for problem, t in self._problems)
            self.betas[...] = xp.asarray(np.concatenate([feasible_start(p) for p in sums]))
        self._zero = not bool(self.betas.any())

    def refresh(self, matrix):
        """Compute v for the matrix as it is now, and reset the counters."""
        self.vs[...] = self._p[self.path]
        if not self._zero:
            self.vs -= matrix.product(self.betas)
        self._zero = False
        self.restart()


def _pinned_copy(xp, array):
    if xp is np:
        return array.copy()
    import cupyx

    # Copying into page-locked memory is several times faster.
    out = cupyx.empty_pinned(array.shape, array.dtype)
    return array.get(out=out)


def _identity_solutions(xp, p, lower, upper, totals):
    """``identity_start`` for all problems at once; the sums are right to rounding."""
    low, high = (lower - p).min(axis=1), (upper - p).max(axis=1)
    for _ in range(48):
        mu = 0.5 * (low + high)
        above = xp.clip(p + mu[:, None], lower, upper).sum(axis=1) > totals
        low, high = xp.where(above, low, mu), xp.where(above, mu, high)
    return xp.clip(p + (0.5 * (low + high))[:, None], lower, upper)


def solve_together(psi, places, problems, starts, tol, max_iter):
    """Solve problems over the linear kernel of features, many at a time."""
    # `psi` (n, r) are features on the GPU, `places` the rows of these that belong to each problem,
    # `starts` feasible multipliers or None. Returns a Solution per problem, with the weighted sum
    # of its features, shape (r,), float64.
    xp = array_module()
    found: list = [None] * len(problems)
    for group in _alike(np.array([len(place) for place in places]), _PRODUCTS * free_memory(xp)):
        members = [(places[k], problems[k], starts[k]) for k in group]
        place, vs, lower, upper, betas = map(xp.asarray, _padded(members))
        n = place.shape[1]
        values = xp.empty((len(group), n, n), dtype=np.float32)
        step = max(1, _GATHERED // (n * psi.shape[1]))
        parts = [slice(k, k + step) for k in range(0, len(group), step)]
        for part in parts:
            some = psi[place[part]]
            values[part] = some @ some.transpose(0, 2, 1)
            vs[part] -= (values[part].astype(np.float64) @ betas[part, :, None])[:, :, 0]
        batch = BatchArrays(xp, lower, upper, xp.arange(len(vs), dtype=np.int32), betas, vs)
        diagonal = xp.diagonal(values, axis1=1, axis2=2).reshape(-1).copy()
        matrix = Matrix(values.reshape(-1, n), n, diagonal)
        _iterate(partial(launch, matrix), batch, tol, max_iter)
        del values, matrix
        sums = [
            (betas[part, None, :] @ psi[place[part]].astype(np.float64))[:, 0, :] for part in parts
        ]
        betas, vs, n_iter, ends, sums = map(
            to_host, (batch.betas, batch.vs, batch.n_iter, batch.ends, xp.concatenate(sums))
        )
        for i, k in enumerate(group):
            rows = slice(len(places[k]))
            arrays = betas[i, rows].copy(), vs[i, rows].copy()
            found[k] = solution_of(problems[k], *arrays, *ends[i], n_iter[i], tol), sums[i]
    return found


def _padded(members):
    """Places (P, n), p, lower, upper and multipliers of problems, padded to the longest."""
    # The padding are copies of the slack in empty boxes.
    shape = len(members), max(len(place) for place, _, _ in members)
    places, arrays = np.zeros(shape, dtype=np.intp), np.zeros((4, *shape))
    for i, (place, problem, start) in enumerate(members):
        start = feasible_start(problem) if start is None else start
        places[i, : len(place)] = place
        arrays[:, i, : len(place)] = problem.p, problem.lower, problem.upper, start
    return places, *arrays


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
