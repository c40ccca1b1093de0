"""The promise of a bounded class: farther than `known_radius_` from its positives, it rejects."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist

from openset import OneVsRestSVC, OpenSetSVC
from openset.base import Certificate
from openset.kernels import RBF, InverseMultiquadric, RationalQuadratic, TStudent

KERNELS = [
    RBF(),
    TStudent(),
    TStudent(0.7),
    RationalQuadratic(),
    RationalQuadratic(0.05),
    InverseMultiquadric(),
    InverseMultiquadric(0.2),
]

# How far beyond the certificate a point is placed.
SCALES = [1 + 1e-6, 1.001, 1.1, 10.0, 1e3, 1e6, 1e9, 1e12]


@st.composite
def training_sets(draw):
    """Classes that overlap more or less, some of one sample, some rows in two classes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes = draw(st.integers(2, 4))
    m, d = draw(st.integers(n_classes, 40)), draw(st.integers(1, 5))
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, size=m - n_classes)]
    X = draw(st.sampled_from([0.0, 0.5, 3.0])) * rng.normal(size=(n_classes, d))[y]
    X += rng.normal(size=(m, d))
    if draw(st.booleans()):
        X[m // 2 :] = X[: m - m // 2]
    weight = rng.uniform(0.1, 3.0, size=m) if draw(st.booleans()) else None
    return X, y, weight


@st.composite
def models(draw, **fixed):
    parameters = {
        "C": 10.0 ** draw(st.floats(-2, 2)),
        "gamma": 2.0 ** draw(st.integers(-6, 6)),
        "lam": draw(st.sampled_from([0.0, 0.05, 0.5, 0.95])),
        "kernel": draw(st.sampled_from(KERNELS)),
        "tol": draw(st.sampled_from([1e-3, 1e-6])),
    }
    return OpenSetSVC(**{**parameters, **fixed})


def points_beyond(model, c, rng, n_directions=12):
    """Points farther than the radius of class c from all its positive support vectors."""
    support = model.support_vectors_[model.dual_coef_[c] > 0]
    radius = model.known_radius_[c]
    points = []
    for _ in range(n_directions):
        anchor = support[rng.integers(len(support))]
        u = rng.normal(size=support.shape[1])
        u /= np.linalg.norm(u)
        # Where the ray from the anchor leaves the ball around each support vector, at the latest.
        along = (support - anchor) @ u
        across = ((support - anchor) ** 2).sum(axis=1) - along**2
        exits = along + np.sqrt(np.maximum(radius**2 - across, 0.0))
        exits = exits[(across <= radius**2) & (exits > 0)]
        t = max(exits.max(initial=0.0), 1e-6)
        points += [anchor + t * scale * u for scale in SCALES]
    points = np.array(points)
    # Rounding may leave the very first ones inside.
    return points[cdist(points, support).min(axis=1) > radius]


@settings(deadline=None, max_examples=250)
@given(
    models(),
    training_sets(),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, None, 0.1, 0.5, 1.0]),
)
def test_beyond_the_radius_nothing_is_accepted(model, training_set, seed, landmarks):
    X, y, weight = training_set
    if landmarks is not None:
        model.set_params(landmarks=max(1, int(landmarks * len(y))), random_state=seed)
    model.fit(X, y, sample_weight=weight)
    assert model.bounded_.all()
    assert np.all(model.intercept_ <= -model.tol)
    assert np.all(np.isfinite(model.known_radius_))
    rng = np.random.default_rng(seed)
    for c in range(len(model.classes_)):
        if not np.any(model.dual_coef_[c] > 0):  # possible with few landmarks
            assert model.known_radius_[c] == 0
            assert np.all(model.decision_function(3 * rng.normal(size=X.shape))[:, c] < 0)
            continue
        points = points_beyond(model, c, rng)
        assert len(points) > len(SCALES)
        assert np.all(model.decision_function(points)[:, c] < 0)
    # Far from everything no class is left.
    directions = rng.normal(size=(5, X.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    far = 2 * (np.abs(X).max() * np.sqrt(X.shape[1]) + model.known_radius_.max())
    for scale in [1.0, 1e12, 1e100, 1e280]:
        assert np.all(model.predict(far * scale * directions) == model.unknown_label_)


@settings(deadline=None, max_examples=50)
@given(models(), training_sets())
def test_radius_is_the_one_promised(model, training_set):
    X, y, weight = training_set
    model.fit(X, y, sample_weight=weight)
    reach = np.where(model.dual_coef_ > 0, model.dual_coef_, 0).sum(axis=1)
    level = -model.intercept_ * (1 - 1e-5)
    value = model.kernel.value(model.gamma * model.known_radius_**2)
    expected = np.where(level >= reach, 1.0, level / reach)
    np.testing.assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_radius_is_not_vacuous(kernel):
    # One positive, its negative very far: the accepted region is a ball of nearly that radius.
    model = OpenSetSVC(lam=0.5, gamma=4.0, kernel=kernel, tol=1e-9, unknown_label=0)
    model.fit([[0.0, 0.0], [0.0, 1e9]], [1, 2])
    radius = model.known_radius_[0]
    assert 0 < radius < 1e3
    angles = np.linspace(0, 2 * np.pi, 9)
    circle = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    assert np.all(model.predict(0.999 * circle) == 1)
    assert np.all(model.predict(1.001 * circle) == 0)


@pytest.mark.parametrize("gap", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("d", [3, 100])
def test_clusters_far_apart(gap, d):
    # The certificate is about distances that are small beside the norms of the points.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, d)) / np.sqrt(d)
    y = np.arange(60) % 3
    X[:30] += gap
    model = OpenSetSVC(gamma=1.0, C=10.0).fit(X, y)
    for c in range(3):
        points = points_beyond(model, c, rng)
        assert np.all(model.decision_function(points)[:, c] < 0)
    # And what is accepted is what the formula accepts.
    f = np.exp(-cdist(X, model.support_vectors_, "sqeuclidean")) @ model.dual_coef_.T
    np.testing.assert_allclose(model.decision_function(X), f + model.intercept_, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sparse_points(kernel):
    rng = np.random.default_rng(1)
    X = sparse.csr_array(rng.binomial(1, 0.2, size=(60, 20)) * rng.uniform(size=(60, 20)))
    y = np.arange(60) % 3
    model = OpenSetSVC(gamma=2.0, kernel=kernel).fit(X, y)
    assert model.bounded_.all()
    far = rng.binomial(1, 0.2, size=(50, 20)) * rng.uniform(size=(50, 20))
    far = sparse.csr_array(far) + 0.1 * X[:50]
    for scale in [1e6, 1e12, 1e100, 1e300]:
        beyond = far * (scale * (1 + model.known_radius_.max()))
        assert np.all(model.predict(beyond) == -1)
        assert np.all(model.predict(beyond.toarray()) == -1)


def test_unbounded_class_has_no_radius():
    model = OpenSetSVC(gamma=1.0, ensure_bounded=False)
    model.fit([[-2.0], [-1.5], [1.5], [2.0], [0.0], [0.3]], [1, 1, 1, 1, 0, 0])
    assert model.intercept_[1] > 0
    assert model.bounded_.tolist() == [True, False]
    assert np.isinf(model.known_radius_[1])
    assert model.predict([[1e12]]) == [1]


def test_class_that_rejects_everything():
    # C < 1 and a large lambda: -b exceeds all positive multipliers together.
    model = OpenSetSVC(C=0.1, lam=0.5, gamma=1.0).fit([[0.0], [10.0], [20.0], [30.0]], [1, 1, 0, 0])
    assert np.all(model.known_radius_ == 0)
    assert model.bounded_.all()
    assert np.all(model.predict([[0.0], [10.0], [20.0], [30.0]]) == -1)


def test_margin_by_the_formula():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    model = OneVsRestSVC(gamma=0.5).fit(X + 2 * np.eye(3)[y], y)
    model.known_radius_[1] = np.inf
    Z = 4 * rng.normal(size=(200, 3))
    expected = [
        cdist(Z, model.support_vectors_[model.dual_coef_[c] > 0]).min(axis=1) - radius
        for c, radius in enumerate(model.known_radius_)
    ]
    for samples in (Z, sparse.csr_array(Z)):
        np.testing.assert_allclose(Certificate(model).margin(samples).T, expected, atol=1e-9)
    assert not Certificate(model).complete
    with pytest.raises(ValueError, match="certificate of every class"):
        Certificate(model).outside(Z)


@pytest.mark.parametrize("n_features", [2, 90])
@pytest.mark.parametrize("scale", [1e-150, 1e-25, 1e-12, 1e12, 1e25, 1e150])
def test_outside_does_not_depend_on_the_unit(scale, n_features):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(90, n_features)), np.arange(90) % 3
    Z = rng.normal(size=(1000, n_features)) * rng.uniform(0.1, 20, size=(1000, 1))
    models = [
        OpenSetSVC(gamma=1.0 / n_features / unit / unit).fit(unit * X, y) for unit in (1.0, scale)
    ]
    plain, scaled = map(Certificate, models)
    found, expected = scaled.outside(scale * Z), plain.outside(Z)
    # Up to rows within the allowance for rounding.
    assert np.mean(found != expected) < 0.005 and 0.05 < expected.mean() < 0.95
    accepted = models[1].predict_set(scale * Z).any(axis=1)
    assert accepted.any() and not found[accepted].any()
    assert not found[scaled.margin(scale * Z).min(axis=1) <= 0].any()
    assert scaled.outside(np.full((1, n_features), np.finfo(float).max)).all()


@pytest.mark.parametrize("n_features", [2, 90])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_outside_is_a_margin_beyond_every_class(n_features, n_jobs):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(90, n_features)), np.arange(90) % 3
    model = OpenSetSVC(gamma=1.0 / n_features).fit(X, y)
    Z = rng.normal(size=(1000, n_features)) * rng.uniform(0.1, 20, size=(1000, 1))
    Z[-1] = 1e30
    certificate = Certificate(model)
    margin = certificate.margin(Z[:-1]).min(axis=1)
    outside = certificate.outside(Z, n_jobs)
    assert outside[-1] and not outside[:-1][margin <= 0].any()
    assert outside[:-1][margin > 1e-2 * np.linalg.norm(Z[:-1], axis=1)].all()
    assert 0.05 < outside.mean() < 0.95
    assert certificate.outside(Z[:0]).shape == (0,)
