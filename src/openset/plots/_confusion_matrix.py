"""The confusion matrix with unknown as the last row and column."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import ConfusionMatrixDisplay

from ..metrics import open_set_confusion_matrix
from ..utils import unwrap
from ._display import axes_for
from ._style import INK, plain_text


class OpenSetConfusionMatrixDisplay(ConfusionMatrixDisplay):
    """Where the samples of each class went; unknown is the last row and the last column.

    All true labels outside the known classes share the last row. Lines separate it, and the column
    of rejected samples, from the rest. Build it with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Parameters
    ----------
    confusion_matrix : ndarray of shape (K + 1, K + 1)
    display_labels : ndarray of shape (K + 1,), default=None
        Names of the classes, unknown last.

    Attributes
    ----------
    ax_, figure_, im_ : matplotlib Axes, Figure, AxesImage
    text_ : ndarray of shape (K + 1, K + 1) of Text, or None
    borders_ : list of Line2D

    Examples
    --------
    >>> from openset.plots import OpenSetConfusionMatrixDisplay
    >>> display = OpenSetConfusionMatrixDisplay.from_predictions(
    ...     ["a", "b", "x"], ["a", "?", "?"], known=["a", "b"], unknown_label="?"
    ... )
    >>> display.confusion_matrix
    array([[1, 0, 0],
           [0, 0, 1],
           [0, 0, 1]])
    """

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        normalize: str | None = None,
        include_values: bool | None = None,
        ax: Axes | None = None,
    ) -> OpenSetConfusionMatrixDisplay:
        """Draw the matrix of an estimator.

        Parameters
        ----------
        estimator, X, y
            As for :meth:`OSCRDisplay.from_estimator`.
        normalize : {"true", None}, default=None
            "true" shows the share of each row instead of the number of samples.
        include_values : bool, default=None
            Whether to write the values; None writes them for at most twelve classes.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        OpenSetConfusionMatrixDisplay
        """
        model = unwrap(estimator)
        return cls.from_predictions(
            y,
            estimator.predict(X),
            known=model.classes_,
            unknown_label=model.unknown_label_,
            normalize=normalize,
            include_values=include_values,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        known: ArrayLike,
        unknown_label: Hashable,
        normalize: str | None = None,
        include_values: bool | None = None,
        ax: Axes | None = None,
    ) -> OpenSetConfusionMatrixDisplay:
        """Draw the matrix of predictions.

        Parameters
        ----------
        y_true, y_pred, known, unknown_label
            As for :func:`openset.metrics.open_set_confusion_matrix`.
        normalize, include_values, ax
            As for :meth:`from_estimator`.

        Returns
        -------
        OpenSetConfusionMatrixDisplay
        """
        if normalize not in (None, "true"):
            raise ValueError(f"normalize={normalize!r} must be 'true' or None.")
        counts = open_set_confusion_matrix(y_true, y_pred, known=known, unknown_label=unknown_label)
        # The maximum with 1 keeps a row without samples at 0.
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        labels = np.array([*map(str, known), "unknown"])  # type: ignore[arg-type]
        display = cls(confusion_matrix=shares if normalize else counts, display_labels=labels)
        return display.plot(ax=ax, include_values=include_values)

    def plot(
        self, ax: Axes | None = None, *, include_values: bool | None = None
    ) -> OpenSetConfusionMatrixDisplay:
        """Draw.

        Parameters
        ----------
        ax, include_values
            As for :meth:`from_estimator`.

        Returns
        -------
        OpenSetConfusionMatrixDisplay
        """
        ax = axes_for(ax)
        size = len(self.confusion_matrix)
        shares = np.issubdtype(self.confusion_matrix.dtype, np.floating)
        super().plot(
            ax=ax,
            include_values=size <= 13 if include_values is None else include_values,
            cmap="Blues",
            values_format=".2f" if shares else "d",
            xticks_rotation="vertical" if max(map(len, self.display_labels)) > 3 else "horizontal",
            colorbar=False,
        )
        names = [plain_text(label) for label in self.display_labels]
        ax.set(xticklabels=names, yticklabels=names)
        self.borders_ = [line(size - 1.5, color=INK, lw=1.5) for line in (ax.axhline, ax.axvline)]
        return self
