"""The measures as functions of counts, with unknown as the last class.

Three counts per class are enough for every measure of a prediction. They may carry leading
axes: a search counts all its grid cells at once from integer codes and never encodes again.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def ratio(numerator, denominator, undefined: float) -> NDArray[np.float64]:
    """Divide, with 0/0 := `undefined` and no warning."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    out = np.full(numerator.shape, undefined)
    return np.divide(numerator, denominator, out=out, where=denominator != 0)


@dataclass(frozen=True)
class Counts:
    """Samples per class, arrays of shape (..., K + 1) with unknown last.

    Parameters
    ----------
    hit : ndarray
        Samples of the class that were predicted as it.
    predicted : ndarray
        Samples predicted as the class.
    support : ndarray
        Samples of the class.
    """

    hit: NDArray[np.intp]
    predicted: NDArray[np.intp]
    support: NDArray[np.intp]

    @classmethod
    def from_codes(cls, true: NDArray[np.intp], pred: NDArray[np.intp], n_known: int) -> "Counts":
        """Count codes 0..K.

        Parameters
        ----------
        true : ndarray of shape (n,)
        pred : ndarray of shape (..., n)
            Any number of predictions of the same truth.
        n_known : int
            K; code K is unknown.
        """
        size = n_known + 1
        rows = pred.reshape(-1, pred.shape[-1])
        # Each prediction gets its own block of bins, so one bincount serves all of them.
        bins = rows + size * np.arange(len(rows))[:, np.newaxis]
        shape = (*pred.shape[:-1], size)
        return cls(
            hit=np.bincount(bins[rows == true], minlength=size * len(rows)).reshape(shape),
            predicted=np.bincount(bins.ravel(), minlength=size * len(rows)).reshape(shape),
            support=np.bincount(true, minlength=size),
        )

    @property
    def _n_known_samples(self) -> NDArray[np.intp]:
        return self.support[..., :-1].sum(axis=-1)

    def accuracy_known(self) -> NDArray[np.float64]:
        """AKS, pooled over samples."""
        return ratio(self.hit[..., :-1].sum(axis=-1), self._n_known_samples, np.nan)

    def accuracy_unknown(self) -> NDArray[np.float64]:
        """AUS."""
        return ratio(self.hit[..., -1], self.support[..., -1], np.nan)

    def normalized_accuracy(self, weight: float = 0.5) -> NDArray[np.float64]:
        """NA; `weight` is lambda_r."""
        return weight * self.accuracy_known() + (1 - weight) * self.accuracy_unknown()

    def harmonic_normalized_accuracy(self) -> NDArray[np.float64]:
        """HNA."""
        return f_of(self.accuracy_known(), self.accuracy_unknown())


def f_of(a, b) -> NDArray[np.float64]:
    """Return the harmonic mean of a, b >= 0: 0 when either is 0, NaN when either is NaN."""
    return ratio(2 * a * b, a + b, 0.0)
