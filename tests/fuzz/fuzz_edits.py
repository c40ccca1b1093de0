"""Class edits: a model with classes added, removed, renamed answers as a new fit does."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from openset import OpenSetSVC
from openset.gaussian import OpenSetCentroids
from openset.neighbors import OpenSetKNN
from openset.svm import MulticlassOneClassSVM, MulticlassSVDD

# Each class is described by its own samples: without a class, a model is that of a fit without it.
INDEPENDENT = OpenSetCentroids, MulticlassOneClassSVM, MulticlassSVDD


def attack(rng: np.random.Generator) -> dict:
    """A random series of edits of one model."""
    d, K = int(rng.choice([2, 8, 70])), 6
    y = np.r_[np.repeat(np.arange(K), 2), rng.integers(0, K, int(rng.integers(20, 120)))]
    X = rng.choice([1.0, 4.0]) * rng.normal(size=(K, d))[y] + rng.normal(size=(len(y), d))
    makers = [
        lambda: OpenSetSVC(gamma=0.3 / d, C=10.0 ** rng.uniform(-1, 3), tol=1e-6),
        OpenSetKNN,
        OpenSetCentroids,
        lambda: MulticlassOneClassSVM(gamma=0.3 / d, tol=1e-6),
        lambda: MulticlassSVDD(gamma=0.3 / d, tol=1e-6),
    ]
    model = makers[rng.integers(len(makers))]()
    names = {k: k for k in range(K)}  # the present name of each class
    present = sorted(rng.choice(K, size=3, replace=False).tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fresh = type(model)(**model.get_params())
        model.fit(*_rows(X, y, present, names))
        removed = False
        for _ in range(int(rng.integers(1, 5))):
            kind = rng.choice(["add", "remove", "rename"])
            absent = sorted(set(range(K)) - set(present))
            can_add = hasattr(model, "add_classes") and not removed
            if kind == "add" and absent and can_add:
                present = sorted([*present, int(rng.choice(absent))])
                model.add_classes(*_rows(X, y, present, names))
            elif kind == "remove" and len(present) > 2:
                gone = int(rng.choice(present))
                kept = [names[k] for k in present if k != gone]
                before = model.decision_function(X)[:, np.isin(model.classes_, kept)]
                model.remove_classes([names[gone]])
                present.remove(gone)
                after = model.decision_function(X)
                limit = np.full(len(kept), 1e-9)
                if hasattr(model, "dual_coef_"):  # docs/faq.md, "How exact is a score?"; of two
                    error = 4e-7 if d <= 64 else 5e-6
                    limit = 2 * error * np.abs(model.dual_coef_).sum(axis=1)
                assert np.all(np.abs(after - before) <= limit)
                # Most others still reject its samples: no longer a new fit.
                removed = removed or type(model) not in INDEPENDENT
            elif kind == "rename":
                k = int(rng.choice(present))
                new = max(names.values()) + 1 + int(rng.integers(5))
                model.rename_classes({names[k]: new})
                names[k] = new
            assert sorted(model.classes_.tolist()) == sorted(names[k] for k in present)
            answers = set(model.predict(X).tolist()) - {model.unknown_label_}
            assert answers <= set(model.classes_.tolist())
        gap = 0.0
        if not removed:
            fresh.fit(*_rows(X, y, present, names))
            assert fresh.classes_.tolist() == model.classes_.tolist()
            found, expected = model.decision_function(X), fresh.decision_function(X)
            gap = float(np.abs(found - expected).max())
            assert gap <= 1e-3 * max(1.0, np.abs(expected).max()), f"off by {gap:g}"
    return {"group": type(model).__name__, "gap": gap}


def _rows(X, y, present, names):
    rows = np.isin(y, present)
    return X[rows], np.array([names[k] for k in y[rows].tolist()])
