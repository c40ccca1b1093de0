"""A long table through ``openset predict``: memory, and where the time goes."""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import OpenSetSVC
from openset.persistence import save_model

from .. import memory
from ..data import letter
from ..programs import N_JOBS
from ..report import Section, at_least, at_most

N_KNOWN = 20
BLOCK = 250_000


def run(quick):
    n_rows = 50_000 if quick else 5_000_000
    X, y = letter(2_000 if quick else 10_000)
    known = y <= N_KNOWN
    names = [f"x{j}" for j in range(X.shape[1])]
    # The parameters that `openset fit` finds for this table.
    steps = [("scale", MinMaxScaler()), ("model", OpenSetSVC(C=8.0, gamma=13.5))]
    model = Pipeline(steps).fit(X[known], y[known])
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_model(model, folder / "letter.skops", {"data": {"features": names}})
        _write(folder / "long.csv", X, names, n_rows)
        size = (folder / "long.csv").stat().st_size / 1e6
        (reading, _), _ = memory.apart(_timed, _read, folder, names)
        (whole, kernel), megabytes = memory.apart(_timed, _predict, folder)
    section = Section(
        "A long table",
        f"`openset predict` on {n_rows:,} rows x {len(names)} ({size:.0f} MB of CSV), a model of "
        f"{N_KNOWN} classes and {len(model[-1].support_vectors_)} support vectors, {N_JOBS} "
        "threads. Reading alone, in a process of its own: the file parsed and converted to "
        "numbers. Kernel arithmetic: what the whole command spends in decision_function. The rest "
        "are reasons (the certificates of rejected rows) and writing.",
        [
            [
                ["what", "seconds"],
                ["reading alone", f"{reading:.3g}"],
                ["the whole command", f"{whole:.3g}"],
                ["of which kernel arithmetic", f"{kernel:.3g}"],
            ]
        ],
    )
    section.targets += [
        at_most("long table: memory", 1000, megabytes, " MB"),
        at_least("long table: kernel arithmetic, against reading", 1, kernel / reading),
    ]
    return section


def _write(path, X, names, n_rows):
    """Rows of letter, each moved a little, block by block."""
    rng = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in names)])
    with pa.csv.CSVWriter(path, schema) as writer:
        for start in range(0, n_rows, BLOCK):
            ids = np.arange(start, min(start + BLOCK, n_rows))
            rows = X[rng.integers(len(X), size=len(ids))]
            rows = (rows + rng.normal(scale=0.02, size=rows.shape)).round(9)
            writer.write_batch(
                pa.RecordBatch.from_arrays([pa.array(ids), *map(pa.array, rows.T)], schema=schema)
            )


def _timed(function, *arguments):
    start = perf_counter()
    result = function(*arguments)
    return perf_counter() - start, result


def _read(folder, names):
    from openset.tables import numbers, open_table

    for batch in open_table(folder / "long.csv").batches():
        for name in names:
            numbers(batch.column(name))


def _predict(folder):
    """Run the command; return the seconds spent on scores."""
    from openset.cli._predict import predict

    score, seconds = OpenSetSVC.decision_function, 0.0

    def timed(model, Z):
        nonlocal seconds
        start = perf_counter()
        scores = score(model, Z)
        seconds += perf_counter() - start
        return scores

    OpenSetSVC.decision_function = timed
    predict(folder / "letter.skops", folder / "long.csv", folder / "out.csv", jobs=N_JOBS)
    return seconds
