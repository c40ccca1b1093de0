"""The state of a problem that is being solved, and what every compiled loop does with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..utils.compiled import FAST, helper, njit

# Why a compiled loop returned.
OPTIMAL, PAUSED, WANTS_ROW, WANTS_PART, STALLED = 0, 1, 2, 3, 4

# Rows per block of a reduction: short enough to search for an index, long enough to vectorise.
BLOCK = 64

# Rows whose work takes about as long as what an iteration does once.
ITERATION = 512

# Smallest curvature, absolute and as a share of the diagonal. Without it a pair of rows that are
# equal up to rounding in float32 would be chosen again and again; a kernel may also be indefinite.
TINY, ROUNDING = np.float32(1e-12), np.float32(2.0**-21)


class State(NamedTuple):
    """Multipliers that are being optimised."""

    # (m,) float64: Multipliers, p - K beta, and the bounds of the multipliers.
    beta: np.ndarray
    v: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    # (m,) float32: 0 where a multiplier may grow (shrink), else -inf (inf): added to v, it rules a
    # row out.
    grow: np.ndarray
    shrink: np.ndarray
    pair: np.ndarray  # (2,) int64: The working set; -1 where it is not chosen yet.
    # (3,) float64: What is subtracted from v before v is cast to float32; the last gap that was
    # clearly smaller than those before, and the iteration it was seen at.
    trace: np.ndarray


class RowStore(NamedTuple):
    """Kernel rows in memory, as compiled loops see them."""

    rows: np.ndarray  # (n_slots, m) float32
    # (m,) int32: Which of `rows` belongs to a sample, -1 if its row is not in memory.
    slot: np.ndarray
    diagonal: np.ndarray  # (m,) float32


def row_store(rows: np.ndarray, diagonal: np.ndarray) -> RowStore:
    """A store without any row in it; `rows` is the memory for them."""
    return RowStore(rows, np.full(rows.shape[1], -1, dtype=np.int32), diagonal)


def new_state(beta: np.ndarray, v: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> State:
    """The state at `beta`; its arrays are those passed in."""
    grow, shrink = np.empty(len(v), dtype=np.float32), np.empty(len(v), dtype=np.float32)
    pair, trace = np.empty(2, dtype=np.int64), np.array([0.0, np.inf, 0.0])
    state = State(beta, v, lower, upper, grow, shrink, pair, trace)
    mark_all(state)
    return state


def mark_all(state: State) -> None:
    """`set_marks` for Python."""
    np.copyto(state.grow, np.where(state.beta < state.upper, 0.0, -np.inf))
    np.copyto(state.shrink, np.where(state.beta > state.lower, 0.0, np.inf))


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


@intrinsic
def compare_and_swap(typingctx, array, i, old, new):
    """Set array[i] to `new` if it is `old`, as one step; return whether it was."""

    def codegen(context, builder, signature, args):
        values = context.make_array(signature.args[0])(context, builder, args[0])
        place = cgutils.get_item_pointer(
            context, builder, signature.args[0], values, [args[1]], wraparound=False
        )
        done = builder.cmpxchg(place, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), codegen


@helper()
def next_number(counter):
    """The next of the numbers 0, 1, ... that no thread has got yet; `counter` is int64[1]."""
    while True:
        n = counter[0]
        if compare_and_swap(counter, 0, n, n + 1):
            return n


@helper()
def copy_values(target, source):
    """target[:] = source, which would compile the formatting of an error, too."""
    for t in range(source.size):
        target[t] = source[t]


@helper()
def mark(t, state):
    """Record in `grow` and `shrink` which way the multiplier of row t can still move."""
    state.grow[t] = 0.0 if state.beta[t] < state.upper[t] else -np.inf
    state.shrink[t] = 0.0 if state.beta[t] > state.lower[t] else np.inf


@helper()
def set_marks(state):
    """`mark` for all rows."""
    for t in range(state.beta.size):
        mark(t, state)


@helper(fastmath=FAST)
def subtract_four_scaled(v, coef, rows):
    """v -= sum_k coef[k] * rows[k] in float64; both are tuples of four."""
    b0, b1, b2, b3 = coef
    row0, row1, row2, row3 = rows
    for t in range(v.size):
        v[t] -= b0 * row0[t] + b1 * row1[t] + b2 * row2[t] + b3 * row3[t]


@helper(fastmath=FAST)
def subtract_scaled(v, coef, row):
    """v -= coef * row in float64."""
    for t in range(v.size):
        v[t] -= coef * row[t]


@helper()
def subtract_rows(v, coef, index, slot, rows):
    """v -= sum_k coef[k] * row(index[k]) in float64; all rows have to be in memory."""
    slots = np.empty(index.size, dtype=np.int64)
    for k in range(index.size):
        slots[k] = slot[index[k]]
    subtract_columns(v, coef, slots, rows, 0)


@helper()
def subtract_columns(v, coef, index, rows, first):
    """v -= sum_k coef[k] * rows[index[k], first:] in float64, in stretches that stay in cache."""
    for begin in range(0, v.size, 2048):
        target = v[begin : begin + 2048]
        start, stop = first + begin, first + begin + target.size
        k = 0
        while k + 4 <= index.size:
            subtract_four_scaled(
                target,
                (coef[k], coef[k + 1], coef[k + 2], coef[k + 3]),
                (
                    rows[index[k], start:stop],
                    rows[index[k + 1], start:stop],
                    rows[index[k + 2], start:stop],
                    rows[index[k + 3], start:stop],
                ),
            )
            k += 4
        while k < index.size:
            subtract_scaled(target, coef[k], rows[index[k], start:stop])
            k += 1


@helper()
def add_outside(rows, betas, sums):
    """sums[k] = betas[k] @ rows[:, n:], the columns after those of the problem's n samples."""
    n = betas.shape[1]
    moved = np.empty(n, dtype=np.int64)
    change = np.empty(n)
    for k in range(len(betas)):
        # What moves from one total to the next: multipliers at a bound do not.
        n_moved = 0
        for t in range(n):
            before = betas[k - 1, t] if k > 0 else 0.0
            if betas[k, t] != before:
                moved[n_moved] = t
                change[n_moved] = before - betas[k, t]
                n_moved += 1
        sums[k] = 0.0
        subtract_columns(sums[k], change[:n_moved], moved[:n_moved], rows, n)
        for t in range(sums.shape[1] if k > 0 else 0):
            sums[k, t] += sums[k - 1, t]


