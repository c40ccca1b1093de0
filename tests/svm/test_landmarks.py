"""Landmark machines: an independent solver, invariances, the search and bad input.

The certificate of landmark machines is tested with that of the exact ones, in test_certificate.py.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone

from openset import OneVsRestSVC, OpenSetSVC
from openset.kernels import RBF, InverseMultiquadric, Kernel, RationalQuadratic, TStudent
from openset.model_selection import OpenSetSearchCV, get_scorer
from openset.persistence import load_model, save_model
from openset.solver import tuned
from openset.solver.landmarks import (
    LandmarkFeatures,
    Query,
    TrainingRows,
    choose_rows,
    spread_over_classes,
)

KERNELS = [RBF(), TStudent(), RationalQuadratic(0.3), InverseMultiquadric()]


def blobs(seed, m=120, d=2, n_classes=3, spread=1.5):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    return spread * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(m, d)), y


def primal(K, Kzz, signs, boxes, total, ceiling):
    """Coefficients, bias and value of the primal problem in (a, b, xi), by cvxopt."""
    cvxopt = pytest.importorskip("cvxopt")
    m, p = K.shape
    P = np.zeros((p + 1 + m, p + 1 + m))
    P[:p, :p] = Kzz
    q = np.concatenate([np.zeros(p), [total], boxes])
    margin = np.hstack([-signs[:, None] * K, -signs[:, None], -np.eye(m)])
    positive = np.hstack([np.zeros((m, p + 1)), -np.eye(m)])
    G, h = np.vstack([margin, positive]), np.concatenate([-np.ones(m), np.zeros(m)])
    if ceiling is not None:
        row = np.zeros(p + 1 + m)
        row[p] = 1
        G, h = np.vstack([G, row]), np.append(h, ceiling)
    options = {"show_progress": False, "abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9}
    answer = cvxopt.solvers.qp(*(cvxopt.matrix(A) for A in (P, q, G, h)), options=options)
    x = np.array(answer["x"]).ravel()
    return x[:p], x[p], answer["primal objective"]


# --- an independent solver ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("lam", "ensure_bounded"), [(0.0, False), (0.0, True), (0.4, True)])
def test_against_the_primal_problem(kernel, lam, ensure_bounded):
    X, y = blobs(0, spread=0.4)
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 2, size=len(y))
    C, gamma, tol = 2.0, 2.0, 1e-6
    Z = rng.normal(size=(12, 2))
    model = OpenSetSVC(
        C=C,
        lam=lam,
        gamma=gamma,
        kernel=kernel,
        ensure_bounded=ensure_bounded,
        landmarks=Z,
        tol=tol,
    ).fit(X, np.minimum(y, 1), sample_weight=weight)
    points = np.vstack([X, 2 * rng.normal(size=(50, 2))])
    K, Kzz, Kp = (kernel.value(gamma * cdist(A, Z, "sqeuclidean")) for A in (X, Z, points))
    f = model.decision_function(points)
    for c in range(2):
        signs, boxes = np.where(np.minimum(y, 1) == c, 1.0, -1.0), C * weight
        total = lam * boxes[signs > 0].sum()
        ceiling = -tol if ensure_bounded else None
        a, b, value = primal(K, Kzz, signs, boxes, total, ceiling)
        assert_allclose(f[:, c], Kp @ a + b, atol=2e-3)
        assert_allclose(model.intercept_[c], b, atol=2e-3)
        held = ensure_bounded and model.intercept_[c] == -tol
        bias = total * -tol if held else 0.0  # the dual of a held bias has another constant
        if not held:
            assert_allclose(-model.dual_objective_[c] + bias, value, rtol=1e-5)
        assert model.kkt_gap_[c] <= 2 * tol + 1e-5
        assert model.lam_[c] >= lam and (held or model.lam_[c] == lam)
    if lam == 0 and ensure_bounded:
        assert np.any(model.intercept_ == -tol)  # the case is a real one


def test_all_rows_as_landmarks_are_the_exact_machine():
    X, y = blobs(2)
    exact = OpenSetSVC(gamma=1.0, C=4.0, lam=0.1, tol=1e-6).fit(X, y)
    model = OpenSetSVC(gamma=1.0, C=4.0, lam=0.1, tol=1e-6, landmarks=X).fit(X, y)
    points = 3 * np.random.default_rng(0).normal(size=(200, 2))
    assert_allclose(model.decision_function(points), exact.decision_function(points), atol=0.02)
    assert_allclose(model.dual_objective_, exact.dual_objective_, rtol=1e-3)


@pytest.mark.parametrize("n_classes", [1, 2, 3])
@pytest.mark.parametrize("Estimator", [OpenSetSVC, OneVsRestSVC])
def test_known_unknowns(Estimator, n_classes):
    """Rows with the unknown label are negatives of every class, as for the exact machine."""
    X, y = blobs(2, m=300, n_classes=n_classes + 1)
    names = np.array(["a", "none", "b", "c"])[y]  # the unknown label sorts between the classes
    settings = {"gamma": 1.0, "C": 4.0, "tol": 1e-6, "unknown_label": "none"}
    exact = Estimator(**settings).fit(X, names)
    model = Estimator(**settings, landmarks=X).fit(X, names)
    assert model.n_known_unknowns_ == np.sum(names == "none")
    assert_array_equal(model.classes_, exact.classes_)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=0.02)
    chosen = Estimator(**settings, landmarks=60, random_state=0).fit(X, names)
    assert_array_equal(chosen.classes_, exact.classes_)
    assert np.mean(chosen.predict(X) == exact.predict(X)) > 0.8


def test_no_theorem_where_products_are_negative():
    # methods.md 18.7: b > 0 for every lambda below Lambda, so only a held bias bounds the region.
    X, y, Z = [[2.44], [-0.64]], [1, 0], [[0.0], [0.5]]
    settings = {"C": 785.0, "gamma": 1.0, "landmarks": Z, "tol": 1e-4}
    for lam in (0.0, 0.5, 0.99):
        free = OpenSetSVC(lam=lam, ensure_bounded=False, **settings).fit(X, y)
        assert free.intercept_[1] > 0
    model = OpenSetSVC(**settings).fit(X, y)
    assert model.bounded_.all() and model.intercept_[1] == -1e-4
    assert model.lam_[1] > 0.99
    assert np.all(model.predict([[1e6], [-1e6]]) == model.unknown_label_)


# --- features -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("d", [3, 100])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_products_of_features_are_the_nystroem_kernel(kernel, d, layout):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(40, d)) / np.sqrt(d), rng.normal(size=(15, d)) / np.sqrt(d)
    features = LandmarkFeatures(layout(Z), kernel, 1.5)
    psi = features(layout(X)).astype(np.float64)
    K, Kzz = (kernel.value(1.5 * cdist(A, Z, "sqeuclidean")) for A in (X, Z))
    assert_allclose(psi @ psi.T, K @ np.linalg.solve(Kzz, K.T), atol=2e-5)
    w = rng.normal(size=(2, features.n_features))
    assert_allclose(K[:, features.kept] @ features.coefficients(w).T, psi @ w.T, atol=1e-4)


def test_landmarks_that_add_nothing_are_dropped():
    Z = np.repeat(np.eye(4), 5, axis=0)
    assert LandmarkFeatures(Z, RBF(), 1.0).n_features == 4
    X, y = blobs(0)
    once = OpenSetSVC(gamma=1.0, landmarks=X[:20]).fit(X, y)
    twice = OpenSetSVC(gamma=1.0, landmarks=np.vstack([X[:20], X[:20]])).fit(X, y)
    assert_allclose(twice.decision_function(X), once.decision_function(X), atol=5e-3)
    assert len(twice.support_vectors_) <= 20


# --- what must not change the answer --------------------------------------------------------------


def test_weights_are_repetitions():
    X, y = blobs(3)
    times = np.random.default_rng(0).integers(0, 4, size=len(y))
    settings = {"gamma": 0.7, "landmarks": X[:30], "tol": 1e-6}
    weighted = OpenSetSVC(**settings).fit(X, y, sample_weight=times)
    repeated = OpenSetSVC(**settings).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("cache_size", [0.1, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("small", [200, 2048])
def test_memory_and_threads(cache_size, n_jobs, small):
    # Little memory: features and products are computed again instead of stored.
    X, y = blobs(4, m=3000, n_classes=4, spread=6.0)
    settings = {"gamma": 0.3, "C": 4.0, "landmarks": X[:40], "random_state": 0}
    expected = OpenSetSVC(**settings).fit(X, y)
    with tuned(small=small):
        model = OpenSetSVC(**settings, cache_size=cache_size, n_jobs=n_jobs).fit(X, y)
    f, g = expected.decision_function(X), model.decision_function(X)
    if cache_size == 1000:
        assert_array_equal(f, g)
    assert_allclose(f, g, atol=0.02)
    assert np.all(model.kkt_gap_ <= 2e-3)


def test_order_of_rows():
    X, y = blobs(5, m=400)
    order = np.random.default_rng(0).permutation(len(y))
    settings = {"gamma": 1.0, "landmarks": X[:40], "tol": 1e-5}
    f = OpenSetSVC(**settings).fit(X, y).decision_function(X)
    g = OpenSetSVC(**settings).fit(X[order], y[order]).decision_function(X)
    assert_allclose(f, g, atol=1e-3)


def test_sparse_and_dense():
    X, y = blobs(6, d=8)
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    model = OneVsRestSVC(landmarks=30, random_state=0, tol=1e-5)
    f = model.fit(X, y).decision_function(X)
    g = clone(model).fit(sparse.csr_array(X), y).decision_function(X)
    assert_allclose(f, g, atol=1e-3)


def test_one_width_per_class():
    X, y = blobs(7)
    gamma = {0: 0.5, 1: 2.0, 2: 0.5}
    model = OpenSetSVC(gamma=gamma, C={0: 1.0, 1: 2.0, 2: 4.0}, landmarks=X[:25]).fit(X, y)
    for c in range(3):
        alone = OpenSetSVC(gamma=gamma[c], C=[1.0, 2.0, 4.0][c], landmarks=X[:25]).fit(X, y)
        assert_allclose(
            model.decision_function(X)[:, c], alone.decision_function(X)[:, c], atol=5e-3
        )


@pytest.mark.parametrize("lam", [0.6, 0.8, 0.95])
def test_large_lambda(lam):
    # Most positives are at their bound: few rows are left to bound the bias.
    X, y = blobs(12, m=400, n_classes=4, spread=5.0)
    for C in (0.1, 8.0):
        model = OpenSetSVC(C=C, lam=lam, gamma=0.5, landmarks=X[:80], tol=1e-4).fit(X, y)
        assert_allclose(model.lam_, lam)
        assert np.all(model.kkt_gap_ <= 2e-4)


def test_one_class():
    X, _ = blobs(8, m=60, n_classes=1)
    model = OpenSetSVC(lam=0.2, gamma=0.5, landmarks=X).fit(X, np.zeros(60))
    exact = OpenSetSVC(lam=0.2, gamma=0.5).fit(X, np.zeros(60))
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=0.02)
    assert model.bounded_.all()


# --- the model ------------------------------------------------------------------------------------


def test_what_a_landmark_model_keeps(tmp_path):
    X, y = blobs(9, m=300)
    model = OpenSetSVC(gamma=1.0, landmarks=20, random_state=0).fit(X, y)
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert len(model.support_) <= 20
    assert model.known_radius_.shape == (3,) and np.isfinite(model.known_radius_).all()
    again = OpenSetSVC(gamma=1.0, landmarks=20, random_state=0).fit(X, y)
    assert_array_equal(again.support_, model.support_)
    other = OpenSetSVC(gamma=1.0, landmarks=20, random_state=1).fit(X, y)
    assert not np.array_equal(other.support_, model.support_)
    given = OpenSetSVC(gamma=1.0, landmarks=X[:20]).fit(X, y)
    assert np.all(given.support_ == -1)
    pytest.importorskip("pandas")
    assert given.explain(X[:3]).similar.isna().all()
    assert model.explain(X[:3]).similar.isin(model.support_).all()
    for fitted in (model, given):
        save_model(fitted, tmp_path / "model.openset")
        for copy in (load_model(tmp_path / "model.openset"), pickle.loads(pickle.dumps(fitted))):
            assert_array_equal(copy.decision_function(X), fitted.decision_function(X))


def test_answers_of_many_samples_come_in_blocks(monkeypatch):
    X, y = blobs(9, m=300)
    model = OpenSetSVC(gamma=1.0, landmarks=20, random_state=0).fit(X, y)
    Z = np.tile(X, (300, 1))
    expected = [f(X) for f in (model.predict, model.predict_known, model.known_score)]
    sizes = []
    scores = model.decision_function
    monkeypatch.setattr(model, "decision_function", lambda X: sizes.append(len(X)) or scores(X))
    for f, few in zip(
        (model.predict, model.predict_known, model.known_score), expected, strict=True
    ):
        many = f(Z)
        if many.dtype.kind == "f":
            assert_allclose(many, np.tile(few, 300), atol=1e-5)
        else:
            assert np.mean(many == np.tile(few, 300)) > 0.999
    assert max(sizes) < len(Z) / 2


def test_rare_classes_keep_their_rows():
    assert spread_over_classes(np.array([10**6, 3]), 100).tolist() == [97, 3]
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(1, 1000, size=rng.integers(1, 30))
        n = int(rng.integers(1, counts.sum() + 1))
        picks = spread_over_classes(counts, n)
        assert picks.sum() == n and np.all(picks <= counts) and np.all(picks >= 0)
        assert np.all(picks >= np.minimum(counts, n // (2 * len(counts))))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_chosen_rows_are_those_of_matching_pursuit(kernel):
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(60, 3)), rng.normal(size=(4, 60))
    K = kernel.value(8.0 * cdist(X, X, "sqeuclidean"))  # narrow: rows far from each other
    first = np.array([7, 3])
    chosen = choose_rows(X, coef, kernel, 8.0, 17, first)  # all rows are candidates
    assert_array_equal(chosen[:2], first)

    def left(rows):
        """Squared distance of the expansions to the span of some rows."""
        inside = (coef @ K)[:, rows]
        return np.sum((coef @ K) * coef) - np.sum(
            np.linalg.solve(K[np.ix_(rows, rows)], inside.T).T * inside
        )

    for k in range(2, 17):
        best = min(left([*chosen[:k], j]) for j in range(60) if j not in chosen[:k])
        assert left(chosen[: k + 1]) <= best * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize("spread", [1e-4, 1e-2, 0.1])
def test_chosen_rows_that_are_nearly_dependent(spread):
    """Rounding leaves products that are not positive definite; rows are chosen all the same."""
    rng = np.random.default_rng(0)
    X, coef = spread * rng.normal(size=(300, 3)), rng.normal(size=(4, 300))
    chosen = choose_rows(X, coef, RBF(), 1.0, 200, np.arange(5))
    assert len(np.unique(chosen)) == 200


def test_many_violators_are_cut_to_the_worst(monkeypatch):
    """Every list, cut or not, holds the worst violators of each class."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(400, 3)), np.arange(400) % 5
    rows = TrainingRows(X, codes, np.ones(400), LandmarkFeatures(X[:30], RBF(), 0.5), 100)
    coef = rng.normal(size=(5, 30)).astype(np.float32)
    most = np.array([3, 10, 5, 40, 7])
    query = Query(np.arange(5), coef, np.full(5, -0.5), 1.0, np.full(5, 1e-3), most, 1.0)
    active = np.arange(0, 400, 7), np.arange(58) % 5
    whole = sorted(zip(*rows.violators(query, active), strict=True))
    assert len(whole) == 65
    monkeypatch.setattr("openset.solver.landmarks._features._LISTED", 20)
    assert sorted(zip(*rows.violators(query, active), strict=True)) == whole


