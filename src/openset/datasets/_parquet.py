"""Datasets stored one to a Parquet file: numeric feature columns and a column ``target``."""

import os
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

_ENVIRONMENT = "OPENSET_DATA"
_RESERVED = ("data", "target", "feature_names", "name")


def load_dataset(
    name: str, data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load ``<data_home>/<name>.parquet``.

    The column ``target`` holds the labels and every other numeric column is a feature, unscaled
    and in file order. A column that is neither (a text, the name of a split) is passed on under
    its own name.

    Parameters
    ----------
    name : str
        Name of the dataset: the file name without ``.parquet``.
    data_home : path-like, default=None
        Folder of the files; None takes it from the environment variable ``OPENSET_DATA``.
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
    path = _find(name, _data_home(data_home))
    frame = _read(path)
    if "target" not in frame.columns:
        raise ValueError(
            f"{path} has no column 'target'; name the column of labels so. "
            f"Its last columns are {list(frame.columns[-3:])}."
        )
    if n_missing := int(frame["target"].isna().sum()):
        raise ValueError(f"{path}: 'target' is missing in {n_missing} rows; drop or label them.")

    features = frame.drop(columns="target").select_dtypes(["number", "bool"])
    if features.shape[1] == 0:
        raise ValueError(f"{path} has no numeric column beside 'target'; features must be numeric.")
    data = features.to_numpy(dtype=np.float64, na_value=np.nan)
    target = frame["target"].to_numpy()
    if return_X_y:
        return data, target

    other = [c for c in frame.columns if c != "target" and c not in features.columns]
    if taken := sorted(set(other).intersection(_RESERVED)):
        raise ValueError(f"{path}: columns {taken} bear a name of a Bunch field; rename them.")
    return Bunch(
        data=data,
        target=target,
        feature_names=[str(column) for column in features.columns],
        name=name,
        **{column: frame[column].to_numpy() for column in other},
    )


def _data_home(data_home: str | os.PathLike | None) -> Path:
    if data_home is None:
        data_home = os.environ.get(_ENVIRONMENT)
        source = f"the environment variable {_ENVIRONMENT}"
        if not data_home:
            raise ValueError(
                "no data home: pass data_home= the folder of the Parquet files, "
                f"or set the environment variable {_ENVIRONMENT} to it."
            )
    else:
        source = "data_home"
    home = Path(data_home).expanduser()
    if not home.is_dir():
        raise FileNotFoundError(f"{source} is {str(data_home)!r}, which is not a folder.")
    return home


def _find(name: str, home: Path) -> Path:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {name!r} of type {type(name).__name__}.")
    available = sorted(path.stem for path in home.glob("*.parquet"))
    if name not in available:
        close = get_close_matches(name.removesuffix(".parquet"), available)
        remedy = (
            f"did you mean {' or '.join(map(repr, close))}?"
            if close
            else f"the folder holds {', '.join(available) or 'no Parquet file'}."
        )
        raise ValueError(f"no dataset {name!r} in {home}: {remedy}")
    return home / f"{name}.parquet"


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
