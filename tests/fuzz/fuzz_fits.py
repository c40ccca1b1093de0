"""Random fits against a float64 oracle: scores, optimality and certificate.

The oracle forms every distance from differences in float64 and knows nothing of the solver: the
optimality conditions of a convex problem tell whether a solution is right.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from openset import OpenSetSVC
from openset.kernels import RBF, InverseMultiquadric, RationalQuadratic, TStudent
from openset.svm import OneVsRestSVC

KERNELS = [
    RBF(),
    TStudent(2.0),
    TStudent(1.0),
    TStudent(0.5),
    RationalQuadratic(0.1),
    RationalQuadratic(10.0),
    InverseMultiquadric(0.3),
    InverseMultiquadric(5.0),
]

OPTIONS = {
    "n_features": [1, 2, 5, 16, 64, 65, 80, 150],
    "n_samples": [6, 20, 45, 90],
    "n_classes": [2, 3, 5],
    "layout": [
        *["C", "C", "F", "strided", "read-only"],
        *["csr", "csr_matrix", "csc", "coo", "unsorted csr"],
    ],
    "dtype": ["float64", "float64", "float64", "float32", "float16", "int64", "int16"],
    "exponent": [-150, -100, -30, -8, -3, 0, 0, 0, 3, 8, 30, 100, 150],
    "offset": [0.0, 0.0, 1.0, 1e3, 1e6, -1e8, 1e12],  # in units of the spread
    "huge": [0.0, 0.0, 0.0, 1e4, 1e9, 1e14, 1e100],  # one cell, in the same units
    "density": [1.0, 1.0, 0.3, 0.05],
    "duplicates": [False, False, True],
    "weights": [None, None, "some", "wide", "zeros"],
    "kernel": KERNELS,
    "width": [1 / 512, 1 / 32, 0.25, 1.0, 4.0, 32.0, 1024.0, "scale"],
    "C": [0.01, 0.5, 1.0, 8.0, 100.0, 1e4],
    "lam": [0.0, 0.0, 0.05, 0.5],
    "tol": [1e-3, 1e-3, 1e-5],
    "method": [OpenSetSVC, OpenSetSVC, OneVsRestSVC],
    "landmarks": [None, None, None, None, 4, 0.5],  # a number, or a share of the samples
}


def attack(rng: np.random.Generator) -> dict:
    """One random fit; returns what was measured."""
    return check(lambda name: OPTIONS[name][rng.integers(len(OPTIONS[name]))], rng)


def check(choose, rng: np.random.Generator) -> dict:
    """Fit with the options that `choose(name)` gives, and compare with the oracle.

    Returns
    -------
    dict
        "group", the kind of data, or "landmarks"; "refused" 0 or 1; and the largest errors:
        "score", in units of the largest coefficient, "gap", the true KKT gap in units of tol;
        "points", how many points were compared.
    """
    X, y, weight = _data(choose, rng)
    passed, X = _laid_out(X, choose("layout"), rng)
    group = "CSR" if sparse.issparse(passed) else "wide" if X.shape[1] > 64 else "narrow"
    width, tol = choose("width"), choose("tol")
    spread = _spread(X)
    method = choose("method")
    gamma = width if width == "scale" else width / (X.shape[1] * spread) / spread
    model = method(gamma=gamma, C=choose("C"), kernel=choose("kernel"), tol=tol)
    if method is OpenSetSVC:
        model.set_params(lam=choose("lam"))
    landmarks = choose("landmarks")
    if landmarks is not None:
        rows = len(X) if weight is None else np.count_nonzero(weight)
        landmarks = min(landmarks, rows) if landmarks >= 1 else int(landmarks * rows)
        model.set_params(landmarks=landmarks, random_state=0)
        group = "landmarks"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(passed, y, sample_weight=weight)
        except ValueError as error:
            allowed = "variance of X", "must be"
            if not any(text in str(error) for text in allowed):
                raise
            return {"group": group, "refused": 1}
    kept = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
    weight = np.ones(len(kept)) if weight is None else weight[kept]

    points = _points(X, spread, rng)
    layout = choose("layout")
    given, points = _laid_out(points, layout, rng)
    scores, exact = model.decision_function(given), oracle(model, points)
    scale = np.abs(model.dual_coef_).max(axis=1, initial=1.0)
    error = float((np.abs(scores - exact) / scale).max())
    assert error <= 1e-4, f"scores are off by {error:g} times the largest coefficient"
    decisive = np.abs(exact) > 1e-9 * (1 + np.abs(model.dual_coef_).sum(axis=1))
    assert np.all(((scores >= 0) == (exact >= 0)) | ~decisive), "rounding decided an answer"

    solved = model.kkt_gap_ <= tol
    # On landmarks the coefficients are not the multipliers, so they do not tell the gap.
    gap = np.zeros(len(solved))
    if landmarks is None:
        gap = _gap(model, X[kept], y[kept], weight, kept)
    assert np.all(gap[solved] <= 2 * tol), f"true KKT gap {gap[solved].max() / tol:g} tol"

    for c in np.flatnonzero(np.isfinite(model.known_radius_)):
        beyond = _beyond(model, c, rng)
        if not len(beyond):  # the radius is near the largest number
            continue
        accepted = model.decision_function(beyond)[:, c] >= 0
        assert not accepted.any(), "a point beyond the certificate is accepted"
    return {
        "group": group,
        "refused": 0,
        "score": error,
        "gap": float(max(gap[solved].max(initial=0.0), 0.0) / tol),
        "points": scores.size,
    }


# --- the oracle -----------------------------------------------------------------------------------


def oracle(model, X: np.ndarray) -> np.ndarray:
    """Decision values of a fitted model in float64, from differences."""
    S = _dense(model.support_vectors_)
    columns = []
    for gamma, coef, bias in zip(model.gamma_, model.dual_coef_, model.intercept_, strict=True):
        k = model.kernel.value(squares(X, S, np.sqrt(gamma)))
        columns.append(k @ coef + bias)
    return np.column_stack(columns)


def squares(A, B, scale):
    with np.errstate(over="ignore", under="ignore"):
        return np.array([(((a - B) * scale) ** 2).sum(axis=1) for a in A])


def _gap(model, X, y, weight, kept):
    """True KKT gap of each class over the rows `kept`, in float64."""
    # Copies of a row in one class are one row, whose box is the sum of theirs.
    pairs = np.column_stack([X + 0.0, y])
    _, first, group = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(group.ravel(), weight)
    X, y, kept = X[first], y[first], kept[first]
    scores, gaps = oracle(model, X), []
    for c, label in enumerate(model.classes_):
        signs = np.where(y == label, 1.0, -1.0)
        beta = np.zeros(max(kept.max(), model.support_.max(initial=0)) + 1)
        beta[model.support_] = model.dual_coef_[c]
        beta = beta[kept]
        box = model.C * weight
        # A multiplier within rounding of its bound is there.
        near = 1e-12 * box
        v = signs - scores[:, c]
        grow = np.where(signs > 0, beta < box - near, beta < -near)
        shrink = np.where(signs > 0, beta > near, beta > near - box)
        gaps.append(v[grow].max(initial=-np.inf) - v[shrink].min(initial=np.inf))
    return np.array(gaps)


# --- the data -------------------------------------------------------------------------------------


def _data(choose, rng):
    m, d, K = choose("n_samples"), choose("n_features"), choose("n_classes")
    y = np.r_[np.arange(K), rng.integers(0, K, size=m - K)]
    X = rng.choice([0.0, 0.5, 3.0]) * rng.normal(size=(K, d))[y] + rng.normal(size=(m, d))
    X[rng.random((m, d)) >= choose("density")] = 0.0
    if choose("duplicates"):
        X[m // 2 :] = X[: m - m // 2]
    X += choose("offset")
    huge = choose("huge")
    if huge:
        X[rng.integers(m), rng.integers(d)] = huge
    dtype = choose("dtype")
    if dtype == "float64":
        X = X * 10.0 ** choose("exponent")
    else:
        limit = {"float32": 1e30, "float16": 3e4, "int64": 1e15, "int16": 3e4}[dtype]
        factor = 10.0 if dtype.startswith("int") else 1.0
        X = np.clip(np.round(X * factor) if factor > 1 else X, -limit, limit).astype(dtype)
    kind = choose("weights")
    weight = None
    if kind:
        weight = 10.0 ** rng.uniform(-3 if kind == "wide" else -0.5, 0.5, size=m)
        if kind == "zeros":
            weight[K:][rng.random(m - K) < 0.3] = 0.0
    return X, y, weight


def _spread(X):
    """A robust size of the differences, never 0."""
    center = np.median(X, axis=0)
    with np.errstate(over="ignore"):
        away = np.abs(X - center)
        away = away[away > 0]
        size = np.median(away) if away.size else 1.0
    return size if np.isfinite(size) and size > 0 else 1.0


def _points(X, spread, rng):
    """The samples, points near them, and points very far away."""
    near = X + spread * rng.normal(size=X.shape)
    far = rng.normal(size=(8, X.shape[1])) * 10.0 ** rng.uniform(-300, 300, size=(8, 1))
    return np.vstack([X, near, np.clip(far, -1e300, 1e300)])


def _laid_out(X, layout, rng):
    """X in a layout, and the same numbers as a dense float64 array."""
    dense = np.array(X, dtype=np.float64)
    if layout == "F":
        return np.asfortranarray(X), dense
    if layout == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2], dense
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
    if layout in ("C", "read-only"):
        return np.ascontiguousarray(X) if layout == "C" else X, dense
    if X.dtype == np.float16:
        X = X.astype(np.float32)  # SciPy has no sparse float16
    made = {"csc": sparse.csc_array, "coo": sparse.coo_array, "csr_matrix": sparse.csr_matrix}
    matrix = made.get(layout, sparse.csr_array)(X)
    if layout == "unsorted csr":
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            order = start + rng.permutation(stop - start)
            matrix.data[start:stop] = matrix.data[order]
            matrix.indices[start:stop] = matrix.indices[order]
        matrix.has_sorted_indices = False
        matrix.has_canonical_format = False
    return matrix, dense


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


def _beyond(model, c, rng):
    """Points farther than the radius of class c from all its positive support vectors."""
    S = _dense(model.support_vectors_)[model.dual_coef_[c] > 0]
    radius, d = model.known_radius_[c], S.shape[1]
    if not len(S):
        return np.zeros((1, d))
    u = rng.normal(size=(12, d))
    u /= np.sqrt((u**2).sum(axis=1, keepdims=True))
    step = 10.0 ** np.r_[-5.0, -3.0, -1.0, rng.uniform(0, 150, size=9)]
    anchor = S[rng.integers(len(S), size=12)]
    with np.errstate(over="ignore"):
        points = anchor + u * ((1 + step) * (radius if radius > 0 else 1.0))[:, None]
    points = points[np.isfinite(points).all(axis=1)]
    if radius == 0:
        return points
    # Compared in units of the radius, where nothing over- or underflows.
    nearest = squares(points, S, 1 / radius).min(axis=1, initial=np.inf)
    return points[nearest > 1 + 1e-12]
