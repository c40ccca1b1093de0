"""The open-set search."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import _safe_indexing, assert_all_finite, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, has_fit_parameter

from ..base import SearchSpec, check_labels, resolve_unknown_label
from ..utils import Progress, split_pipeline, unwrap
from ._delegate import BestEstimator
from ._evaluate import evaluate, evaluate_callable, weights
from ._grid import preset_grid, settings
from ._machine_measures import machine_measure
from ._results import best, cv_results
from ._scorers import get_scorer
from ._split import ClosedSetSplit, OpenSetSplit
from ._stages import MANY_CLASSES, coarse, fine
from ._task import Task


def _spec(final):
    return getattr(final, "search_spec", SearchSpec())


class OpenSetSearchCV(MetaEstimatorMixin, BestEstimator):
    """Choose parameters with classes withheld, by how well they are turned away.

    In each repeat some classes of the training set play the unknown. Every setting is fitted on
    half of the samples of the others and judged on the rest, withheld classes included; the best
    mean wins and is fitted on everything. The search object is itself an open-set classifier.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, or a Pipeline that ends in one. Its transformers are fitted on the
        fitting part of each simulation alone.
    param_grid : dict or list of dict, default=None
        Values to try; None takes the grid of the preset.
    preset : {"default", "paper"}, default="default"
        Fills what is None. "default": level "model", five repeats, and a grid whose widths are
        scaled to the data. "paper": level, absolute grid and single simulation of the paper.
    scenario : {"open", "closed"}, default="open"
        "closed" withholds samples but no classes, and judges by accuracy.
    level : {"model", "class"}, default=None
        "model" chooses one setting for all classes by the answers of the whole classifier; "class"
        one for each binary machine by its own (the paper's internal search; for one-vs-rest
        estimators).
    scoring : str or callable, default="normalized_accuracy"
        Name of a measure (:func:`get_scorer_names`) or a callable (estimator, X, y), which
        is slower: every setting is then fitted anew.
    n_repeats : int, default=None
        Number of simulations.
    refit : bool, default=True
        Whether to fit the best setting on the whole training set.
    n_jobs : int, default=None
        Threads; the result does not depend on it.
    device : {"cpu", "cuda", "auto"}, default=None
        The `device` of an estimator that has one, during the search and for the refit; None
        leaves it as it is.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same simulations in every call.
    verbose : int, default=0
        Show progress when positive.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the best setting, fitted on everything.
    best_params_ : dict
        The best setting; at level "class" the values are dicts {class: value}.
    best_score_ : float
        Its mean score; at level "class" the mean over the classes.
    cv_results_ : dict of arrays
        As in scikit-learn's ``GridSearchCV``. At level "class" there is a row for each class and
        setting, and the key "class".
    n_splits_ : int
        Number of repeats.
    scenario_, level_ : str
        What was done: with fewer than three classes the search is closed.
    classes_, unknown_label_, bounded_
        Those of the best estimator.

    Notes
    -----
    During the search ``ensure_bounded`` is off. If it is set in the estimator, a setting in which
    any machine of any repeat has a bias b >= 0 scores -inf; the refit honours it. If all do, the
    largest lambda is taken with the width of the smallest bias. A fit that fails scores -inf, too.
    Ties go to the first setting, the width varying slowest.

    With more than 50 classes the search over the default grid goes from coarse to fine: first about
    five values of each parameter, then all values around the best of those, with the same
    simulations. ``cv_results_`` has the settings that were tried. Pass `param_grid` to try all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset import OpenSetSVC
    >>> from openset.model_selection import OpenSetSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = OpenSetSearchCV(OpenSetSVC(), random_state=0).fit(X, y)
    >>> sorted(search.best_params_)
    ['C', 'gamma', 'lam']
    >>> search.predict([[5.0, 3.4, 1.5, 0.2], [50.0, 50.0, 50.0, 50.0]])
    array([ 0, -1])
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "param_grid": [dict, list, None],
        "preset": [StrOptions({"default", "paper"})],
        "scenario": [StrOptions({"open", "closed"})],
        "level": [StrOptions({"model", "class"}), None],
        "scoring": [str, callable],
        "n_repeats": [Interval(Integral, 1, None, closed="left"), None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "device": [StrOptions({"cpu", "cuda", "auto"}), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator,
        param_grid=None,
        *,
        preset="default",
        scenario="open",
        level=None,
        scoring="normalized_accuracy",
        n_repeats=None,
        refit=True,
        n_jobs=None,
        device=None,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.param_grid = param_grid
        self.preset = preset
        self.scenario = scenario
        self.level = level
        self.scoring = scoring
        self.n_repeats = n_repeats
        self.refit = refit
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Search, and fit the best setting on everything.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), default=None
            Passed on to every fit; rows of weight zero are left out.

        Returns
        -------
        self
        """
        final = unwrap(self.estimator)
        X, y, weight = self._check_data(X, y, sample_weight, final)
        classes, codes = np.unique(y, return_inverse=True)
        self._settle(final, classes)
        measure = self._measure()
        splits, positives = self._simulate(y, classes)
        grid = self.param_grid
        if grid is None:
            rows, _ = splits[0]
            first = (_safe_indexing(X, rows), y[rows], weight[rows])
            grid = preset_grid(self.estimator, self.preset, *first)
        candidates = settings(self.estimator, grid, self.level_)
        scores = np.full((len(candidates), len(splits)), np.nan)
        bias = np.full_like(scores, np.nan)
        task = Task(candidates, X, codes, weight, classes, splits, measure, self.n_jobs, positives)
        tried = np.empty(0, dtype=int)
        try:
            for stage in self._stages(grid, classes, candidates, scores, bias):
                tried = np.union1d(tried, stage)
                self._run(task, scores, bias, stage)
        finally:
            # Also after Ctrl-C: what was found so far is kept.
            candidates, scores, bias = [candidates[i] for i in tried], scores[tried], bias[tried]
            labels = classes if self.level_ == "class" else None
            self.cv_results_ = cv_results(candidates, scores, labels)
        self._choose(candidates, scores, bias, classes)
        if self.refit:
            model = clone(self._template()).set_params(**self.best_params_)
            self.best_estimator_ = model.fit(X, y, **weights(model, weight))
        return self

    def _check_data(self, X, y, sample_weight, final):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = indexable(X, y)
        if len(y) == 0:
            raise ValueError("Found 0 samples in X and y; there is nothing to search on.")
        check_labels(y)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if sample_weight is None:
            return X, y, np.ones(len(y))
        if not has_fit_parameter(final, "sample_weight"):
            raise ValueError(
                f"sample_weight was passed, but {type(final).__name__} takes no weights. Leave "
                "them out."
            )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weight)
        if kept.size == 0:
            raise ValueError("sample_weight is zero for every sample; give at least one a weight.")
        return _safe_indexing(X, kept), y[kept], weight[kept]

    def _settle(self, final, classes):
        """Fill what is None from the preset; fall back to the closed search."""
        paper = self.preset == "paper"
        self.level_ = self.level or (_spec(final).levels.get(self.preset, "model"))
        self.n_splits_ = self.n_repeats or (1 if paper else 5)
        self.scenario_ = self.scenario
        if self.scenario == "open" and len(classes) < 3:
            warnings.warn(
                f"y has {len(classes)} classes; withholding some takes at least 3. The search is "
                "closed-set: it cannot learn to reject.",
                UserWarning,
                stacklevel=4,
            )
            self.scenario_ = "closed"
        resolve_unknown_label(final.unknown_label, classes)  # a collision is an error right now
        if self.level_ == "class":
            self._check_level(final, classes)

    def _check_level(self, final, classes):
        if not _spec(final).engine:
            raise ValueError(
                f"level='class' chooses parameters for each binary machine, which "
                f"{type(final).__name__} does not have. Use level='model'."
            )
        if callable(self.scoring):
            raise ValueError(
                f"level='class' scores binary machines, not estimators: scoring={self.scoring!r} "
                "must be a name. Use level='model'."
            )
        if len(classes) < 2:
            raise ValueError("level='class' needs at least 2 classes. Use level='model'.")

    def _simulate(self, y, classes):
        splitter = OpenSetSplit if self.scenario_ == "open" else ClosedSetSplit
        splitter = splitter(self.n_splits_, random_state=self.random_state)
        if self.level_ == "model":
            return [(s.fit, s.validation) for s in splitter.simulate(y)], None
        splits, positives = [], []
        for c, label in enumerate(classes.tolist()):
            for s in splitter.simulate(y, positive=label):
                splits.append((s.fit, s.validation))
                positives.append(c)
        return splits, positives

    def _measure(self):
        if callable(self.scoring):
            return None
        if self.level_ == "class":
            return machine_measure(self.scoring)
        scorer = get_scorer(self.scoring)
        return lambda decision, true: scorer.of_scores(true, decision)

    def _stages(self, grid, classes, candidates, scores, bias):
        """Indices of candidates to try, stage by stage: the second looks at scores of the first."""
        default = self.param_grid is None and self.preset == "default" and self.level_ == "model"
        if not default or len(classes) <= MANY_CLASSES:
            yield np.arange(len(candidates))
            return
        _, final, prefix = split_pipeline(self.estimator)
        free = [prefix + name for name in _spec(final).after_fit]
        first = coarse(candidates, grid, free)
        yield first
        found = first[best(scores[first], bias[first], self._lam_of(candidates)[first])]
        yield np.setdiff1d(fine(candidates, grid, candidates[found], free), first)

    def _template(self):
        """The estimator, on the device that was asked for."""
        if self.device is None:
            return self.estimator
        _, final, prefix = split_pipeline(self.estimator)
        if "device" not in final.get_params():
            raise ValueError(
                f"device={self.device!r}, but {type(final).__name__} has no such parameter; "
                "leave it out."
            )
        return clone(self.estimator).set_params(**{f"{prefix}device": self.device})

    def _lam_of(self, candidates):
        _, _, prefix = split_pipeline(self.estimator)
        return np.array([c.get(f"{prefix}lam", 0.0) for c in candidates])

    def _run(self, task, scores, bias, stage):
        task = replace(task, candidates=[task.candidates[i] for i in stage], failures=[])
        if callable(self.scoring):
            events = evaluate_callable(self._template(), task, self.scoring)
        else:
            events = evaluate(self._template(), task)
        progress = Progress(scores[stage].size, type(self).__name__, bool(self.verbose))
        for i, s, score, largest in events:
            scores[stage[i], s], bias[stage[i], s] = score, largest
            progress.step()
        if not task.failures:
            return
        if not np.isfinite(scores[stage]).any():
            raise task.failures[0]
        warnings.warn(
            f"{len(task.failures)} fits failed; what they were for scores -inf. The first error: "
            f"{task.failures[0]!r}",
            FitFailedWarning,
            stacklevel=4,
        )

    def _choose(self, candidates, scores, bias, classes):
        lam = self._lam_of(candidates)
        if self.level_ == "model":
            self.best_index_ = best(scores, bias, lam)
            self.best_score_ = float(scores[self.best_index_].mean())
            self.best_params_ = candidates[self.best_index_]
            return
        n_classes = len(classes)
        by_class = [np.split(part, n_classes, axis=1) for part in (scores, bias)]
        self.best_index_ = np.array([best(*own, lam) for own in zip(*by_class, strict=True)])
        means = self.cv_results_["mean_test_score"].reshape(n_classes, -1)
        self.best_score_ = float(means[np.arange(n_classes), self.best_index_].mean())
        chosen = dict(zip(classes.tolist(), self.best_index_, strict=True))
        self.best_params_ = {
            name: {c: candidates[i][name] for c, i in chosen.items()} for name in candidates[0]
        }
