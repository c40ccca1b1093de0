"""Matrix products whose values depend on their own two rows only."""

import numpy as np
import pytest

from openset.solver._matmul import multiply, packed, products, rows_of, rows_of_packed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (5, 17, 3), (6, 16, 256), (40, 90, 600)])
def test_against_numpy(n, m, d, dtype):
    rng = np.random.default_rng(d)
    A, B = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    error = 2 * np.finfo(dtype).eps * np.abs(A).astype(np.float64) @ np.abs(B).T
    assert np.all(np.abs(multiply(A, packed(B, dtype))[:, :m] - exact) <= error)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 65, 384, 700])
def test_no_bit_depends_on_other_rows(d, dtype):
    rng = np.random.default_rng(d)
    A, B = rng.normal(size=(50, d)), rng.normal(size=(70, d))
    all_values = multiply(A, packed(B, dtype))[:, :70]
    for _ in range(20):
        i = rng.permutation(50)[: rng.integers(1, 50)]
        j = rng.permutation(70)[: rng.integers(1, 70)]
        some = multiply(A[i], packed(B[j], dtype))[:, : len(j)]
        np.testing.assert_array_equal(some, all_values[np.ix_(i, j)])
        taken = rows_of_packed(packed(B, dtype), j)[: len(j)]
        some = multiply(A[i], packed(taken, dtype))[:, : len(j)]
        np.testing.assert_array_equal(some, all_values[np.ix_(i, j)])
    # Either factor may be the rows.
    np.testing.assert_array_equal(multiply(B, packed(A, dtype))[:, :50], all_values.T)


def test_part_of_the_panels():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, 30)), rng.normal(size=(64, 30))
    panels = packed(B, np.float64)
    rows = rows_of(A, panels)
    out = np.full((12, 24), np.nan)
    products(rows, panels, 3, out)
    np.testing.assert_array_equal(out[:7], multiply(A, panels)[:, 24:48])
    assert np.all(out[7:] == 0)


def test_overflow_and_nan_stay_where_they_are():
    A = np.ones((3, 4), dtype=np.float32)
    A[1] = 3e38
    A[2, 0] = np.nan
    B = np.ones((5, 4), dtype=np.float32)
    values = multiply(A, packed(B, np.float32))[:, :5]
    assert np.all(values[0] == 4) and np.all(np.isinf(values[1])) and np.all(np.isnan(values[2]))
