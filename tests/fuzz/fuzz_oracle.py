"""cvxopt and scikit-learn as oracles over random odd problems."""

from __future__ import annotations

import warnings

import numpy as np
from cvxopt import matrix, solvers
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from openset.svm import FixedBiasSVC, OneVsRestSVC


def attack(rng: np.random.Generator) -> dict:
    """One random problem, whose objective is compared with that of another solver.

    Copies, weights of zero and huge ones, C and gamma over twelve and sixteen orders.
    """
    m, d = int(rng.integers(4, 60)), int(rng.choice([1, 2, 5, 30, 64, 65, 150, 300]))
    y = np.r_[0, 1, 0, 1, rng.integers(0, 2, m - 4)]
    X = rng.choice([0.0, 1.0, 4.0]) * y[:, None] + rng.normal(size=(m, d))
    if rng.random() < 0.3:
        X[m // 2 :] = X[: m - m // 2]
    weight = 10.0 ** rng.uniform(-2, rng.choice([0, 2, 6]), size=m)
    weight[4:][rng.random(m - 4) < 0.2] = 0.0
    C, gamma = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-8, 8) / d
    held = rng.random() < 0.5
    kept = weight > 0
    boxes, signs = C * weight[kept], np.where(y[kept] == 1, 1.0, -1.0)
    # An oracle in double precision says nothing beyond its own rounding.
    tol = max(1e-4, 1e-7 * boxes.sum())
    method = FixedBiasSVC if held else OneVsRestSVC
    model = method(C=C, gamma=gamma, tol=tol, max_iter=10**6)
    if held:
        model.set_params(bias=-0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weight)
    group = "cvxopt" if held else "scikit-learn"
    if model.kkt_gap_.max() > tol:
        return {"group": group, "refused": 1}
    K = rbf_kernel(X[kept], gamma=gamma)
    p = signs + 0.25 if held else signs
    beta = np.zeros(m)
    beta[model.support_] = model.dual_coef_[1]
    mine, beta = beta[kept], _oracle(held, X[kept], y[kept], weight[kept], K, p, (C, gamma))
    if beta is None:
        return {"group": group, "refused": 1}

    def loss(b):
        return 0.5 * b @ K @ b - p @ b

    # A gap within tol bounds the loss above the optimum by tol times what may still move.
    allowed = 2 * tol * boxes.sum() + 1e-6 * abs(loss(beta)) + 1e-9
    worse = loss(mine) - loss(beta)
    assert worse <= allowed, f"the loss is {worse:g} above that of the oracle, {allowed:g} allowed"
    return {"group": group, "refused": 0, "worse": worse / allowed}


def _oracle(held, X, y, weight, K, p, params):
    C, gamma = params
    signs = np.where(y == 1, 1.0, -1.0)
    if not held:
        machine = SVC(C=C, gamma=gamma, tol=1e-6, max_iter=10**6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X, y, sample_weight=weight)
        beta = np.zeros(len(X))
        beta[machine.support_] = machine.dual_coef_[0]
        return beta
    n, boxes = len(X), C * weight
    sides = np.sort(np.column_stack([np.zeros(n), signs * boxes]), axis=1)
    limits = np.append(-sides[:, 0], sides[:, 1])
    try:
        found = solvers.qp(
            matrix(K),
            matrix(-p),
            matrix(np.vstack([-np.eye(n), np.eye(n)])),
            matrix(limits),
            options={"show_progress": False},
        )
    except (ArithmeticError, ValueError):
        return None
    if found["status"] != "optimal":
        return None
    return np.clip(np.array(found["x"]).ravel(), sides[:, 0], sides[:, 1])
