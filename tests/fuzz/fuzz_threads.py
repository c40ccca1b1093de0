"""Random fits and predictions with 1, 2 and 3 threads: equal to the bit; rows alone as in a batch.

Run it under other BLAS kernels, too: ``OPENBLAS_CORETYPE=Haswell make fuzz``.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from openset import OpenSetSVC
from openset.kernels import RBF, InverseMultiquadric, RationalQuadratic, TStudent
from openset.svm import MulticlassOneClassSVM, MulticlassSVDD, OneVsRestSVC

KERNELS = [RBF(), RBF(), RBF(), TStudent(1.0), RationalQuadratic(1.0), InverseMultiquadric(1.0)]
METHODS = [OpenSetSVC, OpenSetSVC, OneVsRestSVC, MulticlassOneClassSVM, MulticlassSVDD]


def attack(rng: np.random.Generator) -> dict:
    """One random fit per number of threads; returns the size and the number of scores compared."""
    d, n = int(rng.integers(1, 201)), int(rng.integers(20, 400))
    n_classes = int(rng.integers(2, 5))
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    X = rng.normal(size=(n, d)) + 2 * rng.random() * rng.normal(size=(n_classes, d))[y]
    X *= 10.0 ** rng.integers(-3, 4)
    method = METHODS[rng.integers(len(METHODS))]
    width = 2.0 ** rng.integers(-6, 4) / (d * X.var())
    # From a whole matrix to a handful of rows in memory.
    settings = {"gamma": width, "cache_size": [1000, 1.0, 0.05, 1e-4][rng.integers(4)]}
    settings["kernel"] = KERNELS[rng.integers(len(KERNELS))]
    if method in (OpenSetSVC, OneVsRestSVC):
        settings["C"] = 10.0 ** rng.integers(-2, 4)
    if method is OpenSetSVC:
        settings["lam"] = [0.0, 0.1, 0.4][rng.integers(3)]
        if n > 60 and rng.random() < 0.2:
            settings |= {"landmarks": 30, "random_state": 0}
    Z = np.vstack([X, rng.normal(size=(int(rng.integers(1, 600)), d)) * X.std()])
    models, scores = [], []
    for n_jobs in (1, 2, 3):
        model = method(n_jobs=n_jobs, max_iter=5000, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models.append(model.fit(X, y))
        scores.append(model.decision_function(Z))
        for name in ("dual_coef_", "intercept_", "support_", "n_iter_", "known_radius_"):
            if hasattr(model, name):
                first, now = getattr(models[0], name), getattr(model, name)
                assert np.array_equal(first, now), f"{name} with n_jobs={n_jobs}"
        assert np.array_equal(scores[0], scores[-1]), f"scores with n_jobs={n_jobs}"
    alone = Z[rng.permutation(len(Z))[:20]]
    batch = models[0].decision_function(Z)[[int(np.flatnonzero((Z == z).all(1))[0]) for z in alone]]
    single = np.vstack([models[0].decision_function(z[None]) for z in alone])
    if "landmarks" in settings:
        assert np.abs(single - batch).max() <= 1e-6, "a row alone and in a batch"
    else:
        assert np.array_equal(single, batch), "a row alone and in a batch"
    group = "landmarks" if "landmarks" in settings else "wide" if d > 64 else "narrow"
    return {"group": group, "points": 3 * scores[0].size, "features": d}
