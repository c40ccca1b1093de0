"""scikit-learn's Pipeline with the whole contract of an open-set classifier."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.utils.validation import check_is_fitted

from ..utils import unwrap
from ._delegate import DelegatingClassifier


class OpenSetPipeline(DelegatingClassifier, Pipeline):
    """A Pipeline that ends in an open-set estimator and has its methods and attributes.

    scikit-learn's Pipeline passes on only the names that scikit-learn knows. This one also has
    ``known_score``, ``predict_known``, ``predict_set``, ``explain``, ``unknown_label_`` and
    ``bounded_``. :func:`openset.make_pipeline` makes one and names the steps.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As for :class:`sklearn.pipeline.Pipeline`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from openset import OpenSetSVC
    >>> from openset.base import OpenSetPipeline
    >>> steps = [("scale", StandardScaler()), ("svc", OpenSetSVC())]
    >>> model = OpenSetPipeline(steps).fit(*load_iris(return_X_y=True))
    >>> model.known_score([[5.0, 3.4, 1.5, 0.2]]) >= 0
    array([ True])
    """

    def delegate(self) -> BaseEstimator:
        check_is_fitted(self)
        return Pipeline(self.steps)

    def __getitem__(self, ind: Any) -> Any:
        part = super().__getitem__(ind)
        if isinstance(ind, slice) and part.steps and part.steps[-1] is not self.steps[-1]:
            return Pipeline(part.steps, memory=part.memory, verbose=part.verbose)
        return part


def make_pipeline(*steps: BaseEstimator, **options: Any) -> OpenSetPipeline:
    """Put transformers in front of an open-set estimator and keep its whole contract.

    Parameters
    ----------
    *steps : estimators
        Transformers, and finally an open-set estimator or a search of one.
    **options
        ``memory``, ``transform_input`` and ``verbose`` of
        :func:`sklearn.pipeline.make_pipeline`, which also names the steps.

    Returns
    -------
    OpenSetPipeline

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from openset import OpenSetSVC, make_pipeline
    >>> model = make_pipeline(StandardScaler(), OpenSetSVC()).fit(*load_iris(return_X_y=True))
    >>> model.predict([[5.0, 3.4, 1.5, 0.2], [50.0, 50.0, 50.0, 50.0]]), model.unknown_label_
    (array([ 0, -1]), -1)
    >>> model.bounded_
    array([ True,  True,  True])
    """
    if not steps:
        raise ValueError("make_pipeline needs at least one step, an open-set estimator.")
    unwrap(steps[-1])  # raises a TypeError if it is not an open-set estimator
    plain = sklearn_pipeline(*steps, **options)
    return OpenSetPipeline(**plain.get_params(deep=False))
