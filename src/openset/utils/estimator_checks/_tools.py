"""What the checks share: data, a reference for the decision rule, and readable failures."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import wraps

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

Check = Callable[[BaseEstimator], None]

#: The methods of the contract that take X.
METHODS = ("decision_function", "predict", "predict_known", "predict_set", "known_score")


def contract(line: str) -> Callable[[Check], Check]:
    """Mark a check with the line of the contract it tests; every failure then quotes it."""
    # Any exception of the estimator becomes an AssertionError, since the contract says what may
    # raise.

    def mark(check):
        @wraps(check)
        def run(estimator):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    check(estimator)
            except Exception as error:
                cause = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                raise AssertionError(
                    f"{type(estimator).__name__} breaks the open-set contract "
                    f"'{line}' ({check.__name__}): {cause}{error}"
                ) from error

        return run

    return mark


def require(condition, message: str) -> None:
    """Raise AssertionError unless the condition holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def require_equal(actual, expected, case: str) -> None:
    """Require two label or bool arrays to be equal, entry by entry, without promotion."""
    actual, expected = np.asarray(actual).tolist(), np.asarray(expected).tolist()
    require(len(actual) == len(expected), f"{case}: {len(actual)} rows, not {len(expected)}")
    rows = zip(range(len(actual)), actual, expected, strict=True)
    wrong = [row for row in rows if row[1] != row[2]]
    for i, found, right in wrong[:1]:
        differ = f"{case}: {len(wrong)} of {len(actual)} rows differ, the first is row {i} with"
        require(False, f"{differ} {found!r} instead of {right!r}")


def require_close(actual, expected, case: str, atol: float = 1e-5) -> None:
    """Require two arrays of scores to agree, each entry relative to its size but at least to 1."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    require(actual.shape == expected.shape, f"{case}: shape {actual.shape}, not {expected.shape}")
    gap = float(np.max(np.abs(actual - expected) / np.maximum(1.0, np.abs(expected))))
    require(gap <= atol, f"{case}: scores differ by {gap:.3g}, more than {atol:g}")


def require_same(actual, expected, case: str) -> None:
    """Require equal labels, or scores equal up to rounding."""
    if np.issubdtype(np.asarray(expected).dtype, np.floating):
        require_close(actual, expected, case, atol=1e-6)
    else:
        require_equal(actual, expected, case)


def require_error(
    error: type[Exception], pattern: str, case: str, call: Callable, *args: object
) -> None:
    """Require ``call(*args)`` to raise an error whose message matches the pattern."""
    try:
        call(*args)
    except error as caught:
        matches = re.search(pattern, str(caught), re.IGNORECASE)
        require(matches, f"{case}: the message does not match {pattern!r}: {caught}")
    except Exception as caught:
        other = f"{case} raises {type(caught).__name__} ({caught}), not {error.__name__}"
        raise AssertionError(other) from caught
    else:
        require(False, f"{case} raises no error")


def fresh(estimator: BaseEstimator, **params) -> BaseEstimator:
    """Unfitted copy with fixed random state and tight tolerances, so that fits can be compared."""
    fixed = {"random_state": 0, "tol": 1e-8}
    copy = clone(estimator)
    ends = {name: name.split("__")[-1] for name in copy.get_params()}
    copy.set_params(**{name: fixed[end] for name, end in ends.items() if end in fixed})
    return copy.set_params(**params)


def blobs(n_classes: int, n_per_class: int = 15, seed: int = 0):
    """Classes far apart in distance and in angle, in mixed order; labels are 0, 1, ..."""
    rng = np.random.default_rng(seed)
    centers = 8.0 * np.eye(3)
    codes = rng.permutation(np.repeat(np.arange(n_classes), n_per_class))
    return centers[codes] + rng.normal(size=(len(codes), 3)), codes


def probes(X: np.ndarray) -> np.ndarray:
    """Points on, between, around and far from the training points."""
    rng = np.random.default_rng(1)
    low, high = X.min(axis=0), X.max(axis=0)
    around = rng.uniform(low - (high - low) - 1, high + (high - low) + 1, size=(40, X.shape[1]))
    between = (X[::2][: len(X) // 2] + X[1::2][: len(X) // 2]) / 2
    return np.vstack([X, between, around, far_points(X, [1e3, 1e6], 1)])


def far_points(X: np.ndarray, scales, seed: int = 2) -> np.ndarray:
    """Points at the given multiples of the spread of X, along axes and random directions."""
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    directions = np.vstack([np.eye(d), -np.eye(d), rng.normal(size=(20, d))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    spread = max(1.0, float(np.ptp(X, axis=0).max()))
    return np.vstack([X.mean(axis=0) + scale * spread * directions for scale in scales])


def fitted(estimator: BaseEstimator) -> tuple[BaseEstimator, np.ndarray]:
    """A copy fitted to three classes, and probes to score."""
    X, y = blobs(3)
    return fresh(estimator).fit(X, y), probes(X)


def answers(scores: np.ndarray, classes: np.ndarray, unknown) -> list:
    """The answers by the decision rule: the accepted class of the highest score, or unknown."""
    # This is deliberately a second implementation of `openset.utils.decide`: the checks test
    # estimators, and through them `decide` itself, against an independent reference.
    classes = classes.tolist()
    result = []
    for row in scores.tolist():
        accepting = [c for c in range(len(row)) if row[c] >= 0]
        best = max(accepting, key=lambda c: (row[c], -c), default=None)
        result.append(unknown if best is None else classes[best])
    return result


def require_contract(model: BaseEstimator, X: np.ndarray, case: str = "the model") -> np.ndarray:
    """Require shape, finiteness and the decision rule of a fitted model on X; return the scores."""
    scores = model.decision_function(X)
    case_scores, shape = f"{case}: decision_function has", (np.shape(X)[0], len(model.classes_))
    has_shape = isinstance(scores, np.ndarray) and scores.shape == shape
    require(has_shape, f"{case_scores} shape {np.shape(scores)}, not {shape}")
    n_bad = np.sum(~np.isfinite(scores))
    is_finite = np.issubdtype(scores.dtype, np.floating) and n_bad == 0
    require(is_finite, f"{case_scores} {n_bad} entries that are not finite")
    expected = answers(scores, model.classes_, model.unknown_label_)
    require_equal(model.predict(X), expected, f"{case}: predict against decision_function")
    return scores
