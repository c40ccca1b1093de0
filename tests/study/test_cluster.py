"""Many machines, here processes on the loopback: the same results, and a worker may die."""

import json
import sys

import pytest

from openset.study import Store, load_study, run_study

from ._processes import MAIN, count_rows, kill_group, results, start, wait_for, write_study

pytestmark = pytest.mark.slow
PYTHON = [sys.executable, "-m"]
pytest.importorskip("distributed")


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler, and the processes of its two workers."""
    file = tmp_path / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file]
    scheduler = start(*PYTHON, "distributed.cli.dask_scheduler", *options, stderr=-3)
    wait_for(file.exists)
    address = json.loads(file.read_text())["address"]
    options = ["--nthreads", 1, "--no-nanny", "--no-dashboard", "--local-directory", tmp_path]
    command = [*PYTHON, "distributed.cli.dask_worker", address, *options]
    workers = [start(*command, stderr=-3) for _ in range(2)]
    yield address, workers
    for process in (*workers, scheduler):
        kill_group(process)


def test_a_worker_dies_in_the_middle(tmp_path, cluster):
    address, workers = cluster
    path, store = write_study(tmp_path, runs=8), tmp_path / "cluster.sqlite"
    runner = start(*MAIN, "study", "run", path, "--store", store, "--scheduler", address, stderr=-1)
    wait_for(lambda: count_rows(store) > 3)
    kill_group(workers[0])
    assert count_rows(store) < 48
    _, error = runner.communicate(timeout=200)
    assert runner.returncode == 0, error
    with Store(store) as there, Store(tmp_path / "local.sqlite", create=True) as here:
        run_study(load_study(path), here, jobs=2)
        assert len(there.tasks("done")) == 48
        assert results(there) == results(here)


def test_ctrl_c_while_no_worker_is_left(tmp_path, cluster):
    address, workers = cluster
    path, store = write_study(tmp_path, runs=50), tmp_path / "cluster.sqlite"
    runner = start(*MAIN, "study", "run", path, "--store", store, "--scheduler", address, stderr=-1)
    wait_for(lambda: count_rows(store) > 3)
    for process in workers:
        kill_group(process)
    runner.send_signal(2)
    _, error = runner.communicate(timeout=60)
    assert runner.returncode == 130
    assert "Finished tasks are kept" in error