def test_chosen_rows_in_blocks():
    # More rows than are compared at a time: still nearer than random rows, and distinct.
    rng = np.random.default_rng(0)
    X, y = blobs(13, m=900, d=3, n_classes=5)
    model = OpenSetSVC(gamma=2.0, C=8.0).fit(X, y)
    coef = np.zeros((5, 900))
    coef[:, model.support_] = model.dual_coef_
    K = RBF().value(2.0 * cdist(X, X, "sqeuclidean"))
    chosen = choose_rows(X, coef, RBF(), 2.0, 150, np.array([], dtype=int))
    assert len(np.unique(chosen)) == 150

    def left(rows):
        part = K[:, rows] @ np.linalg.pinv(K[np.ix_(rows, rows)], rcond=1e-10) @ K[rows]
        return np.sum((coef @ (K - part)) * coef)

    assert left(chosen) < 0.8 * min(left(rng.permutation(900)[:150]) for _ in range(5))


def test_a_rare_class_is_among_the_landmarks():
    X, y = blobs(14, m=600, n_classes=3)
    y[:3] = 9
    for n in (12, 60):
        model = OpenSetSVC(gamma=1.0, landmarks=n, random_state=0).fit(X, y)
        assert np.isin(model.support_, [0, 1, 2]).any()


