"""Two to four processes update one monitor, one model or one store, and some of them are killed.

Afterwards every update of a process that ended well is there once, and that of a killed one once or
not at all; the file is whole, and the next update succeeds.
"""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from openset.monitoring import UnknownRateMonitor
from openset.persistence import load_model
from openset.study import Store

# The processes must find this package under one name, also when pytest runs it.
sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests.fuzz.updating import CLASSES, call, model_file, put, table_file

# Longest time after its start at which a process is killed: longer than it takes.
SECONDS = {"monitor": 0.6, "model": 0.8, "store": 0.2}


@cache
def _forks():
    """Processes start from one in which everything is imported and compiled."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.warm"])
    return context


class _Monitor:
    """The process with number k counts 2^k rows, so that the sum says who was counted."""

    def __init__(self, folder):
        self.folder, self.state = folder, folder / "state"
        folder.joinpath("m.skops").write_bytes(model_file())
        UnknownRateMonitor(0.5).save(self.state)
        self.counted = 0

    def job(self, number):
        table = table_file(self.folder / f"{number}.csv", 2**number)
        words = ["predict", self.folder / "m.skops", table, "-o", self.folder / f"out{number}.csv"]
        return call, [*map(str, words), "--monitor", str(self.state)]

    def check(self, ended):
        n = UnknownRateMonitor.load(self.state).n_samples - self.counted
        for number, code in ended.items():
            there = bool(n >> number & 1)
            assert there or code != 0, f"the rows of process {number} are lost"
            answered = self.folder.joinpath(f"out{number}.csv").exists()
            assert answered or not there, f"process {number} counted what it did not answer"
        assert n < 2 ** (max(ended) + 1), f"{n} rows counted"
        self.counted += n


class _Model:
    """The process with number k renames class k."""

    def __init__(self, folder):
        self.path = folder / "m.skops"
        self.path.write_bytes(model_file())
        self.table = table_file(folder / "t.csv", 40)

    def job(self, number):
        words = ["learn", self.path, "--data", self.table, self.table, "-o", self.path]
        old = str(CLASSES[number])
        return call, [*map(str, words), "--rename", f"{old}={old.upper()}"]

    def check(self, ended):
        known = set(load_model(self.path).classes_.tolist())
        assert len(known) == len(CLASSES), known
        for number, code in ended.items():
            assert code != 0 or CLASSES[number].upper() in known, f"process {number} is lost"


class _Store:
    """Each process has tasks of its own, and one that all of them have."""

    def __init__(self, folder):
        self.path = folder / "s.sqlite"

    def job(self, number):
        return put, None

    def check(self, ended):
        if not self.path.exists():
            return
        with sqlite3.connect(self.path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        with Store(self.path, create=True) as store:
            rows = {row["run"]: row["NA"] for row in store.rows()}
        for number, code in ended.items():
            own = [run - 10 * number for run in rows if run // 10 == number]
            assert own == [*range(len(own))], f"of process {number} there are {own}"
            assert code != 0 or len(own) == 5, f"process {number} is lost"
            assert all(rows[10 * number + k] == number for k in own)


KINDS = {"monitor": _Monitor, "model": _Model, "store": _Store}


def attack(rng: np.random.Generator) -> dict:
    """One round on one file."""
    kind = list(KINDS)[rng.integers(len(KINDS))]
    n_processes = int(rng.choice([2, 4]))
    doomed = rng.random(n_processes) < 0.5
    delays = rng.random(n_processes) ** 2 * SECONDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        shared = KINDS[kind](Path(folder))
        started = {k: _start(folder, k, *shared.job(k)) for k in range(n_processes)}
        begin = time.monotonic()
        for k in sorted(np.flatnonzero(doomed).tolist(), key=delays.__getitem__):
            time.sleep(max(0.0, begin + delays[k] - time.monotonic()))
            started[k].kill()  # nothing, if it has ended
        ended = _join(folder, started)
        refused = _refusals(folder, ended)
        shared.check(ended)
        # The locks of the killed are gone, and so are, after one more update, their files.
        last = _start(folder, n_processes, *shared.job(n_processes))
        last = _join(folder, {n_processes: last})
        assert _refusals(folder, last) == 0
        shared.check(last)
        killed = sum(code == -signal.SIGKILL for code in ended.values())
    return {"group": f"{kind}, {n_processes}", "killed": killed, "refused": refused}


def _start(folder, number, function, words=None):
    arguments = (folder, number) if words is None else (folder, number, words)
    process = _forks().Process(target=function, args=arguments)
    process.start()
    return process


def _join(folder, processes) -> dict[int, int]:
    for process in processes.values():
        process.join(120)
    return {number: process.exitcode for number, process in processes.items()}


def _refusals(folder, ended) -> int:
    """How many processes refused to update; anything else than success or a kill is a failure."""
    refused = 0
    for number, code in ended.items():
        if code in (0, -signal.SIGKILL):
            continue
        told = Path(folder, f"told{number}").read_text() if code == 1 else f"exit code {code}"
        assert "run this again when it has ended" in told, told
        refused += 1
    return refused
