"""A study as data, unrolled into tasks."""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache, partial
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.linear_model import LogisticRegression

from ..model_selection import OpenSetSearchCV
from ..registry import method_names
from ..wrappers import ThresholdRejector

# Name in the results -> name in openset.metrics.
MEASURES = {
    "NA": "normalized_accuracy",
    "HNA": "harmonic_normalized_accuracy",
    "OSFMmacro": "open_set_f1_macro",
    "OSFMmicro": "open_set_f1_micro",
    "FMmacro": "f1_with_unknown_macro",
    "FMmicro": "f1_with_unknown_micro",
    "AKS": "accuracy_known",
    "AUS": "accuracy_unknown",
}


class Task(NamedTuple):
    """One row of the results: a method on one draw of classes and samples.

    Attributes
    ----------
    dataset, method : str
        Name of the dataset, and class name of the estimator.
    n_known, run : int
        Number of known classes, and number of the draw, from 0.
    """

    dataset: str
    n_known: int
    run: int
    method: str


@dataclass(frozen=True)
class Study:
    """The plan of a study; see :func:`load_study`.

    Parameters
    ----------
    name : str
    datasets, methods : tuple of str
        In the order in which they run.
    n_known : tuple of int or float
        Numbers of known classes; a dataset needs more classes than that to take part. A float is a
        ratio of the classes of the dataset.
    runs : int
        Draws per dataset and number of known classes.
    seed : int
        The draws depend only on it, the dataset, the number of known classes and the run.
    measures : tuple of str
        Those a report shows; all are stored.
    search : dict
        Arguments of :class:`openset.OpenSetSearchCV`.
    grids : dict of dict
        By method, values to try instead of those of the preset.
    protocol : dict
        Empty: known classes and training halves are drawn, and features scaled to [0, 1]. With the
        keys ``column``, ``train`` and ``validation``, the values of that column tell the split of a
        row, all other values being test rows; run r draws the known classes from the sorted ones
        by the seed ``seed + r``, as TEXTOIR does; features are used as they are.
    operating_point : dict
        Arguments of :class:`openset.CalibratedRejector`, which then sets the thresholds of every
        method on the validation rows of the known classes. With ``refit = true`` the method is then
        fitted again, on training and validation rows, and keeps the thresholds. The column
        ``extra`` then holds the :func:`accuracy_by_rejection` of the test rows, unless `record` is
        given.
    record : str
        ``FILE.py:FUNCTION``, a function (result, X_train, y_train) -> dict whose result is stored
        with each row, as JSON in the column ``extra``. The file is Python code and is run.
    """

    name: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    n_known: tuple[int | float, ...]
    runs: int
    seed: int = 0
    measures: tuple[str, ...] = tuple(MEASURES)
    search: dict[str, Any] = field(default_factory=dict)
    grids: dict[str, dict[str, list]] = field(default_factory=dict)
    protocol: dict[str, str] = field(default_factory=dict)
    operating_point: dict[str, Any] = field(default_factory=dict)
    record: str = ""

    def restrict(
        self,
        datasets: Iterable[str] = (),
        methods: Iterable[str] = (),
        n_known: Iterable[int | float] = (),
    ) -> Study:
        """Return the study with fewer datasets, methods or numbers, in the order given here.

        Parameters
        ----------
        datasets, methods : iterable of str
        n_known : iterable of int or float
            Empty keeps all.

        Returns
        -------
        Study
        """
        wanted = {"datasets": datasets, "methods": methods, "n_known": n_known}
        parts: dict[str, Any] = {name: tuple(values) for name, values in wanted.items()}
        for name, values in parts.items():
            planned = getattr(self, name)
            for value in values:
                if value not in planned:
                    raise ValueError(f"{name}: {value!r} is not in the study{hint(value, planned)}")
        return replace(self, **{name: values for name, values in parts.items() if values})

    def tasks(self, n_classes: Mapping[str, float]) -> Iterator[Task]:
        """Yield all tasks, the methods of a draw together, so complete comparisons come early.

        Parameters
        ----------
        n_classes : mapping of str to int
            Number of classes of each dataset.

        Yields
        ------
        Task
        """
        for dataset in self.datasets:
            numbers = self._numbers(n_classes[dataset])
            for task in product([dataset], numbers, range(self.runs), self.methods):
                yield Task(*task)

    def _numbers(self, n_classes: float) -> list[int]:
        """Numbers of known classes for a dataset; no ratio if its number of classes is unknown."""
        numbers = (
            round(n_classes * n) if isinstance(n, float) else n
            for n in self.n_known
            if isinstance(n, int) or isfinite(n_classes)
        )
        return [n for n in dict.fromkeys(numbers) if 1 <= n < n_classes]

    def make_search(self, method: str, seed: int = 0, threads: int = 1) -> OpenSetSearchCV:
        """Return the search of the study for a method; it does not refit.

        Parameters
        ----------
        method : str
        seed : int, default=0
            Seed of its simulations.
        threads : int, default=1

        Returns
        -------
        OpenSetSearchCV
        """
        estimator = estimators()[method]()
        if "n_jobs" in estimator.get_params():
            estimator.set_params(n_jobs=threads)
        options = {**self.search, "refit": False, "n_jobs": threads, "random_state": seed}
        return OpenSetSearchCV(estimator, self.grids.get(method), **options)

    @property
    def recorder(self) -> Callable | None:
        """The function that `record` names, if any."""
        return _load_function(self.record) if self.record else None

    def fingerprint(self, method: str) -> str:
        """What a row of a method depends on besides its task; others must not be mixed with it.

        Parameters
        ----------
        method : str

        Returns
        -------
        str
            16 digits that depend on the seed, the settings of the search with the values that a
            preset stands for, the protocol and the operating point.
        """
        parts = [self.seed, self.make_search(method).describe()]
        if self.protocol:
            parts += [self.protocol, self.operating_point]
        content = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def estimators() -> dict[str, Callable]:
    """The estimators that need no other estimator, by class name, and logistic regression."""
    logistic = partial(ThresholdRejector, LogisticRegression(max_iter=1000))
    return {cls.__name__: cls for cls in method_names().values()} | {"ThresholdRejector": logistic}


@lru_cache
def _load_function(where: str) -> Callable:
    file, _, name = where.rpartition(":")
    if not Path(file).is_file():
        raise ValueError(f"record = {where!r} must be FILE.py:FUNCTION; there is no file {file!r}.")
    try:
        found = runpy.run_path(file)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"record = {where!r}: {file} cannot be run: {problem}") from error
    if not callable(found.get(name)):
        raise ValueError(f"record = {where!r}: {file} has no function {name!r}.")
    return found[name]


def hint(name: Any, known: Iterable) -> str:
    """The end of a message about a name that is not known."""
    known = [str(value) for value in known]
    close = get_close_matches(str(name), known)
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    return f"; choose from {', '.join(known)}."
