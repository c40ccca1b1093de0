"""What the processes of `fuzz_updates` do."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from openset import OSNN
from openset.cli import app
from openset.persistence import save_model
from openset.study import Store

# Classes of the model. Each of up to five processes renames one; the last one stays.
CLASSES = np.array(list("abcdef"))


def table_file(path: Path, n_rows: int) -> Path:
    rng = np.random.default_rng(n_rows)
    kind = np.arange(n_rows) % len(CLASSES)
    X = rng.normal(size=(n_rows, 2)) + 5 * np.column_stack([kind, kind % 2])
    lines = [f"{a},{b},{CLASSES[c]}" for (a, b), c in zip(X.tolist(), kind, strict=True)]
    path.write_text("\n".join(["u,v,kind", *lines]) + "\n")
    return path


@cache
def model_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        cells = np.loadtxt(
            table_file(Path(folder, "t.csv"), 40), delimiter=",", skiprows=1, dtype=str
        )
        model = OSNN().fit(cells[:, :2].astype(float), cells[:, 2])
        names = {"features": ["u", "v"], "target": "kind"}
        save_model(model, Path(folder, "m.skops"), {"data": names})
        return Path(folder, "m.skops").read_bytes()


def call(folder: str, number: int, words: list[str]) -> None:
    """Run the command in this process, its messages in a file."""
    sys.stdout = sys.stderr = open(Path(folder, f"told{number}"), "w")
    app([*words, "--jobs", "1"] if words[0] != "monitor" else words)


def put(folder: str, number: int) -> None:
    """Store the results of five tasks of this process, and of one that all processes have."""
    with Store(Path(folder, "s.sqlite"), create=True) as store:
        for run in (*range(10 * number, 10 * number + 5), 99):
            task = {"dataset": "digits", "n_known": 3, "run": run, "method": "OSNN"}
            store.put(task | {"status": "done", "NA": float(number)})
