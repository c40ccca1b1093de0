"""Kernel values against closed forms, and the gate that a user's own kernel passes through."""

import numpy as np
import pytest

from openset.kernels import (
    RBF,
    InverseMultiquadric,
    Kernel,
    Linear,
    RationalQuadratic,
    TStudent,
    check_kernel,
    get_kernel,
)

# Kernel and its closed form as a function of the distance r = sqrt(s).
CLOSED_FORMS = [
    (RBF(), lambda r: np.exp(-(r**2))),
    (TStudent(), lambda r: 1 / (1 + r**2)),
    (TStudent(degree=1.0), lambda r: 1 / (1 + r)),
    (TStudent(degree=3.0), lambda r: 1 / (1 + r**3)),
    (RationalQuadratic(), lambda r: 1 - r**2 / (r**2 + 1)),
    (RationalQuadratic(c=0.25), lambda r: 1 - r**2 / (r**2 + 0.25)),
    (InverseMultiquadric(), lambda r: 1 / np.sqrt(r**2 + 1)),
    (InverseMultiquadric(c=0.5), lambda r: 0.5 / np.sqrt(r**2 + 0.25)),
    (InverseMultiquadric(c=20.0), lambda r: 20 / np.sqrt(r**2 + 400)),
]
KERNELS = [kernel for kernel, _ in CLOSED_FORMS]


def identify(kernel):
    return repr(kernel)


