"""The open-set search."""

from __future__ import annotations

import warnings
from numbers import Integral

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from ..base import OpenSetClassifier, _check_labels
from ..utils import unwrap
from ..utils._progress import Progress
from ._evaluate import evaluate, evaluate_callable, split_pipeline
from ._machine_measures import machine_measure
from ._results import cv_results, expand
from ._scorers import get_scorer
from ._split import ClosedSetSplit, OpenSetSplit
from ._task import Task


class OpenSetSearchCV(MetaEstimatorMixin, OpenSetClassifier):
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
    largest lambda is taken with the width of the smallest bias. Ties go to the first setting, the
    width varying slowest.

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
        "n_repeats": [Integral, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
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
        X, y, weight = self._check_data(X, y, sample_weight)
        classes, codes = np.unique(y, return_inverse=True)
        self._settle(final, classes)
        splits, positives = self._simulate(codes, len(classes))
        self._candidates = self._expand_grid(final, X, weight, codes, splits[0][0])
        task = Task(
            self._candidates,
            X,
            codes,
            weight,
            classes,
            splits,
            self._measure(),
            self.n_jobs,
            positives,
        )
        scores = np.full((len(self._candidates), len(splits)), np.nan)
        worst = np.full_like(scores, np.nan)
        try:
            self._run(task, y, scores, worst)
        finally:
            # Also after Ctrl-C: what was found so far is kept.
            self.cv_results_ = cv_results(
                self._candidates, scores, classes if self.level_ == "class" else None
            )
        self._choose(scores, worst, classes)
        if self.refit:
            self._refit(X, y, weight)
        return self

    def _check_data(self, X, y, sample_weight):
        _, final, _ = split_pipeline(self.estimator)
        if final is self.estimator:
            # No transformer stands before the estimator: let the contract's own rules speak.
            probe = clone(self.estimator)
            X, codes, weight, kept = probe._begin_fit(X, y, sample_weight, accept_sparse="csr")
            return X, probe.classes_[codes], weight
        X, y = indexable(X, y)
        _check_labels(y)
        y = column_or_1d(y)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weight)
        return _safe_indexing(X, kept), _safe_indexing(y, kept), weight[kept]

    def _settle(self, final, classes):
        """Fill what is None from the preset; fall back to the closed search."""
        paper = self.preset == "paper"
        self.level_ = self.level or (final._paper_level if paper else "model")
        self.n_splits_ = self.n_repeats or (1 if paper else 5)
        self.scenario_ = self.scenario
        if self.scenario == "open" and len(classes) < 3:
            warnings.warn(
                f"y has {len(classes)} classes; withholding some takes at least 3. The search is "
                "closed-set: it cannot learn to reject.",
                UserWarning,
                stacklevel=3,
            )
            self.scenario_ = "closed"
        if self.level_ == "class" and not getattr(final, "_engine_params", ()):
            raise ValueError(
                f"level='class' chooses parameters for each binary machine, which "
                f"{type(final).__name__} does not have. Use level='model'."
            )
        if self.level_ == "class" and len(classes) < 2:
            raise ValueError("level='class' needs at least 2 classes. Use level='model'.")

    def _simulate(self, codes, n_classes):
        splitter = OpenSetSplit if self.scenario_ == "open" else ClosedSetSplit
        splitter = splitter(self.n_splits_, random_state=self.random_state)
        if self.level_ == "model":
            return [(s.fit, s.validation) for s in splitter.simulate(codes)], None
        splits, positives = [], []
        for c in range(n_classes):
            for s in splitter.simulate(codes, positive=c):
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

    def _expand_grid(self, final, X, weight, codes, fit):
        transformer, _, prefix = split_pipeline(self.estimator)
        grid = self.param_grid
        if grid is None:
            grid = dict(final._paper_grid if self.preset == "paper" else final._default_grid)
            if self.preset == "default" and final._scaled_params:
                rows = _safe_indexing(X, fit)
                if transformer is not None:
                    rows = clone(transformer).fit_transform(rows, codes[fit])
                unit = final._unit_gamma(rows, weight[fit])
                for name in final._scaled_params:
                    grid[name] = [float(value * unit) for value in grid[name]]
            grid = {prefix + name: list(values) for name, values in grid.items()}
        return expand(grid)

    def _run(self, task, y, scores, worst):
        events = (
            evaluate(self.estimator, task)
            if task.measure is not None
            else evaluate_callable(self.estimator, task, y, self.scoring)
        )
        progress = Progress(scores.size, type(self).__name__, bool(self.verbose))
        for i, s, score, bias in events:
            scores[i, s], worst[i, s] = score, bias
            progress.step()

    def _choose(self, scores, worst, classes):
        if self.level_ == "model":
            best = self._best(scores, worst)
            self.best_index_ = best
            self.best_score_ = float(scores[best].mean())
            self.best_params_ = self._candidates[best]
            return
        n_classes = len(classes)
        blocks = zip(
            np.split(scores, n_classes, axis=1), np.split(worst, n_classes, axis=1), strict=True
        )
        best = [self._best(*block) for block in blocks]
        self.best_index_ = np.array(best)
        means = self.cv_results_["mean_test_score"].reshape(n_classes, -1)
        self.best_score_ = float(means[np.arange(n_classes), best].mean())
        labels = classes.tolist()
        self.best_params_ = {
            name: {c: self._candidates[i][name] for c, i in zip(labels, best, strict=True)}
            for name in self._candidates[0]
        }

    def _best(self, scores, worst):
        mean = np.nan_to_num(scores.mean(axis=1), nan=-np.inf)
        if np.isfinite(mean).any():
            return int(np.argmax(mean))
        # No setting is bounded: the largest lambda with the smallest bias, which the refit mends.
        bias = np.nan_to_num(worst.max(axis=1), nan=np.inf)
        _, _, prefix = split_pipeline(self.estimator)
        lam = np.array([c.get(f"{prefix}lam", 0.0) for c in self._candidates])
        return int(np.argmin(np.where(lam == lam.max(), bias, np.inf)))

    def _refit(self, X, y, weight):
        _, _, prefix = split_pipeline(self.estimator)
        weights = {} if np.all(weight == 1) else {f"{prefix}sample_weight": weight}
        model = clone(self.estimator).set_params(**self.best_params_)
        self.best_estimator_ = model.fit(X, y, **weights)

    def decision_function(self, X) -> np.ndarray:
        """Acceptance scores of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    @available_if(lambda self: hasattr(unwrap(self), "inclusion_proba"))
    def inclusion_proba(self, X) -> np.ndarray:
        """Probabilities of inclusion of the best estimator, where its method defines them.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self, "best_estimator_")
        transformer, final, _ = split_pipeline(self.best_estimator_)
        return final.inclusion_proba(X if transformer is None else transformer.transform(X))

    @property
    def classes_(self):
        return unwrap(self.best_estimator_).classes_

    @property
    def unknown_label_(self):
        return unwrap(self.best_estimator_).unknown_label_

    @property
    def bounded_(self):
        return unwrap(self.best_estimator_).bounded_

    @property
    def _answers(self):
        return unwrap(self.best_estimator_)._answers

    @property
    def n_features_in_(self):
        return self.best_estimator_.n_features_in_

    @property
    def feature_names_in_(self):
        return self.best_estimator_.feature_names_in_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.estimator.__sklearn_tags__().input_tags.sparse
        return tags
