"""Ascent on the score from just outside the certificate: no point there may be accepted."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from openset import OpenSetSVC
from openset.kernels import RBF, RationalQuadratic, TStudent
from openset.svm import FixedBiasSVC

_STEPS = 30


def attack(rng: np.random.Generator) -> dict:
    """One random model, and climbs from many points that its certificate rejects."""
    d, m = int(rng.choice([1, 2, 5, 30, 64, 65, 120])), int(rng.integers(8, 80))
    y = np.r_[0, 0, 1, 1, rng.integers(0, 3, m - 4)]
    scale = 10.0 ** rng.choice([-100, -25, -3, 0, 0, 3, 25, 100])
    X = scale * (rng.choice([0.5, 3.0]) * rng.normal(size=(3, d))[y] + rng.normal(size=(m, d)))
    method = [OpenSetSVC, FixedBiasSVC][rng.integers(2)]
    kernel = [RBF(), RBF(), TStudent(1.0), RationalQuadratic(2.0)][rng.integers(4)]
    gamma = 10.0 ** rng.uniform(-4, 2) / d / scale / scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = method(gamma=gamma, kernel=kernel, C=10.0 ** rng.uniform(-1, 4)).fit(X, y)
    points = 0
    for c in np.flatnonzero(np.isfinite(model.known_radius_)):
        own = model.support_vectors_[model.dual_coef_[c] > 0]
        if not len(own):
            continue
        radius = model.known_radius_[c] * (1 + 1e-9)
        Z, out = _outside(_starts(own, radius or scale, rng), own, radius, scale)
        Z = Z[out]
        for step in np.geomspace(1.0, 1e-3, _STEPS) * (radius or scale):
            scores = model.decision_function(Z)[:, c]
            points += len(Z)
            assert not (scores >= 0).any(), f"class {c} accepts beyond its certificate"
            up = Z + step * _directions(model, Z, c)
            up, out = _outside(up, own, radius, scale)
            better = out & (model.decision_function(up)[:, c] > scores)
            Z[better] = up[better]
    return {"group": method.__name__, "points": points}


def _starts(own, radius, rng):
    """Points along features, differences of support vectors, between them, and at random."""
    d = own.shape[1]
    a, b = own[rng.integers(len(own), size=(2, 24))]
    some = np.vstack([np.eye(d), -np.eye(d)])[rng.integers(2 * d, size=24)]
    kinds = [a - b, some, rng.normal(size=(24, d)), a + b - 2 * own.mean(axis=0)]
    away = np.vstack(kinds)
    norms = np.linalg.norm(away / radius, axis=1, keepdims=True)
    away = np.where(norms > 0, away / np.where(norms > 0, norms, 1.0), 0.0)
    return np.vstack([np.tile((a + b) / 2, (2, 1)), np.tile(a, (2, 1)) + away[:48]])


def _outside(Z, own, radius, scale):
    """The points, moved beyond the radius of their nearest support vectors, and which are there."""
    for _ in range(20):
        distance = cdist(Z / scale, own / scale)
        nearest = own[distance.argmin(axis=1)]
        gap = distance.min(axis=1)
        inside = gap <= radius / scale
        if not inside.any():
            break
        away = Z - nearest + 1e-9 * scale
        size = np.linalg.norm(away / scale, axis=1, keepdims=True)
        moved = nearest + away / np.where(size > 0, size, 1.0) * (radius / scale) * (1 + 1e-9)
        Z = np.where(inside[:, None], moved, Z)
    return Z, cdist(Z / scale, own / scale).min(axis=1) > radius / scale


def _directions(model, Z, c):
    """Unit directions in which the positive part of the score rises: towards support vectors."""
    coef, S = model.dual_coef_[c], model.support_vectors_
    root = np.sqrt(model.gamma_[c])
    s = cdist(Z * root, S * root, "sqeuclidean")
    k = np.exp(-s) if model.kernel == RBF() else 1.0 / (1.0 + s) ** 2  # near enough to climb
    away = (k * coef) @ (S * root) - (k @ coef)[:, None] * (Z * root)
    size = np.linalg.norm(away, axis=1, keepdims=True)
    return np.where(size > 0, away / np.where(size > 0, size, 1.0), 0.0)
