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
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from numpy.typing import ArrayLike
from sklearn.datasets import load_digits, load_iris, load_wine
from threadpoolctl import threadpool_limits

import openset

from .. import datasets
from ..evaluation import Split, draw_split, evaluate_method
from ._accuracy_by_rejection import accuracy_by_rejection
from ._column_protocol import count_labels, draw_from_column
from ._spec import MEASURES, Study, Task

# The columns of a row, with their types in the store. Dicts are stored as JSON.
COLUMNS = {
    "dataset": str,
    "n_known": int,
    "run": int,
    "method": str,
    "status": str,
    "error": str,
    **dict.fromkeys(MEASURES, float),
    "params": str,
    "extra": str,
    "n_train": int,
    "n_test_known": int,
    "n_test_unknown": int,
    "seconds_search": float,
    "seconds_fit": float,
    "seconds_predict": float,
    "fingerprint": str,
    "versions": str,
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
def load(dataset: str, data_home: Any) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes of an embedded dataset or of one in the data home."""
    if dataset in _EMBEDDED:
        return _EMBEDDED[dataset]()
    return datasets.load_dataset(dataset, data_home=data_home, return_X_y=True)


def class_count(study: Study, dataset: str, data_home: Any) -> int:
    """Number of classes from which the known ones are drawn; an error if it cannot be loaded."""
    if study.protocol:
        where = study.protocol["column"], study.protocol["train"]
        return count_labels(dataset, data_home, *where)
    return len(np.unique(load(dataset, data_home)[1]))


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
    dataset : str
        Its name.
    n_known : int
        Number of known classes, less than the number of classes.
    run : int
        Number of the draw.
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
def prepare(
    dataset: str, n_known: int, run: int, seed: int, data_home: Any
) -> tuple[np.ndarray, np.ndarray, Split]:
    """Features scaled to [0, 1] by the training rows (0 where constant), classes and split."""
    X, y = load(dataset, data_home)
    split = make_split(y, dataset, n_known, run, seed)
    low, high = X[split.train].min(axis=0), X[split.train].max(axis=0)
    varies = high > low
    scaled = np.where(varies, (X - low) / np.where(varies, high - low, 1.0), 0.0)
    return scaled, y, split


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
    return row | {"fingerprint": study.fingerprint(task.method)}


def failed(task: Task, error: str) -> Row:
    """The row of a task that failed."""
    return _row(task, status="failed", error=error)


def _row(task, **values):
    return {**dict.fromkeys(COLUMNS), **task._asdict(), **values, "versions": _versions()}


def _results(task: Task, study: Study, data_home, threads: int) -> dict[str, Any]:
    draw = (task.dataset, task.n_known, task.run, study.seed)
    validation = None
    if study.protocol:
        X, y, split, validation = draw_from_column(
            task.dataset, task.n_known, study.seed + task.run, data_home, **study.protocol
        )
    else:
        X, y, split = prepare(*draw, data_home)
    _warm_up(study, task.method)
    # The same seed for all methods, so that they see the same simulations.
    search = study.make_search(task.method, int(draw_seed(*draw)[0]), threads)
    point = study.operating_point or None
    result = evaluate_method(search, X, y, split, operating_point=point, calibration=validation)
    record = study.recorder
    extra = record(result, X[split.train], y[split.train]) if record else None
    if point and not record:
        extra = accuracy_by_rejection(result.evaluation)
    n_test_known = int(result.evaluation.is_known.sum())
    return {
        **{name: result.measures[measure] for name, measure in MEASURES.items()},
        "params": json.dumps(result.fitted.params),
        "extra": json.dumps(extra) if extra else None,
        "n_train": result.fitted.n_rows,
        "n_test_known": n_test_known,
        "n_test_unknown": len(split.test) - n_test_known,
        "seconds_search": result.fitted.seconds_search,
        "seconds_fit": result.fitted.seconds_fit,
        "seconds_predict": result.seconds_predict,
    }


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