@helper()
def may_move(v, grow, shrink, top, bottom):
    """Rows that can still be chosen before the bias interval [top, bottom] has moved."""
    # A multiplier at its upper bound with v above `top`, or at its lower bound with v below
    # `bottom`, is where it belongs.
    rows = np.empty(v.size, dtype=np.int64)
    n = 0
    for t in range(v.size):
        if (grow[t] == 0.0 or v[t] <= top) and (shrink[t] == 0.0 or v[t] >= bottom):
            rows[n] = t
            n += 1
    return rows[:n]


@helper()
def summarise(p, lower, upper, beta, v, equality):
    """Bias, its interval and the objective of a solution."""
    # A multiplier within rounding of its bound counts as being there: where all belong at a bound,
    # a rounding error would otherwise select one end of the interval. Multipliers are rounded in
    # proportion to the largest of them, which may be far below a large box.
    # Without an equality the bias is 0, and the interval is that of the largest |v| along a
    # direction that is still open. It is also 0 where all boxes are closed, so that the multipliers
    # are given.
    largest = 0.0
    for t in range(beta.size):
        largest = max(largest, abs(beta[t]))
    total = 0.0
    n_free = 0
    objective = 0.0
    top = -np.inf
    bottom = np.inf
    for t in range(beta.size):
        rounding = 1e-12 * min(upper[t] - lower[t], largest)
        can_grow = beta[t] < upper[t] - rounding
        can_shrink = beta[t] > lower[t] + rounding
        if can_grow and v[t] > top:
            top = v[t]
        if can_shrink and v[t] < bottom:
            bottom = v[t]
        if can_grow and can_shrink:
            total += v[t]
            n_free += 1
        objective -= 0.5 * beta[t] * (p[t] + v[t])
    if not equality or (top == -np.inf and bottom == np.inf):
        worst = max(top, -bottom, 0.0)
        return 0.0, worst, -worst, objective
    bias = total / n_free if n_free > 0 else 0.5 * (top + bottom)
    return bias, top, bottom, objective


@njit(cache=True, nogil=True)
def summarise_all(p, lower, upper, betas, vs, equality):
    """Biases, bias intervals and objectives of solutions, one per row of betas and vs."""
    n = len(betas)
    bias, interval, objective = np.empty(n), np.empty((n, 2)), np.empty(n)
    for k in range(n):
        bias[k], interval[k, 0], interval[k, 1], objective[k] = summarise(
            p, lower, upper, betas[k], vs[k], equality
        )
    return bias, interval, objective
