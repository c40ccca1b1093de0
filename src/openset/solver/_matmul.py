"""Matrix products in which a value depends on its own two rows and on nothing else.

The rounding of a BLAS depends on the shape of the product, on the place of a row in it and on the
processor. Kernel rows are requested in any company, so a BLAS gives other last bits for other
threads or batches. Here every value is one chain of fused multiply-adds in the order of the
features, in chunks of `_CHUNK`: the same bits in every block, on every processor with such an
instruction, and as fast as a BLAS, because registers hold 6 x 16 values at a time.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..utils.compiled import njit

# Rows and bytes of columns of a block of values in registers, bytes per register, and features per
# chunk: short chains round less.
ROWS, _WIDTH, _REGISTER, _CHUNK = 6, 64, 32, 32


def packed(Z, dtype: type) -> np.ndarray:
    """Rows of Z (n, d) as columns of a product: panels (n_panels, d, 16), or 8 in float64."""
    # Point i is [i // width, :, i % width]; zeros fill the last panel.
    (n, d), width = Z.shape, _WIDTH // np.dtype(dtype).itemsize
    panels = np.zeros((-(-n // width), d, width), dtype=dtype)
    with np.errstate(over="ignore"):
        _pack(Z, panels)
    return panels


@njit(cache=True, nogil=True)
def _pack(Z, panels):
    width = panels.shape[2]
    for i in range(Z.shape[0]):
        for f in range(Z.shape[1]):
            panels[i // width, f, i % width] = Z[i, f]


@njit(cache=True, nogil=True)
def rows_of(Z, panels):
    """Rows of a product with the panels: the array Z, with zeros up to a multiple of 6 rows."""
    rows = np.zeros((-(-Z.shape[0] // ROWS) * ROWS, Z.shape[1]), dtype=panels.dtype)
    # Loops: in an assignment of arrays Numba would compile an error message about their shapes.
    for i in range(Z.shape[0]):
        for f in range(Z.shape[1]):
            rows[i, f] = Z[i, f]
    return rows


@njit(cache=True, nogil=True)
def rows_of_packed(panels, index):
    """Rows of a product with the panels: some of the points in them."""
    width = panels.shape[2]
    rows = np.zeros((-(-index.size // ROWS) * ROWS, panels.shape[1]), dtype=panels.dtype)
    for k in range(index.size):
        i = index[k]
        for f in range(panels.shape[1]):
            rows[k, f] = panels[i // width, f, i % width]
    return rows


@njit(cache=True, nogil=True)
def products(rows, panels, first, out):
    """out = rows @ columns.T, for the panels from `first` on that `out` has room for."""
    # `rows` (n, d) are contiguous, n a multiple of 6 (see `rows_of`), the panels from `packed`.
    # `out` also has the values of the zeros that fill the last panel.
    d, width = panels.shape[1:]
    for p in range(out.shape[1] // width):
        for start in range(0, d, _CHUNK):
            n = min(_CHUNK, d - start)
            column = ((first + p) * d + start) * width
            for i in range(0, len(rows), ROWS):
                place = i * out.shape[1] + p * width
                _block(rows, i * d + start, panels, column, n, out, place, start > 0)


@njit(cache=True, nogil=True)
def multiply(A, panels):
    """A @ columns.T, for an array A of shape (n, d); with the columns that fill the last panel."""
    rows = rows_of(A, panels)
    out = np.empty((len(rows), panels.shape[0] * panels.shape[2]), dtype=panels.dtype)
    products(rows, panels, 0, out)
    return out[: len(A)]


@intrinsic
def _block(typingctx, rows, row, panels, column, n, out, place, add):
    """`out` = or, with `add`, += 6 rows by one panel over n features; places in flat arrays."""

    def codegen(context, builder, signature, args):
        element = context.get_data_type(signature.args[0].dtype)
        size = context.get_abi_sizeof(element)
        lanes, width = _REGISTER // size, _WIDTH // size
        vector, integer, index = ir.VectorType(element, lanes), args[4].type, ir.IntType(32)
        kinds = signature.args
        arrays = [context.make_array(kinds[k])(context, builder, args[k]) for k in (0, 2, 5)]
        a, b, c = (builder.gep(x.data, [args[k]]) for x, k in zip(arrays, (1, 3, 6), strict=True))
        features, stride = (builder.extract_value(arrays[k].shape, 1) for k in (0, 2))
        multiply_add = _multiply_add(context, builder, vector)

        def constant(value):
            return ir.Constant(integer, value)

        def registers(pointer, offset, k):
            place = builder.gep(pointer, [builder.add(offset, constant(k * lanes))])
            return builder.bitcast(place, vector.as_pointer())

        def repeated(value):
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, index(0))
            first = ir.Constant(ir.VectorType(index, lanes), [0] * lanes)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), first)

        before, zero = builder.block, ir.Constant(vector, [0.0] * lanes)
        loop, end = builder.append_basic_block("features"), builder.append_basic_block("store")
        builder.branch(loop)
        builder.position_at_end(loop)
        feature = builder.phi(integer)
        feature.add_incoming(constant(0), before)
        sums = [builder.phi(vector) for _ in range(ROWS * width // lanes)]
        at = builder.mul(feature, constant(width))
        columns = [builder.load(registers(b, at, k), align=size) for k in range(width // lanes)]
        pairs = []
        for r in range(ROWS):
            place = builder.add(builder.mul(features, constant(r)), feature)
            value = builder.load(builder.gep(a, [place]))
            pairs += [(repeated(value), column) for column in columns]
        new = [multiply_add(*pair, total) for pair, total in zip(pairs, sums, strict=True)]
        following = builder.add(feature, constant(1))
        feature.add_incoming(following, loop)
        for total, value in zip(sums, new, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, args[4]), loop, end)
        builder.position_at_end(end)
        for r in range(ROWS):
            for k in range(width // lanes):
                place = registers(c, builder.mul(stride, constant(r)), k)
                old = builder.select(args[7], builder.load(place, align=size), zero)
                total = builder.fadd(new[r * width // lanes + k], old)
                builder.store(total, place, align=size)
        return context.get_dummy_value()

    at = types.intp
    signature = types.void(rows, at, panels, at, at, out, at, types.boolean)
    return signature, codegen


def _multiply_add(context, builder, vector):
    """x * y + z, rounded once except on x86 processors from before 2013, which cannot."""
    triple, _, features = context.codegen().magic_tuple()
    if triple.startswith(("x86", "i686")) and "+fma" not in features.split(","):
        return lambda x, y, z: builder.fadd(builder.fmul(x, y), z)
    name = f"llvm.fma.v{vector.count}f{32 if vector.element == ir.FloatType() else 64}"
    kind = ir.FunctionType(vector, [vector] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return lambda x, y, z: builder.call(function, [x, y, z])
