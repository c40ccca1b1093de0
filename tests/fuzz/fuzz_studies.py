"""Random studies in TOML: read, or refused with a message that names the file."""

from __future__ import annotations

import copy
import json
import tomllib
from functools import cache

import numpy as np

from .files import damage_bytes, reader

_STUDIES = [
    {
        "datasets": ["digits"],
        "methods": ["OpenSetSVC", "PISVM"],
        "n_known": [3, 0.5],
        "runs": 2,
        "search": {"preset": "paper", "scenario": "closed"},
    },
    {
        "name": "texts",
        "datasets": ["banking", "clinc"],
        "methods": ["OSNN", "OneVsRestSVC", "ThresholdRejector"],
        "n_known": [0.25],
        "runs": 10,
        "seed": 3,
        "measures": ["NA", "AUS"],
        "search": {"level": "model", "scoring": "harmonic_normalized_accuracy", "n_repeats": 2},
        "grids": {"OneVsRestSVC": {"C": [1.0, 10.0], "gamma": [0.5]}, "OSNN": {"threshold": [0.5]}},
        "protocol": {"column": "split", "train": "train", "validation": "dev"},
        "operating_point": {"alpha": 0.05, "per_class": True, "by": "own", "refit": True},
    },
]
_KEYS = ["name", "record", "seed", "grids", "search", "protocol", "operating_point", "measures"]
_KEYS += [
    "C",
    "gamma",
    "kernel",
    "estimator",
    "n_jobs",
    "refit",
    "alpha",
    "cv",
    "é",
    "a.b",
    "",
    "_",
]
# TOML of values.
_VALUES = ["0", "1", "-1", "true", "2.0", "0.5", "-0.0", "inf", "nan", "-inf", "1e999", "1e-320"]
_VALUES += ["9" * 18, "9" * 30, "9" * 5000, "0x" + "f" * 5000, "1979-05-27T07:32:00Z", "07:32:00"]
_VALUES += ['""', '"x"', '"../../x"', '"a/b"', '"/"', '"."', '".."', '"\\u0000"', '"\\U0001F600"']
_VALUES += ['"\\n\\u001b[2J"', '"' + "a" * 5000 + '"', '"None"', '"e\\u0301"', "[]", "{}", "[[]]"]
_VALUES += ["[" * 60 + "]" * 60, "[" * 5000 + "]" * 5000, "{a = " * 60 + "1" + "}" * 60]
_VALUES += ['["digits", "digits"]', '["digits", 1]', "[" + "0.5, " * 3000 + "0.5]", "{x = [1]}"]
_VALUES += ['["OneVsRestSVC"]', '"auto"', '"paper"', '"x.py:f"', '":"', '"."', '"numpy:load"']


class _Raw(str):
    """TOML as it is to be written."""


@cache
def _intact() -> list[dict]:
    for study in _STUDIES:
        verdict = reader().judge(_toml(study), "study.toml", intact=True)
        assert verdict == "harmless", verdict
    return _STUDIES


def attack(rng: np.random.Generator) -> dict:
    """One study with one or two changes, read in another process."""
    studies = _intact()
    study = copy.deepcopy(studies[rng.integers(len(studies))])
    for _ in range(rng.integers(1, 3)):
        _change(study, rng)
    content = _toml(study)
    if rng.random() < 0.2:
        content = damage_bytes(content, rng)
    if rng.random() < 0.05:
        text = content.decode(errors="replace")
        content = text.encode(["utf-8-sig", "utf-16", "latin-1"][rng.integers(3)], "replace")
    verdict = reader().judge(content, "study.toml")
    if verdict.startswith("BAD"):
        raise AssertionError(f"{content[:2000]!r}: {verdict}")
    return {"group": "all", "refused": int(verdict == "refused")}


def _change(table: dict, rng) -> None:
    """Put a value in the place of another, at any depth, or take it away, or add one."""
    keys = list(table)
    key = keys[rng.integers(len(keys))] if keys and rng.random() < 0.8 else _KEYS[rng.integers(20)]
    value = table.get(key)
    new = _new(value, rng)
    if isinstance(value, dict) and rng.random() < 0.7:
        _change(value, rng)
    elif isinstance(value, list) and value and rng.random() < 0.6:
        k = rng.integers(len(value))
        value[k] = _new(value[k], rng)
    elif key in table and rng.random() < 0.15:
        del table[key]
    else:
        table[key] = new


def _new(value, rng) -> _Raw:
    """Any value, or one of the same type."""
    short = {text: tomllib.loads(f"x = {text}")["x"] for text in _VALUES if len(text) < 200}
    like = [text for text, other in short.items() if type(other) is type(value)]
    if not like or rng.random() < 0.3:
        like = _VALUES
    return _Raw(like[rng.integers(len(like))])


def _toml(table: dict) -> bytes:
    return "\n".join(f"{json.dumps(key)} = {_text(value)}" for key, value in table.items()).encode()


def _text(value) -> str:
    if isinstance(value, _Raw):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value)
