"""Run recorded tasks of a study again and compare: ``python studies/rerun.py STUDY RESULTS``.

::

    python studies/rerun.py studies/paper.toml studies/results/paper/results.csv.gz \
        --data-home FOLDER --tasks 300 --seed 0 --out rerun.csv

Tasks are drawn at random from the finished rows of RESULTS, an export. Each is run by the installed
version in this process and written to the file at once: whether the measures and the parameters are
those recorded, to the last digit, and if not, the largest difference and whether the libraries are
the same. Run the same command again to resume. The exit code is 1 if a task differs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from openset.study import MEASURES, Store, Task, load_study, run_task

KEY = list(Task._fields)
COLUMNS = [*KEY, "equal", "difference", "same_params", "same_libraries"]
COLUMNS += ["NA", "NA_again", "recorded", "again"]


def recorded_rows(results: Path, study) -> pd.DataFrame:
    """The finished rows of an export that belong to the study."""
    with Store(":memory:", create=True) as store:
        store.import_csv(results, study)
        rows = store.frame()
    return rows[rows["status"] == "done"]


def compare(row: dict, again: dict) -> dict:
    """One line of the output: a recorded row and the row of the same task run again."""
    line = {name: row[name] for name in KEY}
    if again["status"] != "done":
        return line | {"equal": False, "again": again["error"]}
    values = np.array([[r[name] for name in MEASURES] for r in (row, again)], dtype=float)
    same_params = json.loads(row["params"]) == json.loads(again["params"])
    return line | {
        "equal": bool(np.array_equal(*values, equal_nan=True)) and same_params,
        "difference": float(np.nanmax(np.abs(values[0] - values[1]))),
        "same_params": same_params,
        "same_libraries": row["versions"] == again["versions"],
        "NA": row["NA"],
        "NA_again": again["NA"],
        "recorded": row["params"],
        "again": again["params"],
    }


def rerun(study, rows: pd.DataFrame, out: Path, data_home, minutes: float) -> pd.DataFrame:
    """Run the tasks of `rows` that the file does not have, until the time is over; all lines."""
    done = pd.read_csv(out, keep_default_na=False) if out.is_file() else pd.DataFrame(columns=KEY)
    finished = set(done[KEY].itertuples(index=False, name=None))
    # Only measures and parameters are compared, so what a study records besides is not made again.
    study, end = replace(study, record=""), time.monotonic() + 60 * minutes
    for row in rows.to_dict("records"):
        task = Task(*(row[name] for name in KEY))
        if tuple(task) in finished or time.monotonic() > end:
            continue
        line = compare(row, run_task(task, study, data_home))
        table = pd.DataFrame([line], columns=COLUMNS)
        table.to_csv(out, mode="a", header=not out.is_file(), index=False)
        print(*task, "equal" if line["equal"] else f"DIFFERS {line.get('difference')}", flush=True)
    return pd.read_csv(out, keep_default_na=False) if out.is_file() else done


def summary(table: pd.DataFrame) -> str:
    """How many tasks are equal, and a line for each that is not."""
    if table.empty:
        return "no task was run"
    equal = table["equal"].astype(str) == "True"
    lines = [f"{int(equal.sum())} of {len(table)} tasks equal to the recorded ones"]
    for method, part in table.assign(same=equal).groupby("method"):
        gain = (part["NA_again"].astype(float) - part["NA"].astype(float)).mean()
        lines.append(
            f"{method}: {part['same'].sum()} of {len(part)}, mean change of NA {gain:+.4f}"
        )
    for row in table[~equal].itertuples():
        task = ", ".join(str(getattr(row, name)) for name in KEY)
        why = "the same libraries" if str(row.same_libraries) == "True" else "other libraries"
        lines.append(f"{task}: largest difference {row.difference}, {why}: {row.again}")
    return "\n".join(lines)


def main() -> int:
    """Draw the tasks, run them, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("results", type=Path, help="export of the study, results.csv.gz")
    parser.add_argument("--out", type=Path, required=True, help="CSV file of the comparison")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--datasets", nargs="*", help="only these datasets")
    parser.add_argument("--methods", nargs="*", help="only these methods")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no task after these")
    parser.add_argument("--data-home", default=os.environ.get("OPENSET_DATA"))
    arguments = parser.parse_args()
    if arguments.tasks < 1:
        parser.error(f"--tasks {arguments.tasks} must be 1 or more.")
    study = load_study(arguments.study)
    rows = recorded_rows(arguments.results, study)
    for column, wanted in (("dataset", arguments.datasets), ("method", arguments.methods)):
        rows = rows[rows[column].isin(wanted)] if wanted else rows
    if rows.empty:
        parser.error(f"{arguments.results} has no finished row of these datasets and methods.")
    rows = rows.sample(min(arguments.tasks, len(rows)), random_state=arguments.seed)
    table = rerun(study, rows, arguments.out, arguments.data_home, arguments.minutes)
    print(summary(table))
    return int((table["equal"].astype(str) != "True").any()) if len(table) else 0


if __name__ == "__main__":
    sys.exit(main())
