"""Damaged stores: refused, or each row that is read was written. Damaged exports: an answer."""

from __future__ import annotations

import pickle
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from openset.study import MEASURES, Store

from .files import damage_bytes, reader

# What SQLite may keep beside the file.
PARTS = ("", "-wal", "-shm")


@cache
def _stores() -> dict[str, tuple[dict[str, bytes], list]]:
    """By name, the parts of a store and its rows: few and many, closed, and with a log beside."""
    rng = np.random.default_rng(0)
    found = {}
    for name, n, is_closed in (("small", 3, True), ("large", 120, True), ("log", 40, False)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "s.sqlite")
            store = Store(path, create=True)
            for run in range(n):
                task = {"dataset": "digits", "n_known": 3, "run": run, "method": "OSNN"}
                measures = dict(zip(MEASURES, rng.random(len(MEASURES)).tolist(), strict=True))
                text = {"params": '{"k": 1}', "error": "x" * int(rng.choice([0, 9, 6000]))}
                store.put(task | measures | text | {"status": "failed" if run % 5 else "done"})
            rows = store.rows()
            for end in (".csv", ".csv.gz") if name == "large" else ():
                store.export_csv(Path(folder, end))
                found[end] = {end: Path(folder, end).read_bytes()}, rows
            if is_closed:
                store.close()
            parts = {end: Path(f"{path}{end}") for end in PARTS}
            parts = {end: part.read_bytes() for end, part in parts.items() if part.exists()}
            store.close()
        found[name] = parts, rows
    for parts, rows in found.values():
        verdict = reader().judge(pickle.dumps(parts), "s.store", rows, intact=True)
        assert verdict == "harmless", verdict
    return found


def attack(rng: np.random.Generator) -> dict:
    """One damaged store, read and written in another process."""
    stores = _stores()
    name = list(stores)[rng.integers(len(stores))]
    parts, rows = stores[name]
    parts = dict(parts)
    end = list(parts)[rng.integers(len(parts))]
    kind = rng.integers(5 if "" in parts else 3)
    if kind == 0:
        parts[end] = damage_bytes(parts[end], rng)
    elif kind == 1:  # a block of zeros, of other bytes or of another place
        content = bytearray(parts[end])
        size = int(rng.choice([1, 16, 512, 4096]))
        at, other = (int(k) * size for k in rng.integers(len(content) // size, size=2))
        blocks = [bytes(size), rng.bytes(size), content[other : other + size]]
        content[at : at + size] = blocks[rng.integers(3)]
        parts[end] = bytes(content)
    elif kind == 2:  # a number of a page, a cell or a record
        content = bytearray(parts[end])
        at = int(rng.integers(len(content) // 512)) * 512 + int(rng.integers(110))
        content[at % len(content)] = rng.choice([0, 1, 2, 127, 128, 255])
        parts[end] = bytes(content)
    elif kind == 3:
        del parts[end]
    else:
        parts[""] = _changed(parts, rng)
    verdict = reader().judge(pickle.dumps(parts), "s.store", rows)
    if verdict.startswith("BAD"):
        raise AssertionError(f"{name}{end}, damage {kind}: {verdict}")
    return {"group": name, "refused": int(verdict == "refused")}


def _changed(parts: dict[str, bytes], rng) -> bytes:
    """The file after a valid change of one value, as of a bit of a number."""
    with tempfile.TemporaryDirectory() as folder:
        for end, content in parts.items():
            Path(folder, f"s{end}").write_bytes(content)
        connection = sqlite3.connect(Path(folder, "s"))
        columns = [row[1] for row in connection.execute("PRAGMA table_info(results)")]
        column = columns[rng.integers(len(columns))]
        values = [None, 0, 1, -1, 0.5, 1e300, float("inf"), 2**62, "", "done", b"\xff"]
        connection.execute(
            f"UPDATE OR IGNORE results SET {column} = ? WHERE rowid = ?",
            (values[rng.integers(len(values))], int(rng.integers(1, 4))),
        )
        connection.commit()
        connection.close()
        parts.pop("-wal", None)
        parts.pop("-shm", None)
        return Path(folder, "s").read_bytes()
