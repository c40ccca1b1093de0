"""Runs of ``openset study`` in processes of their own, to be watched and killed."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

MAIN = [sys.executable, "-c", "from openset.cli import main; main()"]

SPEC = """
datasets = ["make_regular"]
methods = ["OneVsRestSVC", "OneVsSetMachine", "PISVM"]
n_known = [3, 6]
runs = {runs}
[search]
preset = "paper"
"""


def write_study(folder, runs):
    path = folder / "small.toml"
    path.write_text(SPEC.format(runs=runs))
    return path


def start(*arguments, **options):
    """Start a command in a process group of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*map(str, arguments)], start_new_session=True, env=env, text=True, **options
    )


def kill_group(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def count_rows(store):
    if not store.exists():
        return 0
    connection = sqlite3.connect(store, timeout=60)
    try:
        return connection.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:  # the table is not there yet
        return 0
    finally:
        connection.close()


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def results(store):
    """All rows but what differs between runs of the same task: times."""
    return [
        {name: value for name, value in row.items() if not name.startswith("seconds")}
        for row in store.rows()
    ]
