"""Methods by the names they have on the command line."""

from difflib import get_close_matches
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler

from ..base import OpenSetPipeline
from ..registry import method_names


def make_method(
    name: str,
    *,
    n_jobs: int | None = None,
    impute: bool = False,
    landmarks: int | None = None,
    random_state: int | None = None,
    unknown_label: Any = "auto",
) -> OpenSetPipeline:
    """Return a Pipeline that scales the features to [0, 1] and ends in the method.

    Parameters
    ----------
    name : str
        Short name or class name, such as "ossvm" or "OpenSetSVC", in upper or lower case.
    n_jobs : int, default=None
        Threads of the method, if it has the parameter.
    impute : bool, default=False
        Whether to fill missing values with the median of the feature first.
    landmarks : int, default=None
        Landmarks of a method that can be trained on them.
    random_state : int, default=None
        Seed of the choice of landmarks.
    unknown_label : "auto" or label, default="auto"
        Of the method.

    Returns
    -------
    OpenSetPipeline
    """
    known = method_names()
    found = known | {cls.__name__.lower(): cls for cls in known.values()}
    if name.lower() not in found:
        close = get_close_matches(name.lower(), found, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"no such method: {name}; {hint}there are {', '.join(known)}")
    model: BaseEstimator = found[name.lower()](unknown_label=unknown_label)
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=n_jobs)
    if landmarks is not None:
        if "landmarks" not in model.get_params():
            usable = [key for key, cls in known.items() if "landmarks" in cls().get_params()]
            raise ValueError(
                f"landmarks={landmarks}, but {name} cannot be trained on landmarks; choose one of "
                f"{', '.join(usable)}"
            )
        model.set_params(landmarks=landmarks, random_state=random_state)
    steps = [("scale", MinMaxScaler()), ("model", model)]
    if impute:
        steps.insert(0, ("impute", SimpleImputer(strategy="median")))
    return OpenSetPipeline(steps)
