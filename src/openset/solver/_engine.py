"""The engine: many problems over one training set, at many widths of the kernel.

Nothing is computed twice. All widths share the distances, all problems of a width the kernel
matrix. Problems that differ only in the sum of the multipliers (all lambdas of a class at one C,
all nu of a one-class problem) form a path, see ``_path``; its first two members start from the
solutions of the same two at the previous width. Widths descend from the largest, where the kernel
matrix is nearly the identity and the solution nearly known. Batches that follow each other, as
those of one split at growing C do, form a chain: a multiple of one solution starts the next.

Where a kernel matrix is in memory, threads solve in compiled code, see ``_sweep``. Where rows are
made on demand, a thread solves one problem after the other. A GPU has its own code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ._path import solve_path
from ._problem import Batch, Problem
from ._row_cache import kernel_rows, rows_of_parts
from ._solve import lower_bias, refined_path
from ._sweep import Sweep
from ._tuning import tuning
from .cuda import on_gpu

_NOTHING = np.empty(0, dtype=np.intp)


class Settings(NamedTuple):
    """Limits and resources of :func:`solve_batches`.

    Attributes
    ----------
    tol, max_iter, cache_size, n_jobs
        As for :class:`openset.OpenSetSVC`.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to solve; "auto" is the GPU if there is one. Problems without an equality are solved
        on the CPU.
    """

    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"


DEFAULTS = Settings()


class Scores(NamedTuple):
    """Decision values of the scored samples under the problems of one batch.

    Attributes
    ----------
    batch : int
        The batch.
    widths : list of int
        Indices of W gammas.
    scores : ndarray of shape (P, W, T, q)
        Decision values.
    bias : ndarray of shape (W, P, T)
        Biases.
    """

    batch: int
    widths: list[int]
    scores: np.ndarray
    bias: np.ndarray


class LazyBatches(Sequence[Batch]):
    """Batches that are described when they are needed: every time, or once if they are small.

    Parameters
    ----------
    describe : callable
        ``describe(*arguments[j])`` is batch j.
    arguments : sequence of tuple
        Hashable arguments.
    n_numbers : int
        Problems times samples, in all batches.
    """

    def __init__(self, describe: Callable[..., Batch], arguments: Sequence[tuple], n_numbers: int):
        small = n_numbers <= tuning().kept_problems
        self._describe = lru_cache(None if small else 4)(describe)
        self._arguments, self._lock = arguments, threading.Lock()

    def __len__(self) -> int:
        return len(self._arguments)

    def __getitem__(self, j):
        with self._lock:
            return self._describe(*self._arguments[j])


def solve_batches(
    X: Any,
    kernel: Kernel | Linear,
    gammas: Sequence[float] | np.ndarray,
    batches: Sequence[Batch],
    settings: Settings = DEFAULTS,
    *,
    keep: str = "machines",
    refine: bool = False,
    largest_bias: float | None = None,
) -> Iterator[list]:
    """Solve all problems of all batches at every gamma.

    Besides the kernel matrix, memory holds two vectors per problem, however many gammas and totals
    there are, and the results of a list.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d), float64
        The training set.
    kernel : Kernel or Linear
        The kernel.
    gammas : sequence of float
        Widths of the kernel.
    batches : sequence of Batch
        The problems; a sequence may describe a batch when it is asked for it.
    settings : Settings, optional
        Limits and resources.
    keep : {"machines", "scores"}, default="machines"
        What is wanted: solutions, or only the decision values of the scored samples.
    refine : bool, default=False
        Continue from the solution of a problem with one total until its KKT gap holds in float64.
    largest_bias : float, default=None
        Where the bias of a solution exceeds this, and there are negatives, find also the one with
        the smallest total whose bias is this, see :class:`Solved`.

    Yields
    ------
    list of Solved or of Scores
        Results that are in memory together. For each problem, gammas come in descending order of
        their values.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver import Batch, solve_batches, svm_problem
    >>> X, signs = np.array([[0.0], [1.0], [3.0]]), np.array([[1.0, 1.0, -1.0]])
    >>> problem = svm_problem(signs, np.ones(3), 0.0)
    >>> batch = Batch(problem.p, problem.lower, problem.upper, totals=np.array([[0.0, 0.5]]))
    >>> ((solved,),) = solve_batches(X, RBF(), [1.0], [batch])
    >>> solved.bias.round(2)
    array([ 0.33, -0.02])
    """
    alone = keep == "machines" and len(batches) > 0
    alone = alone and all(b.rows is not None and b.scored is None for b in batches)
    options: dict[str, Any] = {"keep": keep, "refine": refine, "largest_bias": largest_bias}
    if not alone:
        yield from BatchSolver(X, kernel, gammas, batches, settings, **options).solve()
        return
    # Nothing is wanted outside of their samples: training sets of their own.
    options["stop"] = stop = threading.Event()
    solve = partial(_alone, X, kernel, gammas, batches, settings, options)
    try:
        yield from thread_map(solve, range(len(batches)), settings.n_jobs, stop)
    except BaseException:  # also if the caller leaves
        stop.set()
        raise


def _alone(X, kernel, gammas, batches, settings, options, j):
    """Solve batch j over its samples alone, in one thread."""
    batch, serial = batches[j], settings._replace(n_jobs=None)
    data = X[batch.rows], kernel, gammas, [batch._replace(rows=None, follows=False)], serial
    results = BatchSolver(*data, **options).solve()
    return [replace(solved, batch=j) for some in results for solved in some]


class _Plan:
    """Batches, and what is to be known about each of them before it is solved."""

    # `parts` are the samples that take part in batches, `part_of` the part of each batch, -1 for
    # all samples; `sizes` are numbers of problems and of totals. Batches of one kind are solved
    # together.

    def __init__(self, batches, only_scores):
        self.batches, self.only_scores = batches, only_scores
        self.parts, self.part_of, self.sizes, self.kinds, self.scored = [], [], [], [], []
        self.follows = []
        place: dict[int, int] = {}
        for batch in batches:
            if batch.rows is not None and id(batch.rows) not in place:
                place[id(batch.rows)] = len(self.parts)
                self.parts.append(batch.rows)
            if batch.totals is not None and not np.isfinite(batch.totals).all():
                raise ValueError(f"totals must be finite numbers, got {batch.totals.tolist()}.")
            n_totals = 1 if batch.totals is None else batch.totals.shape[1]
            self.part_of.append(-1 if batch.rows is None else place[id(batch.rows)])
            self.sizes.append((len(batch.p), n_totals))
            self.kinds.append((batch.totals is not None, n_totals))
            self.scored.append(_NOTHING if batch.scored is None else batch.scored)
            self.follows.append(batch.follows)
            same = [x[-1] == x[-2] for x in (self.sizes, self.part_of) if len(x) > 1]
            if batch.follows and not (same and all(same)):
                raise ValueError(
                    f"batch {len(self.sizes) - 1} has follows=True, but no batch before it has as "
                    "many problems and totals over the same rows. Set follows=False."
                )
        self.in_parts = bool(self.parts) and -1 not in self.part_of

    def members(self, share):
        """(batch, problem) of all problems of a share."""
        return [(j, i) for j in share.batches for i in range(self.sizes[j][0])]

    def to_solve(self, wanted, in_chains):
        """What is wanted and what that starts from; widths in their order, (batches, widths)."""
        # A path starts from itself at the previous width, in a chain only the first one.
        first = ~np.array(self.follows) if in_chains else np.ones(len(wanted), dtype=bool)
        for j in reversed(np.flatnonzero(~first)):
            wanted[j - 1] |= wanted[j]
        wanted[first] = np.logical_or.accumulate(wanted[first, ::-1], axis=1)[:, ::-1]
        return wanted

    def gathered(self, solved):
        """Lists of results from an iterable of Solved in the order of `members`."""
        if not self.only_scores:
            yield from ([path] for path in solved)
            return
        paths = []
        for path in solved:
            paths.append(path)
            if len(paths) == self.sizes[path.batch][0]:
                scores = np.stack([path.scored for path in paths])[:, None]
                bias = np.stack([path.bias for path in paths])[None]
                paths = []
                yield [Scores(path.batch, [path.width], scores, bias)]


class _Share(NamedTuple):
    """Batches that share kernel rows."""

    # `part` are the samples that take part in them and `outside` the others, None for all samples.

    batches: list[int]
    rows: Any
    part: np.ndarray | None = None
    outside: np.ndarray | None = None

    @property
    def has_columns(self):
        """Whether decision values of all samples come with a solution."""
        return self.outside is None or self.rows.has_outside

    def columns(self, scored):
        """The columns of the kernel matrix that belong to some samples."""
        if self.outside is None:
            return scored
        return len(self.part) + np.searchsorted(self.outside, scored)

    def spread(self, batch, m):
        """A batch over the samples of the rows, of which there are m if all take part."""
        if self.part is not None or batch.rows is None:
            return batch
        arrays = [np.zeros((len(batch.p), m)) for _ in range(3)]
        for wide, narrow in zip(arrays, batch[:3], strict=True):
            wide[:, batch.rows] = narrow
        return Batch(*arrays, *batch[3:])

    def problem(self, batch, i, m):
        """Problem i of a batch over the samples of the rows, and its totals."""
        arrays = (values[i : i + 1] for values in batch[:3])
        batch = self.spread(Batch(*arrays, *batch[3:]), m)
        totals = np.zeros(1) if batch.totals is None else batch.totals[i]
        total = None if batch.totals is None else float(totals[0])
        return Problem(batch.p[0], batch.lower[0], batch.upper[0], total), totals


class BatchSolver:
    """:func:`solve_batches` in several calls, for some of the results each.

    Kernel matrices are kept from one call to the next where all are in memory together. A result
    does not depend on what else is wanted.

    Parameters
    ----------
    X, kernel, gammas, batches, settings, keep, refine, largest_bias
        As for :func:`solve_batches`.
    stop : threading.Event, optional
        Solving ends soon after it is set.
    """

    def __init__(
        self,
        X: Any,
        kernel: Kernel | Linear,
        gammas: Sequence[float] | np.ndarray,
        batches: Sequence[Batch],
        settings: Settings = DEFAULTS,
        *,
        keep: str = "machines",
        refine: bool = False,
        largest_bias: float | None = None,
        stop: threading.Event | None = None,
    ):
        self.X, self.kernel, self.gammas = X, kernel, np.asarray(gammas, dtype=np.float64)
        self.order = np.argsort(-self.gammas, kind="stable")
        self.plan, self.settings = _Plan(batches, keep == "scores"), settings
        self.refine, self.largest_bias = refine, largest_bias
        self.stop = threading.Event() if stop is None else stop
        self.limits = {"tol": settings.tol, "max_iter": settings.max_iter, "stop": self.stop}
        self._gpu = on_gpu(settings.device) and all(equality for equality, _ in self.plan.kinds)
        self._kept: list[_Share] | None = None

    def solve(self, wanted: np.ndarray | None = None) -> Iterator[list]:
        """Solve the problems of the batches at those gammas that are wanted.

        Parameters
        ----------
        wanted : bool ndarray of shape (batches, gammas), default=None
            None for all.

        Yields
        ------
        list of Solved or of Scores
            As from :func:`solve_batches`.
        """
        shape = len(self.plan.batches), len(self.gammas)
        wanted = np.ones(shape, dtype=bool) if wanted is None else wanted
        if not wanted.any():
            return
        try:
            yield from self._results(wanted)
        except BaseException:  # also if the caller leaves
            self.stop.set()
            raise

    def _results(self, wanted):
        if self._gpu:
            yield from self.plan.gathered(self._on_gpu(wanted))
            return
        for shares in self._shares(wanted.any(axis=1)):
            if shares[0].rows.whole:
                yield from self._swept(shares, wanted)
            else:
                yield from self.plan.gathered(self._on_demand(*shares, wanted))

    def _map(self, function, items):
        return thread_map(function, items, self.settings.n_jobs, self.stop)

    def _shares(self, included):
        """Yield lists of shares whose rows are in memory together; `included` are bools."""
        if self._kept is not None:
            yield self._kept
            return
        plan, matrices = self.plan, None
        n_solutions = sum(n * n_totals for n, n_totals in plan.sizes)
        memory = self.settings.cache_size, n_solutions, self.settings.n_jobs
        data = self.X, self.kernel, self.gammas[self.order]
        if plan.in_parts:
            needed = np.bincount(plan.part_of, included, len(plan.parts)) > 0
            matrices = rows_of_parts(*data, plan.parts, *memory, needed)
        if matrices is None:
            self._kept = [_Share(list(range(len(plan.batches))), kernel_rows(*data, *memory))]
            yield self._kept
            return
        for together in matrices:
            shares = [self._share_of(s, rows) for s, rows in together.items()]
            if len(shares) == len(plan.parts):
                self._kept = shares
            yield shares

    def _share_of(self, s, rows=None):
        part = self.plan.parts[s]
        batches = [j for j, own in enumerate(self.plan.part_of) if own == s]
        return _Share(batches, rows, part, np.delete(np.arange(self.X.shape[0]), part))

    def _swept(self, shares, wanted):
        """Solve over kernel matrices in memory, as many widths at a time as there is room for."""
        step = len(shares[0].rows.widths)
        to_solve = self.plan.to_solve(wanted[:, self.order], in_chains=True)
        rounds = list(self._rounds(shares, to_solve.any(axis=1)))
        for first in range(0, len(self.order), step):
            block = self.order[first : first + step]
            for share in shares:
                share.rows.use(*self.gammas[block])
            for members, at_once in rounds:
                for w in range(0, len(block), len(block) if at_once else 1):
                    widths = range(w, len(block) if at_once else w + 1)
                    own = wanted[:, block[widths]], to_solve[:, first:][:, widths]
                    yield from self._round(members, widths, block, *own)
                    for _, sweep, _ in members:
                        sweep.end(first + widths.stop == len(self.order))

    def _rounds(self, shares, included):
        """Yield what is solved together: (share, Sweep, batches), and whether at all widths."""
        # That is as many chains as there is room for what is kept of them: solutions, or scores.
        plan, n_widths, members, used = self.plan, len(shares[0].rows.widths), [], 0
        for share in shares:
            n, n_columns = share.rows.store.rows.shape
            keep = not (plan.only_scores and share.has_columns)
            limit = tuning().kept_solutions if keep else tuning().swept_numbers
            kind = None
            for j in (j for j in share.batches if included[j]):
                n_problems, n_totals = plan.sizes[j]
                size = n_problems * n_totals * (n if keep else len(plan.scored[j]))
                if members and used + size > limit and not plan.follows[j]:
                    yield members, n_widths * used <= limit
                    members, used, kind = [], 0, None
                if plan.kinds[j] != kind:
                    kind = plan.kinds[j]
                    members.append((share, Sweep(share.rows, n_columns - n, keep), []))
                members[-1][2].append(j)
                used += size
        if members:
            yield members, n_widths * used <= limit

    def _round(self, members, widths, block, wanted, to_solve):
        """Solve some batches at some widths of a block, and yield lists of results."""
        plan, settings = self.plan, self.settings
        for share, sweep, batches in members:
            scored = [share.columns(plan.scored[j]) for j in batches]
            scored = scored if share.has_columns else [_NOTHING] * len(scored)
            spread = [share.spread(plan.batches[j], self.X.shape[0]) for j in batches]
            own = list(zip(batches, spread, scored, strict=True))
            sweep.begin(widths, own, wanted[batches], to_solve[batches])
        sweeps = [sweep for _, sweep, _ in members]
        for _ in self._map(partial(self._enter, sweeps), range(effective_n_jobs(settings.n_jobs))):
            pass
        for sweep in sweeps:
            sweep.check(settings.tol)
        scores, paths = [], []
        for share, sweep, _ in members:
            if sweep.keep:
                rows = share.rows.widths
                paths += [(path, share, rows[path.width]) for path in sweep.solved(settings.tol)]
            else:
                scores += [
                    Scores(j, block[own].tolist(), *arrays) for j, own, *arrays in sweep.scores()
                ]
        if scores:
            yield scores
        solved = [
            replace(path, width=int(block[path.width])) for path in self._map(self._finished, paths)
        ]
        yield from plan.gathered(solved) if plan.only_scores else [solved] if solved else []

    def _enter(self, sweeps, _):
        for sweep in sweeps:
            sweep.run(self.settings.tol, self.settings.max_iter, self.stop)

    def _on_demand(self, share, wanted):
        """Solve one problem after the other over rows that are made on demand."""
        heads: dict[tuple[int, int], list[np.ndarray]] = {}
        to_solve = self.plan.to_solve(wanted[:, self.order], in_chains=False)
        for n, g in enumerate(self.order.tolist()):
            share.rows.use(self.gammas[g])
            tasks = [(j, i) for j, i in self.plan.members(share) if to_solve[j, n]]
            solve = partial(self._solve, share, g, heads, wanted[:, g])
            yield from filter(None, self._map(solve, tasks))

    def _solve(self, share, g, heads, wanted, task):
        j, i = task
        problem, totals = share.problem(self.plan.batches[j], i, self.X.shape[0])
        path = solve_path(problem, totals, share.rows, starts=heads.get(task), **self.limits)
        if len(self.gammas) > 1:
            heads[task] = list(path.beta[:2].copy())
        if not wanted[j]:
            return None
        return self._finished((replace(path, batch=j, index=i, width=g), share, share.rows))

    def _on_gpu(self, wanted):
        from .cuda.grid import LazyRows, solve_grid_cuda

        plan, shares = self.plan, [_Share(list(range(len(self.plan.batches))), None)]
        if plan.in_parts and 2 * max(map(len, plan.parts)) <= self.X.shape[0]:
            shares = [self._share_of(s) for s in range(len(plan.parts))]
        for share in shares:
            points, X = self.X, self.X
            if share.part is not None:
                points, X = X[np.concatenate([share.part, share.outside])], X[share.part]
            members = [(j, i) for j, i in plan.members(share) if wanted[j].any()]
            m = self.X.shape[0]
            problems = [share.problem(plan.batches[j], i, m) for j, i in members]
            rows = LazyRows(X, self.kernel, self.settings.cache_size, self.settings.n_jobs)
            n_outside = points.shape[0] - X.shape[0]
            for g, found in solve_grid_cuda(
                points, self.kernel, self.gammas, problems, n_outside, self.limits
            ):
                rows.use(self.gammas[g])
                tasks = []
                for k, path, sums in found:
                    j, i = members[k]
                    if not wanted[j, g]:
                        continue
                    path = replace(path, batch=j, index=i, width=g)
                    tasks.append((path, share, rows, sums))
                yield from self._map(self._finished, tasks)

    def _finished(self, task):
        """A path with the scores that are wanted, refined, and with its bias held."""
        path, share, rows, *sums = task
        scored = self.plan.scored[path.batch]
        if len(scored) and path.scored is None:
            if share.outside is None:
                path = replace(path, scored=path.scores[:, scored])
            else:
                if not sums:
                    sums = [np.empty((len(path.totals), len(share.outside)))]
                    rows.sums_outside(path.beta, sums[0])
                at = np.searchsorted(share.outside, scored)
                path = replace(path, scored=sums[0][:, at] + path.bias[:, None])
        if self.refine and len(path.totals) == 1:
            path = refined_path(path, rows, **self.limits)
        above = [] if self.largest_bias is None else np.flatnonzero(path.bias > self.largest_bias)
        if len(above) and path.problem.lower.any():
            solution, limits = path[above[-1]], {"refine": self.refine, **self.limits}
            held = lower_bias(path.problem, solution, rows, self.largest_bias, **limits)
            path = replace(path, held=held)
        return path