def test_search():
    X, y = blobs(10, m=160, n_classes=4, spread=4.0)
    grid = {"gamma": [0.01, 1.0, 1000.0], "C": [1.0, 8.0], "lam": [0.0, 0.2]}
    search = OpenSetSearchCV(
        OpenSetSVC(landmarks=15, random_state=0), param_grid=grid, n_repeats=2, random_state=0
    ).fit(X, y)
    assert search.best_params_["gamma"] < 1000
    assert len(search.best_estimator_.support_) <= 15
    assert search.best_score_ > 0.7
    # The engine agrees with separate fits, which a callable asks for.
    scorer = get_scorer("normalized_accuracy")
    one = {"gamma": [1.0], "C": [1.0]}
    separate, engine = (
        OpenSetSearchCV(
            OneVsRestSVC(landmarks=X[::4]), one, scoring=scoring, n_repeats=2, random_state=0
        ).fit(X, y)
        for scoring in (lambda estimator, X, y: scorer(estimator, X, y), "normalized_accuracy")
    )
    assert abs(separate.best_score_ - engine.best_score_) < 0.02


def test_search_over_the_number_of_landmarks():
    X, y = blobs(11, m=160, n_classes=4, spread=4.0)
    search = OpenSetSearchCV(
        OpenSetSVC(gamma=1.0, random_state=0),
        {"landmarks": [None, 1, 40]},
        n_repeats=2,
        random_state=0,
    ).fit(X, y)
    assert search.best_params_["landmarks"] in (None, 40)


