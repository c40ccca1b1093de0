"""Which method for these data? Each one tuned and judged with classes withheld, on equal splits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.exceptions import FitFailedWarning

from openset.metrics import auroc_known, open_set_report, oscr_area, oscr_curve
from openset.model_selection import OpenSetSearchCV, OpenSetSplit
from openset.utils import Progress, unwrap

# A class must leave two samples for tuning after two are held out.
FEWEST_ROWS = 4
# Simulations in the search of each repeat.
N_TUNING = 3
CONFIDENCE = 0.95

# Where the curves of the repeats are averaged.
GRID = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True)
class Trial:
    """What one method achieved in one repeat.

    Attributes
    ----------
    measures : dict {str: float}
        Those of :func:`openset.metrics.open_set_report`, ``oscr_area`` and ``auroc_known``.
    oscr, roc : ndarray of shape (len(GRID),)
        Known samples accepted (and correct) where a share GRID of the unknown ones is.
    bounded : float
        Share of the classes that accept a bounded region.
    seconds_tune, seconds_predict : float
        For tuning and fitting; for one sample.
    """

    measures: dict[str, float]
    oscr: np.ndarray
    roc: np.ndarray
    bounded: float
    seconds_tune: float
    seconds_predict: float


@dataclass
class Outcome:
    """A method and its trials, in the order of the repeats.

    Attributes
    ----------
    method : str
    trials : list of Trial
    model : estimator
        The one of the first repeat.
    error : str
        Of the first repeat that failed; empty without any.
    """

    method: str
    trials: list[Trial] = field(default_factory=list)
    model: BaseEstimator | None = None
    error: str = ""

    def values(self, measure: str) -> np.ndarray:
        """A measure in each repeat."""
        return np.array([trial.measures[measure] for trial in self.trials])

    def mean(self, attribute: str):
        """Mean over the repeats of an attribute of the trials."""
        return np.mean([getattr(trial, attribute) for trial in self.trials], axis=0)

    def median(self, attribute: str) -> float:
        """Median over the repeats; of times, as the first may include compilation."""
        return float(np.median([getattr(trial, attribute) for trial in self.trials]))


def interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half the width of its confidence interval, by Student's t.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.cli._trials import interval
    >>> mean, half = interval(np.array([0.7, 0.8, 0.9]))
    >>> round(mean, 3), round(half, 3)
    (0.8, 0.248)
    """
    n = len(values)
    quantile = student.ppf((1 + CONFIDENCE) / 2, n - 1)
    return float(values.mean()), float(quantile * values.std(ddof=1) / np.sqrt(n))


def subsample(y: np.ndarray, max_rows: int, seed: int) -> tuple[np.ndarray, list]:
    """Rows of about equal shares of all classes; classes with too few rows are left out.

    Parameters
    ----------
    y : ndarray of shape (n,)
    max_rows : int
        How many rows to keep, about: a class keeps `FEWEST_ROWS` at least.
    seed : int

    Returns
    -------
    rows : ndarray of shape (n_kept,)
        Sorted.
    small : list
        The classes that were left out.
    """
    rng = np.random.default_rng(seed)
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    large = counts >= FEWEST_ROWS
    share = min(1.0, max_rows / max(1, counts[large].sum()))
    kept = [
        rng.permutation(np.flatnonzero(codes == c))[: max(FEWEST_ROWS, round(share * counts[c]))]
        for c in np.flatnonzero(large)
    ]
    rows = np.sort(np.concatenate([np.empty(0, dtype=np.intp), *kept]))
    return rows, classes[~large].tolist()


def check_classes(y: np.ndarray) -> None:
    """Raise ValueError if there are too few classes to withhold some."""
    classes = np.unique(y)
    if len(classes) < 3:
        raise ValueError(
            f"a comparison withholds classes and needs at least 3 of {FEWEST_ROWS} rows or more; "
            f"there are {len(classes)}: {', '.join(map(str, classes))}"
        )


