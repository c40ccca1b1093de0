"""Damaged model files with transformers, searches, wrappers and nested estimators.

As in fuzz_models, and also: numbers in the description are changed, parts of it change places, are
put into another container or are repeated, and bits of a stored array flip.
"""

from __future__ import annotations

import copy
import json
import runpy
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

from openset.persistence import save_model

from .files import damage_bytes, reader
from .fuzz_models import _damage, _pack

# By its path, because the folders of tests are no packages for one another.
models = runpy.run_path(str(Path(__file__).parents[1] / "persistence" / "models.py"))["models"]


@cache
def _archives() -> dict[str, list[tuple[str, dict[str, bytes], object]]]:
    """(name, members, what the model is asked) of the model files, by family."""
    found: dict[str, list] = {}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for name, model, probes in models():
            save_model(model, path := Path(folder, "m.skops"))
            with zipfile.ZipFile(path) as archive:
                members = {member: archive.read(member) for member in archive.namelist()}
            verdict = reader().judge(path.read_bytes(), "model.skops", probes, intact=True)
            assert verdict == "harmless", f"{name}: {verdict}"
            found.setdefault(name.split("-")[0], []).append((name, members, probes))
    return found


def attack(rng: np.random.Generator) -> dict:
    """One damaged file, loaded and asked in another process."""
    archives = _archives()
    family = list(archives)[rng.integers(len(archives))]
    name, intact, probes = archives[family][rng.integers(len(archives[family]))]
    members = dict(intact)
    damages = [_damage, _damage_number, _damage_structure, _flip]
    what = []
    for _ in range(rng.integers(1, 3)):
        damage = damages[rng.choice(4, p=[0.4, 0.3, 0.15, 0.15])]
        what.append(damage(members, rng))
    content = _pack(members)
    if rng.random() < 0.02:
        what.append("bytes")
        content = damage_bytes(content, rng)
    verdict = reader().judge(content, "model.skops", probes)
    if verdict.startswith("BAD"):
        raise AssertionError(f"{name}, {what}: {verdict}")
    return {"group": family, "refused": int(verdict == "refused")}


def _nodes(part) -> list[dict]:
    """Every object of a description."""
    found = [part] if isinstance(part, dict) and "__loader__" in part else []
    if isinstance(part, dict | list):
        for value in part.values() if isinstance(part, dict) else part:
            found += _nodes(value)
    return found


def _schema(members):
    try:
        schema = json.loads(members["schema.json"])
    except ValueError:  # damaged already
        schema = {}
    return schema, _nodes(schema)


def _damage_number(members, rng) -> str:
    """Another number, text or truth value among the attributes."""
    schema, nodes = _schema(members)
    scalars = [node for node in nodes if node["__loader__"] == "JsonNode"]
    if not scalars:
        return "nothing"
    node = scalars[rng.integers(len(scalars))]
    try:
        value = json.loads(node["content"])
    except (TypeError, ValueError):
        return "nothing"
    values = [0, 1, -1, 2, 7, 255, 10**6, 2**31, -(2**31), 2**62, 10**30, 0.5, float("nan"), 1e300]
    values += [True, False, None, "", "brute", "precomputed", "linear", "csr", []]
    if isinstance(value, int | float):
        values += [value + 1, value - 1, value * 2, -value, value + 1, value - 1]
    node["content"] = json.dumps(values[rng.integers(len(values))])
    members["schema.json"] = json.dumps(schema).encode()
    return f"{value} becomes {node['content']}"


def _damage_structure(members, rng) -> str:
    """One object in the place of another, or in a container."""
    schema, nodes = _schema(members)
    if len(nodes) < 3:
        return "nothing"
    one, other = (nodes[k] for k in rng.choice(np.arange(1, len(nodes)), 2))
    before = copy.deepcopy(one)
    kind = ["replaced", "list", "set", "tuple", "array", "partial", "repeated"][rng.integers(7)]
    builtin = {"list": "ListNode", "set": "SetNode", "tuple": "TupleNode"}
    if kind == "replaced":
        changed = copy.deepcopy(other)
    elif kind in builtin:
        changed = {"__class__": kind, "__module__": "builtins", "__loader__": builtin[kind]}
        changed["content"] = [before]
    elif kind == "array":
        shape = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode"}
        number = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
        shape["content"] = [number | {"content": "1", "is_json": True}]
        changed = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
        changed |= {"type": "json", "content": [before], "shape": shape}
    elif kind == "partial":
        changed = {"__class__": "OSNN", "__module__": "openset.neighbors._osnn"}
        changed |= {"__loader__": "PartialNode", "content": {"func": before}}
        changed["content"] |= dict.fromkeys(("args", "kwds", "namespace"), before)
    else:
        changed = before | {"__id__": other.get("__id__", 1)}
    one.clear()
    one.update(changed)
    members["schema.json"] = json.dumps(schema).encode()
    return f"{before['__class__']} {kind} with {other['__class__']}"


def _flip(members, rng) -> str:
    """Bits of a stored array, after its header."""
    arrays = [name for name in members if name.endswith(".npy") and len(members[name]) > 128]
    if not arrays:
        return "nothing"
    name = arrays[rng.integers(len(arrays))]
    data = bytearray(members[name])
    for position in rng.integers(128, len(data), size=rng.integers(1, 9)):
        data[position] ^= 1 << rng.integers(8)
    members[name] = bytes(data)
    return f"{name}: bits"
