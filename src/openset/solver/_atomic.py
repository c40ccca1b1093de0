"""Steps that several threads in compiled code can take without a lock."""

from __future__ import annotations

from numba.core import cgutils, types
from numba.extending import intrinsic

from ..utils.compiled import njit


@intrinsic
def exchange(typingctx, array, i, old, new):
    """Set array[i] to `new` if it is `old`, as one step; return whether it was."""

    def codegen(context, builder, signature, args):
        values = context.make_array(signature.args[0])(context, builder, args[0])
        place = cgutils.get_item_pointer(
            context, builder, signature.args[0], values, [args[1]], wraparound=False
        )
        done = builder.cmpxchg(place, args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(done, 1)

    return types.boolean(array, types.intp, types.int64, types.int64), codegen


@njit(cache=True, nogil=True)
def next_number(counter):
    """The next of the numbers 0, 1, ... that no thread has got yet; `counter` is int64[1]."""
    while True:
        n = counter[0]
        if exchange(counter, 0, n, n + 1):
            return n
