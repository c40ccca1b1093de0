"""Random pipelines as ONNX graphs: the same answers as the model, also next to its thresholds."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pandas as pd
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

import openset
from openset import CalibratedRejector
from openset.calibration import KnownRejected
from openset.evt import PISVM, WSVM, ExtremeValueMachine
from openset.export import to_onnx
from openset.gaussian import OpenSetCentroids, OpenSetLDA
from openset.kernels import InverseMultiquadric, RationalQuadratic, TStudent
from openset.neighbors import OpenSetKNN
from openset.svm import (
    DecisionBoundaryCarving,
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    OneVsSetMachine,
    OpenSetSVC,
    ThresholdSVC,
)
from openset.tables import TableEncoder
from openset.utils import split_fitted, unwrap

_KERNELS = ("rbf", "rbf", TStudent(1.5), RationalQuadratic(0.7), InverseMultiquadric(1.3))
_METHODS = (
    lambda rng: OpenSetSVC(lam=_pick(rng, 0.0, 0.2), C=_pick(rng, 1.0, 30.0)),
    lambda rng: OneVsRestSVC(),
    lambda rng: FixedBiasSVC(),
    lambda rng: ThresholdSVC(threshold=0.3),
    lambda rng: DecisionBoundaryCarving(),
    lambda rng: MulticlassOneClassSVM(nu=0.2),
    lambda rng: MulticlassSVDD(nu=0.2),
    lambda rng: PISVM(),
    lambda rng: WSVM(),
    lambda rng: OneVsSetMachine(p_near=0.3, p_far=0.3),
    lambda rng: ExtremeValueMachine(metric=_pick(rng, "euclidean", "cosine")),
    lambda rng: OpenSetLDA(normalize=_coin(rng, 0.5), relative=_coin(rng, 0.5)),
    lambda rng: OpenSetCentroids(metric=_pick(rng, "euclidean", "cosine")),
    lambda rng: OpenSetKNN(n_neighbors=_pick(rng, 1, 3), normalize=_coin(rng, 0.5)),
)
# Scores closer than this, in units of the largest sum of coefficients, are a tie by rounding; also
# those that are as close as what so many last digits of the features change.
_TIE, _DIGITS = 1e-12, 64


def attack(rng) -> dict:
    """One random pipeline; every answer that differs must be an exact tie."""
    numbers, y = _training_rows(rng)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    around = rng.uniform(2 * low - high, 2 * high - low, (100, numbers.shape[1]))
    points = np.concatenate([numbers + 0.1 * (high - low) * rng.normal(size=numbers.shape), around])
    if gaps := _coin(rng, 0.3):
        numbers, points = (
            np.where(rng.random(A.shape) < 0.1, np.nan, A) for A in (numbers, points)
        )
    texts = len(points) * [["", ""]]
    steps = [_scaler(rng) for _ in range(rng.integers(0, 4))]
    X = numbers
    if gaps:
        strategy = _pick(rng, "mean", "median", "most_frequent", "constant")
        steps.insert(0, SimpleImputer(strategy=strategy))
    if _coin(rng, 0.3):
        steps.insert(0, TableEncoder(missing="median"))
        X = _table(numbers, rng.choice(["a", "b", "c, d", "\u00e4"], (len(y), 2)))
        texts = rng.choice(["a", "b", "c, d", "\u00e4", "new"], (len(points), 2))
    dtype = _pick(rng, "float64", "float32")
    model = openset.make_pipeline(*steps, _pick(rng, *_METHODS)(rng))
    if "kernel" in model[-1].get_params():
        model[-1].set_params(kernel=_pick(rng, *_KERNELS))
    if _coin(rng, 0.3):
        criterion = KnownRejected(0.3, within=_pick(rng, None, "class"))
        model = CalibratedRejector(model, criterion=criterion, calibration_size=0.4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        case = Case(model, X is not numbers, dtype)
        try:
            return case.compare(*case.near_thresholds(rng, points, np.asarray(texts, dtype=object)))
        except ValueError as error:  # a scaler that clips may make a row of zeros
            if "have no direction" not in str(error):
                raise
            return {"refused": 1}


class Case(NamedTuple):
    """A fitted model, whether it takes a table, and the type of its numbers as a graph."""

    model: Any
    table: bool
    dtype: str

    def rows(self, numbers, texts):
        """Rows as the model takes them."""
        numbers = numbers.astype(self.dtype).astype(np.float64)
        return _table(numbers, texts) if self.table else numbers

    def near_thresholds(self, rng, numbers, texts):
        """The rows, and more of them on both sides of where the answer changes."""
        labels = self.model.predict(self.rows(numbers, texts))
        first, second = rng.integers(len(numbers), size=(2, 300))
        first, second = (chosen[labels[first] != labels[second]] for chosen in (first, second))
        if not first.size:
            return numbers, texts
        begin, end, texts_there = numbers[first], numbers[second], texts[first]
        near, there = [numbers], [texts]
        here = self.model.predict(self.rows(begin, texts_there))
        for step in range(50):
            middle = (begin + end) / 2
            same = self.model.predict(self.rows(middle, texts_there)) == here
            begin, end = (
                np.where(same[:, None], middle, begin),
                np.where(same[:, None], end, middle),
            )
            if step in (8, 16, 24, 32, 40, 49):
                near += [begin, end]
                there += [texts_there, texts_there]
        return np.concatenate(near), np.concatenate(there)

    def compare(self, numbers, texts) -> dict:
        """The numbers of rows, of rows next to a threshold, and of ties that are told otherwise."""
        X = self.rows(numbers, texts)
        expected, scores = self.model.predict(X), self.model.decision_function(X)
        numbers = numbers.astype(self.dtype).astype(np.float64)
        given = {"X": numbers.astype(self.dtype)} | ({"categories": texts} if self.table else {})
        graph = to_onnx(self.model, dtype=self.dtype).SerializeToString()
        label, exact = onnxruntime.InferenceSession(graph).run(["label", "scores"], given)
        unit = _unit(self.model)
        ordered = np.sort(np.column_stack([exact, np.full(len(exact), -np.inf)]), axis=1)
        best, second = ordered[:, -1], ordered[:, -2]
        margin = np.where(best >= 0, np.minimum(best, best - second), -best)
        other = label != expected
        rounding = self._rounding(numbers, texts, scores)
        error = (np.abs(scores - exact).max(axis=1) - rounding).max() / unit
        assert error < 1e-5, f"scores differ by {error:.1e}: {self!r}"
        worst = (margin - rounding)[other].max(initial=0) / unit
        assert worst <= _TIE, f"{other.sum()} other answers, margin {worst:.1e}: {self!r}"
        near = margin < 1e-6 * unit
        return {"points": len(scores), "near": near.sum(), "tied": other.sum(), "worst": worst}

    def _rounding(self, numbers, texts, scores):
        """What the last digits of the features change in the scores of each row, (n,)."""
        changes, rng = np.zeros(len(numbers)), np.random.default_rng(0)
        for _ in range(6):
            digits = rng.integers(-_DIGITS, _DIGITS, size=numbers.shape, endpoint=True)
            moved = numbers * (1 + digits * np.finfo(np.float64).eps)
            X = _table(moved, texts) if self.table else moved
            change = np.abs(self.model.decision_function(X) - scores).max(axis=1)
            changes = np.maximum(changes, change)
        transform, final = split_fitted(getattr(self.model, "estimator_", self.model))
        if isinstance(final, WSVM):  # its scores jump where a CAP is equal to the threshold
            cap = final.raw_scores(transform(self.rows(numbers, texts)))[..., 0]
            changes[(np.abs(cap - final.delta_tau) < _TIE).any(axis=1)] = np.inf
        if isinstance(final, OpenSetKNN):  # a graph takes |x|^2 + |z|^2 - 2 x.z for small distances
            X = transform(self.rows(numbers, texts))
            distances = (final.radius_ - final.decision_function(X)).min(axis=1)
            kept = final.kept_samples()[0]
            X = X / np.linalg.norm(X, axis=1, keepdims=True) if final.normalize else X
            norms = [((A - kept.mean(axis=0)) ** 2).sum(axis=1) for A in (X, kept)]
            error = 16 * np.finfo(np.float64).eps * np.maximum(norms[0], norms[1].max())
            changes = np.maximum(changes, error / np.maximum(distances, np.sqrt(error)))
        return changes


def _pick(rng, *values):
    return values[rng.integers(len(values))]


def _coin(rng, share):
    return bool(rng.random() < share)


def _training_rows(rng):
    """Rows, (n, d), far from the origin, and labels of every kind, (n,)."""
    d, k = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    n, seed = int(rng.integers(15, 40)) * k, int(rng.integers(2**31))
    X, codes = make_blobs(n, d, centers=k, random_state=seed)
    labels = _pick(
        rng, np.arange(k), 3 * np.arange(k) - 1, np.array([f"class {c}" for c in range(k)])
    )
    return (X + rng.normal(scale=30, size=d)) * 10.0 ** rng.integers(-3, 4), labels[codes]


def _table(numbers, texts):
    """A DataFrame with these columns of numbers, and two of texts among them."""
    frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(numbers.shape[1])])
    frame.insert(0, "site", texts[:, 0])
    frame.insert(2, "colour", texts[:, 1])
    return frame


def _scaler(rng):
    return _pick(
        rng,
        MinMaxScaler(clip=_coin(rng, 0.3)),
        StandardScaler(with_mean=_coin(rng, 0.5)),
        RobustScaler(),
        MaxAbsScaler(),
        Normalizer(norm=_pick(rng, "l1", "l2", "max")),
        PCA(0.9, whiten=_coin(rng, 0.5)),
        "passthrough",
    )


def _unit(model) -> float:
    """What the scores are measured in: the largest sum of coefficients, or the largest radius."""
    final = unwrap(getattr(unwrap(model), "estimator_", model))
    sums = [np.abs(getattr(final, "dual_coef_", np.ones((1, 1)))).sum(axis=1).max()]
    return max(1.0, *sums, np.abs(getattr(final, "radius_", 0.0)).max())