@pytest.mark.parametrize(("kernel", "closed_form"), CLOSED_FORMS, ids=map(repr, KERNELS))
def test_values_follow_the_closed_form(kernel, closed_form):
    r = np.concatenate([[0.0], np.logspace(-4, 2, 200)])
    s = r**2
    np.testing.assert_allclose(kernel.value(s), closed_form(r), rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(
        kernel.value(s.astype(np.float32)), closed_form(r), rtol=2e-6, atol=1e-37
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=identify)
def test_kernels_of_the_package_keep_their_own_contract(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=identify)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_is_one_at_zero_and_zero_at_infinity(kernel, dtype):
    k = kernel.value(np.array([0.0, np.inf], dtype=dtype))
    assert k.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("kernel", KERNELS, ids=identify)
@pytest.mark.parametrize("t", [1.0, 0.999, 0.5, 0.01, 1e-6])
def test_inverse_inverts_value(kernel, t):
    s = kernel.inverse(t)
    assert s >= 0
    np.testing.assert_allclose(kernel.value(np.array([s]))[0], t, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=identify)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_writes_where_it_is_told(kernel, dtype):
    s = np.random.default_rng(0).uniform(0, 5, size=(7, 6)).astype(dtype)
    expected = kernel.value(s)
    out = np.full_like(s, -1)
    assert kernel.value(s, out=out) is out
    np.testing.assert_array_equal(out, expected)
    strided = np.full((7, 12), -1, dtype=dtype)
    kernel.value(s, out=strided[:, ::2])
    # Another loop over the numbers may round the last digit differently.
    np.testing.assert_allclose(strided[:, ::2], expected, rtol=4 * np.finfo(dtype).eps)
    assert np.all(strided[:, 1::2] == -1)
    np.testing.assert_allclose(kernel.value(s[:, ::2]), expected[:, ::2], rtol=5e-7)
    assert kernel.value(s, out=s) is s
    np.testing.assert_array_equal(s, expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", KERNELS, ids=identify)
def test_huge_distances_neither_warn_nor_leave_the_contract(kernel):
    s = np.array([1e20, 1e30, 3e38, np.inf], dtype=np.float32)
    k = kernel.value(s)
    assert np.all(np.isfinite(k)) and np.all(np.diff(k) <= 0) and np.all(k >= 0)


class TestFastExponential:
    """The float32 exponential of the package against numpy's in float64."""

    def test_relative_error(self):
        s = np.linspace(0, 87, 2_000_001, dtype=np.float32)[:-1]
        exact = np.exp(-s.astype(np.float64))
        error = np.abs(RBF().value(s) - exact) / exact
        assert error.max() < 2e-7

    def test_small_arguments(self):
        s = np.logspace(-40, 0, 10_001).astype(np.float32)
        exact = np.exp(-s.astype(np.float64))
        k = RBF().value(s)
        assert np.max(np.abs(k - exact) / exact) < 2e-7
        assert k.max() <= 1.0

    def test_exactly_one_at_zero(self):
        assert RBF().value(np.zeros(9, dtype=np.float32)).tolist() == [1.0] * 9

    def test_exactly_zero_beyond_and_no_denormal_before(self):
        s = np.linspace(80, 110, 30_001, dtype=np.float32)
        k = RBF().value(s)
        assert np.all((k == 0) | (k >= np.finfo(np.float32).tiny))
        assert np.all(k[s > 87.5] == 0) and np.all(k[s < 86.5] > 0)

    def test_never_increases(self):
        s = np.sort(np.random.default_rng(1).uniform(0, 90, 1_000_000).astype(np.float32))
        assert np.all(np.diff(RBF().value(s)) <= np.finfo(np.float32).eps)


class Wendland(Kernel):
    """A user's own kernel, with compact support: max(0, 1 - r)^4 (4 r + 1), in three dimensions."""

    def value(self, s, out=None):
        r = np.minimum(np.sqrt(s), s.dtype.type(1))
        k = (1 - r) ** 4 * (4 * r + 1)
        if out is None:
            return k
        out[...] = k
        return out

    def inverse(self, t):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            too_high = self.value(np.array([middle]))[0] > t
            low, high = (middle, high) if too_high else (low, middle)
        return high


def test_a_kernel_of_the_user_is_accepted():
    kernel = Wendland()
    check_kernel(kernel)
    assert get_kernel(kernel) is kernel


class Laplace(Kernel):
    """exp(-r): right; the subclasses below each break one line of the contract."""

    def value(self, s, out=None):
        out = np.sqrt(s, out=out)
        np.negative(out, out=out)
        return np.exp(out, out=out)

    def inverse(self, t):
        return np.log(t) ** 2


class NotOneAtZero(Laplace):
    def value(self, s, out=None):
        return np.multiply(super().value(s, out=out), s.dtype.type(0.5), out=out)


class AboveOne(Laplace):
    def value(self, s, out=None):
        factor = np.where((s > 0.1) & (s < 1), 3, 1).astype(s.dtype)
        return np.multiply(super().value(s, out=out), factor, out=out)


class Negative(Laplace):
    def value(self, s, out=None):
        k = np.cos(np.minimum(s, 2)) * (s < 2)
        out = np.empty_like(s) if out is None else out
        out[...] = k
        return out


class Increasing(Laplace):
    def value(self, s, out=None):
        k = np.where((s > 1) & (s < 2), 0.5, np.exp(-2 * s))
        out = np.empty_like(s) if out is None else out
        out[...] = k
        return out


class NeverZero(Laplace):
    def value(self, s, out=None):
        super_value = super().value(s, out=out)
        return np.add(s.dtype.type(0.9) * super_value, s.dtype.type(0.1), out=out)


class NotFinite(Laplace):
    """The Matern kernel, written down naively: inf * 0 at infinity."""

    def value(self, s, out=None):
        with np.errstate(invalid="ignore"):
            r = np.sqrt(s)
            return np.multiply(1 + r, np.exp(-r), out=out)


class WrongType(Laplace):
    def value(self, s, out=None):
        return super().value(s.astype(np.float64), out=out)


class WrongShape(Laplace):
    def value(self, s, out=None):
        return super().value(s, out=out)[:-1]


class IgnoresOut(Laplace):
    def value(self, s, out=None):
        return super().value(s)


class WithoutOut(Laplace):
    def value(self, s):
        return super().value(s)


class ReturnsNothing(Laplace):
    def value(self, s, out=None):
        result = super().value(s, out=out)
        return result if out is None else None


class Overwrites(Laplace):
    def value(self, s, out=None):
        return super().value(s, out=s)


class ReadsWhatItWrote(Laplace):
    """Right with a separate out; in place, s is gone when it is looked at again."""

    def value(self, s, out=None):
        out = super().value(s, out=out)
        out[s > 4] = 0
        return out


class WrongInverse(Laplace):
    def inverse(self, t):
        return -np.log(t)


class NoInverse(Kernel):
    value = Laplace.value


class NoValue(Kernel):
    inverse = Laplace.inverse


def test_the_kernel_behind_the_broken_ones_is_right():
    check_kernel(Laplace())


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (NotOneAtZero(), r"k\(0\) must be 1"),
        (AboveOne(), r"0 <= k\(s\) <= 1"),
        (Negative(), r"0 <= k\(s\) <= 1"),
        (Increasing(), "must not increase"),
        (NeverZero(), "must tend to 0"),
        (NotFinite(), "finite, also for s = inf"),
        (WrongType(), "shape and dtype"),
        (WrongShape(), "shape and dtype"),
        (IgnoresOut(), "in place"),
        (WithoutOut(), r"value\(s, out=s\) raised TypeError"),
        (ReturnsNothing(), "return out"),
        (Overwrites(), "leave s as it is"),
        (ReadsWhatItWrote(), "in place"),
        (WrongInverse(), r"value\(inverse\(0.9\)\) must be 0.9"),
        (NoInverse(), r"NoInverse does not define inverse"),
        (NoValue(), r"NoValue does not define value"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Kernel) else "",
)
def test_a_wrong_kernel_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        check_kernel(kernel)
    with pytest.raises(ValueError, match=f"kernel {type(kernel).__name__}"):
        get_kernel(kernel)


class TestGetKernel:
    def test_names(self):
        assert get_kernel("rbf") == RBF()
        assert get_kernel("t_student") == TStudent(2.0)
        assert get_kernel("rational_quadratic") == RationalQuadratic(1.0)
        assert get_kernel("inverse_multiquadric") == InverseMultiquadric(1.0)
        assert get_kernel("linear") == Linear()
        assert not Linear.decaying and RBF.decaying

    def test_instances_pass_through(self):
        kernel = TStudent(degree=1.5)
        assert get_kernel(kernel) is kernel

    @pytest.mark.parametrize(
        ("kernel", "message"),
        [
            ("gaussian", "kernel='gaussian' is not known.*'rbf'"),
            ("precomputed", "kernel='precomputed' is not supported.*subclass"),
            (RBF, "neither a name nor an instance"),
            (None, "kernel=None is neither"),
            (np.exp, "neither a name nor an instance"),
        ],
    )
    def test_anything_else_is_refused(self, kernel, message):
        with pytest.raises(ValueError, match=message):
            get_kernel(kernel)

    @pytest.mark.parametrize(
        ("family", "name"),
        [(TStudent, "degree"), (RationalQuadratic, "c"), (InverseMultiquadric, "c")],
    )
    @pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
    def test_parameters_are_positive_and_finite(self, family, name, value):
        with pytest.raises(ValueError, match=f"{family.__name__}: {name} must be > 0 and finite"):
            family(value)


def test_t_student_of_degree_two_is_the_rational_quadratic():
    s = np.logspace(-3, 3, 50)
    np.testing.assert_allclose(TStudent(2.0).value(s), RationalQuadratic(1.0).value(s), rtol=1e-14)
