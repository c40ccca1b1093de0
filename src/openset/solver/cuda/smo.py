"""SMO as CUDA kernels: one thread block per problem, whose threads reduce by shuffles.

The iteration is that of ``_smo``; the state is float64, the kernel rows are float32. Up to a few
thousand rows, the state of a problem is held in the registers of its block, every n-th row by each
thread; beyond that, in global memory.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import cuda

from .._state import ROUNDING, TINY
from .._tuning import tuning
from . import SIMULATED

# numba-cuda 0.30 compiles only where NumPy has a name that NumPy 2.5 removed.
vars(np).setdefault("row_stack", np.vstack)

_INF = math.inf
_WARP, _ALL = 32, 0xFFFFFFFF

GROW, SHRINK = 1, 2


class Matrix(NamedTuple):
    """Kernel values on the GPU."""

    values: Any  # (n, m) float32
    stride: int  # Row at which the matrix of problem b begins, divided by b; 0 if all share one.
    diagonal: Any  # (n,) float32: k(x, x) of each row.


class Problems(NamedTuple):
    """The arrays of a ``cuda.grid.Batch``, where they are described."""

    lower: Any
    upper: Any
    path: Any
    betas: Any
    vs: Any
    n_iter: Any
    ends: Any


@cuda.jit(device=True, inline=True)
def _curvature(k_ii, k_tt, k_it):
    """The curvature of a pair, as in ``_smo``."""
    both = k_ii + k_tt
    return max(both - numba.float32(2.0) * k_it, max(ROUNDING * both, TINY))


@cuda.jit(device=True, inline=True)
def _better(a, i, b, j):
    """Whether (b, j) comes before (a, i): the larger value, then the smaller index."""
    return b > a or (b == a and j < i)


def _with_shuffles():
    """The two reductions for a GPU."""

    @cuda.jit(device=True, inline=True)
    def warp_argmax(value, index):
        """Largest value of the warp and its index, returned to every thread of it."""
        offset = _WARP // 2
        while offset > 0:
            other = cuda.shfl_xor_sync(_ALL, value, offset)
            other_index = cuda.shfl_xor_sync(_ALL, index, offset)
            if _better(value, index, other, other_index):
                value = other
                index = other_index
            offset //= 2
        return value, index

    @cuda.jit(device=True, inline=True)
    def warp_ends(top, index, low):
        """Largest top of the warp with its index, and largest low."""
        offset = _WARP // 2
        while offset > 0:
            other = cuda.shfl_xor_sync(_ALL, top, offset)
            other_index = cuda.shfl_xor_sync(_ALL, index, offset)
            low = max(low, cuda.shfl_xor_sync(_ALL, low, offset))
            if _better(top, index, other, other_index):
                top = other
                index = other_index
            offset //= 2
        return top, index, low

    # Every warp reduces the results of all warps, which saves a second barrier.

    @cuda.jit(device=True, inline=True)
    def argmax(value, index, values, indices):
        """Largest value of the block and its index, returned to every thread."""
        lane = cuda.threadIdx.x % _WARP
        warp = cuda.threadIdx.x // _WARP
        value, index = warp_argmax(value, index)
        if lane == 0:
            values[warp] = value
            indices[warp] = index
        cuda.syncthreads()
        source = lane if lane < cuda.blockDim.x // _WARP else 0
        return warp_argmax(values[source], indices[source])

    @cuda.jit(device=True, inline=True)
    def ends(top, index, low, tops, indices, lows):
        """Largest top with its index, and largest low, with one barrier for both."""
        lane = cuda.threadIdx.x % _WARP
        warp = cuda.threadIdx.x // _WARP
        top, index, low = warp_ends(top, index, low)
        if lane == 0:
            tops[warp] = top
            indices[warp] = index
            lows[warp] = low
        cuda.syncthreads()
        source = lane if lane < cuda.blockDim.x // _WARP else 0
        return warp_ends(tops[source], indices[source], lows[source])

    return argmax, ends


def _without_shuffles():
    """The two reductions for the simulator, which has no shuffles."""

    @cuda.jit(device=True)
    def argmax(value, index, values, indices):
        t = cuda.threadIdx.x
        values[t] = value
        indices[t] = index
        cuda.syncthreads()
        best, best_index = values[0], indices[0]
        for k in range(1, cuda.blockDim.x):
            if _better(best, best_index, values[k], indices[k]):
                best, best_index = values[k], indices[k]
        return best, best_index

    @cuda.jit(device=True)
    def ends(top, index, low, tops, indices, lows):
        lows[cuda.threadIdx.x] = low
        top, index = argmax(top, index, tops, indices)
        for k in range(cuda.blockDim.x):
            low = max(low, lows[k])
        return top, index, low

    return argmax, ends


def launch(matrix: Matrix, batch, tol, max_iter):
    """Start at most `max_iter` iterations on every problem of a batch; return the limit used."""
    m, per_thread = batch.vs.shape[1], tuning().cuda_rows_per_thread
    max_iter = min(max_iter, max(64, int(tuning().cuda_launch / m)))
    threads, in_registers = block_of(m, per_thread)
    flags = batch.xp.empty((1, 1) if in_registers else batch.vs.shape, dtype=np.int8)
    matrix = Matrix(batch.view(matrix.values), matrix.stride, batch.view(matrix.diagonal))
    kernel = smo_kernel(per_thread if in_registers else 0)
    kernel[len(batch.path), threads](matrix, batch.arrays(), batch.view(flags), tol, max_iter)
    return max_iter


def block_of(m, per_thread):
    """Threads of a block, and whether their registers hold a problem of m rows."""
    # More threads than 512 would need more registers than a multiprocessor has.
    if SIMULATED:
        return 8, m <= 8 * per_thread
    for threads in (64, 128, 256, 512):
        if m <= threads * per_thread:
            return threads, True
    return 1024, False


@cache
def smo_kernel(rows_per_thread: int):
    """The kernel that holds so many rows per thread in registers; 0 for global memory."""
    # Its arguments are a `Matrix`, `Problems`, `flags` (memory for one int8 per row and problem,
    # not used with registers), `tol` and `max_iter`.
    argmax, ends_of = _without_shuffles() if SIMULATED else _with_shuffles()
    scratch = 1024 if SIMULATED else _WARP
    # 512 threads of 128 registers fill a multiprocessor.
    registers = 128 if rows_per_thread else 64
    limits = {} if SIMULATED else {"max_registers": registers, "fastmath": True}
    if not rows_per_thread:
        return _global_kernel(argmax, ends_of, scratch, limits)
    per_thread = rows_per_thread

    @cuda.jit(**limits)
    def kernel(matrix, problems, flags, tol, max_iter):
        K, stride_of_K, diagonal = matrix
        lower, upper, path, betas, vs, n_iter, ends = problems
        tops = cuda.shared.array(scratch, numba.float64)
        bottoms = cuda.shared.array(scratch, numba.float64)
        gains = cuda.shared.array(scratch, numba.float32)
        index_1 = cuda.shared.array(scratch, numba.int32)
        index_2 = cuda.shared.array(scratch, numba.int32)
        shared = cuda.shared.array(2, numba.float64)  # room of i, step
        b = cuda.blockIdx.x
        if ends[b, 0] - ends[b, 1] <= tol:
            return
        tid = cuda.threadIdx.x
        stride = cuda.blockDim.x
        m = vs.shape[1]
        own = path[b]
        first = b * stride_of_K

        v = cuda.local.array(per_thread, numba.float64)
        beta = cuda.local.array(per_thread, numba.float64)
        k_i = cuda.local.array(per_thread, numba.float32)
        k_j = cuda.local.array(per_thread, numba.float32)
        state = cuda.local.array(per_thread, numba.int32)
        for r in range(per_thread):
            t = tid + r * stride
            k_i[r] = 0.0
            k_j[r] = 0.0
            v[r] = 0.0
            beta[r] = 0.0
            state[r] = 0
            if t < m:
                v[r] = vs[b, t]
                beta[r] = betas[b, t]
                state[r] = (GROW if beta[r] < upper[own, t] else 0) | (
                    SHRINK if beta[r] > lower[own, t] else 0
                )
        step = 0.0
        done = 0
        while True:
            top = -_INF
            i = 0x7FFFFFFF
            bottom = -_INF  # of -v, so that both are maxima
            for r in range(per_thread):
                # In float64, where it is exact, as in ``_smo``: v does not drift.
                v[r] -= step * (numba.float64(k_i[r]) - numba.float64(k_j[r]))
                if state[r] & GROW and v[r] > top:
                    top = v[r]
                    i = tid + r * stride
                if state[r] & SHRINK and -v[r] > bottom:
                    bottom = -v[r]
            top, i, bottom = ends_of(top, numba.int32(i), bottom, tops, index_1, bottoms)
            if top + bottom <= tol or done >= max_iter:
                break
            best = numba.float32(-1.0)
            j = 0x7FFFFFFF
            k_ii = diagonal[first + i]
            for r in range(per_thread):
                t = tid + r * stride
                if t < m:
                    k_i[r] = K[first + i, t]
                    if state[r] & SHRINK and v[r] < top:
                        g = numba.float32(top - v[r])
                        gain = g * g / _curvature(k_ii, diagonal[first + t], k_i[r])
                        if gain > best:
                            best = gain
                            j = t
                    if t == i:
                        shared[0] = upper[own, t] - beta[r]
            best, j = argmax(best, numba.int32(j), gains, index_2)
            for r in range(per_thread):
                t = tid + r * stride
                if t < m:
                    k_j[r] = K[first + j, t]
                if t == j:
                    a = numba.float64(_curvature(k_ii, diagonal[first + j], k_i[r]))
                    room_i = shared[0]
                    room_j = beta[r] - lower[own, t]
                    d = min((top - v[r]) / a, min(room_i, room_j))
                    shared[1] = d
                    beta[r] = lower[own, t] if d == room_j else beta[r] - d
                    state[r] = GROW | (0 if d == room_j else SHRINK)
            cuda.syncthreads()
            step = shared[1]
            room_i = shared[0]
            for r in range(per_thread):
                if tid + r * stride == i:
                    beta[r] = upper[own, i] if step == room_i else beta[r] + step
                    state[r] = SHRINK | (0 if step == room_i else GROW)
            done += 1
        for r in range(per_thread):
            t = tid + r * stride
            if t < m:
                vs[b, t] = v[r]
                betas[b, t] = beta[r]
        if tid == 0:
            n_iter[b] += done
            ends[b, 0] = top
            ends[b, 1] = -bottom

    return kernel


def _global_kernel(argmax, ends_of, scratch, limits):
    @cuda.jit(**limits)
    def kernel(matrix, problems, flags, tol, max_iter):
        K, stride_of_K, diagonal = matrix
        lower, upper, path, betas, vs, n_iter, ends = problems
        tops = cuda.shared.array(scratch, numba.float64)
        bottoms = cuda.shared.array(scratch, numba.float64)
        gains = cuda.shared.array(scratch, numba.float32)
        index_1 = cuda.shared.array(scratch, numba.int32)
        index_2 = cuda.shared.array(scratch, numba.int32)
        shared = cuda.shared.array(1, numba.float64)
        b = cuda.blockIdx.x
        if ends[b, 0] - ends[b, 1] <= tol:
            return
        tid = cuda.threadIdx.x
        stride = cuda.blockDim.x
        m = vs.shape[1]
        own = path[b]
        first = b * stride_of_K
        for t in range(tid, m, stride):
            flags[b, t] = (GROW if betas[b, t] < upper[own, t] else 0) | (
                SHRINK if betas[b, t] > lower[own, t] else 0
            )
        step = 0.0
        i = 0
        j = 0
        done = 0
        while True:
            top = -_INF
            i_new = 0x7FFFFFFF
            bottom = -_INF
            for t in range(tid, m, stride):
                difference = numba.float64(K[first + i, t]) - numba.float64(K[first + j, t])
                x = vs[b, t] - step * difference
                vs[b, t] = x
                state = flags[b, t]
                if state & GROW and x > top:
                    top = x
                    i_new = t
                if state & SHRINK and -x > bottom:
                    bottom = -x
            top, i, bottom = ends_of(top, numba.int32(i_new), bottom, tops, index_1, bottoms)
            if top + bottom <= tol or done >= max_iter:
                break
            best = numba.float32(-1.0)
            j_new = 0x7FFFFFFF
            k_ii = diagonal[first + i]
            for t in range(tid, m, stride):
                if flags[b, t] & SHRINK and vs[b, t] < top:
                    g = numba.float32(top - vs[b, t])
                    gain = g * g / _curvature(k_ii, diagonal[first + t], K[first + i, t])
                    if gain > best:
                        best = gain
                        j_new = t
            best, j = argmax(best, numba.int32(j_new), gains, index_2)
            if tid == 0:
                a = numba.float64(_curvature(k_ii, diagonal[first + j], K[first + i, j]))
                room_i = upper[own, i] - betas[b, i]
                room_j = betas[b, j] - lower[own, j]
                d = min((top - vs[b, j]) / a, min(room_i, room_j))
                shared[0] = d
                betas[b, i] = upper[own, i] if d == room_i else betas[b, i] + d
                betas[b, j] = lower[own, j] if d == room_j else betas[b, j] - d
                flags[b, i] = SHRINK | (0 if d == room_i else GROW)
                flags[b, j] = GROW | (0 if d == room_j else SHRINK)
            cuda.syncthreads()
            step = shared[0]
            done += 1
        if tid == 0:
            n_iter[b] += done
            ends[b, 0] = top
            ends[b, 1] = -bottom

    return kernel
