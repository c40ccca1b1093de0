"""Order, errors and threads of a map; BLAS runs on one thread inside, and as before afterwards."""

import os
import subprocess
import sys
import threading

import numpy as np  # noqa: F401  (loads a BLAS)
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from openset.utils import thread_map


def _blas_threads():
    return [part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"]


def test_overlapping_limits_are_restored():
    # First in, first out: each one restoring what it found would leave one thread for good.
    with threadpool_limits(3, user_api="blas"):
        before = _blas_threads()
        if 3 not in before:
            pytest.skip("this BLAS has one thread")
        first, second = (thread_map(abs, [1, 2], n_jobs=1) for _ in range(2))
        next(first), next(second)
        assert set(_blas_threads()) == {1}
        assert list(first) == [2]
        assert set(_blas_threads()) == {1}  # the second is still inside
        assert list(second) == [2]
        assert _blas_threads() == before


def test_concurrent_users_leave_no_limit():
    with threadpool_limits(2, user_api="blas"):
        before = _blas_threads()

        def work():
            for _ in range(50):
                list(thread_map(abs, range(3), n_jobs=2))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _blas_threads() == before


def test_results_come_in_order_whatever_ends_first():
    gates = [threading.Event() for _ in range(4)]

    def job(k):
        gates[k].wait(10)
        if k > 0:
            gates[k - 1].set()
        return k

    gates[3].set()  # the last item ends first
    assert list(thread_map(job, range(4), n_jobs=4)) == [0, 1, 2, 3]


def test_an_error_stops_the_others():
    stop, begun = threading.Event(), []

    def job(k):
        begun.append(k)
        if k == 0:
            raise KeyError("mine")
        stop.wait(10)

    with pytest.raises(KeyError, match="mine"):
        list(thread_map(job, range(100), n_jobs=2, stop=stop))
    assert stop.is_set()
    assert len(begun) < 100


def test_maps_inside_maps_and_no_more_threads_than_before():
    def inner(k):
        return sum(thread_map(abs, range(k), n_jobs=3))

    expected = [sum(range(k)) for k in range(8)]
    assert list(thread_map(inner, range(8), n_jobs=4)) == expected
    before = threading.active_count()
    for _ in range(5):
        list(thread_map(abs, range(8), n_jobs=4))
    assert threading.active_count() <= before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # threads and fork
def test_a_forked_process_starts_its_own_threads():
    list(thread_map(abs, range(4), n_jobs=2))
    child = os.fork()
    if child == 0:
        os._exit(0 if list(thread_map(abs, range(4), n_jobs=2)) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


FORK = """
import os, sys, threading, time
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from openset.utils import thread_map

def blas():
    return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]

threadpool_limits(2, "blas")
ready, go = threading.Event(), threading.Event()

def wait(_):
    ready.set()
    go.wait()

def others():  # many short stays, so that some fork happens while the lock is held
    while not go.is_set():
        list(thread_map(abs, [1]))

threads = [threading.Thread(target=others)]
if sys.argv[1] == "inside":
    threads.append(threading.Thread(target=lambda: list(thread_map(wait, [0]))))
for thread in threads:
    thread.start()
if sys.argv[1] == "inside":
    ready.wait()
bad = 0
for _ in range(60):
    child = os.fork()
    if child == 0:
        before = blas()
        inside = list(thread_map(lambda _: blas(), [0, 1], n_jobs=2))
        right = set(before) == {2} and set(blas()) == {2} and all(set(n) == {1} for n in inside)
        os._exit(0 if right else 1)
    bad += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
go.set()
for thread in threads:
    thread.join()
sys.exit(bad > 0 or set(blas()) != {2})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_the_blas_limiter_after_a_fork(where):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-W", "ignore", "-c", FORK, where]
    assert subprocess.run(command, env=environment, timeout=100).returncode == 0
