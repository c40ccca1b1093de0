"""Reductions over a thread block: with shuffles on a GPU, without in the simulator."""

from __future__ import annotations

from numba import cuda

WARP = 32
_ALL = 0xFFFFFFFF


@cuda.jit(device=True, inline=True)
def _better(a, i, b, j):
    """Whether (b, j) comes before (a, i): the larger value, then the smaller index."""
    return b > a or (b == a and j < i)


def with_shuffles():
    """The two reductions for a GPU."""

    @cuda.jit(device=True, inline=True)
    def warp_argmax(value, index):
        """Largest value of the warp and its index, returned to every thread of it."""
        offset = WARP // 2
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
        offset = WARP // 2
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
        lane = cuda.threadIdx.x % WARP
        warp = cuda.threadIdx.x // WARP
        value, index = warp_argmax(value, index)
        if lane == 0:
            values[warp] = value
            indices[warp] = index
        cuda.syncthreads()
        source = lane if lane < cuda.blockDim.x // WARP else 0
        return warp_argmax(values[source], indices[source])

    @cuda.jit(device=True, inline=True)
    def ends(top, index, low, tops, indices, lows):
        """Largest top with its index, and largest low, with one barrier for both."""
        lane = cuda.threadIdx.x % WARP
        warp = cuda.threadIdx.x // WARP
        top, index, low = warp_ends(top, index, low)
        if lane == 0:
            tops[warp] = top
            indices[warp] = index
            lows[warp] = low
        cuda.syncthreads()
        source = lane if lane < cuda.blockDim.x // WARP else 0
        return warp_ends(tops[source], indices[source], lows[source])

    return argmax, ends


def without_shuffles():
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
