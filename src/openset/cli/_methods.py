"""The methods by the names they have on the command line."""

from __future__ import annotations

from difflib import get_close_matches

from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from openset.utils import method_names as methods


def get_method(name: str) -> type:
    """The estimator of a name, short or of the class.

    Parameters
    ----------
    name : str
        Such as "ossvm" or "OpenSetSVC"; upper and lower case are the same.

    Returns
    -------
    type
    """
    known = methods()
    by_class = {cls.__name__.lower(): cls for cls in known.values()}
    wanted = name.lower()
    if wanted in known or wanted in by_class:
        return known.get(wanted) or by_class[wanted]
    close = get_close_matches(wanted, [*known, *by_class], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ValueError(f"--method {name}: no such method; {hint}there are {', '.join(known)}")


def make_model(name: str, *, jobs: int = -1, impute: bool = False) -> BaseEstimator:
    """A Pipeline that scales the features to [0, 1] and ends in the method.

    Parameters
    ----------
    name : str
        As for :func:`get_method`.
    jobs : int, default=-1
        Threads; -1 for all.
    impute : bool, default=False
        Whether to fill missing values with the median of the feature.

    Returns
    -------
    Pipeline
    """
    model = get_method(name)()
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=jobs)
    steps = [("scale", MinMaxScaler()), ("model", model)]
    if impute:
        steps.insert(0, ("impute", SimpleImputer(strategy="median")))
    return Pipeline(steps)
