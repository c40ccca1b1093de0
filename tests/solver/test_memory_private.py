"""Buffers are reused, but never while a view of them exists."""

import gc
import mmap

import numpy as np
import pytest

from openset.solver import _rows, tuned
from openset.solver._rows import empty_rows

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_FREE"), reason="an ordinary array is used")


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(_rows, "_kept", [])
    with tuned(pooled_bytes=2**16):
        yield


def test_shape_and_type():
    rows = empty_rows(50, 1000)
    assert rows.shape == (50, 1000) and rows.dtype == np.float32
    rows[:] = 1.0
    assert rows.sum() == 50_000


def test_used_again_when_the_last_view_is_gone():
    rows = empty_rows(50, 1000)
    first = address(rows)
    view = rows[10:20]
    view[:] = 7.0
    del rows
    gc.collect()
    other = empty_rows(50, 1000)
    other[:] = 0.0
    assert address(other) != first and np.all(view == 7.0)
    del view
    gc.collect()
    assert address(empty_rows(49, 1000)) == first


def test_only_the_largest_is_kept():
    arrays = [empty_rows(n, 1000) for n in (40, 200, 80)]
    largest = address(arrays[1])
    del arrays
    gc.collect()
    assert [len(memory) for memory in _rows._kept] == [13 * 2**16]
    assert address(empty_rows(40, 1000)) == largest


def test_a_small_array_is_an_ordinary_one():
    assert empty_rows(4, 1000).base is None
