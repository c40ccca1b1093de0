"""Power cuts: whatever is killed, no finished task is lost, and the end is the same."""

import random
import resource
import time

import psutil
import pytest

from openset.study import Store, load_study, run_study

from ._processes import MAIN, count_rows, kill_group, results, start, wait_for, write_study

pytestmark = pytest.mark.slow


def test_twenty_kills_at_random_points(tmp_path):
    path, store = write_study(tmp_path, runs=80), tmp_path / "killed.sqlite"
    study, rng = load_study(path), random.Random(0)
    command = [*MAIN, "study", "run", path, "--store", store, "--jobs", 2]
    kept = 0
    for kill in range(20):
        process = start(*command)
        if kill % 4:  # amid the tasks; else amid the start
            wait_for(lambda before=kept: count_rows(store) > before)
        time.sleep(rng.uniform(0, 0.7))
        assert process.poll() is None, "the study is too small to be killed 20 times"
        kill_group(process)
        assert count_rows(store) >= kept
        kept = count_rows(store)
    assert 0 < kept < 480
    with Store(store) as killed, Store(tmp_path / "whole.sqlite", create=True) as whole:
        run_study(study, killed, jobs=2)
        run_study(study, whole, jobs=2)
        assert len(killed.tasks("done")) == len(killed.rows()) == 480
        assert results(killed) == results(whole)


def test_workers_end_with_a_runner_that_was_killed(tmp_path):
    path, store = write_study(tmp_path, runs=25), tmp_path / "killed.sqlite"
    process = start(*MAIN, "study", "run", path, "--store", store, "--jobs", 2)
    try:
        wait_for(lambda: count_rows(store) > 0)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
        process.kill()
        wait_for(lambda: not any(map(_lives, workers)), seconds=20)
    finally:
        kill_group(process)


def _lives(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_and_going_on(tmp_path):
    path, store = write_study(tmp_path, runs=5), tmp_path / "stopped.sqlite"
    command = [*MAIN, "study", "run", path, "--store", store, "--jobs", 1]
    process = start(*command, stderr=-1)
    wait_for(lambda: count_rows(store) > 0)
    process.send_signal(2)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "openset: stopped. Finished tasks are kept; run again to resume.\n"
    assert 0 < count_rows(store) < 30
    assert start(*command, stderr=-3).wait() == 0
    assert count_rows(store) == 30


def test_a_disk_that_fills_up_in_the_middle(tmp_path):
    path, store = write_study(tmp_path, runs=50), tmp_path / "full.sqlite"
    process = start(*MAIN, "study", "run", path, "--store", store, "--jobs", 1, stderr=-1)
    wait_for(lambda: count_rows(store) > 0)
    kept = count_rows(store)
    size = max(file.stat().st_size for file in tmp_path.glob("full.sqlite*"))
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
    _, error = process.communicate(timeout=120)
    assert process.returncode == 1
    last = error.splitlines()[-1]
    assert last.startswith(f"openset: {store}: ")
    assert "free some space and run again. Finished tasks are kept." in last
    assert "Traceback" not in error
    assert count_rows(store) >= kept
