"""A study read from a TOML file and checked."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from ..calibration import CalibratedRejector
from ..svm import OpenSetSVC
from ._spec import MEASURES, Study, estimators, hint


def load_study(path: str | os.PathLike) -> Study:
    """Read a study from a TOML file.

    Required keys: ``datasets``, ``methods``, ``n_known`` and ``runs``. Optional keys: ``name``,
    ``seed``, ``measures``, ``record`` (a path relative to the file), ``search`` (a table of
    arguments of :class:`openset.OpenSetSearchCV`), ``grids`` (a table of values per method),
    ``protocol`` and ``operating_point`` (tables; see :class:`Study`).

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
        study = _checked({"name": path.stem, **content})
        if study.record:
            study = replace(study, record=str(path.resolve().parent / study.record))
            study.recorder  # noqa: B018 (raises if there is no such function)
        return study
    except (ValueError, OSError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None


# Types of the values, or of the items of the lists.
_LISTS = {"datasets": (str,), "methods": (str,), "n_known": (int, float), "measures": (str,)}
_KEYS = {"name": str, "runs": int, "seed": int, "record": str}
_KEYS |= dict.fromkeys(["search", "grids", "protocol", "operating_point"], dict)
_SEARCH = ("preset", "scenario", "level", "scoring", "n_repeats")
_PROTOCOL = ("column", "train", "validation")
_OPERATING_POINT = ("alpha", "per_class", "by", "refit")


def _checked(content: dict[str, Any]) -> Study:
    _check_names(content, [*_LISTS, *_KEYS], "key")
    for key in ("datasets", "methods", "n_known", "runs"):
        if key not in content:
            raise ValueError(f"the key {key!r} is missing.")
    for key, value in content.items():
        if key in _KEYS:
            if type(value) is not _KEYS[key]:
                raise ValueError(f"{key} = {value!r} must be of type {_KEYS[key].__name__}.")
            continue
        if not isinstance(value, list) or any(type(item) not in _LISTS[key] for item in value):
            kinds = " or ".join(kind.__name__ for kind in _LISTS[key])
            raise ValueError(f"{key} = {value!r} must be a list of {kinds}.")
        if not value or len(set(value)) < len(value):
            raise ValueError(f"{key} = {value!r} must hold at least one value, none twice.")
        content[key] = tuple(value)
    _check_names(content["methods"], estimators(), "method")
    _check_names(content.get("measures", ()), MEASURES, "measure")
    if not content["name"] or Path(content["name"]).name != content["name"]:
        raise ValueError(f"name = {content['name']!r} must be a name for files, not a path.")
    if not 1 <= content["runs"] <= 1_000_000:
        raise ValueError(f"runs = {content['runs']} must be 1 or more, and 1,000,000 at most.")
    if abs(content.get("seed", 0)) >= 2**63:
        raise ValueError(f"seed = {content['seed']} must be a number of 64 bits.")
    for n in content["n_known"]:
        if not (0 < n < 1 if isinstance(n, float) else n >= 2):
            raise ValueError(
                f"n_known = {list(content['n_known'])} must be 2 or more each, or ratios between "
                "0 and 1."
            )
    study = Study(**content)
    _check_names(study.search, _SEARCH, "key of [search]")
    _check_names(study.grids, study.methods, "method in [grids]")
    for method in study.methods:
        _check_search(study, method)
    _check_protocol(study)
    return study


def _check_protocol(study: Study) -> None:
    _check_names(study.protocol, _PROTOCOL, "key of [protocol]")
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
    _check_names(study.operating_point, _OPERATING_POINT, "key of [operating_point]")
    point = dict(study.operating_point)
    if not isinstance(point.pop("refit", False), bool):
        raise ValueError("[operating_point] refit must be true or false.")
    try:
        CalibratedRejector(OpenSetSVC(), **point)._validate_params()
    except ValueError as error:
        raise ValueError(f"[operating_point]: {error}") from None


def _check_search(study: Study, method: str) -> None:
    """Raise now what the search would raise in every task."""
    search = study.make_search(method)
    try:
        search._validate_params()
    except ValueError as error:  # scikit-learn's message names the parameter and its range
        raise ValueError(f"[search]: {error}") from None
    grid = study.grids.get(method, {})
    _check_names(grid, search.estimator.get_params(), f"parameter of {method}")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"[grids.{method}] {name} = {values!r} must be a list of values.")
        for value in values:  # not the product, which may be endless
            clone(search.estimator).set_params(**{name: value})._validate_params()


def _check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}{hint(name, known)}")
