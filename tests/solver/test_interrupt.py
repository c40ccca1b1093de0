"""Ctrl-C during work that would take minutes: control is back within about a second."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from openset.kernels import RBF
from openset.solver import kernel_rows, solve, svm_problem
from openset.utils import thread_map

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a signal cannot be sent to a child")

# Each would run for a minute at least; it is interrupted after a moment.
JOBS = {
    "fit": "OneVsRestSVC(C=1e6, gamma=0.01, tol=1e-9, n_jobs=N).fit(X, y)",
    "fit, rows on demand": (
        "OneVsRestSVC(C=1e6, gamma=0.01, tol=1e-9, cache_size=0.1, n_jobs=N).fit(X, y)"
    ),
    # Rounding ends a fit after half a second.
    "bias held": (
        "for _ in range(120): FixedBiasSVC(C=1e6, gamma=0.01, tol=1e-9, n_jobs=N).fit(X, y)"
    ),
    "path": "lambda_path(X, y, C=1e6, gamma=0.01, tol=1e-9, n_jobs=N)",
    "pairs": "one_vs_one_bias(X, y, C=1e6, gamma=0.01, tol=1e-9, n_jobs=N)",
}

# Reads a job a line, says when it begins and how it ended.
PROGRAM = """
import sys
import numpy as np
from openset.svm import FixedBiasSVC, OneVsRestSVC, lambda_path, one_vs_one_bias
rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 3))
y = (X[:, 0] ** 2 + X[:, 1] ** 2 + 0.5 * rng.normal(size=1500) > 0.7).astype(int)
lambda_path(X[:60], y[:60])  # compiled code is loaded before the clock starts
for job in sys.stdin:
    print("begun", flush=True)
    try:
        exec(job)
        print("finished", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture(scope="module")
def child():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        watchdog = threading.Timer(60, child.kill)  # what cannot be interrupted fails, not hangs
        watchdog.start()
        yield child
        watchdog.cancel()
        child.kill()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("job", JOBS)
def test_interrupt(child, job, n_jobs):
    interrupt(child, JOBS[job].replace("N", str(n_jobs)), after=0.6)


def test_interrupt_of_one_part_after_the_other(child):
    """Each takes all the work that is allowed between two looks at the signal."""
    interrupt(child, "OneVsRestSVC(C=1e6, gamma=0.01, tol=1e-5).fit(X, y)", after=3.0)


def interrupt(child, job, after):
    print(job, file=child.stdin, flush=True)
    assert child.stdout.readline() == "begun\n"
    time.sleep(after)
    start = time.perf_counter()
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    assert time.perf_counter() - start < 3  # a second, and what a loaded machine adds


def test_interrupt_while_a_result_is_wrapped():
    """What Numba makes of a Ctrl-C that comes while it wraps a returned array: an interrupt."""

    def summarise(depth):
        if depth == 0:
            raise KeyboardInterrupt
        try:
            summarise(depth - 1)
        except BaseException as cause:
            raise SystemError("returned a result with an exception set") from cause

    for depth in range(3):
        with pytest.raises(KeyboardInterrupt):
            list(thread_map(summarise, [depth], 1))

    def broken(_):
        raise SystemError("another")

    with pytest.raises(SystemError, match="another"):
        list(thread_map(broken, [0], 1))

    rows = kernel_rows(np.eye(2), RBF(), 1.0, 1)
    rows.maker = lambda: summarise(2)  # called by the solver where its loops begin
    problem = svm_problem(np.array([1.0, -1.0]), np.ones(2), 0.0)
    with pytest.raises(KeyboardInterrupt):
        solve(problem, rows, tol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_small_problems_look_at_the_stop_event_as_often():
    # With few rows, an iteration takes longer than its rows: 200,000 of them take about 0.2 s.
    class Counting(threading.Event):
        looks = 0

        def is_set(self):
            self.looks += 1
            return False

    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 2))
    X = np.r_[X, X + 1e-8 * rng.normal(size=(20, 2))]  # with this C, never solved to tol
    signs = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    problem, stop = svm_problem(signs, np.full(40, 1e8), 0.0), Counting()
    rows = kernel_rows(X, RBF(), 0.1, 100)
    found = solve(problem, rows, tol=1e-9, max_iter=800_000, stop=stop)
    assert found.n_iter == 800_000
    assert stop.looks >= 4
