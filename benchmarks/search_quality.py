"""NA of the default search for OpenSetSVC on the draws of ``search_table.py``: the whole way.

    python -m benchmarks.search_quality run DATA_HOME OUT.csv --processes 16
    python -m benchmarks.search_quality compare OLD.csv NEW.csv

The first searches, fits and judges test rows for every dataset, n = 3 and 6 and ten draws, with the
version of openset that is installed, and continues where it stopped. The second prints means and
paired gains of one version over another; errors are over datasets. Simulations are drawn anew, by
`--seed`; they are not those of the tables from which the rules were chosen. `--coarse` searches
the widths of the grid only; `--earlier` is the default before these rules, with today's solver.
"""

import argparse
import csv
import multiprocessing
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from openset import OpenSetSearchCV, OpenSetSVC
from openset.metrics import normalized_accuracy
from openset.model_selection import _race, _rounds, _search, _split

from .search_rules import OLD, _cells, summary
from .search_table import DATASETS, N_KNOWN, N_RUNS, draw


def no_finer(estimator, settings, best):
    """Settings between those of the grid: none."""
    return []


def go_back(n_known):
    """Restore the earlier default in this process: five random simulations, its grid and race.

    Two differences: the margin of the race falls with the number of simulations, not with its root,
    and the estimator's own setting drops out like any other.
    """
    _search.finer_settings, _rounds._ENDS_OF_ROUNDS = no_finer, (1, 2)
    _race._LEAST_MARGIN = 0.02 * np.sqrt(n_known)
    _split.gcd = lambda a, b: a  # rounds of one simulation: classes are drawn anew in each
    grid = {name: list(v) for name, v in zip(("gamma", "C", "lam"), OLD, strict=True)}
    spec = OpenSetSVC.search_spec
    OpenSetSVC.search_spec = replace(spec, grids=spec.grids | {"default": grid})


def run_task(task, home, seed, coarse, earlier):
    """NA on the test rows, and CPU seconds of the search."""
    dataset, n_known, run = task
    if coarse:
        _search.finer_settings = no_finer
    if earlier:
        go_back(n_known)
    X, y, X_test, y_test, _ = draw(dataset, n_known, run, home)
    repeats = 5 if earlier else None
    search = OpenSetSearchCV(OpenSetSVC(), n_repeats=repeats, random_state=1000 * seed + run)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
    seconds = time.process_time() - begin
    labels = {"known": search.classes_, "unknown_label": search.unknown_label_}
    return *task, seed, normalized_accuracy(y_test, search.predict(X_test), **labels), seconds


def read(path):
    """Mean NA by task over the seeds, and the seconds of all of them."""
    with open(path, newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    found: dict = {}
    for dataset, n_known, run, _, na, _ in rows:
        found.setdefault((dataset, int(n_known), int(run)), []).append(float(na))
    return {key: np.mean(values) for key, values in found.items()}, rows


def main():
    """Run or compare."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("run")
    sub.add_argument("home", type=Path)
    sub.add_argument("out", type=Path)
    sub.add_argument("--processes", type=int, default=1)
    sub.add_argument("--seconds", type=float, default=540)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--coarse", action="store_true", help="no widths between those of the grid")
    sub.add_argument("--earlier", action="store_true", help="the default before these rules")
    sub.add_argument("--datasets", nargs="*", default=DATASETS)
    sub = commands.add_parser("compare")
    sub.add_argument("old", type=Path)
    sub.add_argument("new", type=Path)
    args = parser.parse_args()
    if args.command == "compare":
        (old, old_rows), (new, new_rows) = read(args.old), read(args.new)
        common = old.keys() & new.keys()
        for name, found in (("old", old), ("new", new)):
            part = {key: found[key] for key in common}
            print(f"| {name}, {len(common)} tasks | {_cells(summary(part, old))} |")
        times = [{tuple(row[:4]): float(row[5]) for row in rows} for rows in (old_rows, new_rows)]
        both = times[0].keys() & times[1].keys()
        sums = [sum(t[key] for key in both) for t in times]
        print(f"CPU seconds of {len(both)} searches with refit: {sums[0]:.0f} and {sums[1]:.0f}")
        return
    done = set()
    if args.out.exists():
        done = {(*map(str, row[:4]),) for row in read(args.out)[1]}
    tasks = [(d, n, r) for r in range(N_RUNS) for d in args.datasets for n in N_KNOWN]
    tasks = [t for t in tasks if (*map(str, t), str(args.seed)) not in done]
    end = time.time() + args.seconds
    work = partial(
        run_task, home=args.home, seed=args.seed, coarse=args.coarse, earlier=args.earlier
    )
    with (
        multiprocessing.get_context("spawn").Pool(args.processes) as pool,
        args.out.open("a", newline="") as file,
    ):
        for row in pool.imap_unordered(work, tasks):
            csv.writer(file).writerow(row)
            file.flush()
            if time.time() > end:
                pool.terminate()
                break


if __name__ == "__main__":
    main()
