"""A study as data: read from a TOML file, checked, and unrolled into tasks."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from ..calibration import CalibratedRejector, KnownRejected
from ..model_selection import OpenSetSearchCV
from ..registry import method_names
from ..svm import OpenSetSVC
from ..utils.text import similar
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
        The promise of a :class:`openset.CalibratedRejector`, which then sets the thresholds of
        every method on the validation rows of the known classes: ``alpha``, ``per_class`` (within
        each class), ``by`` ("own": by the own class of a row, or "highest") and ``refit`` (as for
        :func:`openset.evaluation.evaluate_method`).
    record : str
        ``FILE.py:FUNCTION``, a function (result, X_train, y_train) -> dict that is stored with each
        row, as JSON in the column ``extra``. Without one, and with a `protocol`, it is the
        :func:`accuracy_by_rejection` of the test rows. The key ``fit`` holds the number of classes
        and, of a model with lambda, its value per class and how often the fit had to raise it.
    method_files : dict of str
        By name, ``FILE.py:NAME`` of each method that is not part of openset: an estimator class, or
        a function that returns an estimator. This file and that of `record` are run.
    restricted : bool
        Whether datasets were left out. If not, an `n_known` that no dataset has is an error.
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
    method_files: dict[str, str] = field(default_factory=dict)
    restricted: bool = False

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
        given = {"datasets": datasets, "methods": methods, "n_known": n_known}
        wanted: dict[str, Any] = {k: v for k in given if (v := tuple(given[k]))}
        for name, values in wanted.items():
            _check_names(values, getattr(self, name), f"{name}: {{!r}} is not in the study")
        return replace(self, **wanted, restricted=self.restricted or "datasets" in wanted)

    def check_numbers(self, n_classes: Mapping[str, float]) -> None:
        """Raise ValueError if an `n_known` is possible for no dataset.

        Parameters
        ----------
        n_classes : mapping of str to int
            Number of classes of each dataset.
        """
        for n in () if self.restricted else self.n_known:
            if not any(replace(self, n_known=(n,)).tasks(n_classes)):
                have = ", ".join(f"{name} {n_classes[name]}" for name in self.datasets)
                raise ValueError(
                    f"n_known: no dataset allows {n}, which must leave at least one class unknown; "
                    f"classes: {have}. Remove it, or add a dataset."
                )

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
            most = n_classes[dataset]  # infinite if unknown: then a ratio gives no number
            numbers = (
                round(most * n) if isinstance(n, float) and most < inf else n for n in self.n_known
            )
            possible = [n for n in dict.fromkeys(numbers) if isinstance(n, int) and 1 <= n < most]
            for task in product([dataset], possible, range(self.runs), self.methods):
                yield Task(*task)

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
        estimator = self._maker(method)()
        if "n_jobs" in estimator.get_params():
            estimator.set_params(n_jobs=threads)
        options = {**self.search, "refit": False, "n_jobs": threads, "random_state": seed}
        return OpenSetSearchCV(estimator, self.grids.get(method), **options)

    def _maker(self, method: str) -> Callable:
        """The class of a method, or a function that returns an estimator."""
        file = self.method_files.get(method)
        return _load_function(file, "methods")[0] if file else estimators()[method]

    @property
    def calibration(self) -> dict[str, Any] | None:
        """The `operating_point` as an argument of ``evaluate_method``; None without one."""
        point = dict(self.operating_point)
        per_class, by = point.pop("per_class", False), point.pop("by", None)
        if by not in (None, "own", "highest"):
            raise ValueError(f"by = {by!r} must be 'own' or 'highest'.")
        if per_class and by == "highest":
            raise ValueError("by = 'highest' is for one threshold; leave out by or per_class.")
        if per_class or by == "own":
            within = "class" if per_class else None
            own_class = by == "own"
            promise = KnownRejected(point.pop("alpha", 0.05), within=within, own_class=own_class)
            point["criterion"] = promise
        return point or None

    @property
    def recorder(self) -> Callable | None:
        """The function that `record` names, if any."""
        return _load_function(self.record, "record")[0] if self.record else None

    def fingerprint(self, method: str) -> str:
        """What a row of a method depends on besides its task; others must not be mixed with it.

        Parameters
        ----------
        method : str

        Returns
        -------
        str
            16 digits that depend on the seed, the settings of the search with the values that a
            preset stands for, the protocol, the operating point and the user's file of the method.
        """
        settings = [self.seed, self.make_search(method).describe()]
        if method in self.method_files:
            settings.append(_load_function(self.method_files[method], "methods")[1])
        if self.protocol:
            settings += [self.protocol, self.operating_point]
        content = json.dumps(settings, sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def estimators() -> dict[str, Callable]:
    """The estimators that need no other estimator, by class name, and logistic regression."""
    logistic = partial(ThresholdRejector, LogisticRegression(max_iter=1000))
    return {cls.__name__: cls for cls in method_names().values()} | {"ThresholdRejector": logistic}


@lru_cache
def _load_function(where: str, key: str) -> tuple[Callable, str]:
    """What ``FILE.py:NAME`` names, as `key` of the study says, and the digest of the file."""
    file, _, name = where.rpartition(":")
    if not Path(file).is_file():
        raise ValueError(f"{key} = {where!r} must be FILE.py:FUNCTION; there is no file {file!r}.")
    folder = str(Path(file).resolve().parent)
    if folder not in sys.path:  # of other modules next to it, as for a script
        sys.path.append(folder)
    try:
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        module = runpy.run_path(file)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"{key} = {where!r}: {file} cannot be run: {problem}") from error
    if not callable(module.get(name)):
        kind = "function" if key == "record" else "class or function"
        raise ValueError(f"{key} = {where!r}: {file} has no {kind} {name!r}.")
    return module[name], digest


def load_study(path: str | os.PathLike) -> Study:
    """Read a study from a TOML file.

    Required keys: ``datasets``, ``methods``, ``n_known`` and ``runs``. A method is the name of a
    class, or ``FILE.py:NAME`` for one of your own, which is called NAME in the results. Optional
    keys: ``name``, ``seed``, ``measures``, ``record``, and the tables ``search``, ``grids``,
    ``protocol`` and ``operating_point``; see :class:`Study`. Paths are relative to the TOML file.

    The method ``"ThresholdRejector"`` is logistic regression with a threshold on its probabilities.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Study

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.study import load_study
    >>> text = '''
    ... datasets = ["digits"]
    ... methods = ["OpenSetSVC", "PISVM"]
    ... n_known = [3, 6]
    ... runs = 2'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "small.toml"
    ...     _ = path.write_text(text)
    ...     study = load_study(path)
    >>> study.name, len(list(study.tasks({"digits": 10})))
    ('small', 8)
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no study {str(path)!r}.") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, huge numbers, deep lists
        raise ValueError(f"{path} is not TOML: {error}") from None
    try:
        repr(content)  # raises for an integer that is too long for a message
        study = _checked({"name": path.stem, **content}, path.resolve().parent)
        if study.record:
            study.recorder  # noqa: B018 (raises if there is no such function)
        return study
    except (ValueError, OSError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None


# Types of the values, or of the items of the lists.
_LISTS = {"datasets": (str,), "methods": (str,), "n_known": (int, float), "measures": (str,)}
_KEYS = {"name": str, "runs": int, "seed": int, "record": str}
_KEYS |= dict.fromkeys(["search", "grids", "protocol", "operating_point"], dict)
# What else a value must be.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda name: Path(name).name == name != "", "a name for files, not a path"),
    "runs": (lambda n: 1 <= n <= 1_000_000, "1 or more, and 1,000,000 at most"),
    "seed": (lambda n: abs(n) < 2**63, "a number of 64 bits"),
    "n_known": (
        lambda numbers: all(0 < n < 1 if isinstance(n, float) else n >= 2 for n in numbers),
        "2 or more each, or ratios between 0 and 1",
    ),
}
_SEARCH = ("preset", "scenario", "level", "scoring", "n_repeats")
_PROTOCOL = ("column", "train", "validation")
_OPERATING_POINT = ("alpha", "per_class", "by", "refit")


def _checked(content: dict[str, Any], folder: Path) -> Study:
    """The study of a file in this folder."""
    _check_names(content, [*_LISTS, *_KEYS], "there is no key {!r}")
    for key in ("datasets", "methods", "n_known", "runs"):
        if key not in content:
            raise ValueError(f"the key {key!r} is missing.")
    for key, value in content.items():
        _check_value(key, value)
    content |= {key: tuple(content[key]) for key in _LISTS if key in content}
    if content.get("record"):
        content["record"] = str(folder / content["record"])
    content["methods"], content["method_files"] = _split_methods(content["methods"], folder)
    _check_names(content.get("measures", ()), MEASURES, "there is no measure {!r}")
    study = Study(**content)
    _check_names(study.search, _SEARCH, "there is no key of [search] {!r}")
    _check_names(study.grids, study.methods, "there is no method in [grids] {!r}")
    for method in study.methods:
        _check_search(study, method)
    _check_protocol(study)
    return study


def _check_value(key: str, value: Any) -> None:
    """Raise ValueError for a value of another type, or one that breaks a rule."""
    if key in _KEYS:
        if type(value) is not _KEYS[key]:
            raise ValueError(f"{key} = {value!r} must be of type {_KEYS[key].__name__}.")
    elif not isinstance(value, list) or not {*map(type, value)} <= {*_LISTS[key]}:
        kinds = " or ".join(kind.__name__ for kind in _LISTS[key])
        raise ValueError(f"{key} = {value!r} must be a list of {kinds}.")
    elif not value or len(set(value)) < len(value):
        raise ValueError(f"{key} = {value!r} must hold at least one value, none twice.")
    fits, rule = _RULES.get(key, (None, ""))
    if fits is not None and not fits(value):
        raise ValueError(f"{key} = {value!r} must be {rule}.")


def _split_methods(methods: Iterable[str], folder: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of all methods, and the files of the user's own by name."""
    names: list[str] = []
    files: dict[str, str] = {}
    for method in methods:
        _, is_file, name = method.rpartition(".py:")
        names.append(name)
        if not is_file:
            _check_names([name], estimators(), "there is no method {!r}")
        elif name in [*files, *estimators()]:
            raise ValueError(f"methods: another method is called {name!r}; rename {method!r}.")
        else:
            files[name] = str(folder / method)
    return tuple(names), files


def _check_protocol(study: Study) -> None:
    _check_names(study.protocol, _PROTOCOL, "there is no key of [protocol] {!r}")
    for key in _PROTOCOL if study.protocol else ():
        if not isinstance(study.protocol.get(key), str):
            raise ValueError(
                f"[protocol] {key} = {study.protocol.get(key)!r} must be a text: the column of the "
                "split, and its values for training and validation rows."
            )
    if not study.operating_point:
        return
    if not study.protocol:
        raise ValueError("[operating_point] needs the validation rows that [protocol] names.")
    message = "there is no key of [operating_point] {!r}"
    _check_names(study.operating_point, _OPERATING_POINT, message)
    for key in ("refit", "per_class"):
        if not isinstance(study.operating_point.get(key, False), bool):
            raise ValueError(f"[operating_point] {key} must be true or false.")
    try:
        point = dict(study.calibration or {})
        point.pop("refit", None)
        CalibratedRejector(OpenSetSVC(), **point)._validate_params()
    except ValueError as error:
        raise ValueError(f"[operating_point]: {error}") from None


def _check_search(study: Study, method: str) -> None:
    """Raise now what the search would raise in every task."""
    _check_maker(study._maker(method), method)
    search = study.make_search(method)
    try:
        search._validate_params()
    except ValueError as error:  # scikit-learn's message names the parameter and its range
        raise ValueError(f"[search]: {error}") from None
    if not search.describe()["grid"]:
        raise ValueError(
            f"method {method!r} has no grid: declare search_spec, or add [grids.{method}] with a "
            "list of values per parameter."
        )
    grid = study.grids.get(method, {})
    message = f"there is no parameter of {method} {{!r}}"
    _check_names(grid, search.estimator.get_params(), message)
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"[grids.{method}] {name} = {values!r} must be a list of values.")
        for value in values:  # not the product, which may be endless
            changed = clone(search.estimator).set_params(**{name: value})
            if hasattr(changed, "_parameter_constraints"):
                changed._validate_params()


def _check_maker(make: Callable, method: str) -> None:
    """Raise ValueError unless this makes an open-set estimator that can be searched."""
    try:
        made = make()
    except TypeError as error:
        raise ValueError(
            f"method {method!r} cannot be made without arguments ({error}); give its parameters "
            "defaults, or name a function that returns the estimator."
        ) from None
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"method {method!r} cannot be made: {problem}") from error
    if not hasattr(made, "known_score"):
        raise ValueError(
            f"method {method!r} is {type(made).__name__}, no open-set estimator: derive it from "
            "openset.base.OpenSetClassifier, wrap a classifier in openset.ThresholdRejector, or "
            "make a Pipeline with openset.make_pipeline."
        )
    if isinstance(made, OpenSetSearchCV):
        raise ValueError(
            f"method {method!r} is a search, and a study searches itself: name its estimator, and "
            f"add its grid as [grids.{method}]."
        )


def _check_names(given: Iterable, known: Iterable, message: str) -> None:
    """Raise ValueError for a name that is not known; `message` has a place for it."""
    for name in given:
        if name not in known:
            names = [*map(str, known)]
            remedy = similar(str(name), names) or f"choose from {', '.join(names)}."
            raise ValueError(f"{message.format(name)}; {remedy}")
