"""BLAS runs on one thread inside, and on as many as before once the last one is out."""

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
