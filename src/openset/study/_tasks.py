"""One task: search, fit, predict, measure. Everything it finds is one row."""

from __future__ import annotations

import json
import os
import platform
import time
import traceback
import warnings
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import openset

from ..datasets import make_four_gauss
from ..metrics import open_set_report
from ..svm import DecisionBoundaryCarving, OneVsRestSVC, OpenSetSVC, one_vs_one_bias
from ._measures import MEASURES
from ._protocol import draw_seed, make_problem
from ._spec import Study, Task

# The columns of a row, with their types in the store. Lists and dicts are JSON texts.
COLUMNS = {
    "dataset": str,
    "n_known": int,
    "run": int,
    "method": str,
    "status": str,
    "error": str,
    **dict.fromkeys(MEASURES, float),
    "params": str,
    "bias_before": str,
    "bias_after": str,
    "ovo_bias": str,
    "n_train": int,
    "n_test_known": int,
    "n_test_unknown": int,
    "seconds_search": float,
    "seconds_fit": float,
    "seconds_predict": float,
    "versions": str,
}

Row = dict[str, Any]


def run_task(
    task: Task, study: Study, data_home: str | os.PathLike | None = None, threads: int = 1
) -> Row:
    """Do one task of a study, and never raise: what goes wrong is in the row.

    Parameters
    ----------
    task : Task
    study : Study
    data_home : path-like, default=None
        Folder of the datasets; None takes it from the environment variable ``OPENSET_DATA``.
    threads : int, default=1
        The task keeps to as many.

    Returns
    -------
    dict
        A value for each of ``COLUMNS``; None where there is none.
    """
    try:
        # What a setting of the grid has to say is a matter of course here.
        with warnings.catch_warnings(), threadpool_limits(threads):
            warnings.simplefilter("ignore")
            return _row(task, status="done", **_results(task, study, data_home, threads))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return failed(task, f"{type(error).__name__}: {error} ({place})")


def failed(task: Task, error: str) -> Row:
    """The row of a task that went wrong."""
    return _row(task, status="failed", error=error)


def _row(task, **values):
    return {**dict.fromkeys(COLUMNS), **task._asdict(), **values, "versions": _versions()}


def _results(task: Task, study: Study, data_home, threads: int) -> dict[str, Any]:
    draw = (task.dataset, task.n_known, task.run, study.seed)
    problem = make_problem(*draw, data_home)
    _warm_up(study, task.method)
    clock = _Clock()
    # The same for all methods, so that they see the same simulations.
    search = study.make_search(task.method, int(draw_seed(*draw)[0]), threads)
    search.fit(problem.X_train, problem.y_train)
    seconds_search = clock.lap()
    model = clone(search.estimator).set_params(**search.best_params_)
    model.fit(problem.X_train, problem.y_train)
    seconds_fit = clock.lap()
    answers = model.predict(problem.X_test)
    seconds_predict = clock.lap()
    report = open_set_report(
        problem.y_test, answers, known=problem.known, unknown_label=model.unknown_label_
    )
    n_test_known = int(np.isin(problem.y_test, problem.known).sum())
    before, after = _biases(model, problem)
    return {
        **{name: report[measure] for name, measure in MEASURES.items()},
        "params": json.dumps(search.best_params_),
        "bias_before": before,
        "bias_after": after,
        "ovo_bias": _pair_biases(search, problem) if task.method == "OneVsRestSVC" else None,
        "n_train": len(problem.y_train),
        "n_test_known": n_test_known,
        "n_test_unknown": len(problem.y_test) - n_test_known,
        "seconds_search": seconds_search,
        "seconds_fit": seconds_fit,
        "seconds_predict": seconds_predict,
    }


_warm: set[str] = set()


def _warm_up(study: Study, method: str) -> None:
    """Have the code of a method compiled or loaded before the clock runs."""
    if method not in _warm:
        _warm.add(method)
        with suppress(Exception):  # the task itself will tell
            study.make_search(method).set_params(refit=True).fit(*make_four_gauss(random_state=0))


class _Clock:
    def __init__(self):
        self._last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds


def _biases(model, problem) -> tuple[str | None, str | None]:
    """Bias of each class in the plain SVM with the same parameters, and in the model."""
    after = getattr(model, "intercept_", None)
    if isinstance(model, OpenSetSVC):
        plain = OneVsRestSVC(model.C, model.gamma, n_jobs=model.n_jobs)
        before = plain.fit(problem.X_train, problem.y_train).intercept_
    elif isinstance(model, DecisionBoundaryCarving):
        before = after + model.epsilon_
    elif isinstance(model, OneVsRestSVC):
        before = after
    else:  # no SVM against the rest, or one that is left as it is
        before = None
    return _as_json(before), _as_json(after)


def _pair_biases(search, problem) -> str:
    """Bias between every two classes, for the paper's table of signs.

    With two classes none can be withheld: the search of a pair is closed-set.
    """
    X, y = problem.X_train, problem.y_train
    closed = clone(search).set_params(scenario="closed", level="model")
    biases = []
    for pair in combinations(problem.known, 2):
        rows = np.isin(y, pair)
        best = closed.fit(X[rows], y[rows]).best_params_
        biases.append(float(one_vs_one_bias(X[rows], y[rows], **best)[0]))
    return json.dumps(biases)


def _as_json(values) -> str | None:
    return None if values is None else json.dumps(np.asarray(values, dtype=float).tolist())


def _versions() -> str:
    modules = {m.__name__: m.__version__ for m in (openset, np, scipy, sklearn, numba)}
    return json.dumps({**modules, "python": platform.python_version()})
