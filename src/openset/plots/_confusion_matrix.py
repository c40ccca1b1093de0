"""The confusion matrix with unknown as the last row and column."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay

from openset.metrics import open_set_confusion_matrix
from openset.metrics._counts import ratio
from openset.plots import _style
from openset.utils import unwrap


class OpenSetConfusionMatrixDisplay(ConfusionMatrixDisplay):
    """Where the samples of each class went; unknown is the last row and the last column.

    All true labels outside the known classes share the last row. Lines set it and the column of
    rejected samples apart. Build it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    confusion_matrix : ndarray of shape (K + 1, K + 1)
    display_labels : ndarray of shape (K + 1,), default=None
        Names of the classes, unknown last.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    im_ : matplotlib AxesImage
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
        cls, estimator, X, y, *, normalize: str | None = None, include_values=None, ax=None
    ) -> OpenSetConfusionMatrixDisplay:
        """Draw the matrix of an estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; a label that is no known class is unknown.
        normalize : {"true", None}, default=None
            "true" draws shares of each row instead of numbers of samples.
        include_values : bool, default=None
            Whether to write the values; None does for at most twelve classes.
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
        y_true,
        y_pred,
        *,
        known,
        unknown_label,
        normalize: str | None = None,
        include_values=None,
        ax=None,
    ) -> OpenSetConfusionMatrixDisplay:
        """Draw the matrix of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels; a label outside `known` is unknown.
        y_pred : array-like of shape (n,)
            Classes of `known` or `unknown_label`.
        known : array-like of shape (K,)
            The known classes, in the order of the rows.
        unknown_label : label
            The label that predicts unknown.
        normalize : {"true", None}, default=None
            "true" draws shares of each row instead of numbers of samples.
        include_values : bool, default=None
            Whether to write the values; None does for at most twelve classes.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        OpenSetConfusionMatrixDisplay
        """
        if normalize not in (None, "true"):
            raise ValueError(f"normalize={normalize!r} must be 'true' or None.")
        matrix = open_set_confusion_matrix(y_true, y_pred, known=known, unknown_label=unknown_label)
        if normalize:
            matrix = ratio(matrix, matrix.sum(axis=1, keepdims=True), 0.0)
        labels = np.array([*map(str, known), "unknown"])
        display = cls(confusion_matrix=matrix, display_labels=labels)
        return display.plot(ax=ax, include_values=include_values)

    def plot(self, ax=None, *, include_values=None) -> OpenSetConfusionMatrixDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        include_values : bool, default=None
            Whether to write the values; None does for at most twelve classes.

        Returns
        -------
        OpenSetConfusionMatrixDisplay
        """
        ax = _style.axes(ax)
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
        style = {"color": _style.INK, "linewidth": 1.5}
        self.borders_ = [ax.axhline(size - 1.5, **style), ax.axvline(size - 1.5, **style)]
        return self
