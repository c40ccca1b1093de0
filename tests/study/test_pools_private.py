"""Processes that do tasks, and die. Here a task is an expression, and the work is ``eval``."""

import os
import signal
import time

import pytest

from openset.study._runner import LocalPool

DIE = "__import__('os')._exit(3)"
PID = "__import__('os').getpid()"


@pytest.fixture
def pool():
    pool = LocalPool(eval, 2)
    yield pool
    pool.close()


def _all(pool, n):
    finished = []
    end = time.monotonic() + 60
    while len(finished) < n:
        assert time.monotonic() < end
        finished += pool.wait(1.0)
    return dict(finished)


def test_rows_come_with_their_tasks(pool):
    for task in ("1 + 1", "2 + 2"):
        pool.submit(task)
    assert _all(pool, 2) == {"1 + 1": 2, "2 + 2": 4}


def test_one_that_dies_takes_no_other_along(pool):
    pool.submit(DIE)
    pool.submit("2 + 2")
    assert _all(pool, 2) == {DIE: None, "2 + 2": 4}
    pool.submit("3 + 3")
    assert _all(pool, 1) == {"3 + 3": 6}


def test_one_that_dies_between_tasks(pool):
    pool.submit(PID)
    os.kill(_all(pool, 1)[PID], signal.SIGKILL)
    time.sleep(0.2)
    pool.submit("1 + 1")
    assert _all(pool, 1) == {"1 + 1": None}
    pool.submit("1 + 1")
    assert _all(pool, 1) == {"1 + 1": 2}


def test_closing_ends_what_runs(pool):
    pool.submit(PID)
    pid = _all(pool, 1)[PID]
    pool.submit("__import__('time').sleep(1000)")
    begin = time.monotonic()
    pool.close()
    assert time.monotonic() - begin < 20
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_nothing_to_wait_for(pool):
    assert pool.wait(0.01) == []
