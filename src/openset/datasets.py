"""Datasets: loaders from Parquet files and PMLB, and generators of 2-D sets.

``datasets.csv`` has sizes and checksums in the order of the paper's table; the four 2-D sets of its
figures come last. The generators follow Kuncheva's published descriptions of these four: classes
are numbered from 1, and the rows are sorted by class, as in the original files.
"""

from __future__ import annotations

import csv
import hashlib
import os
import warnings
from importlib.resources import files
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .utils import atomic_write, needs
from .utils.text import similar

__all__ = [
    "DatasetRow",
    "dataset_table",
    "load_dataset",
    "make_boat",
    "make_cone_torus",
    "make_four_gauss",
    "make_regular",
    "same_values",
]

_ENVIRONMENT = "OPENSET_DATA"
_RESERVED = ("data", "target", "feature_names", "name")


def load_dataset(
    name: str, data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """Load ``<data_home>/<name>.parquet``, or fetch a dataset of the paper from PMLB.

    The column ``target`` holds the labels and every other numeric column is a feature, unscaled
    and in file order. Any other column (a text, the name of a split) is a field of its own name.

    If a dataset of the paper is not in the data home but in PMLB, it is fetched with the package
    ``pmlb``, checked against its known SHA-256, and saved in the data home if there is one. A file
    whose values differ from the known ones is loaded with a warning.

    Parameters
    ----------
    name : str
        Name of the dataset: the file name without ``.parquet``.
    data_home : path-like, default=None
        Folder of the files; None uses the environment variable ``OPENSET_DATA``. Without either,
        datasets can only be fetched.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch or (data, target)
        ``data``, float64 array of shape (n_samples, n_features); ``target``, array of shape
        (n_samples,); ``feature_names``, list of str; ``name``; and an array for each other column.

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
    if is_here := name in stored(home):  # a listed name cannot leave the folder
        path = Path(home or "", f"{name}.parquet")
        frame, origin = _read(path), str(path)
    else:
        _check_in_pmlb(name, home)
        frame, origin = _fetch(CATALOGUE[name].pmlb), f"{name} of PMLB"
    features = _features(frame, origin)
    data = features.to_numpy(dtype=np.float64, na_value=np.nan)
    target = frame["target"].to_numpy()
    if _values_differ(name, data, target):
        message = (
            f"{origin} does not contain the values of the paper's dataset {name!r} "
            "(by SHA-256); results on it are not comparable with published ones."
        )
        if not is_here:
            raise ValueError(
                f"{message} Fetch it again; if PMLB has changed it, get an older version and save "
                f"it as {name}.parquet in the data home."
            )
        warnings.warn(message, stacklevel=2)  # the file is the user's choice
    if home is not None and not is_here:
        _keep(frame, home / f"{name}.parquet")
    if return_X_y:
        return data, target

    other = [c for c in frame.columns if c != "target" and c not in features.columns]
    if taken := sorted(set(other).intersection(_RESERVED)):
        raise ValueError(f"{origin}: columns {taken} are names of Bunch fields; rename them.")
    return Bunch(
        data=data,
        target=target,
        feature_names=[str(column) for column in features.columns],
        name=name,
        **{column: frame[column].to_numpy() for column in other},
    )


def find_home(data_home: str | os.PathLike | None) -> Path | None:
    """Return the existing data folder, or None if none is given."""
    source = "data_home" if data_home is not None else f"the environment variable {_ENVIRONMENT}"
    given = os.environ.get(_ENVIRONMENT) or None if data_home is None else data_home
    if given is not None and not Path(given).expanduser().is_dir():
        raise FileNotFoundError(f"{source} is {str(given)!r}, which is not a folder.")
    return None if given is None else Path(given).expanduser()


def stored(home: Path | None) -> list[str]:
    """Names of the datasets in the data folder, if there is one."""
    return [] if home is None else sorted(path.stem for path in home.glob("*.parquet"))


def _check_in_pmlb(name: str, home: Path | None) -> None:
    """Raise a helpful error for a dataset that is neither in the data home nor in PMLB."""
    absent = f"not in {home}"
    remedy = f"the folder contains {', '.join(stored(home)) or 'no Parquet file'}."
    if home is None:
        absent = (
            "not available without a data home (pass data_home= the folder of the Parquet files, "
            f"or set the environment variable {_ENVIRONMENT} to it)"
        )
        remedy = "it is not one of the paper's datasets."
    if name not in CATALOGUE:
        remedy = similar(name.removesuffix(".parquet"), [*stored(home), *CATALOGUE]) or remedy
        raise ValueError(f"no dataset {name!r}, {absent}: {remedy}")
    if not CATALOGUE[name].pmlb:
        raise ValueError(
            f"dataset {name!r} is {absent} and cannot be fetched. Where to get it: "
            f"{CATALOGUE[name].where}. Save it as {name}.parquet in the data home: numeric "
            "feature columns and a column 'target'."
        )


def _features(frame, origin: str):
    if "target" not in frame.columns:
        raise ValueError(
            f"{origin} has no column 'target'; give this name to the column of labels. "
            f"Its last columns are {list(frame.columns[-3:])}."
        )
    if n_missing := int(frame["target"].isna().sum()):
        raise ValueError(f"{origin}: 'target' is missing in {n_missing} rows; drop or label them.")
    index = frame.filter(regex="^__index_level_[0-9]+__$").columns  # left by other programs
    features = frame.drop(columns=["target", *index]).select_dtypes(["number", "bool"])
    if features.shape[1] == 0:
        raise ValueError(
            f"{origin} has no numeric column besides 'target'; features must be numeric."
        )
    return features


def _values_differ(name: str, data: np.ndarray, target: np.ndarray) -> bool:
    """Whether these are not the values of the paper's dataset, as far as they are known."""
    known = CATALOGUE[name].sha256 if name in CATALOGUE else ""
    is_whole = target.dtype.kind in "iu" and np.isfinite(data).all()
    return bool(known) and not (is_whole and content_sha256(data, target) == known)


def _keep(frame, path: Path) -> None:
    """Save fetched data; only warn if the data home cannot be written to."""
    try:
        with atomic_write(path) as temporary:
            frame.to_parquet(temporary, engine="pyarrow", index=False)
    except OSError as error:
        warnings.warn(f"{path.name} was fetched but could not be saved: {error}", stacklevel=3)


def _read(path: Path):
    with needs("load_dataset needs pandas and pyarrow ({} is missing)", "data"):
        import pandas
        import pyarrow
    try:
        return pandas.read_parquet(path, engine="pyarrow")
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path} cannot be read as Parquet ({error}); fetch or write the file again."
        ) from error


