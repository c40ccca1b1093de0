"""The open-set search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from ..base import (
    DelegatingClassifier,
    group_codes,
    known_classes,
    usable_rows,
    validate_targets,
)
from ..base.parameters import COUNT, RULES, param, with_parameters
from ..utils import Progress, split_pipeline, steps_of_fit, unwrap
from ._evaluate import SearchData, fit_weights, lend_threads, spec_of
from ._plan import (
    PAPER_TEST_SIZE,
    Grid,
    finer_settings,
    grid_of,
    make_plan,
    make_settings,
    path_values,
    preset_grid,
)
from ._race import Race, ScoreTable, best_of, cv_results
from ._scorers import highest_score


@with_parameters
class OpenSetSearchCV(MetaEstimatorMixin, DelegatingClassifier):
    """Choose parameters with classes withheld, by how well these are rejected.

    In each repeat some classes of the training set act as unknown. Every setting is fitted on half
    of the samples of the other classes and judged on the rest, withheld classes included. The
    setting with the best mean score is fitted on everything. The search object is itself an
    open-set classifier. Known unknowns, rows of y that carry the explicit `unknown_label` of the
    estimator, are split in the same way: half of them for fitting, the others judged as unknown.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, or a Pipeline that ends in one. Its transformers are fitted on the
        fitting part of each simulation alone.
    param_grid : dict or list of dict, default=None
        Values to try; None takes the grid of the preset.
    preset : {"default", "paper"}, default="default"
        Fills what is None. "default": level "model", six repeats, and a grid whose widths are
        scaled to the data. "paper": level, measure, absolute grid and single simulation of the
        paper.
    scenario : {"open", "closed"}, default="open"
        "closed" withholds samples but no classes, and judges by accuracy.
    level : {"model", "class"}, default=None
        "model" chooses one setting for all classes by the answers of the whole classifier; "class"
        chooses one setting per binary machine by its own answers (the paper's internal search; for
        one-vs-rest estimators).
    scoring : str or callable, default=None
        Name of a measure (:func:`get_scorer_names`) or a callable (estimator, X, y). A callable is
        slower: every setting is then fitted separately. None is "normalized_accuracy", and
        "accuracy" where the paper's preset chooses for each binary machine.
    n_repeats : int, default=None
        Number of simulations.
    all_scores : bool, default=False
        Whether every setting is scored on every simulation, for a full table ``cv_results_``; else
        settings drop out as the notes say.
    refit : bool, default=True
        Whether to fit the best setting on the whole training set.
    n_jobs : int, default=None
        Threads, for the refit as well if the estimator has no `n_jobs` of its own; the result does
        not depend on it.
    device : {"cpu", "cuda", "auto"}, default=None
        The `device` of an estimator that has one, during the search and for the refit; None
        leaves it as it is.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same simulations in every call.
    verbose : int or Progress, default=0
        If positive, show one progress bar for the search and the refit. A
        ``openset.utils.Progress`` counts the steps in a bar of something larger.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator with the best setting, fitted on everything.
    best_params_ : dict
        The best setting; at level "class" the values are dicts {class: value}.
    best_score_ : float
        Its mean score; at level "class" the mean over the classes.
    cv_results_ : dict of arrays
        As in scikit-learn's ``GridSearchCV``. At level "class" there is one row per class and
        setting, and the key "class".
    n_splits_ : int
        Number of repeats.
    withheld_scores_ : ndarray or None
        Sorted highest scores of withheld classes with the best setting, at most 101 quantiles of
        each simulation; None at level "class" and without such classes. The best estimator has
        them, too: :class:`openset.CalibratedRejector` tells from them what a threshold does.
    scenario_, level_, scoring_ : str
        What was used: with fewer than three classes the search is closed.
    classes_, unknown_label_, bounded_
        Those of the best estimator.

    Notes
    -----
    With the default preset, the estimator's own setting is the last row of ``cv_results_``, scored
    as it would be fitted, with ``ensure_bounded``: the search does not choose what scores worse
    than plain defaults by more than chance explains.

    For the other settings ``ensure_bounded`` is off during the search. If it is set, a setting in
    which any machine of any repeat has a bias b >= 0 scores -inf, as does a fit that fails; if all
    do, there is a warning, and the largest lambda is taken, with the width of the smallest bias.
    Ties go to the first setting, the width varying slowest.

    In the paper's preset four fifths of the samples of a known class are for fitting, and the
    positive class and half of the others, rounded up, are known; grids begin with the narrowest
    kernel, the largest lambda and the lowest threshold. This and the measure of a machine are not
    in its text; they are what agrees with its published results.

    The search over the default grid is a race: after one, two and four simulations, settings that
    are behind the best by more than chance explains drop out. With 60 classes or more, settings
    that are far behind (by 0.1) on 20 of the classes do not take part. Widths of the grid are a
    factor of four apart; those a factor of sqrt(2) away from the best one are tried next. Pass
    `param_grid` to try none between your own.

    With a `param_grid`, and with the grid of the paper's preset, a setting drops out only if it
    cannot become the best: if its mean would not reach that of another setting even with the
    highest score on all simulations that are left. The choice and its score are the same as with
    ``all_scores=True``. It takes several simulations, a measure by name (a callable may have no
    bound), and a kernel machine without a transformer whose grid names no other parameters than
    gamma, C, lam, nu, threshold, bias.

    In both cases later scores and the mean of settings that dropped out are NaN in
    ``cv_results_``, and they rank last. Pass ``all_scores=True`` to score all settings on all
    simulations.

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

    estimator: BaseEstimator
    param_grid: Grid | Sequence[Grid] | None = param(None, dict, list, None)
    _: KW_ONLY
    preset: Literal["default", "paper"] = param("default", StrOptions({"default", "paper"}))
    scenario: Literal["open", "closed"] = param("open", StrOptions({"open", "closed"}))
    level: Literal["model", "class"] | None = param(None, StrOptions({"model", "class"}), None)
    scoring: str | Callable | None = param(None, str, callable, None)
    n_repeats: int | None = param(None, COUNT, None)
    all_scores: bool = False
    refit: bool = True
    n_jobs: int | None = None
    device: Literal["cpu", "cuda", "auto"] | None = param(None, *RULES["device"], None)
    random_state: int | RandomState | None = None
    verbose: int | Progress = param(0, "verbose", Progress)

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> OpenSetSearchCV:
        """Search, and fit the best setting on everything.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), default=None
            Passed on to every fit; rows of weight zero are left out.
        groups : array-like of shape (m,), default=None
            The object of each row (a track, a speaker, a session), if rows of one object are alike.
            In the simulations an object is never both fitted and judged, as the objects to come
            are new; without, the scores are too good, and may favour kernels that are too narrow.

        Returns
        -------
        self
        """
        final = unwrap(self.estimator)
        if sample_weight is not None and not has_fit_parameter(final, "sample_weight"):
            raise ValueError(
                f"sample_weight was passed, but {type(final).__name__} takes no weights. Leave "
                "them out."
            )
        members = None if groups is None else group_codes(groups, _num_samples(X))[1]
        X, y, weight = validate_targets(self, X, y, sample_weight)
        if members is not None and len(members) > len(y):
            members = members[np.asarray(sample_weight) != 0]
        weight = np.ones(len(y)) if weight is None else weight
        classes, codes = known_classes(final.unknown_label, y)
        plan = make_plan(self, final).checked(final, classes, codes.max() == len(classes))
        self.level_, self.scoring_ = plan.level, plan.scoring
        self.n_splits_, self.scenario_ = plan.n_repeats, plan.scenario
        splits = plan.simulate(classes, codes, final, self.random_state, members)
        data = SearchData(X, y, codes, weight, classes, splits, plan.measure(), self.n_jobs)
        grid = self.param_grid
        if grid is None:
            rows = splits[0].fit
            first = (_safe_indexing(X, rows), y[rows], weight[rows])
            grid = preset_grid(self.estimator, self.preset, *first)
        progress = self._progress(len(y) / len(splits[0].fit))
        try:
            settings = make_settings(self.estimator, grid, self.level_)
            table = self._run(plan, data, settings, progress)
            self._choose(table, classes, len(splits))
            if self.refit:
                self.best_estimator_ = self._refit(data)
                unwrap(self.best_estimator_).withheld_scores_ = self.withheld_scores_
        finally:
            progress.finish()
        return self

    def _choose(self, table, classes, n_splits) -> None:
        """Set the attributes of the best setting."""
        strength = path_values(self.estimator, table.settings)
        by_class = classes if self.level_ == "class" else None
        self.best_index_, self.best_score_, self.best_params_ = best_of(table, strength, by_class)
        self.withheld_scores_ = None
        if self.level_ == "model":
            withheld = [table.withheld.get((self.best_index_, s), []) for s in range(n_splits)]
            if any(map(len, withheld)):
                self.withheld_scores_ = np.sort(np.concatenate(withheld))

    def _progress(self, n_times_rows: float) -> Progress:
        """The bar of the search and the refit, on so many times the rows of a simulation."""
        n_steps, title = steps_of_fit(n_times_rows) if self.refit else 1, type(self).__name__
        if isinstance(self.verbose, Progress):
            return Progress(n_steps, title, False, self.verbose)
        return Progress(n_steps, title, self.verbose > 0)

    def _run(self, plan, data, settings, progress) -> ScoreTable:
        """Score the settings, those next to the best and the estimator's own; set cv_results_."""
        table = ScoreTable(len(data.splits))
        candidates = table.add(settings)
        drops_out = plan.is_race() and not self.all_scores
        race = Race(self._template(), data, table, self.scoring_, drops_out, progress)
        try:
            left = race.first_look(candidates)
            if plan.is_bounded_race(self.estimator, settings) and not self.all_scores:
                highest = highest_score(self.scoring_)
                race.run_within_bounds(candidates, plan.n_repeats, highest)
                left = []
            while left:
                race.run(left)
                # If all that stayed in the race failed in the end, those that dropped out continue.
                others = [] if table.best() else table.dropped(left)
                left = others if len(others) < len(left) else []
            if plan.is_race() and (best := table.best()) is not None:
                finer = finer_settings(self.estimator, table.settings, best.params)
                race.run(table.add(finer), leader=best)
            if plan.is_default():
                params = self.estimator.get_params()
                own = {name: params[name] for name in candidates[0].params}
                race.run(table.add([own]), as_fitted=True)
        finally:
            # Also after Ctrl-C: what was found so far is kept.
            by_class = data.classes if self.level_ == "class" else None
            self.cv_results_ = cv_results(table.settings, table.scores, by_class)
        return table

    def describe(self) -> dict[str, Any]:
        """Return what the choice depends on besides data and seed, presets resolved.

        Returns
        -------
        dict
            Scenario, level, scoring and number of repeats, the estimator's own parameters and the
            grid, in which scaled values of the default preset are in units of the data, and how
            many steps are taken between them.

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> from openset.model_selection import OpenSetSearchCV
        >>> plan = OpenSetSearchCV(OpenSetSVC(), preset="paper").describe()
        >>> plan["level"], plan["n_repeats"], plan["grid"]["gamma"][:2]
        ('class', 1, [32768.0, 8192.0])
        """
        final = unwrap(self.estimator)
        spec, plan = spec_of(final), make_plan(self, final)
        grid = self.param_grid
        paper = self.preset == "paper"
        scaled = [] if paper or grid is not None else sorted({*spec.scaled} & {*final.get_params()})
        return {
            "scenario": plan.scenario,
            "level": plan.level,
            "scoring": plan.scoring,
            "n_repeats": plan.n_repeats,
            "estimator": self.estimator.get_params(),
            "grid": dict(grid_of(final, self.preset)) if grid is None else grid,
            "scaled": scaled,
            **({"finer_steps": 1} if scaled else {}),
            **({"test_size": PAPER_TEST_SIZE, "n_known": "K // 2 + 1"} if paper else {}),
        }

    def _refit(self, data):
        """Fit the best setting, on the threads of the search unless the estimator has its own."""
        model = clone(self._template()).set_params(**self.best_params_)
        X, y, weight, rows = data.X, data.y, data.weight, usable_rows(unwrap(model), data.y)
        if len(rows) < len(y):
            X, y, weight = _safe_indexing(X, rows), y[rows], weight[rows]
        lent = lend_threads(model, self.n_jobs)
        model.fit(X, y, **fit_weights(model, weight))
        if lent:
            split_pipeline(model)[1].set_params(n_jobs=None)
        return model

    def delegate(self) -> BaseEstimator:
        if hasattr(self, "best_params_") and not self.refit:
            raise NotFittedError(
                "refit=False: the search has best_params_, but no estimator to answer with. Set "
                "refit=True."
            )
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags = get_tags(self.estimator).classifier_tags
        return tags

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