def n_known_of(n_classes: int) -> int:
    """Classes that act as known: half, but three where possible, so that tuning can withhold."""
    return max((n_classes + 1) // 2, min(3, n_classes - 1))


def compare(
    X: np.ndarray,
    y: np.ndarray,
    methods: Mapping[str, BaseEstimator],
    *,
    n_repeats: int,
    seed: int,
    jobs: int | None = None,
    show_progress: bool = False,
) -> list[Outcome]:
    """Run every method on the same splits, in which some classes are withheld.

    In each repeat half of the samples of some classes are for tuning and fitting; the rest, and
    all samples of the other classes, are for judging.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        At least three classes of `FEWEST_ROWS` samples.
    methods : mapping {str: estimator}
        By name; not fitted.
    n_repeats : int
        At least 2.
    seed : int
    jobs : int, default=None
        Threads; only the times depend on them.
    show_progress : bool, default=False

    Returns
    -------
    list of Outcome
        Best first, by the mean normalized accuracy; methods that failed come last.
    """
    n_known = n_known_of(len(np.unique(y)))
    splits = OpenSetSplit(n_repeats, n_known=n_known, random_state=seed).simulate(y)
    outcomes = {name: Outcome(name) for name in methods}
    progress = Progress(n_repeats * len(methods), "comparing", show_progress)
    for repeat, split in enumerate(splits):
        for name, estimator in methods.items():
            outcome = outcomes[name]
            if not outcome.error:
                try:
                    model, trial = _try(estimator, X, y, split, seed + repeat, jobs)
                except Exception as error:  # one method must not spoil the others
                    outcome.error = f"repeat {repeat + 1}: {error}"
                else:
                    outcome.model = outcome.model or model
                    outcome.trials.append(trial)
            progress.step()
    return sorted(
        outcomes.values(),
        key=lambda o: (bool(o.error), 0 if o.error else -o.values("normalized_accuracy").mean()),
    )


def _try(estimator, X, y, split, seed, jobs):
    search = OpenSetSearchCV(estimator, n_repeats=N_TUNING, n_jobs=jobs, random_state=seed)
    start = perf_counter()
    with warnings.catch_warnings():
        # A setting that cannot be fitted is not chosen; with two classes tuning is closed-set.
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message="y has 2 classes")
        search.fit(X[split.fit], y[split.fit])
    seconds_tune = perf_counter() - start
    held_out, truth = X[split.validation], y[split.validation]
    start = perf_counter()
    scores = search.decision_function(held_out)
    seconds_predict = (perf_counter() - start) / len(truth)
    return search, _judge(search, truth, scores, held_out, seconds_tune, seconds_predict)


def _judge(search, truth, scores, held_out, seconds_tune, seconds_predict):
    model = unwrap(search)
    known = model.classes_
    report = open_set_report(
        truth, search.predict(held_out), known=known, unknown_label=model.unknown_label_
    )
    best = scores.max(axis=1)
    measures = {name: value for name, value in report.items() if isinstance(value, float)}
    measures["oscr_area"] = oscr_area(truth, scores, known=known)
    measures["auroc_known"] = auroc_known(truth, best, known=known)
    fpr, ccr, _ = oscr_curve(truth, scores, known=known)
    # Known against unknown is the OSCR curve of a single class that all known samples are of.
    roc_fpr, tpr, _ = oscr_curve(np.isin(truth, known), best[:, None], known=[True])
    return Trial(
        measures,
        np.interp(GRID, fpr, ccr),
        np.interp(GRID, roc_fpr, tpr),
        float(np.mean(model.bounded_)),
        seconds_tune,
        seconds_predict,
    )


def differences(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    """How far each method is behind the first, with half the width of the interval.

    The splits are the same for all, so the differences are taken repeat by repeat.
    """
    first, *others = (outcome for outcome in outcomes if not outcome.error)
    lead = first.values("normalized_accuracy")
    return {o.method: interval(lead - o.values("normalized_accuracy")) for o in others}


def verdict(outcomes: Sequence[Outcome]) -> str:
    """The answer in words: which method leads, and which others may be as good."""
    first = outcomes[0]
    mean, half = interval(first.values("normalized_accuracy"))
    behind = differences(outcomes)
    close = [name for name, (gap, width) in behind.items() if gap - width <= 0]
    text = f"{first.method} leads, with a normalized accuracy of {mean:.3f} ± {half:.3f}."
    if close:
        text += f" These repeats cannot tell it from {join(close)}."
    elif behind:
        text += " It is ahead of every other method by more than chance explains."
    return text


def join(names: Sequence[str]) -> str:
    """Names as in a sentence: a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