def _fetch(name: str):
    """Fetch a DataFrame by its name in PMLB: the features and, last, the column ``target``."""
    try:
        from pmlb import fetch_data
    except ImportError as error:
        raise ImportError(
            f"the dataset {name!r} is not in the data home, and fetching it needs the package "
            "pmlb; run: pip install pmlb",
            name="pmlb",
        ) from error
    try:
        return fetch_data(name)
    except Exception as error:  # the network, the server, or a changed name
        raise OSError(
            f"PMLB did not provide the dataset {name!r} ({type(error).__name__}: {error}); try "
            "again with a network connection, or put the file into the data home."
        ) from error


class Entry(NamedTuple):
    """What is known about a dataset; shape: samples, features, classes, smallest, largest."""

    shape: tuple[int, ...]
    where: str  # where to get it, in words
    pmlb: str = ""  # name of the set in PMLB; empty if PMLB does not have it
    sha256: str = ""  # content_sha256; empty if the paper's rows or features are not known


def content_sha256(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of the values in order, independent of the file format; y are integers."""
    # Values are rounded to six decimals, because programs differ in the last bit of the numbers
    # that they parse from text.
    digest = hashlib.sha256(repr(X.shape).encode())
    digest.update(np.rint(np.asarray(X, dtype=np.float64) * 1e6).astype("<i8").tobytes())
    digest.update(np.asarray(y).astype("<i8").tobytes())
    return digest.hexdigest()


def _read_catalogue() -> dict[str, Entry]:
    text = files(__package__).joinpath("datasets.csv").read_text("utf-8")
    catalogue = {}
    for row in csv.DictReader(text.splitlines()):
        sizes = ("samples", "features", "classes", "smallest", "largest")
        where = row["where"] or "the package pmlb fetches it (pip install pmlb)"
        shape = tuple(int(row[name]) for name in sizes)
        catalogue[row["name"]] = Entry(shape, where, row["pmlb"], row["sha256"])
    return catalogue


CATALOGUE = _read_catalogue()


class DatasetRow(NamedTuple):
    """One row of the table of datasets.

    Attributes
    ----------
    name : str
    source : {"file", "pmlb", ""}
        "file" if it is in the data home, "pmlb" if it will be fetched on first use.
    n_samples, n_features, n_classes, smallest, largest : int or None
        Counted in the file; `smallest` and `largest` are class sizes. None without a file.
    published : tuple of int, or None
        The same five figures in the paper's table; None for a dataset that is not in it.
    where : str
        Where to get a dataset of the paper, in words.
    """

    name: str
    source: Literal["file", "pmlb", ""]
    n_samples: int | None = None
    n_features: int | None = None
    n_classes: int | None = None
    smallest: int | None = None
    largest: int | None = None
    published: tuple[int, ...] | None = None
    where: str = ""

    @property
    def counted(self) -> tuple[int | None, ...]:
        """The five figures, in the order of `published`."""
        return self[2:7]


# In the catalogue but not in the paper's table.
_FIGURES = ("boat", "cone-torus", "four-gauss", "regular")


def dataset_table(data_home: str | os.PathLike | None = None) -> list[DatasetRow]:
    """List the datasets of the paper, then all others in the data home.

    Only the schema and the label column of each file are read.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the files; None uses the environment variable ``OPENSET_DATA``.

    Returns
    -------
    list of DatasetRow

    Examples
    --------
    >>> import tempfile
    >>> from openset.datasets import dataset_table
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     row = dataset_table(empty)[0]
    >>> row.name, row.source, row.published
    ('yeast', 'pmlb', (1479, 8, 9, 20, 463))
    """
    home = find_home(data_home)
    rows = {}
    for name, entry in CATALOGUE.items():
        published = None if name in _FIGURES else entry.shape
        source: Literal["pmlb", ""] = "pmlb" if entry.pmlb else ""
        rows[name] = DatasetRow(name, source, published=published, where=entry.where)
    for name in stored(home):
        row = rows.get(name, DatasetRow(name, ""))
        rows[name] = row._replace(source="file", **_count(Path(home or "", f"{name}.parquet")))
    return list(rows.values())


def same_values(name: str, data_home: str | os.PathLike | None = None) -> bool | None:
    """Tell whether a dataset has the paper's values, by their SHA-256; None if nobody knows them.

    Parameters
    ----------
    name, data_home
        As for :func:`load_dataset`.

    Returns
    -------
    bool or None

    Examples
    --------
    >>> from openset.datasets import same_values
    >>> same_values("cifar10") is None  # the paper's features are not public
    True
    """
    if name not in CATALOGUE or not CATALOGUE[name].sha256:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = load_dataset(name, data_home=data_home, return_X_y=True)
    return not _values_differ(name, X, y)


def _count(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException, types

    try:
        schema = parquet.read_schema(path)
        labels = parquet.read_table(path, columns=["target"])["target"]
    except (ArrowException, OSError, KeyError) as error:
        raise ValueError(f"{path} is not a dataset ({error}); fetch or write it again.") from error
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    features = [f for f in schema if f.name != "target" and any(is_(f.type) for is_ in numeric)]
    sizes = labels.value_counts().field("counts").to_pylist()
    figures = len(labels), len(features), len(sizes), min(sizes, default=0), max(sizes, default=0)
    return dict(zip(DatasetRow._fields[2:7], figures, strict=True))


Random = int | np.random.RandomState | None
Labelled = tuple[np.ndarray, np.ndarray]


def make_boat(n_samples: int = 100, *, random_state: Random = None) -> Labelled:
    """Two square clusters (classes 1 and 2) side by side, inside an elliptic ring (class 3).

    No other class surrounds the ring, so a plain SVM accepts an unbounded region for class 3.

    Parameters
    ----------
    n_samples : int, default=100
        One third per class; the ring gets the remainder.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    References
    ----------
    L. I. Kuncheva, "Combining Pattern Classifiers", Wiley, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.datasets import make_boat
    >>> X, y = make_boat(random_state=0)
    >>> np.bincount(y)
    array([ 0, 33, 33, 34])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 1])
    left, right, ring = np.bincount(y)[1:]
    angle = rng.uniform(0, 2 * np.pi, ring)
    left_square = rng.uniform([-2.5, -0.9], [-0.6, 1.0], (left, 2))
    right_square = rng.uniform([0.9, -0.9], [2.9, 1.0], (right, 2))
    ellipse = np.column_stack([5 * np.cos(angle), 2 * np.sin(angle)])
    return np.concatenate([left_square, right_square, ellipse + rng.normal(0, 0.1, (ring, 2))]), y


