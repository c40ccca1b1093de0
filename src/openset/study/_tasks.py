"""One task: draw, scale, tune, fit, measure. Everything it finds is one row."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import traceback
import warnings
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy
import sklearn
from numpy.typing import ArrayLike
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

import openset

from .. import datasets
from ..base.machines import per_class
from ..calibration import CalibratedRejector
from ..evaluation import Evaluation, MethodResult, Split, draw_split, evaluate_method
from ..metrics import OpenSetCounts, encode_labels
from ..utils import decide, unwrap
from ._study import MEASURES, Study, Task

# The columns of a row, with their types in the store. Dicts are stored as JSON.
COLUMNS = {
    **{"dataset": str, "n_known": int, "run": int, "method": str, "status": str, "error": str},
    **dict.fromkeys(MEASURES, float),
    **{"params": str, "extra": str},
    **dict.fromkeys(["n_train", "n_test_known", "n_test_unknown"], int),
    **dict.fromkeys(["seconds_search", "seconds_fit", "seconds_predict"], float),
    **{"fingerprint": str, "versions": str},
}

Row = dict[str, Any]

# Datasets that need no file.
_EMBEDDED = {
    "digits": lambda: load_digits(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "make_boat": lambda: datasets.make_boat(random_state=0),
    "make_cone_torus": lambda: datasets.make_cone_torus(random_state=0),
    "make_four_gauss": lambda: datasets.make_four_gauss(random_state=0),
    "make_regular": datasets.make_regular,
}


@lru_cache(maxsize=2)
def load(dataset: str, data_home: Any) -> Bunch:
    """An embedded dataset or one in the data home; the fields ``data``, ``target`` and others."""
    if dataset in _EMBEDDED:
        return Bunch(**dict(zip(("data", "target"), _EMBEDDED[dataset](), strict=True)))
    return datasets.load_dataset(dataset, data_home=data_home)


def _read_column(dataset: str, data_home: Any, column: str, train: str) -> tuple[Bunch, np.ndarray]:
    """A dataset and the column, (n,), that tells its training rows apart."""
    table = load(dataset, data_home)
    if column not in table.keys() - {"data", "target", "feature_names", "name"}:
        raise ValueError(
            f"dataset {dataset!r} has no text column {column!r}, which [protocol] names; set "
            "column to the one that tells train, validation and test rows apart."
        )
    part = np.asarray(table[column]).astype(str)
    if train not in part:
        values = ", ".join(np.unique(part)[:10])
        raise ValueError(
            f"dataset {dataset!r} has no row with {column} = {train!r}; there are {values}. Set "
            "train in [protocol]."
        )
    return table, part


def class_count(study: Study, dataset: str, data_home: Any) -> int:
    """Number of classes from which the known ones are drawn; an error if it cannot be loaded."""
    if not study.protocol:
        return len(np.unique(load(dataset, data_home).target))
    train = study.protocol["train"]
    table, part = _read_column(dataset, data_home, study.protocol["column"], train)
    return len(np.unique(table.target[part == train]))


class ColumnDraw(NamedTuple):
    """Features, classes and rows of one draw.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Features and classes of all rows of the dataset.
    split : Split
        Known classes, training rows and test rows.
    validation : ndarray of shape (n_validation,)
        Sorted validation rows of the known classes.
    """

    X: np.ndarray
    y: np.ndarray
    split: Split
    validation: np.ndarray


def draw_seed(dataset: str, n_known: int, run: int, seed: int) -> np.ndarray:
    """Eight words that identify a draw: the same on every machine and in every version."""
    key = f"{seed}/{dataset}/{n_known}/{run}".encode()
    return np.frombuffer(hashlib.sha256(key).digest(), dtype="<u4")


def make_split(y: ArrayLike, dataset: str, n_known: int, run: int, seed: int = 0) -> Split:
    """Draw known classes and their training halves for one run on a dataset.

    The draw is a function of the arguments alone, so all methods on all machines see the same one.

    Parameters
    ----------
    y : array-like of shape (m,)
        Classes of all rows of the dataset.
    dataset, n_known, run
        As for :class:`Task`; `n_known` is less than the number of classes.
    seed : int, default=0
        Seed of the study.

    Returns
    -------
    Split

    Examples
    --------
    >>> import numpy as np
    >>> from openset.study import make_split
    >>> split = make_split(np.repeat([0, 1, 2], 5), "small", n_known=2, run=0)
    >>> len(split.known), len(split.train), len(split.test)
    (2, 4, 11)
    """
    return draw_split(y, n_known, random_state=draw_seed(dataset, n_known, run, seed))


@lru_cache(maxsize=2)  # the methods of a draw follow each other
def draw_scaled(dataset: str, n_known: int, run: int, seed: int, data_home: Any) -> ColumnDraw:
    """Draw as `make_split`, features scaled to [0, 1] by the training rows (0 where constant)."""
    table = load(dataset, data_home)
    X, y = table.data, table.target
    split = make_split(y, dataset, n_known, run, seed)
    low, high = X[split.train].min(axis=0), X[split.train].max(axis=0)
    scaled = np.divide(X - low, high - low, out=np.zeros_like(X, dtype=float), where=high > low)
    return ColumnDraw(scaled, y, split, np.array([], dtype=int))


def run_task(
    task: Task, study: Study, data_home: str | os.PathLike | None = None, threads: int = 1
) -> Row:
    """Run one task of a study. It never raises: an error is recorded in the row.

    Parameters
    ----------
    task : Task
    study : Study
    data_home : path-like, default=None
        Folder of the datasets; None takes it from the environment variable ``OPENSET_DATA``.
    threads : int, default=1
        Number of threads the task may use.

    Returns
    -------
    dict
        One value per column of the store; None where there is none.
    """
    try:
        # Warnings from individual grid settings are expected here.
        with warnings.catch_warnings(), threadpool_limits(threads):
            warnings.simplefilter("ignore")
            row = _row(task, status="done", **_results(task, study, data_home, threads))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        row = failed(task, f"{type(error).__name__}: {error} ({place})")
    # The settings decide which study a row belongs to; the libraries are there to be seen.
    libraries = hashlib.sha256(_versions().encode()).hexdigest()[:8]
    return row | {"fingerprint": f"{study.fingerprint(task.method)}-{libraries}"}


def failed(task: Task, error: str) -> Row:
    """The row of a task that failed."""
    return _row(task, status="failed", error=error)


def _row(task, **values):
    return {**dict.fromkeys(COLUMNS), **task._asdict(), **values, "versions": _versions()}


def _results(task: Task, study: Study, data_home, threads: int) -> dict[str, Any]:
    dataset, n_known, run, method = task
    if study.protocol:
        draw = draw_from_column(dataset, n_known, study.seed + run, data_home, **study.protocol)
    else:
        draw = draw_scaled(dataset, n_known, run, study.seed, data_home)
    _warm_up(study, method)
    # The same seed for all methods, so that they see the same simulations.
    seed = int(draw_seed(dataset, n_known, run, study.seed)[0])
    search = study.make_search(method, seed, threads)
    X, y, split, validation = draw
    point = study.calibration
    result = evaluate_method(search, X, y, split, operating_point=point, calibration=validation)
    extra: dict[str, Any] = {}
    if study.recorder:
        extra = study.recorder(result, X[split.train], y[split.train])
    elif study.protocol:
        extra = accuracy_by_rejection(result.evaluation)
    n_test_known, fitted = int(result.evaluation.is_known.sum()), result.fitted
    return {
        **{name: result.measures[measure] for name, measure in MEASURES.items()},
        "params": json.dumps(fitted.params),
        "extra": json.dumps({**extra, "fit": describe_fit(result, y[split.test])}),
        "n_train": fitted.n_rows,
        "n_test_known": n_test_known,
        "n_test_unknown": len(split.test) - n_test_known,
        "seconds_search": fitted.seconds_search,
        "seconds_fit": fitted.seconds_fit,
        "seconds_predict": result.seconds_predict,
    }


def describe_fit(result: MethodResult, truth: np.ndarray) -> dict[str, Any]:
    """What a row tells about its fit: the classes of the test rows, the lambda of each class."""
    # ``raised`` counts the classes whose lambda the fit had to raise above the chosen one.
    found: dict[str, Any] = {"n_classes": len(np.union1d(result.evaluation.classes, truth))}
    final = unwrap(result.fitted.model)
    if isinstance(final, CalibratedRejector):
        final = unwrap(final.estimator_)
    if hasattr(final, "lam_"):
        chosen = per_class(final, "lam", final.lam)
        found["lam"] = np.round(final.lam_, 6).tolist()
        found["raised"] = int(np.sum(final.lam_ > chosen + 1e-12))
    return found


_warm: set[str] = set()


def _warm_up(study: Study, method: str) -> None:
    """Compile or load the code of a method before times are taken."""
    if method not in _warm:
        _warm.add(method)
        with suppress(Exception):  # the task itself will report it
            search = study.make_search(method).set_params(refit=True)
            search.fit(*datasets.make_four_gauss(random_state=0))


def _versions() -> str:
    modules = {m.__name__: m.__version__ for m in (openset, np, scipy, sklearn, numba)}
    return json.dumps({**modules, "python": platform.python_version()})


@lru_cache(maxsize=2)  # the methods of a draw follow each other
def draw_from_column(
    dataset: str,
    n_known: int,
    seed: int,
    data_home: Any,
    *,
    column: str,
    train: str,
    validation: str,
) -> ColumnDraw:
    """Draw the known classes of a dataset whose split stands in a column.

    Training and validation rows of other classes are left out. All rows of neither split are test
    rows.

    Parameters
    ----------
    dataset : str
    n_known : int
        Number of classes to draw from the sorted ones of the training rows.
    seed : int
    data_home
        As for :func:`run_task`.
    column, train, validation : str
        The column, and its values for training and validation rows.

    Returns
    -------
    ColumnDraw

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from openset.study import draw_from_column
    >>> table = pd.DataFrame({"x": range(6), "target": list("abcabc"), "split": ["train"] * 6})
    >>> table.loc[3:, "split"] = "test"
    >>> columns = {"column": "split", "train": "train", "validation": "val"}
    >>> with tempfile.TemporaryDirectory() as home:
    ...     table.to_parquet(Path(home, "small.parquet"))
    ...     draw = draw_from_column("small", 2, 0, home, **columns)
    >>> draw.split.known, draw.split.train, draw.split.test
    (array(['b', 'c'], dtype=object), array([1, 2]), array([3, 4, 5]))
    """
    table, part = _read_column(dataset, data_home, column, train)
    labels = np.unique(table.target[part == train])
    known = np.random.RandomState(seed).choice(labels, n_known, replace=False)
    is_known = np.isin(table.target, known)
    split = Split(
        np.sort(known),
        np.flatnonzero(is_known & (part == train)),
        np.flatnonzero((part != train) & (part != validation)),
    )
    rows = np.flatnonzero(is_known & (part == validation))
    return ColumnDraw(table.data, table.target, split, rows)


# Shares of the known test rows that are rejected.
_SHARES = np.linspace(0, 0.6, 31)


def accuracy_by_rejection(evaluation: Evaluation) -> dict[str, Any]:
    """Return accuracy and macro F1 by the share of known samples that is rejected.

    Parameters
    ----------
    evaluation : Evaluation
        Of known and unknown samples.

    Returns
    -------
    dict
        Lists ``rejected``, ``accuracy`` and ``f1`` over thresholds, and under ``chosen`` the three
        at the threshold of the model itself. F1 is averaged over the known classes and the open
        class.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import Evaluation
    >>> from openset.study import accuracy_by_rejection
    >>> scores = np.array([[0.5, -1.0], [-0.2, 0.3], [-1.0, -1.0], [0.1, -0.5]])
    >>> truth = np.array(["a", "b", "x", "y"])
    >>> accuracy_by_rejection(Evaluation(truth, scores, np.array(["a", "b"])))["chosen"]["accuracy"]
    0.75
    """
    truth = encode_labels(evaluation.truth, evaluation.classes)
    known = evaluation.scores[evaluation.is_known].max(axis=1)
    values = []
    for threshold in (0.0, *np.quantile(known, _SHARES)):
        answers = decide(evaluation.scores - threshold)
        counts = OpenSetCounts.from_codes(truth, answers, len(evaluation.classes))
        f1 = 2 * counts.hit / np.maximum(1, counts.predicted + counts.support)
        values.append((counts.hit.sum() / len(truth), f1.mean()))
    names, chosen = ("rejected", "accuracy", "f1"), (np.mean(known < 0), *values[0])
    columns = (_SHARES.round(3).tolist(), *np.round(values[1:], 5).T.tolist())
    return {
        **dict(zip(names, columns, strict=True)),
        "chosen": dict(zip(names, map(float, chosen), strict=True)),
    }
