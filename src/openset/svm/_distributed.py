"""Landmark models of data in many parts, on one machine or on a cluster, by Dask.

Labels and weights of all rows, the landmarks and the features of active rows are on the machine
that calls; the parts stay where they are, see ``_dask_rows``.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..utils import answer_labels, unwrap
from ._dask_rows import DaskRows, Parts
from ._landmarks import LandmarkClassifier, given_landmarks

Model = TypeVar("Model", bound=LandmarkClassifier)


def fit_distributed(model: Model, X: Any, y: Any, *, sample_weight: Any = None) -> Model:
    """Fit a landmark model on a Dask array or dataframe.

    The work is done where Dask's scheduler is: create a ``dask.distributed.Client`` first to use a
    cluster. If a worker is lost, its parts are loaded and computed again by others.

    Parameters
    ----------
    model : OpenSetSVC or OneVsRestSVC
        With `landmarks`; it is cloned.
    X : dask Array or DataFrame of shape (m, d)
        Features; an array is not split along its columns.
    y : dask Array or Series of shape (m,)
        Classes, in parts of the same lengths.
    sample_weight : dask Array or Series of shape (m,), default=None
        Weights, likewise.

    Returns
    -------
    OpenSetSVC or OneVsRestSVC
        An ordinary fitted estimator. It agrees, within the tolerance of the solver, with the one
        fitted on the same rows in memory. ``support_`` counts the rows of all parts in order.

    Examples
    --------
    >>> import numpy as np
    >>> import dask.array as da
    >>> from openset import OpenSetSVC
    >>> from openset.svm import fit_distributed
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 2)) + 9 * y[:, None]
    >>> model = OpenSetSVC(gamma=0.5, landmarks=20, random_state=0)
    >>> fitted = fit_distributed(model, da.from_array(X, (40, 2)), da.from_array(y, 40))
    >>> fitted.predict([[0.0, 0.0], [9.0, 9.0], [50.0, 0.0]])
    array([ 0,  1, -1])
    """
    if not isinstance(model, LandmarkClassifier) or model.landmarks is None:
        raise ValueError(
            f"fit_distributed needs an OpenSetSVC or OneVsRestSVC with landmarks, got {model!r}. "
            "Set landmarks, for instance to 2000."
        )
    model = clone(model)
    model._validate_params()
    parts = Parts(X, y, sample_weight)
    labels = np.concatenate(parts.labels)
    weight = np.concatenate(parts.weight)
    drawn = _some_rows(model, labels, weight)
    # The checks of an ordinary fit, on a sample that holds every class.
    kept = clone(model)
    if model.gamma == "scale":
        model.set_params(gamma=parts.unit_gamma())
    sample = parts.rows(drawn)
    if parts.names is not None:
        import pandas as pd

        sample = pd.DataFrame(sample, columns=parts.names)
    given = model.prepare(sample, labels[drawn], weight[drawn], model.min_classes)
    everyone = np.flatnonzero(weight)
    codes = np.searchsorted(model.classes_, labels[everyone])
    unknown = labels[everyone] == model.unknown_label_
    codes[unknown] = len(model.classes_)
    model.n_known_unknowns_ = int(unknown.sum())
    total = weight[everyone] * model.class_sample_weights(labels[everyone])
    training = replace(given, X=None, codes=codes, weight=total, rows=everyone)
    if isinstance(model.landmarks, Integral):
        rows = drawn[given.rows]
        place = np.searchsorted(everyone, rows)
        landmarks = model.select_landmarks(
            replace(given, codes=codes[place], weight=total[place], rows=rows)
        )
    else:
        landmarks = given_landmarks(model.landmarks, given.X)

    def rows_of(training, features):
        return DaskRows(parts, training, features)

    model.fit_on_landmarks(training, landmarks, rows_of)
    return model.set_params(gamma=kept.gamma)


def predict_distributed(model: BaseEstimator, X: Any) -> Any:
    """Answers for a Dask array or dataframe, part by part; nothing is computed yet.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, a Pipeline or a search.
    X : dask Array or DataFrame of shape (n, d)

    Returns
    -------
    dask Array or Series of shape (n,)
        What ``model.predict`` answers.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.svm import predict_distributed
    >>> model = OpenSetSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [0, 0, 1, 1])
    >>> X = da.from_array(np.array([[0.0, 0.5], [50.0, 50.0]]), (1, 2))
    >>> predict_distributed(model, X).compute()
    array([ 0, -1])
    """
    check_is_fitted(model)
    final = unwrap(model)
    dtype = answer_labels(final.classes_, final.unknown_label_).dtype
    if hasattr(X, "columns"):
        return X.map_partitions(_predict_frame, model, dtype, meta=("answer", dtype))
    return X.map_blocks(_predict, model, dtype, drop_axis=1, meta=np.empty(0, dtype))


def _predict(part, model, dtype):
    return model.predict(part) if len(part) else np.empty(0, dtype)


def _predict_frame(frame, model, dtype):
    import pandas as pd

    return pd.Series(_predict(frame, model, dtype), index=frame.index, name="answer")


def _some_rows(model, labels, weight):
    """Rows to draw for the checks and for the choice of landmarks: every class is among them."""
    rows = np.flatnonzero(weight)
    codes = np.unique(labels[rows], return_inverse=True)[1]
    if not isinstance(model.landmarks, Integral):
        _, first = np.unique(codes, return_index=True)
        return rows[np.sort(first)]
    if model.landmarks > len(rows):
        raise ValueError(
            f"landmarks={model.landmarks}, but X has only {len(rows)} samples. Choose fewer."
        )
    return rows[model.draw_rows(codes)]