# --- bad input ------------------------------------------------------------------------------------


class NoDecay(Kernel):
    def value(self, s, out=None):
        out = np.empty_like(s) if out is None else out
        out[...] = 1
        return out

    def inverse(self, t):
        return 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"landmarks": 1000}, r"landmarks=1000, but X has only 120 samples"),
        ({"landmarks": np.zeros((5, 3))}, r"landmarks has 3 features, but X has 2"),
        ({"landmarks": [[0.0, np.nan]]}, r"landmarks contains NaN"),
        ({"landmarks": np.zeros((0, 2))}, r"0 sample"),
        ({"landmarks": [1.0, 2.0]}, r"Expected 2D array"),
        ({"landmarks": 0}, r"'landmarks' parameter"),
        ({"landmarks": 2.5}, r"'landmarks' parameter"),
        ({"landmarks": "many"}, r"'landmarks' parameter"),
        ({"landmarks": 5, "kernel": "linear"}, r"kernel='linear'"),
        ({"landmarks": 5, "kernel": NoDecay()}, r"must tend to 0"),
    ],
)
@pytest.mark.parametrize("Estimator", [OpenSetSVC, OneVsRestSVC])
def test_bad_landmarks(Estimator, changes, message):
    X, y = blobs(0)
    with pytest.raises(ValueError, match=message):
        Estimator(**changes).fit(X, y)


def test_classes_cannot_be_added():
    X, y = blobs(0)
    model = OpenSetSVC(landmarks=10).fit(X, y)
    with pytest.raises(ValueError, match="Call fit with all data"):
        model.add_classes(X, y)
