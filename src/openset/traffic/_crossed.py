"""Labelled rows and traffic, scored by models that have not seen them; thresholds from the scores.

Rows of fold k take no part in the models that score fold k, nor in the weights of their rows. So a
held-out labelled row and a known row of the traffic are treated alike, and shares of both can be
compared. (Only the scale of the first weights rests on models that have seen labelled rows of k.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.sparse import vstack as stack_sparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, has_fit_parameter

from ..model_selection import held_out_scores
from ..utils import Progress, answer_labels, chosen_width, split_fitted

FOLDS = 5
_MOST = 20_000  # rows of traffic that are used
LIGHT = 1e-3  # rows that are less probably unknown are left out of the fit
# Softer than most searches choose: some of the negatives are known rows.
_SOFTEST = 1.0
# Thresholds that are tried: quantiles of the held-out labelled rows, and of the traffic.
_FIRST, _FIRST_TRAFFIC = np.linspace(0, 0.3, 30), np.linspace(0, 0.9, 20)
_SECOND = np.linspace(0, 0.4, 40)
_RESAMPLES = 15  # of the rows, for the thresholds; odd, since one of them may be -inf
_CAUTION = 0.5  # standard errors by which a change must be better than none
# If all kinds to come are new, the first threshold moves less by this share of the way: they may be
# more like known classes than those are like each other, which tell what it would do.
_HELD_BACK = 0.6
_LOST = 0.1  # share of the rows of withheld classes that a lower first threshold may accept


class FirstScores(NamedTuple):
    """Scores by models of the labelled rows alone, of rows that they have not seen."""

    best: np.ndarray  # (n + N,) the highest of each row
    right: np.ndarray  # (n,) bool: the class with the highest score is the true one
    by_fold: np.ndarray  # (FOLDS, N) the highest of each traffic row, by the model of every fold
    models: list[BaseEstimator]


@dataclass
class CrossedData:
    """Labelled rows and traffic in folds; rows of fold -1 are always fitted, and never scored."""

    template: BaseEstimator  # unfitted, with the parameters that were chosen
    X: Any
    y: np.ndarray
    X_traffic: Any
    codes: np.ndarray  # (n + N,) class indices, K for traffic and known unknowns
    folds: np.ndarray  # (n + N,)
    labels: np.ndarray  # (K + 1,)
    factor: float  # rows of traffic that each of these stands for
    rng: np.random.RandomState
    progress: Progress

    @classmethod
    def of(cls, fitted: BaseEstimator, X, y, X_traffic, rng, progress) -> CrossedData:
        """Draw the folds; thin a large traffic."""
        _, final = split_fitted(fitted)
        n, size = len(y), _num_samples(X_traffic)
        if size > _MOST and getattr(final, "landmarks", None) is None:
            rows = np.sort(rng.choice(size, _MOST, replace=False))
            X_traffic = _safe_indexing(X_traffic, rows)
        n_traffic = _num_samples(X_traffic)
        labels = answer_labels(final.classes_, final.unknown_label_)
        index = {label: c for c, label in enumerate(labels.tolist())}
        codes = np.array([index[label] for label in y.tolist()] + [len(labels) - 1] * n_traffic)
        scored = np.append(np.flatnonzero(codes[:n] < len(labels) - 1), np.arange(n, len(codes)))
        folds = np.full(len(codes), -1)
        folds[scored] = _assign(codes[scored], FOLDS, rng)
        factor, template = size / n_traffic, _settled(fitted)
        return cls(template, X, y, X_traffic, codes, folds, labels, factor, rng, progress)

    @property
    def n(self) -> int:
        """Number of labelled rows."""
        return len(self.y)

    @property
    def held_out(self) -> np.ndarray:
        """(n,) bool: the labelled rows that are scored."""
        return self.folds[: self.n] >= 0

    def first_scores(self) -> FirstScores:
        """Scores by a model per fold."""
        n, n_traffic = self.n, len(self.codes) - self.n
        models = []
        best, right = np.full(len(self.codes), -np.inf), np.zeros(n, dtype=bool)
        by_fold = np.empty((FOLDS, n_traffic))
        for k in range(FOLDS):
            rows, rest = (np.flatnonzero(m) for m in (self.folds[:n] != k, self.folds[:n] == k))
            model = clone(self.template).fit(_safe_indexing(self.X, rows), self.y[rows])
            if len(rest):
                scores = model.decision_function(_safe_indexing(self.X, rest))
                best[rest] = scores.max(axis=1)
                right[rest] = model.classes_[scores.argmax(axis=1)] == self.y[rest]
            by_fold[k] = model.decision_function(self.X_traffic).max(axis=1)
            models.append(model)
            self.progress.step()
        best[n:] = by_fold[self.folds[n:], np.arange(n_traffic)]
        return FirstScores(best, right, by_fold, models)

    def second_scores(self, first: FirstScores, share: float) -> np.ndarray:
        """Highest scores (n + N,) by models that have learned from the traffic of other folds."""
        second = np.full(len(self.codes), -np.inf)
        for k, model in enumerate(first.models):
            transform, final = split_fitted(model)
            Z, inside = self.stacked(transform), self.folds != k
            rows, rest = np.flatnonzero(inside), np.flatnonzero(~inside)
            weight = self.weights(first.best, first.by_fold[k], share, inside)
            halves = _assign(self.codes[rows], 2, self.rng)
            inner = np.full(len(self.codes), -np.inf)
            for h in (0, 1):
                judged = rows[halves == h]
                half = self.fit_second(final, Z, weight, rows[halves != h])
                inner[judged] = half.known_score(Z[judged])
            weight = self.weights(inner, inner[self.n :], share, np.isfinite(inner))
            second[rest] = self.fit_second(final, Z, weight, rows).known_score(Z[rest])
            self.progress.step()
        return second

    def stacked(self, transform):
        """All rows after the transformers: an array or a CSR matrix."""
        return stack(transform(self.X), transform(self.X_traffic))

    def weights(self, scores, traffic, share: float, usable) -> np.ndarray:
        """Weights (n + N,) in the second fit: 1 for labelled rows, P(unknown) for traffic."""
        # Of the usable rows, scores (n + N,) of labelled ones and those of traffic (N,) are
        # compared.
        known, new = scores[: self.n][usable[: self.n] & self.held_out], traffic[usable[self.n :]]
        unknown = unknown_probability(known, new, share)
        weight = np.repeat([1.0, 0.0], [self.n, len(traffic)])
        weight[self.n :][usable[self.n :]] = np.where(unknown > LIGHT, unknown, 0.0)
        return weight

    def fit_second(self, final: BaseEstimator, Z, weight: np.ndarray, rows: np.ndarray):
        """Fit the method of `final` to rows of Z with their weights, the traffic as unknown."""
        model = clone(final).set_params(**_second_params(final))
        rows = rows[weight[rows] > 0]
        given = {}
        if has_fit_parameter(model, "sample_weight"):
            given = {"sample_weight": weight[rows] * np.where(rows < self.n, 1.0, self.factor)}
        else:
            rows = rows[weight[rows] > 0.5]
        return model.fit(Z[rows], self.labels[self.codes[rows]], **given)

    def withheld_scores(self, n_folds: int) -> np.ndarray:
        """Sorted highest scores of labelled rows, by models that do not know their class."""
        fold_of = self.rng.permutation(np.arange(len(self.labels) - 1) % n_folds)
        fold = np.append(fold_of, -1)[self.codes[: self.n]]
        every = held_out_scores(self.template, self.X, self.y, fold, on_fold=self.progress.step)
        return np.sort(every[fold >= 0])


@dataclass(frozen=True)
class Gates:
    """Highest scores by both models, of labelled rows (2, n) and of traffic (2, N)."""

    known: np.ndarray
    traffic: np.ndarray
    right: np.ndarray  # (n,) named correctly
    share: float  # of unknown rows in the traffic

    def choose(self, withheld, new_kinds: float, lowest: float, rng: np.random.RandomState):
        """Thresholds (2,) of the best expected accuracy, the first above `lowest`; their price."""
        # The price is empty if no threshold is clearly better than none. The best thresholds of one
        # sample are noisy, so these are medians over bootstrap samples.
        none = np.array([0.0, -np.inf])
        if np.array_equal(self.best(withheld, new_kinds, lowest), none):
            return none, {}
        n, n_traffic = len(self.right), self.traffic.shape[1]
        found = []
        for _ in range(_RESAMPLES):
            known, traffic = rng.randint(n, size=n), rng.randint(n_traffic, size=n_traffic)
            sample = Gates(
                self.known[:, known], self.traffic[:, traffic], self.right[known], self.share
            )
            others = None
            if withheld is not None:
                others = np.sort(withheld[rng.randint(len(withheld), size=len(withheld))])
            found.append(sample.best(others, new_kinds, lowest))
        t = np.median(found, axis=0)
        if np.array_equal(t, none):
            return none, {}
        sources = f"{n} labelled rows, held out", f"estimated from {n_traffic} rows of traffic"
        entries = zip(
            ("known", "unknown"), self._rejected(none), self._rejected(t), sources, strict=True
        )
        return t, {k: {"before": a, "after": b, "source": c} for k, a, b, c in entries}

    def best(self, withheld: np.ndarray | None, new_kinds: float, lowest: float) -> np.ndarray:
        """The thresholds (2,) that are best on these rows; (0, -inf) if none is clearly better."""
        first = np.zeros(1)
        if withheld is not None or new_kinds == 0:
            first = np.append(
                np.quantile(self.known[0], _FIRST), np.quantile(self.traffic[0], _FIRST_TRAFFIC)
            )
            first = np.unique(np.append(first[first > lowest], 0.0))
        if withheld is not None:
            rejected, before = (np.searchsorted(withheld, t) / len(withheld) for t in (first, 0.0))
            first = first[rejected >= before - _LOST]
        second = np.unique(np.append(np.quantile(self.known[1], _SECOND), -np.inf))
        zero = int(np.searchsorted(first, 0.0))
        known, traffic = (_accepted(s, first, second) for s in (self.known, self.traffic))
        value = _accepted(self.known, first, second, self.right)
        value += (1 - new_kinds) * self._unknown_rejected(known, traffic)
        if withheld is not None:
            value += new_kinds * (np.searchsorted(withheld, first) / len(withheld))[:, None]
        # A row that changes sides changes the value by so much.
        step = (1 - new_kinds) / max(self.share, 1e-9)
        variance = _changed(known, zero) * (1 + step * (1 - self.share)) ** 2 / len(self.right)
        variance += _changed(traffic, zero) * step**2 / self.traffic.shape[1]
        gain = value - value[zero, 0] - _CAUTION * np.sqrt(variance)
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        if gain[i, j] <= 0:
            return np.array([0.0, -np.inf])
        return np.array([first[i] * (1 - _HELD_BACK * new_kinds), second[j]])

    def _rejected(self, t: np.ndarray) -> tuple[float, float]:
        """Shares of known and of unknown rows that thresholds (2,) reject."""
        passed = ((s >= t[:, None]).all(axis=0) for s in (self.known, self.traffic))
        known, traffic = map(np.mean, passed)
        return float(1 - known), float(self._unknown_rejected(known, traffic))

    def _unknown_rejected(self, known, traffic):
        """The share of unknown rows that is rejected, from the shares of both that are accepted."""
        unknown = (traffic - (1 - self.share) * known) / max(self.share, 1e-9)
        return 1 - np.clip(unknown, 0.0, 1.0)


def _accepted(scores, first, second, counted=True) -> np.ndarray:
    """Shares (T0, T1) of the rows that pass both thresholds, and are counted."""
    a, b = (s >= t[:, None] for s, t in zip(scores, (first, second), strict=True))
    # Counts are exact in float32.
    n_accepted = (a & counted).astype(np.float32) @ b.astype(np.float32).T
    return n_accepted.astype(np.float64) / scores.shape[1]


def _changed(accepted: np.ndarray, zero: int) -> np.ndarray:
    """Shares (T0, T1) of the rows that are accepted by thresholds or by (0, -inf), not by both."""
    both = accepted[np.maximum(np.arange(len(accepted)), zero)]
    return np.maximum(accepted + accepted[zero, 0] - 2 * both, 0.0)


def _settled(fitted: BaseEstimator) -> BaseEstimator:
    """An unfitted estimator with the parameters that a fitted one has chosen."""
    if isinstance(fitted, FrozenEstimator):
        return _settled(fitted.estimator)
    if hasattr(fitted, "best_estimator_"):
        return _settled(fitted.best_estimator_)
    if isinstance(fitted, Pipeline):
        name, last = fitted.steps[-1]
        heads = [(head, clone(step, safe=False)) for head, step in fitted.steps[:-1]]
        return type(fitted)([*heads, (name, _settled(last))])
    return clone(fitted).set_params(**chosen_width(fitted))  # every fold has the same width


def _second_params(final: BaseEstimator) -> dict[str, Any]:
    """Parameters of the model that learns from the traffic."""
    given = final.get_params(deep=False)
    params = {"unknown_label": final.unknown_label_} | chosen_width(final)
    # The traffic shows where the unknown is, and the first gate keeps the regions bounded.
    params |= {k: v for k, v in (("lam", 0.0), ("ensure_bounded", False)) if k in given}
    C = given.get("C")
    if isinstance(C, dict):
        params["C"] = {label: min(value, _SOFTEST) for label, value in C.items()}
    elif C is not None:
        params["C"] = min(C, _SOFTEST)
    return params


def _assign(codes: np.ndarray, n_folds: int, rng: np.random.RandomState) -> np.ndarray:
    """A fold for each row, stratified; -1 for the only row of a class."""
    folds = np.full(len(codes), -1)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        if len(rows) > 1:
            folds[rng.permutation(rows)] = np.arange(len(rows)) % n_folds
    return folds


def unknown_probability(known, new, share: float, counts=None) -> np.ndarray:
    """P(unknown) (m,) of rows, from scores of known rows (n,) and of these; counts (m,) of each."""
    # It assumes that the odds of known against mixed rows rise with the score.
    n_known, n_new, weight = len(known), len(new), None
    if counts is not None:  # both kinds weigh the same
        weight = np.append(np.full(n_known, counts.sum() / n_known), counts)
        n_known = n_new = 1
    is_known = np.repeat([1.0, 0.0], [len(known), len(new)])
    rising = IsotonicRegression(y_min=0.0, y_max=1.0)
    p = rising.fit(np.append(known, new), is_known, sample_weight=weight).predict(new)
    odds = p / np.maximum(1 - p, 1e-12)
    return 1 - np.minimum(1.0, odds * (1 - share) * n_new / n_known)


def stack(Z, others):
    """The rows of two matrices, one below the other: an array or a CSR matrix."""
    if issparse(Z) or issparse(others):
        return stack_sparse([Z, others], format="csr")
    return np.concatenate([np.asarray(Z), np.asarray(others)])