def make_cone_torus(n_samples: int = 400, *, random_state: Random = None) -> Labelled:
    """A cone (class 1) under half a torus (class 2), and a normal cluster over both (class 3).

    It is from the same book as :func:`make_boat`.

    Parameters
    ----------
    n_samples : int, default=400
        One quarter in each of the classes 1 and 2; class 3 gets the rest.
    random_state
        As for :func:`make_boat`.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.datasets import make_cone_torus
    >>> X, y = make_cone_torus(random_state=0)
    >>> np.bincount(y)
    array([  0, 100, 100, 200])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 2])
    cone, torus, normal = np.bincount(y)[1:]
    # If the density falls linearly from the centre, the radius has a Beta(2, 2) distribution.
    disc = _polar((0.37, 0.21), rng.uniform(0, 2 * np.pi, cone), 0.17 * rng.beta(2, 2, cone))
    arch = _polar((0.45, 0.2), rng.uniform(0, np.pi, torus), rng.uniform(0.27, 0.36, torus))
    return np.concatenate([disc, arch, rng.normal([0.64, 0.53], [0.17, 0.19], (normal, 2))]), y


def make_four_gauss(n_samples: int = 100, *, random_state: Random = None) -> Labelled:
    """Four round normal clusters, one of them small and between the other three.

    They are from the same book as :func:`make_boat`.

    Parameters
    ----------
    n_samples : int, default=100
        One quarter per class; the last class gets the remainder.
    random_state
        As for :func:`make_boat`.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.datasets import make_four_gauss
    >>> X, y = make_four_gauss(random_state=0)
    >>> np.bincount(y)
    array([ 0, 25, 25, 25, 25])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 1, 1])
    centres = np.array([[0.0, 0.0], [4.0, 4.0], [-2.0, 5.0], [4.0, -4.0]])
    deviations = np.array([[0.3], [1.0], [1.0], [1.0]])
    return centres[y - 1] + deviations[y - 1] * rng.normal(size=(len(y), 2)), y


