"""Model files with a damaged array or description: refused or harmless, and no crash."""

from __future__ import annotations

import json
import tempfile
import warnings
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, OneClassSVM

import openset
from openset import OSNN, WSVM, OpenSetSVC, all_estimators
from openset.calibration import CalibratedRejector
from openset.gaussian import OpenSetCentroids, OpenSetLDA
from openset.kernels import TStudent
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OpenSetKNN
from openset.persistence import save_model
from openset.wrappers import CascadeRejector, ThresholdRejector

from .files import X, Y, damage_bytes, reader


def _models():
    """(family, fitted model) of every estimator, some of them twice."""
    for _, cls in all_estimators():
        family = cls.__module__.split(".")[1]
        if family != "wrappers":
            yield family, cls().fit(X, Y)
    yield "svm", OpenSetSVC(kernel=TStudent(2.0), gamma=2.0).fit(sparse.csr_array(X), Y)
    yield "svm", OpenSetSVC(landmarks=20, random_state=0).fit(X, Y)
    yield "evt", WSVM().fit(sparse.csr_matrix(X), Y)
    yield "neighbors", OSNN(rule="agreement", metric="cosine").fit(X, Y)
    yield "neighbors", OpenSetKNN(n_neighbors=3, normalize=True).fit(X, Y)
    yield "gaussian", OpenSetLDA(relative=True, normalize=True).fit(X, Y)
    yield "gaussian", OpenSetCentroids(metric="cosine", per_class=True).fit(X, Y)
    yield "wrappers", ThresholdRejector(LogisticRegression()).fit(X, Y)
    yield "wrappers", ThresholdRejector(SVC()).fit(X, Y)
    yield "wrappers", CascadeRejector(OneClassSVM(gamma=1.0), LogisticRegression()).fit(X, Y)
    yield "wrappers", CascadeRejector(OneClassSVM(gamma=1.0), SVC()).fit(X, Y)
    yield "calibration", CalibratedRejector(OpenSetSVC(), alpha=0.3, random_state=0).fit(X, Y)
    frozen = make_pipeline(MinMaxScaler(), OSNN()).fit(X, Y)
    yield "calibration", CalibratedRejector(FrozenEstimator(frozen), alpha=0.3).fit(X, Y)
    search = OpenSetSearchCV(OpenSetSVC(), {"gamma": [1.0, 4.0]}, n_repeats=1, random_state=0)
    yield "calibration", search.fit(X, Y)
    yield "pipeline", make_pipeline(MinMaxScaler(), OpenSetSVC()).fit(X, Y)
    yield "pipeline", openset.make_pipeline(StandardScaler(), PCA(3), OpenSetLDA()).fit(X, Y)
    calibrated = CalibratedRejector(OpenSetKNN(), alpha=0.3, random_state=0)
    yield "pipeline", openset.make_pipeline(StandardScaler(), calibrated).fit(X, Y)
    yield "pipeline", openset.make_pipeline(MinMaxScaler(), search).fit(X, Y)


@cache
def _archives() -> dict[str, list[dict[str, bytes]]]:
    """The members of the model files, by family."""
    found: dict[str, list] = {}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for family, model in _models():
            save_model(model, path := Path(folder, "m.skops"))
            with zipfile.ZipFile(path) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            reader().judge(path.read_bytes(), "model.skops", intact=True)
            found.setdefault(family, []).append(members)
    return found


def attack(rng: np.random.Generator) -> dict:
    """One damaged file, loaded in another process."""
    archives = _archives()
    family = list(archives)[rng.integers(len(archives))]
    members = dict(archives[family][rng.integers(len(archives[family]))])
    what = [_damage(members, rng) for _ in range(rng.integers(1, 3))]
    content = _pack(members)
    if rng.random() < 0.05:
        what.append("bytes")
        content = damage_bytes(content, rng)
    verdict = reader().judge(content, "model.skops")
    if verdict.startswith("BAD"):
        raise AssertionError(f"{family}, {what}: {verdict}")
    return {"group": family, "refused": int(verdict == "refused")}


def _pack(members):
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


