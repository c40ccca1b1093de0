"""Features of a landmark (Nyström) machine, and training rows as its solver sees them.

With landmarks z_1, ..., z_p and K_zz = L L', the feature vector of a sample is
psi(x) = L^-1 (k(z_1, x), ..., k(z_p, x)). A kernel machine whose expansion is restricted to the
landmarks is a linear machine in these features: f(x) = w' psi(x) + b, and its coefficients on the
landmarks are a = L'^-1 w.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import strsm
from scipy.linalg.lapack import dpstrf

from ...utils import thread_map
from ..cuda import module_of, on_gpu, to_host
from ..points import Points, fits_single, left_factor, needs_differences, right_factor

# A landmark whose feature-space distance to the span of the others is below the root of this adds
# nothing but rounding errors, and is dropped.
_NULL = 1e-5

# Norm beyond which every kernel value of a sample has vanished.
_FAR = 1e15

# Numbers per block of features: enough rows for fast products, and few blocks in flight.
_BLOCK = 2**22
# Violators of a block that are listed and sorted; where there are more, the worst are found first.
_LISTED = 2**23


class LandmarkFeatures:
    """The map psi from samples to the features of a landmark machine; landmarks have shape (p, d).

    Landmarks that the others represent are dropped: `kept` (r,) are those in use, in the order of
    the features. `by_products`: distances may come from float64 products of dense arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver.landmarks import LandmarkFeatures
    >>> Z = np.array([[0.0], [1.0], [1.0]])
    >>> features = LandmarkFeatures(Z, RBF(), 1.0)
    >>> psi = features(Z)
    >>> psi.shape
    (3, 2)
    >>> (psi @ psi.T).round(3)
    array([[1.   , 0.368, 0.368],
           [0.368, 1.   , 1.   ],
           [0.368, 1.   , 1.   ]], dtype=float32)
    """

    on_gpu, xp = False, np

    def __init__(self, landmarks, kernel: Any, gamma: float):
        self.kernel = kernel
        exact = Points(landmarks, np.sqrt(gamma))  # every square in float64
        gram = np.empty((exact.n_points, exact.n_points))
        exact.kernel_values(kernel, 1.0, exact.own(np.arange(exact.n_points)), 0, gram)
        factor, pivots, rank, _ = dpstrf(gram.T, tol=_NULL, lower=1, overwrite_a=1)
        self.kept = pivots[:rank] - 1
        self.factor = np.asfortranarray(np.tril(factor[:rank, :rank]))
        self._single = np.asfortranarray(self.factor, dtype=np.float32)
        self.points = Points(landmarks[self.kept], np.sqrt(gamma), kernel)
        largest = np.sqrt(2 * self.points.norms.max())
        self.far = max(_FAR, 1e3 * largest) / np.sqrt(landmarks.shape[1])
        dense = not self.points.is_sparse
        self.by_products = dense and not needs_differences(kernel, largest)
        self.n_features = len(self.kept)
        self.block_rows = max(64, _BLOCK // self.n_features)  # their features fill a block
        self._right = None
        if dense and fits_single(kernel, largest, expanded=True):  # narrow points, too
            self._right = right_factor(self.points.scaled(self.points.X), np.float32).T

    def __call__(self, X) -> np.ndarray:
        """Features of samples (n, d), shape (n, r), float32."""
        return self.whiten(self.kernel_values(X))

    def in_blocks(self, X, n_jobs: int | None = None) -> np.ndarray:
        """Features of many samples, block by block."""
        step = self.block_rows
        starts = range(0, X.shape[0], step)
        return np.concatenate(list(thread_map(lambda k: self(X[k : k + step]), starts, n_jobs)))

    def kernel_values(self, X) -> np.ndarray:
        """Kernel values of samples (n, d) with the landmarks `kept`, shape (n, r), float32."""
        Z = self.points.scaled(X)
        coordinates = Z.data if self.points.is_sparse else Z
        np.clip(coordinates, -self.far, self.far, out=coordinates)
        if self._right is not None:
            values = left_factor(Z, np.float32) @ self._right
            return self.kernel.value(np.maximum(values, 0, out=values), out=values)
        values = np.empty((X.shape[0], self.n_features), dtype=np.float32)
        self.points.kernel_values(self.kernel, 1.0, self.points.queries(X, Z), 0, values)
        return values

    def whiten(self, values: np.ndarray) -> np.ndarray:
        """Features from kernel values (n, r), float32, which are overwritten."""
        # In place: the transpose of a C-ordered array is what LAPACK expects.
        return strsm(1.0, self._single, values.T, lower=1, overwrite_b=1).T

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """Coefficients (K, r) on the landmarks `kept` from weights (K, r) of the features."""
        return solve_triangular(self.factor, w.T, lower=True, trans="T").T


class Query(NamedTuple):
    """The present machines of k classes, whose violated constraints are to be found."""

    classes: np.ndarray  # (k,): codes
    coef: np.ndarray  # (k, r) float32: coefficients on the landmarks
    bias: np.ndarray
    target: float  # rows of the class should score `target` or more, others -`target` or less
    floor: np.ndarray  # (k,): smaller violations are ignored
    most: np.ndarray  # (k,) int: largest number of violators to return
    share: float  # of the rows to look at, a sample of all


# Row, position in `classes`, violation: three arrays of one length.
Violators = tuple[np.ndarray, np.ndarray, np.ndarray]


class TrainingRows:
    """Rows of a training set in memory, with `cache_size` MB for kernel values, or on the GPU."""

    # Their kernel values with the landmarks are stored where they fit, else computed in each round.
    # `codes` (m,) are the classes; with `on_gpu` features and machines are on the GPU.

    def __init__(self, X, codes, weight, features, cache_size, n_jobs=None, device="cpu"):
        memory = cache_size * 2**20
        if on_gpu(device) and features.by_products:
            from ..cuda.points import CudaFeatures

            features = CudaFeatures(features, len(codes), int(codes.max()) + 1)
            memory, n_jobs = features.memory, 1
        self.codes, self.weight, self.on_gpu = codes, weight, features.on_gpu
        self._X, self._map, self._n_jobs = X, features, n_jobs
        # Every n-th row: each block is a sample of the rows, in whatever order these are.
        n = -(-len(codes) // features.block_rows)
        self._blocks = [slice(k, None, n) for k in range(n)]
        self._stored = None
        if 4 * len(codes) * features.n_features <= memory:
            fill = thread_map(lambda b: features.kernel_values(X[b]), self._blocks, n_jobs)
            self._stored = list(fill)

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """Coefficients (k, r) on the landmarks, see :meth:`LandmarkFeatures.coefficients`."""
        return self._map.coefficients(w)

    def features(self, index: np.ndarray) -> np.ndarray:
        """Features (n, r) of the rows `index`, float32."""
        return self._map.in_blocks(self._X[index], self._n_jobs)

    def violators(self, query, active):
        """The worst violators of each class but the pairs (row, position) `active`."""
        xp, n = self._map.xp, len(self._blocks)
        rows, position = active
        order = np.argsort(rows % n, kind="stable")
        ends = np.searchsorted(rows[order] % n, np.arange(n + 1))
        rows, position = xp.asarray(rows[order] // n), xp.asarray(position[order])
        query = Query(*(xp.array(v) if isinstance(v, np.ndarray) else v for v in query))
        pairs = [(rows[low:high], position[low:high]) for low, high in pairwise(ends)]
        looked_at = range(int(np.ceil(query.share * n)))
        found = thread_map(partial(self._violators_of, query, pairs), looked_at, self._n_jobs)
        return tuple(map(to_host, worst_violators(query, found, xp)))

    def _violators_of(self, query, pairs, k):
        """Violators in block k, where the pairs (row of the block, position) are active."""
        block, stored = self._blocks[k], self._stored
        values = stored[k] if stored else self._map.kernel_values(self._X[block])
        inside, *rest = _block_violators(values, self.codes[block], query, pairs[k])
        return inside * len(self._blocks) + k, *rest


def _block_violators(values, codes, query: Query, active) -> Violators:
    """Violators among rows with kernel values (n, r), the pairs `active` left out."""
    xp = module_of(values)
    codes = xp.asarray(codes)
    size = values @ query.coef.T
    size += query.bias.astype(np.float32)
    place = xp.minimum(xp.searchsorted(query.classes, codes), len(query.classes) - 1)
    positive = xp.flatnonzero(query.classes[place] == codes)
    size[positive, place[positive]] *= -1
    size += np.float32(query.target)
    size[active] = -np.inf
    floor = query.floor.astype(np.float32)
    if size.size > _LISTED and int((size > floor).sum()) > _LISTED:
        floor = _raised(xp, size, floor, query.most)
    rows, positions = xp.nonzero(size > floor)
    return rows, positions, size[rows, positions]


def _raised(xp, size, floor, most):
    """Raise the floor of columns until about `most` entries exceed it, by bisection."""
    high = size.max(axis=0)
    for _ in range(12):
        many = (size > floor).sum(axis=0) > most
        if not many.any():
            break
        middle = 0.5 * (floor + high)
        # Never below `most` entries: the floor follows only where enough exceed it.
        enough = (size > middle).sum(axis=0) >= most
        high = xp.where(many & ~enough, middle, high)
        floor = xp.where(many & enough, middle, floor)
    return floor


def worst_violators(query: Query, parts: Iterable[Violators], xp=np) -> Violators:
    """The worst violators of each class among those of all parts; the floor of `query` rises."""
    kept: list[Violators] = []
    for part in parts:
        kept.append(part)
        # Few at a time, and blocks to come need not list what cannot count.
        if sum(len(rows) for rows, _, _ in kept) > 2 * int(query.most.sum()):
            kept = [_cut(query, kept, xp)]
    return _cut(query, kept, xp)


def _cut(query, parts, xp):
    rows, positions, size = (xp.concatenate(part) for part in zip(*parts, strict=True))
    if not len(rows):
        return rows, positions, size
    order = xp.lexsort(xp.stack([key.astype(np.float64) for key in (rows, -size, positions)]))
    count = xp.bincount(positions, minlength=len(query.classes))
    machine = positions[order]
    rank = xp.arange(len(order)) - (xp.cumsum(count) - count)[machine]
    last = order[rank == query.most[machine] - 1]
    query.floor[positions[last]] = size[last]
    order = order[rank < query.most[machine]]
    return rows[order], positions[order], size[order]
