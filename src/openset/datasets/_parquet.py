"""Datasets stored one to a Parquet file: numeric feature columns and a column ``target``."""

import os
import warnings
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from openset.datasets._catalogue import CATALOGUE, content_sha256
from openset.datasets._pmlb import fetch
from openset.utils import atomic_write

_ENVIRONMENT = "OPENSET_DATA"
_RESERVED = ("data", "target", "feature_names", "name")


def load_dataset(
    name: str, data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load ``<data_home>/<name>.parquet``, or fetch a set of the paper that is in PMLB.

    The column ``target`` holds the labels and every other numeric column is a feature, unscaled
    and in file order. A column that is neither (a text, the name of a split) is passed on under
    its own name.

    A dataset of the paper that is not in the data home is fetched by the package ``pmlb``, if PMLB
    has it, checked against its known SHA-256, and kept in the data home if there is one. A file
    whose values are not the known ones is loaded with a warning.

    Parameters
    ----------
    name : str
        Name of the dataset: the file name without ``.parquet``.
    data_home : path-like, default=None
        Folder of the files; None takes it from the environment variable ``OPENSET_DATA``, and
        without that a dataset can only be fetched.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        ``data``, float64 array of shape (n_samples, n_features); ``target``, array of shape
        (n_samples,); ``feature_names``, list of str; ``name``; and one array of shape
        (n_samples,) for each column that is neither a feature nor the target.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from openset.datasets import load_dataset
    >>> with tempfile.TemporaryDirectory() as home:
    ...     frame = pd.DataFrame({"x1": [0, 1], "x2": [2, 3], "target": [1, 2]})
    ...     frame.to_parquet(Path(home) / "tiny.parquet")
    ...     tiny = load_dataset("tiny", data_home=home)
    >>> tiny.data
    array([[0., 2.],
           [1., 3.]])
    >>> tiny.target
    array([1, 2])
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {name!r} of type {type(name).__name__}.")
    home = find_home(data_home)
    path = None if home is None else home / f"{name}.parquet"
    if is_here := path is not None and name in stored(home):
        frame, origin = _read(path), str(path)
    else:
        _explain_absence(name, home)
        frame, origin = fetch(CATALOGUE[name].pmlb), f"{name} of PMLB"
    features = _features(frame, origin)
    data = features.to_numpy(dtype=np.float64, na_value=np.nan)
    target = frame["target"].to_numpy()
    if not _is_as_known(name, data, target):
        _report_difference(name, origin, is_here)
    if path is not None and not is_here:
        _keep(frame, path)
    if return_X_y:
        return data, target

    other = [c for c in frame.columns if c != "target" and c not in features.columns]
    if taken := sorted(set(other).intersection(_RESERVED)):
        raise ValueError(f"{origin}: columns {taken} bear a name of a Bunch field; rename them.")
    return Bunch(
        data=data,
        target=target,
        feature_names=[str(column) for column in features.columns],
        name=name,
        **{column: frame[column].to_numpy() for column in other},
    )


def find_home(data_home: str | os.PathLike | None) -> Path | None:
    """The folder of the data, which exists, or None where none is named."""
    source = "data_home"
    if data_home is None:
        data_home = os.environ.get(_ENVIRONMENT)
        source = f"the environment variable {_ENVIRONMENT}"
        if not data_home:
            return None
    home = Path(data_home).expanduser()
    if not home.is_dir():
        raise FileNotFoundError(f"{source} is {str(data_home)!r}, which is not a folder.")
    return home


def stored(home: Path) -> list[str]:
    """Names of the datasets in a folder."""
    return sorted(path.stem for path in home.glob("*.parquet"))


def _explain_absence(name: str, home: Path | None) -> None:
    """Raise, unless PMLB has what the data home has not."""
    if name in CATALOGUE:
        if CATALOGUE[name].pmlb:
            return
        raise ValueError(
            f"dataset {name!r} is {_not_in(home)} and cannot be fetched. Where to get it: "
            f"{CATALOGUE[name].where}. Save it as {name}.parquet in the data home: numeric "
            "feature columns and a column 'target'."
        )
    available = [] if home is None else stored(home)
    close = get_close_matches(name.removesuffix(".parquet"), [*available, *CATALOGUE])
    if close:
        remedy = f"did you mean {' or '.join(map(repr, dict.fromkeys(close)))}?"
    elif home is None:
        remedy = "it is none of the paper's."
    else:
        remedy = f"the folder holds {', '.join(available) or 'no Parquet file'}."
    raise ValueError(f"no dataset {name!r}, {_not_in(home)}: {remedy}")


def _not_in(home: Path | None) -> str:
    if home is not None:
        return f"not in {home}"
    return (
        "for there is no data home (pass data_home= the folder of the Parquet files, or set the "
        f"environment variable {_ENVIRONMENT} to it)"
    )


def _features(frame, origin: str):
    if "target" not in frame.columns:
        raise ValueError(
            f"{origin} has no column 'target'; name the column of labels so. "
            f"Its last columns are {list(frame.columns[-3:])}."
        )
    if n_missing := int(frame["target"].isna().sum()):
        raise ValueError(f"{origin}: 'target' is missing in {n_missing} rows; drop or label them.")
    features = frame.drop(columns="target").select_dtypes(["number", "bool"])
    if features.shape[1] == 0:
        raise ValueError(
            f"{origin} has no numeric column beside 'target'; features must be numeric."
        )
    return features


def _is_as_known(name: str, data: np.ndarray, target: np.ndarray) -> bool:
    entry = CATALOGUE.get(name)
    if entry is None or not entry.sha256:
        return True
    is_whole = target.dtype.kind in "iu" and np.isfinite(data).all()
    return is_whole and content_sha256(data, target) == entry.sha256


def _report_difference(name: str, origin: str, is_here: bool) -> None:
    """A file is the user's own choice; what was fetched must be what was asked for."""
    message = (
        f"{origin} does not hold the values that the paper's dataset {name!r} is known by "
        "(SHA-256); results on it are not comparable with published ones."
    )
    if is_here:
        warnings.warn(message, stacklevel=3)
    else:
        raise ValueError(
            f"{message} Fetch it again; if PMLB has changed it, get an older version and save it "
            f"as {name}.parquet in the data home."
        )


def _keep(frame, path: Path) -> None:
    """Save what was fetched; a home that cannot be written to is no reason to fail."""
    try:
        with atomic_write(path) as temporary:
            frame.to_parquet(temporary, engine="pyarrow", index=False)
    except OSError as error:
        warnings.warn(f"{path.name} was fetched but could not be kept: {error}", stacklevel=3)


def _read(path: Path):
    try:
        import pandas
        import pyarrow
    except ImportError as error:
        raise ImportError(
            f"load_dataset needs pandas and pyarrow ({error.name} is missing); "
            'run: pip install "openset[data]"',
            name=error.name,
        ) from error
    try:
        return pandas.read_parquet(path, engine="pyarrow")
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} cannot be read as Parquet ({error}); fetch or write the file again."
        ) from error
