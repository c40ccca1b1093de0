"""The state of a problem that is being solved: what every compiled loop does with it."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import intrinsic

# Why a compiled loop came back.
OPTIMAL, PAUSED, WANTS_ROW = 0, 1, 2

# Rows a reduction covers at once; short enough to look up an index, long enough to vectorise.
BLOCK = 256

FAST = {"nnan", "nsz", "contract"}


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


@njit(cache=True, nogil=True)
def mark(t, beta, lower, upper, grow, shrink):
    """Record in the penalties of row t which way its multiplier can still go."""
    grow[t] = 0.0 if beta[t] < upper[t] else -np.inf
    shrink[t] = 0.0 if beta[t] > lower[t] else np.inf


@njit(cache=True, nogil=True, fastmath=FAST)
def axpy4(v, b0, row0, b1, row1, b2, row2, b3, row3):
    """v -= b0 row0 + b1 row1 + b2 row2 + b3 row3, in float64."""
    for t in range(v.size):
        v[t] -= b0 * row0[t] + b1 * row1[t] + b2 * row2[t] + b3 * row3[t]


@njit(cache=True, nogil=True, fastmath=FAST)
def axpy(v, b, row):
    """v -= b row, in float64."""
    for t in range(v.size):
        v[t] -= b * row[t]


@njit(cache=True, nogil=True)
def subtract_rows(v, coef, index, rows, slot):
    """v -= sum_k coef[k] * row(index[k]), in float64; all rows have to be at hand."""
    k = 0
    while k + 4 <= index.size:
        axpy4(
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
        axpy(v, coef[k], rows[slot[index[k]]])
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
