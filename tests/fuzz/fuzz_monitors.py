"""Damaged states of monitors: refused, or a monitor that works."""

from __future__ import annotations

import json
import tempfile
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np

from openset.monitoring import UnknownRateMonitor

from .files import damage_bytes, reader
from .fuzz_models import _damage_array, _npy, _pack


@cache
def _states() -> list[tuple[str, dict[str, bytes]]]:
    """(name, members) of states of both tests: fresh, after some samples, and after an alarm."""
    rng = np.random.default_rng(0)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for test in ("rate", "reference", "scores"):
            for n, shift in ((0, 0.0), (40, 2.0), (2500, 2.0), (300, -2.0)):
                reference = rng.normal(size=80) + 2
                monitor = (
                    UnknownRateMonitor(0.05)
                    if test == "rate"
                    else UnknownRateMonitor(
                        reference=reference, test="scores" if test == "scores" else "rate"
                    )
                )
                monitor.update(rng.normal(size=n) + shift)
                monitor.save(path := Path(folder, "state"))
                with zipfile.ZipFile(path) as archive:
                    members = {name: archive.read(name) for name in archive.namelist()}
                reader().judge(path.read_bytes(), "state.monitor", intact=True)
                found.append((f"{test}-{n}", members))
    return found


def attack(rng: np.random.Generator) -> dict:
    """One damaged state, loaded and updated in another process."""
    states = _states()
    name, intact = states[rng.integers(len(states))]
    members = dict(intact)
    what = [_damage(members, rng) for _ in range(rng.integers(1, 3))]
    content = _pack(members)
    if rng.random() < 0.1:
        what.append("bytes")
        content = damage_bytes(content, rng)
    verdict = reader().judge(content, "state.monitor")
    if verdict.startswith("BAD"):
        raise AssertionError(f"{name}, {what}: {verdict}")
    return {"group": name.split("-")[0], "refused": int(verdict == "refused")}


def _damage(members, rng) -> str:
    names = sorted(members)
    name = names[rng.integers(len(names))]
    try:
        array = np.load(BytesIO(members[name]))
        state = json.loads(str(np.load(BytesIO(members["state.npy"]))))
    except Exception:  # damaged already, which may raise anything
        return "twice"
    kind = rng.random()
    if kind < 0.5 and isinstance(state, dict) and state:
        keys = sorted(state)
        key = keys[rng.integers(len(keys))]
        value = state[key]
        values = [None, 0, 1, -1, 0.5, 1e-300, 1 - 1e-16, 1e300, 2**62, 2**70, True, "x", [], {}]
        values += [float("nan"), float("inf"), -float("inf"), "rate", "scores"]
        if isinstance(value, int | float) and not isinstance(value, bool):
            values += [value + 1, value - 1, value * 2, -value]
        if isinstance(value, dict) and value and rng.random() < 0.7:
            part = sorted(value)[rng.integers(len(value))]
            value[part] = values[rng.integers(len(values))]
        elif rng.random() < 0.15:
            del state[key]
        else:
            state[key] = values[rng.integers(len(values))]
        members["state.npy"] = _npy(np.array(json.dumps(state)))
        return f"{key}: {value} becomes {state.get(key, 'nothing')}"
    if kind < 0.6:
        members[name] = members[names[rng.integers(len(names))]]
        return f"{name} replaced"
    if kind < 0.65:
        members[name] = members[name].replace(b"'shape': (", b"'shape': (9", 1)
        return f"{name} promises more"
    if kind < 0.7:
        members[name] = damage_bytes(members[name], rng)
        return f"{name}: bytes"
    changed, what = _damage_array(array, rng)
    members[name] = _npy(changed)
    return f"{name} {what}"
