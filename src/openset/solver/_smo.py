"""Sequential minimal optimisation, compiled.

Two rows of the kernel matrix are touched in an iteration, each element twice: one pass applies the
last step to v and finds the row i that may grow with the largest v, a second finds the partner j
with the largest second-order gain (Fan, Chen, Lin 2005), in float32, which is enough to choose.
Both passes are branch-free reductions over contiguous arrays, so that LLVM vectorises them; the
index of a maximum is looked up afterwards in the one block that holds it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import intrinsic

from ._row_maker import make_row

# Why a compiled loop came back.
OPTIMAL, PAUSED, WANTS_ROW = 0, 1, 2

# Rows a reduction covers at once; short enough to look up an index, long enough to vectorise.
BLOCK = 256

# Curvature below this is taken as this: duplicated rows, or a kernel that is not definite.
_TINY = np.float32(1e-12)
_FAST = {"nnan", "nsz", "contract"}


def _extremum(comparison):
    # LLVM turns a running max or min into a vector reduction only if compare and select carry the
    # flags "no NaN" and "no signed zero"; Numba's own max() does not set them on the select.
    @intrinsic
    def extremum(typingctx, a, b):
        def codegen(context, builder, signature, args):
            flags = ("nnan", "nsz")
            test = builder.fcmp_ordered(comparison, args[0], args[1], flags=flags)
            return builder.select(test, args[0], args[1], flags=flags)

        return a(a, a), codegen

    return extremum


fmax = _extremum(">")
fmin = _extremum("<")


@njit(cache=True, nogil=True, fastmath=_FAST)
def _step_and_bounds(v, grow, shrink, row_i, row_j, step, reference, height, start, stop):
    """v -= step * (row_i - row_j); return max of v where beta can grow, min where it can shrink.

    `height` gets v - reference where beta can shrink, inf elsewhere.
    """
    top = -np.inf
    bottom = np.inf
    # Unsigned indices: Numba then omits the wrap-around test, which would prevent vectorisation.
    for t in range(np.uint64(start), np.uint64(stop)):
        # Subtracted in float64, where it is exact: v must not drift away from p - K beta.
        x = v[t] - step * (np.float64(row_i[t]) - np.float64(row_j[t]))
        v[t] = x
        top = fmax(top, x + grow[t])
        x += shrink[t]
        bottom = fmin(bottom, x)
        height[t] = np.float32(x - reference)
    return top, bottom


@njit(cache=True, nogil=True, fastmath=_FAST)
def _gain(height_i, height_t, k_ii, k_tt, k_it):
    """Second-order decrease of the objective for the pair (i, t), up to a factor 2."""
    g = fmax(height_i - height_t, np.float32(0.0))
    a = fmax(k_ii + k_tt - np.float32(2.0) * k_it, _TINY)
    return g * g / a


@njit(cache=True, nogil=True, fastmath=_FAST)
def _best_gain(height_i, height, row_i, diagonal, k_ii, start, stop):
    best = np.float32(0.0)
    for t in range(np.uint64(start), np.uint64(stop)):
        best = fmax(best, _gain(height_i, height[t], k_ii, diagonal[t], row_i[t]))
    return best


@njit(cache=True, nogil=True)
def mark(t, beta, lower, upper, grow, shrink):
    """Record in the penalties of row t which way its multiplier can still go."""
    grow[t] = 0.0 if beta[t] < upper[t] else -np.inf
    shrink[t] = 0.0 if beta[t] > lower[t] else np.inf


@njit(cache=True, nogil=True)
def smo(
    rows,
    slot,
    diagonal,
    lower,
    upper,
    beta,
    v,
    grow,
    shrink,
    pair,
    reference,
    tol,
    max_iter,
    used,
    clock,
    maker,
):
    """Improve beta and v in place until the gap is within tol, or a reason to come back.

    Parameters
    ----------
    rows : ndarray of shape (n_slots, m), float32
        Kernel rows at hand.
    slot : ndarray of shape (m,), int32
        Where in `rows` the row of a sample lies; -1 if it has to be computed first.
    diagonal : ndarray of shape (m,), float32
    lower, upper, beta, v, grow, shrink : ndarray of shape (m,), float64
        The problem and its state; `grow` is 0 or -inf, `shrink` 0 or inf (see `mark`).
    pair : ndarray of shape (2,), int64
        Gets the working set chosen so far, -1 for not yet.
    reference : ndarray of shape (1,), float64
        The last top: what v is measured from where float32 has to do. Part of the state, so that
        a return for a missing row, which is a matter of the cache, changes nothing.
    tol, max_iter : float, int
    used : ndarray of shape (n_slots,), int64
        Gets the time (`clock` + iteration) of the last use of each slot.
    clock : int
    maker : RowMaker
        Makes missing rows while it has slots.

    Returns
    -------
    status, wanted, n_iter, top, bottom
        `wanted` is the sample whose row is missing; `top` and `bottom` the bias interval (not set
        with it).
    """
    m = v.size
    height = np.empty(m, dtype=np.float32)
    # No step yet; `diagonal` stands in for the rows, because a slot never filled may hold NaN.
    step = 0.0
    row_i = diagonal
    row_j = diagonal
    n_iter = 0
    while True:
        pair[:] = -1
        top = -np.inf
        bottom = np.inf
        block = 0
        for start in range(0, m, BLOCK):
            block_top, block_bottom = _step_and_bounds(
                v,
                grow,
                shrink,
                row_i,
                row_j,
                step,
                reference[0],
                height,
                start,
                min(m, start + BLOCK),
            )
            if block_top > top:
                top = block_top
                block = start
            bottom = min(bottom, block_bottom)
        if top - bottom <= tol:
            return OPTIMAL, -1, n_iter, top, bottom
        if n_iter >= max_iter:
            return PAUSED, -1, n_iter, top, bottom
        i = block
        while v[i] + grow[i] != top:
            i += 1
        pair[0] = i
        if slot[i] < 0 and not make_row(maker, i, rows, slot, used, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        row_i = rows[slot[i]]
        used[slot[i]] = clock + n_iter

        k_ii = diagonal[i]
        height_i = np.float32(top - reference[0])
        best = np.float32(0.0)
        block = 0
        for start in range(0, m, BLOCK):
            gain = _best_gain(height_i, height, row_i, diagonal, k_ii, start, min(m, start + BLOCK))
            if gain > best:
                best = gain
                block = start
        if best > 0.0:
            # The scalar code may round the last bit differently from the vector code.
            best *= np.float32(1.0 - 1e-6)
            j = block
            while _gain(height_i, height[j], k_ii, diagonal[j], row_i[j]) < best:
                j += 1
        else:  # the gap is too small for float32, seen from this reference
            j = 0
            while v[j] + shrink[j] != bottom:
                j += 1
        pair[1] = j
        if slot[j] < 0 and not make_row(maker, j, rows, slot, used, clock + n_iter):
            return WANTS_ROW, j, n_iter, np.inf, -np.inf
        row_j = rows[slot[j]]
        used[slot[j]] = clock + n_iter

        curvature = max(np.float64(k_ii + diagonal[j] - np.float32(2.0) * row_i[j]), 1e-12)
        # Never backwards: seen from a distant reference, v[j] may only seem to lie below the top.
        step = max((top - v[j]) / curvature, 0.0)
        room_i = upper[i] - beta[i]
        room_j = beta[j] - lower[j]
        step = min(step, min(room_i, room_j))
        # Snap to the bound: a multiplier left a rounding error away from it would count as free.
        beta[i] = upper[i] if step == room_i else beta[i] + step
        beta[j] = lower[j] if step == room_j else beta[j] - step
        mark(i, beta, lower, upper, grow, shrink)
        mark(j, beta, lower, upper, grow, shrink)
        reference[0] = top
        n_iter += 1


@njit(cache=True, nogil=True, fastmath=_FAST)
def _descend_and_top(v, grow, shrink, row, step, start, stop):
    """v -= step * row; return the largest |v| along a direction that is still open."""
    top = 0.0
    for t in range(np.uint64(start), np.uint64(stop)):
        x = v[t] - step * np.float64(row[t])
        v[t] = x
        top = fmax(top, fmax(x + grow[t], -x - shrink[t]))
    return top


@njit(cache=True, nogil=True)
def coordinate_descent(
    rows,
    slot,
    diagonal,
    lower,
    upper,
    beta,
    v,
    grow,
    shrink,
    pair,
    reference,
    tol,
    max_iter,
    used,
    clock,
    maker,
):
    """The same for a problem without equality: one multiplier at a time, no bias.

    The gap is twice the largest open |v|, so that `tol` means the same as for `smo`: every v is
    within tol / 2 of the middle.
    """
    m = v.size
    step = 0.0  # and any finite row, as in `smo`
    row = diagonal
    n_iter = 0
    while True:
        pair[:] = -1
        top = 0.0
        block = 0
        for start in range(0, m, BLOCK):
            block_top = _descend_and_top(v, grow, shrink, row, step, start, min(m, start + BLOCK))
            if block_top > top:
                top = block_top
                block = start
        if 2.0 * top <= tol:
            return OPTIMAL, -1, n_iter, top, -top
        if n_iter >= max_iter:
            return PAUSED, -1, n_iter, top, -top
        i = block
        while v[i] + grow[i] != top and -v[i] - shrink[i] != top:
            i += 1
        pair[0] = i
        if slot[i] < 0 and not make_row(maker, i, rows, slot, used, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        row = rows[slot[i]]
        used[slot[i]] = clock + n_iter

        old = beta[i]
        target = old + v[i] / max(np.float64(diagonal[i]), 1e-12)
        beta[i] = min(max(target, lower[i]), upper[i])
        step = beta[i] - old
        mark(i, beta, lower, upper, grow, shrink)
        reference[0] = top
        n_iter += 1


@njit(cache=True, nogil=True, fastmath=_FAST)
def _axpy4(v, b0, row0, b1, row1, b2, row2, b3, row3):
    for t in range(v.size):
        v[t] -= b0 * row0[t] + b1 * row1[t] + b2 * row2[t] + b3 * row3[t]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _axpy(v, b, row):
    for t in range(v.size):
        v[t] -= b * row[t]


@njit(cache=True, nogil=True)
def subtract_rows(v, coef, index, rows, slot):
    """v -= sum_k coef[k] * row(index[k]), in float64; all rows have to be at hand."""
    k = 0
    while k + 4 <= index.size:
        _axpy4(
            v,
            coef[k],
            rows[slot[index[k]]],
            coef[k + 1],
            rows[slot[index[k + 1]]],
            coef[k + 2],
            rows[slot[index[k + 2]]],
            coef[k + 3],
            rows[slot[index[k + 3]]],
        )
        k += 4
    while k < index.size:
        _axpy(v, coef[k], rows[slot[index[k]]])
        k += 1


@njit(cache=True, nogil=True)
def set_marks(beta, lower, upper, grow, shrink):
    """`mark` for all rows."""
    for t in range(beta.size):
        mark(t, beta, lower, upper, grow, shrink)


@njit(cache=True, nogil=True)
def may_move(v, grow, shrink, top, bottom):
    """Whether a row can still be chosen before the bias interval [top, bottom] has moved.

    A multiplier at its upper bound with v above `top`, or at its lower one with v below `bottom`,
    is where it belongs.
    """
    may = np.empty(v.size, dtype=np.bool_)
    for t in range(v.size):
        may[t] = (grow[t] == 0.0 or v[t] <= top) and (shrink[t] == 0.0 or v[t] >= bottom)
    return may


@njit(cache=True, nogil=True)
def summarise(p, lower, upper, beta, v):
    """Bias, its interval and the objective of a solution.

    A multiplier within rounding of its bound counts as being there: where all belong at a bound,
    such dust would single out one end of the interval.
    """
    total = 0.0
    n_free = 0
    objective = 0.0
    top = -np.inf
    bottom = np.inf
    for t in range(beta.size):
        dust = 1e-12 * (upper[t] - lower[t])
        can_grow = beta[t] < upper[t] - dust
        can_shrink = beta[t] > lower[t] + dust
        if can_grow and v[t] > top:
            top = v[t]
        if can_shrink and v[t] < bottom:
            bottom = v[t]
        if can_grow and can_shrink:
            total += v[t]
            n_free += 1
        objective -= 0.5 * beta[t] * (p[t] + v[t])
    bias = total / n_free if n_free > 0 else 0.5 * (top + bottom)
    return bias, top, bottom, objective


@njit(cache=True, nogil=True)
def summarise_all(p, lower, upper, betas, vs):
    """`summarise` for each row of betas and vs: biases, intervals, objectives."""
    n = len(betas)
    bias, interval, objective = np.empty(n), np.empty((n, 2)), np.empty(n)
    for k in range(n):
        bias[k], interval[k, 0], interval[k, 1], objective[k] = summarise(
            p, lower, upper, betas[k], vs[k]
        )
    return bias, interval, objective
