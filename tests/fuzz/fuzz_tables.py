"""Damaged tables of every format: read, or refused with a message that names the file."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from .files import X, Y, damage_bytes, reader

PARTS = [b"\0", b"\r", b"\n", b'"', b",", b";", b"\t", b"\xff", b"\xef\xbb\xbf", b"1e999", b"nan"]
PARTS += [b"\x1b[2J", b"'", b"\\", b"a" * 5000, b",,,,", b'""', b"-", b"1:1", b":", b"#"]


@cache
def _tables() -> dict[str, bytes]:
    """Intact tables, by the suffix of their names."""
    table = pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "class": pa.array(Y)})
    lines = [[str(v) for v in (*row, label)] for row, label in zip(X, Y, strict=True)]
    svmlight = [" ".join(["1", *(f"{j + 1}:{v}" for j, v in enumerate(row))]) for row in X]
    found = {
        ".csv": "\n".join(map(",".join, [table.column_names, *lines])).encode(),
        ".tsv": "\n".join(map("\t".join, [table.column_names, *lines])).encode(),
        ".svm": "\n".join(svmlight).encode(),
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = {suffix: Path(folder, f"t{suffix}") for suffix in (".npy", ".npz", ".arrow")}
        paths[".parquet"] = Path(folder, "t.parquet")
        np.save(paths[".npy"], X)
        np.savez(paths[".npz"], X=X, y=Y)
        pyarrow.feather.write_feather(table, str(paths[".arrow"]))
        pq.write_table(table, paths[".parquet"])
        found |= {suffix: path.read_bytes() for suffix, path in paths.items()}
    for suffix, content in found.items():
        reader().judge(content, f"table{suffix}", intact=True)
    return found


def attack(rng: np.random.Generator) -> dict:
    """One damaged table, read in another process."""
    tables = _tables()
    suffix = list(tables)[rng.integers(len(tables))]
    content, kind = tables[suffix], rng.integers(4)
    if kind == 0:
        content = damage_bytes(content, rng)
    elif kind == 1:
        for _ in range(rng.integers(1, 5)):
            at = rng.integers(len(content) + 1)
            part = PARTS[rng.integers(len(PARTS))]
            content = content[:at] + part + content[at + rng.integers(0, 9) :]
    elif kind == 2:  # bytes of another format under this name
        content = tables[list(tables)[rng.integers(len(tables))]]
    elif suffix in (".csv", ".tsv", ".svm"):
        text = content.decode()
        changes = [text.encode("utf-16"), text.encode("utf-16-be"), text.encode("utf-32")]
        changes += [text.replace("\n", "\r").encode(), text.replace("\n", "\r\n").encode()]
        content = changes[rng.integers(len(changes))]
    else:
        content = rng.bytes(int(rng.integers(1, 500)))
    verdict = reader().judge(content, f"table{suffix}")
    if verdict.startswith("BAD"):
        raise AssertionError(f"{suffix}, damage {kind}: {verdict}")
    return {"group": suffix, "refused": int(verdict == "refused")}
