"""Data in the parts of a Dask collection, and its rows as the landmark solver sees them.

The parts stay where they are. Each round sends the present machines to them and receives the rows
that violate these most.
"""

from __future__ import annotations

import numpy as np

from ..solver.landmarks import LandmarkFeatures, Query, Worst, block_violators

# How often a task is tried again when its worker is lost.
_RETRIES = 3


class Parts:
    """The parts of the data, and what is known of each: labels, weights, moments."""

    def __init__(self, X, y, sample_weight):
        try:
            import dask
        except ImportError as error:
            raise ImportError(
                'fit_distributed needs Dask; run: pip install "openset[cluster]"', name=error.name
            ) from error
        self._dask = dask
        self.names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        blocks, labels = _delayed(X, "X"), _delayed(y, "y")
        if len(blocks) != len(labels):
            raise ValueError(
                f"X has {len(blocks)} parts, y has {len(labels)}. Split both alike, for instance "
                "with rechunk or repartition."
            )
        weights = [None] * len(blocks)
        if sample_weight is not None:
            weights = _delayed(sample_weight, "sample_weight")
        self.blocks = dask.persist(*map(dask.delayed(_matrix), blocks))
        facts = self.compute(
            [
                dask.delayed(_facts)(k, *part)
                for k, part in enumerate(zip(self.blocks, labels, weights, strict=True))
            ]
        )
        self.labels, self.weight, moments, widths = zip(*facts, strict=True)
        if len(set(widths)) > 1:
            raise ValueError(
                f"The parts of X have different numbers of columns: {sorted(set(widths))}."
            )
        self._width, self._moments = widths[0], np.sum(moments, axis=0)
        lengths = [len(part) for part in self.labels]
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        if self.starts[-1] == 0:
            raise ValueError("X has no rows in any part.")

    def compute(self, tasks):
        return self._dask.compute(*tasks, retries=_RETRIES)

    def unit_gamma(self):
        """1 / (number of features times weighted variance of X)."""
        total, first, second = self._moments
        mean = first / (total * self._width)
        variance = second / (total * self._width) - mean**2
        return 1.0 if variance <= 1e-13 * mean**2 else 1.0 / (self._width * variance)

    def split(self, index):
        """Parts that hold rows of `index` (sorted), with their positions and rows inside."""
        owner = np.searchsorted(self.starts, index, side="right") - 1
        for k in np.unique(owner):
            places = np.flatnonzero(owner == k)
            yield k, places, index[places] - self.starts[k]

    def rows(self, index):
        return self._gather(index, lambda block, rows: self._dask.delayed(_take)(block, rows))

    def features(self, index, features):
        return self._gather(
            index, lambda block, rows: self._dask.delayed(_part_features)(block, rows, features)
        )

    def _gather(self, index, task):
        pieces = list(self.split(index))
        found = self.compute([task(self.blocks[k], rows) for k, _, rows in pieces])
        result = None
        for (_, places, _), values in zip(pieces, found, strict=True):
            if result is None:
                result = np.empty((len(index), values.shape[1]), dtype=values.dtype)
            result[places] = values
        return result


class DaskRows:
    """Training rows in the parts of a Dask collection: a ``TrainingRows`` of the solver."""

    on_gpu = False

    def __init__(self, parts, training, features: LandmarkFeatures):
        self.codes, self.weight = training.codes, training.weight
        self._rows = training.rows  # positions among all rows, those of weight zero included
        self._parts, self.coefficients = parts, features.coefficients
        # One task whose result the workers share; it can be computed again if one is lost.
        (self._shared_map,) = parts._dask.persist(parts._dask.delayed(features, traverse=False))

    def features(self, index):
        return self._parts.features(self._rows[index], self._shared_map)

    def violators(self, query: Query, active):
        rows, position = active
        delayed = self._parts._dask.delayed
        shared = delayed(query, traverse=False)
        order = np.argsort(rows, kind="stable")
        rows, position = rows[order], position[order]
        tasks, starts = [], []
        for k, block in enumerate(self._parts.blocks):
            low, high = np.searchsorted(
                self._rows, [self._parts.starts[k], self._parts.starts[k + 1]]
            )
            if low == high:
                continue
            inside = self._rows[low:high] - self._parts.starts[k]
            first, last = np.searchsorted(rows, [low, high])
            pairs = rows[first:last] - low, position[first:last]
            tasks.append(
                delayed(_part_violators)(
                    block, inside, self.codes[low:high], self._shared_map, shared, pairs
                )
            )
            starts.append(low)
        found = self._parts.compute(tasks)
        return Worst(query).of(
            [(r + low, p, s) for (r, p, s), low in zip(found, starts, strict=True)]
        )


def _delayed(collection, name):
    """The parts of a collection as delayed objects."""
    if not hasattr(collection, "to_delayed"):
        raise ValueError(
            f"{name} is a {type(collection).__name__}, not a Dask array or dataframe. Call "
            "model.fit for data in memory."
        )
    parts = np.asarray(collection.to_delayed())
    if parts.ndim == 2 and parts.shape[1] > 1:
        raise ValueError(
            f"{name} is split along its columns into {parts.shape[1]} blocks. Rechunk it: "
            f"{name}.rechunk({{1: -1}})."
        )
    return parts.ravel().tolist()


def _matrix(part):
    """One part of X as an array of float64, its columns named in errors."""
    names = getattr(part, "columns", None)
    if names is not None:
        part = part.to_numpy(dtype=np.float64, na_value=np.nan)
    part = np.ascontiguousarray(part, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(part))
    if len(bad):
        i, j = bad[0]
        column = j if names is None else repr(names[j])
        raise ValueError(
            f"X contains {part[i, j]} in row {i} of a part, column {column}; fill or drop it."
        )
    return part


def _facts(k, block, labels, weight):
    """Labels, weights, moments and width of a part; unequal lengths are an error."""
    labels = np.asarray(labels)
    weight = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=np.float64)
    for name, values in (("y", labels), ("sample_weight", weight)):
        if len(values) != len(block):
            raise ValueError(
                f"Part {k} of X has {len(block)} rows, but part {k} of {name} has {len(values)}. "
                "Split both alike."
            )
    if labels.dtype.kind == "O":
        labels = labels.astype(str) if len(labels) else labels.astype("<U1")
    sums = block.sum(axis=1), np.einsum("ij,ij->i", block, block)
    moments = weight.sum(), weight @ sums[0], weight @ sums[1]
    return labels, weight, moments, block.shape[1]


def _take(block, rows):
    return block[rows]


def _part_features(block, rows, features):
    return features.in_blocks(block[rows])


def _part_violators(block, rows, codes, features, query, active):
    """Violators among some rows of a part, by blocks whose features fit into the CPU cache."""
    step = features.block_rows
    worst = Worst(query)

    def find(start):
        here = slice(start, start + step)
        low, high = np.searchsorted(active[0], [start, start + step])
        pairs = active[0][low:high] - start, active[1][low:high]
        values = features.kernel_values(block[rows[here]])
        found, *rest = block_violators(values, codes[here], worst.query, pairs)
        return found + start, *rest

    return worst.of(map(find, range(0, len(rows), step)))