def _damage(members, rng) -> str:
    arrays = [name for name in members if name.endswith((".npy", ".npz"))]
    if rng.random() < 0.2:
        return _damage_schema(members, arrays, rng)
    name = arrays[rng.integers(len(arrays))]
    if name.endswith(".npz"):
        return _damage_npz(members, name, rng)
    other = arrays[rng.integers(len(arrays))]
    try:
        array = np.load(BytesIO(members[name]))
    except Exception:  # its header is damaged already, which may raise anything
        return "twice"
    if rng.random() < 0.15 and other.endswith(".npy"):  # as it is, in the wrong place
        members[name] = members[other]
        return f"{name} becomes {other}"
    if rng.random() < 0.05:  # a header that promises more than there is
        header = members[name]
        members[name] = header.replace(b"'shape': (", b"'shape': (9", 1)
        return f"{name} promises more"
    changed, what = _damage_array(array, rng)
    members[name] = _npy(changed)
    return f"{name} {what}"


def _npy(array):
    file = BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _damage_array(a: np.ndarray, rng) -> tuple[np.ndarray, str]:
    axis = int(rng.integers(a.ndim)) if a.ndim else 0
    choices = [
        ("cut", lambda: a.take(range(rng.integers(a.shape[axis])), axis) if a.ndim else a),
        ("repeated", lambda: np.concatenate([a, a], axis) if a.ndim else a),
        ("empty", lambda: a[:0] if a.ndim else a),
        ("transposed", lambda: a.T),
        ("fortran", lambda: np.asfortranarray(a)),
        ("flat", lambda: a.ravel()),
        ("deeper", lambda: a[None]),
        ("scalar", lambda: a.ravel()[0] if a.size else a),
        ("reversed", lambda: a[::-1].copy() if a.ndim else a),
        ("shuffled", lambda: rng.permutation(a.ravel()).reshape(a.shape)),
        ("zero", lambda: np.zeros_like(a)),
        ("text", lambda: a.astype("U8")),
        ("complex", lambda: a.astype(complex)),
        ("float32", lambda: a.astype(np.float32)),
        ("float64", lambda: a.astype(np.float64)),
        ("int64", lambda: a.astype(np.int64)),
        ("uint8", lambda: a.astype(np.uint8)),
        ("bool", lambda: a.astype(bool)),
        ("swapped bytes", lambda: a.astype(a.dtype.newbyteorder())),
        ("times", lambda: a * type(a.flat[0])(rng.choice([-1, 2, 1000, 10**9]))),
        *((str(v), lambda v=v: _fill(a, v, rng)) for v in (np.nan, np.inf, -np.inf, 1e300, -1e300)),
        *((str(v), lambda v=v: _fill(a, v, rng)) for v in (0, -1, 1, 7, 10**6, 2**31, -(2**62))),
    ]
    what, change = choices[rng.integers(len(choices))]
    try:
        return np.asarray(change()), what
    except (TypeError, ValueError, IndexError, OverflowError):  # it has no such damage
        return a[:-1] if a.ndim else a, "one shorter"


def _fill(a, value, rng):
    changed = a.copy()
    changed.flat[rng.integers(a.size, size=rng.choice([1, a.size]))] = value
    return changed


def _damage_npz(members, name, rng) -> str:
    with np.load(BytesIO(members[name])) as archive:
        parts = {key: archive[key] for key in archive.files}
    key = list(parts)[rng.integers(len(parts))]
    parts[key], what = _damage_array(parts[key], rng)
    file = BytesIO()
    np.savez(file, **parts)
    members[name] = file.getvalue()
    return f"{name}[{key}] {what}"


def _damage_schema(members, arrays, rng) -> str:
    schema = json.loads(members["schema.json"])
    if rng.random() < 0.3:  # two arrays change places
        one, other = rng.choice(arrays, 2)
        text = members["schema.json"].decode().replace(f'"{one}"', '"?"')
        text = text.replace(f'"{other}"', f'"{one}"').replace('"?"', f'"{other}"')
        members["schema.json"] = text.encode()
        return f"{one} and {other} change places"
    spots = list(_spots(schema))
    holder, key = spots[rng.integers(len(spots))]
    if rng.random() < 0.3:
        del holder[key]
        what = "gone"
    else:
        values = ["0", "-1", "null", "NaN", "1e400", '"x"', "true", "[]", "{}", "1000000000000"]
        what = holder[key] = values[rng.integers(len(values))]
    members["schema.json"] = json.dumps(schema).encode()
    return f"schema {key} {what}"


def _spots(part):
    """Every value of the description, as (container, key)."""
    items = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in list(items):
        yield part, key
        if isinstance(value, dict | list):
            yield from _spots(value)
