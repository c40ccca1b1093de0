"""Containers, layouts and configurations: the answers are those of the plain array."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from sklearn import config_context
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from openset import all_estimators, make_pipeline

_METHODS = [cls for _, cls in all_estimators() if not cls.__module__.startswith("openset.wrap")]
_METHODS = [cls for cls in _METHODS if not cls.__module__.startswith("openset.calib")]
LAYOUTS = ["F", "read-only", "mapped", "strided", "pandas", "polars", "masked", "unmasked", "list"]
CONFIGURATIONS: list[dict] = [
    {},
    {"assume_finite": True},
    {"enable_metadata_routing": True},
    {"transform_output": "pandas"},
    {"transform_output": "polars"},
]


def attack(rng: np.random.Generator) -> dict:
    """One estimator, one container for fit and one for predict, one configuration."""
    method = _METHODS[rng.integers(len(_METHODS))]
    layout, configuration = rng.choice(LAYOUTS), CONFIGURATIONS[rng.integers(len(CONFIGURATIONS))]
    y = np.arange(48) % 3
    X = 5 * rng.normal(size=(3, 4))[y] + rng.normal(size=(48, 4))
    model = make_pipeline(StandardScaler(), method())
    ends = [name for name in model.get_params() if name.split("__")[-1] in ("random_state",)]
    model.set_params(**dict.fromkeys(ends, 0))
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        expected = clone(model).fit(X, y).decision_function(X)
        given, bare = _contained(X, layout, Path(folder)), method()
        before = np.array(given, copy=True) if layout != "masked" else None
        with config_context(**configuration):
            if layout == "masked":
                for call in (lambda: bare.fit(given, y), lambda: method().fit(X, y).predict(given)):
                    try:
                        call()
                    except ValueError as error:
                        assert "masked" in str(error)
                    else:
                        raise AssertionError("masked entries were taken for numbers")
                return {"group": layout}
            found = clone(model).fit(given, y).decision_function(given)
        # The same sums in another order: equal up to the tolerance of the solver.
        gap = float(np.abs(found - expected).max())
        assert gap <= 5e-3 * max(1.0, np.abs(expected).max()), f"scores differ by {gap:g}"
        assert np.array_equal(np.array(given), before), "X was changed"
    return {"group": str(layout), "gap": gap}


def _contained(X, layout, folder):
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "read-only":
        X = X.copy()
        X.flags.writeable = False
        return X
    if layout == "mapped":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r")
    if layout == "strided":
        return np.repeat(X, 2, axis=1)[:, ::2]
    if layout == "pandas":
        return pd.DataFrame(X, columns=list("abcd"))
    if layout == "polars":
        return pl.DataFrame(X, schema=list("abcd"))
    if layout == "masked":
        return np.ma.masked_array(X, mask=np.eye(*X.shape, dtype=bool))
    return np.ma.masked_array(X) if layout == "unmasked" else X.tolist()