def make_regular() -> Labelled:
    """Sixteen classes in a 4 x 4 arrangement, each a 3 x 3 grid of points; not random.

    They are from the same book as :func:`make_boat`.

    Returns
    -------
    X : ndarray of shape (144, 2)
    y : ndarray of shape (144,)

    Examples
    --------
    >>> from openset.datasets import make_regular
    >>> X, y = make_regular()
    >>> X[y == 16].mean(axis=0)
    array([21., 21.])
    """
    block0, block1, step0, step1 = np.indices((4, 4, 3, 3)).reshape(4, -1)
    X = 2.0 + 6 * np.column_stack([block0, block1]) + np.column_stack([step0, step1])
    return X, 1 + 4 * block0 + block1


def _labels(n_samples, shares):
    """Classes 1, 2, ... in proportion to the shares, rounded down; the last gets the rest."""
    if not isinstance(n_samples, Integral) or n_samples < 2 * sum(shares):
        raise ValueError(
            f"n_samples={n_samples!r} must be an integer of at least {2 * sum(shares)}."
        )
    counts = [n_samples * share // sum(shares) for share in shares]
    counts[-1] += n_samples - sum(counts)
    return np.repeat(np.arange(1, len(shares) + 1), counts)


def _polar(centre, angle, radius):
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return radius[:, np.newaxis] * circle + np.array(centre)
