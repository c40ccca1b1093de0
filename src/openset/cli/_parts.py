"""Parts of a folder that workers of a cluster read as training data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from openset.cli._columns import coded_features, feature_matrix
from openset.cli._labels import is_integer, label_text, to_integer
from openset.cli._training import TrainingData
from openset.datasets.tables import Table, TableError


@dataclass
class PartReader:
    """Reads one part of a table with the columns of training data that others were read as."""

    part: Table
    target: str
    like: TrainingData
    missing: str
    classes: np.ndarray | None  # labels to keep; None for all

    def __post_init__(self):
        self.like = replace(self.like, X=self.like.X[:0], y=self.like.y[:0])  # small to send

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of the rows."""
        coded = coded_features(self.like.categories)
        names, X, labels, n_rows = self.like.features, [], [], 0
        for batch in self.part.batches():
            gaps = self.missing != "error"
            X.append(feature_matrix(self.part, batch, (names, coded), n_rows, gaps))
            labels += [label_text(value) for value in batch.column(self.target).to_pylist()]
            n_rows += batch.num_rows
        matrix = np.vstack([np.empty((0, len(names))), *X])
        kept = np.array([label is not None for label in labels], dtype=bool)
        if self.missing == "error" and not kept.all():
            raise TableError(
                f"{self.part.path} has no class in data row {np.argmin(kept) + 1}; fill it, or use "
                "--missing drop"
            )
        if self.missing == "drop":
            kept &= ~np.isnan(matrix).any(axis=1)
        texts = [label for label, keep in zip(labels, kept, strict=True) if keep]
        if self.like.y.dtype.kind == "i":
            odd = next((text for text in texts if not is_integer(text)), None)
            if odd is not None:
                raise TableError(
                    f"{self.part.path} has the class {odd!r}, but the first classes of all parts "
                    "are integers; name all classes alike"
                )
            y = np.array([to_integer(text) for text in texts], dtype=self.like.y.dtype)
        else:
            y = np.array(texts, dtype=str)
        rows = np.ones(len(y), dtype=bool) if self.classes is None else np.isin(y, self.classes)
        return matrix[kept][rows], y[rows]
