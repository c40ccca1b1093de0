"""A fitted model in, the same model with an operating point inside out."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable

from ..metrics import encode_labels
from ..utils import split_fitted
from ._operating_point import OperatingPoint
from ._rejector import CalibratedRejector


def calibrate(model: BaseEstimator, X: Any, y: Any, **operating_point: Any) -> BaseEstimator:
    """Return a fitted model with calibrated thresholds inside.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one. It is not changed.
    X : array-like of shape (n, d), or whatever the model takes
        Samples that were not used in its fit or search.
    y : array-like of shape (n,)
        Their labels. Samples with a label that is no known class are unknown; they are used where
        the operating point needs unknown samples, and for its price (``price_``) everywhere.
    **operating_point
        Parameters of :class:`CalibratedRejector`, such as ``alpha=0.05``.

    Returns
    -------
    estimator
        A :class:`CalibratedRejector`; for a Pipeline the same steps with that as the last one.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openset import OpenSetSVC
    >>> from openset.calibration import calibrate
    >>> X, y = load_digits(n_class=6, return_X_y=True)
    >>> svc = OpenSetSVC(gamma=0.001, C=8).fit(X[::2], y[::2])
    >>> model = calibrate(svc, X[1::2], y[1::2], alpha=0.1)
    >>> print(f"{model.n_calibration_} samples, promise kept: {model.promise_}")
    541 samples, promise kept: True
    """
    transform, final = split_fitted(model)
    steps = model.steps if isinstance(model, Pipeline) else [("model", model)]
    inside = steps[-1][1] is final  # else a search or another wrapper stays around it
    rejector = CalibratedRejector(FrozenEstimator(final if inside else model), **operating_point)
    y = np.asarray(y)
    known = encode_labels(y, final.classes_) < len(final.classes_)
    (Z,) = indexable(transform(X) if inside else X)
    if OperatingPoint.of(rejector).needs_unknown and known.all():
        raise ValueError(
            f"criterion={rejector.criterion!r} with unknown_share={rejector.unknown_share:g} "
            "needs unknown samples, but all labels in y are known classes."
        )
    unknown = None if known.all() else _safe_indexing(Z, np.flatnonzero(~known))
    rejector._fit(_safe_indexing(Z, np.flatnonzero(known)), y[known], unknown)
    if inside and isinstance(model, Pipeline):
        return type(model)([*steps[:-1], (steps[-1][0], rejector)])
    return rejector
