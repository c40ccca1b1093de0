"""PI-SVM and W-SVM: probabilities from Weibull models of the decision values of SVMs."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from ..base import KernelMachineClassifier, Traits, validate_samples
from ..base.machines import BinaryMachine, pack_machines, per_class, solve_classes
from ..base.parameters import (
    BOXES,
    FRACTIONS,
    POSITIVE,
    SHARE,
    kernel_search,
    machine_traits,
    param,
    with_parameters,
)
from ..kernels import Kernel, Linear
from ..solver import Settings, one_class_problem
from ._weibull import WeibullTail

# Fewest scores of a tail, where there are as many. The authors' code stops with an error below 3
# support vectors, which well separated classes may have.
_FEWEST = 3
# Share of tol to which the machines are solved. The order of the rows moves scores by as much, and
# where a tail is hardly wider than tol, a change by tol moves the probability by a third.
_SHARE = 0.01
_PRIOR = Interval(Real, 0.0, 1.0, closed="right")
# Powers of two, as the paper searches them; 1 rejects almost everything.
_THRESHOLDS = [2.0**k for k in range(-7, 1)]


class TailClassifier(KernelMachineClassifier):
    """Base class of methods that model the tails of decision values, without sample weights."""

    stored_types = (WeibullTail,)
    counts_samples = True

    @property
    def solver_settings(self):
        settings = super().solver_settings
        return settings | {"tol": max(_SHARE * self.tol, self._smallest_tol())}

    def fit(self, X: Any, y: ArrayLike) -> Self:  # type: ignore[override]
        """Train the machines of each class and model the tails of their scores.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
        y : array-like of shape (m,)
            Labels of at least two classes.

        Returns
        -------
        self
        """
        return super().fit(X, y)

    def size_of_tail(self, scores: np.ndarray, margin: float, **options: int) -> int:
        """Size of the tail of scores (1, m) whose support vectors score at most `margin`."""
        # They are counted by value: which of equal samples have a multiplier depends on their
        # order, and so it does for a sample on the margin.
        n_support = int(np.count_nonzero(scores <= margin + self.resolution))
        return tail_size(n_support, scores.size, self.tail_factor, **options)


@with_parameters
class PISVM(TailClassifier):
    """Support vector classifier that accepts by a probability of inclusion (PI-SVM).

    One SVM per class against the rest. A Weibull model of the lowest decision values of the class's
    own samples turns a decision value into the probability that a sample belongs to the class; the
    most probable class answers, if its probability reaches `threshold`.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    gamma, kernel
        As for :class:`openset.OpenSetSVC`; kernel may also be "linear", which is never bounded.
    threshold : float in [0, 1], default=0.1
        Smallest probability that accepts; 0 accepts everything. Changing it needs no new fit.
    tail_size : int, default=None
        Number of lowest decision values in the fit; None is `tail_factor` times the number of
        support vectors of the class.
    tail_factor : float, default=1.5
        See `tail_size`. The factor of the authors' code.
    class_prior : float or dict {class: float}, default=None
        Factors of the probabilities, in (0, 1]; None is 1 for all.
    class_weight, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`openset.OpenSetSVC`.

    Attributes
    ----------
    weibull_ : WeibullTail
        The models, of shape (K,).
    prior_ : ndarray of shape (K,)
    bounded_ : ndarray of shape (K,), bool
        Whether the probability at b_c, the decision value far away from all samples, is below the
        threshold.
    classes_, unknown_label_, support_, support_vectors_, dual_coef_, intercept_, gamma_, \
dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`openset.OpenSetSVC`.

    Notes
    -----
    The probability is exactly 1 from a decision value on: several classes may reach it, and the
    first of them answers.

    The machines are solved to a hundredth of `tol`: narrow tails magnify what the order of the rows
    changes.

    References
    ----------
    L. P. Jain, W. J. Scheirer, T. E. Boult, "Multi-class open set recognition using probability of
    inclusion", European Conference on Computer Vision, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.evt import PISVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PISVM(gamma=1.0).fit(X[y < 2], y[y < 2])
    >>> model.predict(X[[0, 50, 149]])
    array([ 0,  1, -1])
    >>> model.bounded_
    array([ True,  True])
    """

    C: float | dict = 1.0
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    threshold: float = param(0.1, SHARE)
    tail_size: int | None = param(None, Interval(Integral, 2, None, closed="left"), None)
    tail_factor: float = param(1.5, POSITIVE)
    class_prior: float | dict | None = param(None, _PRIOR, dict, None)
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    fitted_attributes = {**TailClassifier.machine_attributes, "weibull_": "K models", "prior_": "K"}
    traits = machine_traits(
        "PI-SVM",
        extreme_value=True,
        condition="the probability at b_c is below the threshold for every class",
    )
    search_spec = kernel_search({"C": BOXES, "threshold": FRACTIONS}, after_fit=("threshold",))

    def finish_machine(self, machine, solved, **params):
        scores = solved.scores[:1, solved.problem.upper > 0]
        size = self.tail_size and max(self.tail_size, _FEWEST)
        size = size or self.size_of_tail(scores, 1.0)
        return replace(machine, extra=WeibullTail.low_positives(scores, size, self.resolution))

    def finish_model(self, training, extras):
        self.weibull_ = WeibullTail.concatenate(extras)
        prior = 1.0 if self.class_prior is None else self.class_prior
        self.prior_ = per_class(self, "class_prior", prior)

    def _include(self, f):
        return self.weibull_.probability(f) * self.prior_

    def far_scores(self):
        # Far away the decision values tend to the bias.
        return self.far_values(self.decide(self._include(self.intercept_)))

    def inclusion_proba(self, X: Any) -> np.ndarray:
        """Probability that each sample belongs to each class; rows need not sum to 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._include(super().raw_scores(X))

    raw_scores = inclusion_proba

    def decide(self, raw):
        return raw - self.threshold


@with_parameters
class WSVM(TailClassifier):
    """Weibull-calibrated SVM (W-SVM): two stages, both by Weibull models of decision values.

    First a one-class SVM of each class, whose compact abating probability (CAP) falls with the
    distance from the class: at `delta_tau` or below the class rejects. Then an SVM of the class
    against the rest, whose decision value gives the probability of inclusion in the class times
    the probability of exclusion from the rest. The class with the largest product answers, if that
    reaches `delta_R`.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers of the machines against the rest.
    nu : float in (0, 1) or dict {class: float}, default=0.5
        As for :class:`openset.MulticlassOneClassSVM`, of the one-class machines.
    gamma, kernel
        As for :class:`openset.OpenSetSVC`, of both machines; kernel may also be "linear", which is
        never bounded.
    delta_tau : float in [0, 1], default=0.001
        A class accepts only where its CAP exceeds this. Changing it needs no new fit.
    delta_R : float in [0, 1], default=0.1
        Smallest product of probabilities that accepts. Changing it needs no new fit.
    tail_factor : float, default=1.5
        Number of decision values in a Weibull fit, in support vectors. The factor of the authors'
        code.
    class_weight, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`openset.OpenSetSVC`.

    Attributes
    ----------
    inclusion_weibull_, exclusion_weibull_, cap_weibull_ : WeibullTail
        Models of shape (K,): of the lowest decision values of the class, of the highest of the
        rest, and of the lowest of the class under its one-class machine.
    bounded_ : ndarray of shape (K,), bool
        Whether the class rejects far away from all samples, by its CAP at -rho_c or by its product
        at b_c. Neither is certain: the CAP falls to a small number, but not to zero.
    cap_support_vectors_ : ndarray or CSR matrix of shape (n_cap, d)
    cap_dual_coef_ : ndarray of shape (K, n_cap)
    cap_intercept_ : ndarray of shape (K,)
        The one-class machines; the intercept is -rho_c.
    classes_, unknown_label_, support_, support_vectors_, dual_coef_, intercept_, gamma_, \
dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`openset.OpenSetSVC`, of the machines against the rest.

    Notes
    -----
    A class that its CAP rejects scores -1, the lowest score there is.

    The machines are solved to a hundredth of `tol`: narrow tails magnify what the order of the rows
    changes.

    References
    ----------
    W. J. Scheirer, L. P. Jain, T. E. Boult, "Probability models for open set recognition", IEEE
    TPAMI 36(11), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.evt import WSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = WSVM(gamma=1.0).fit(X[y < 2], y[y < 2])
    >>> model.predict(X[[0, 50, 149]])
    array([ 0,  1, -1])
    >>> model.bounded_
    array([ True,  True])
    """

    C: float | dict = 1.0
    nu: float | dict = param(0.5, Interval(Real, 0.0, 1.0, closed="neither"), dict)
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    delta_tau: float = param(0.001, SHARE)
    delta_R: float = param(0.1, SHARE)
    tail_factor: float = param(1.5, POSITIVE)
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    fitted_attributes = {
        **TailClassifier.machine_attributes,
        **{"cap_support_vectors_": "m d", "cap_dual_coef_": "K m", "cap_intercept_": "K"},
        **{f"{name}_weibull_": "K models" for name in ("inclusion", "exclusion", "cap")},
    }
    traits = Traits(
        "W-SVM",
        extreme_value=True,
        one_class=True,
        bounded=True,
        condition="for every class the CAP at -rho_c is at most delta_tau, or the product of "
        "probabilities at b_c is below delta_R",
        known_unknowns="negatives of every SVM, not of the one-class machines",
    )
    search_spec = kernel_search(
        {"C": BOXES, "delta_R": _THRESHOLDS}, after_fit=("delta_tau", "delta_R")
    )

    def finish_machine(self, machine, solved, **params):
        positive = solved.problem.upper > 0
        low, high = solved.scores[:1, positive], solved.scores[:1, ~positive]
        included = WeibullTail.low_positives(low, self.size_of_tail(low, 1.0), self.resolution)
        n_others = len(self.classes_) - 1 + (self.n_known_unknowns_ > 0)
        size = self.size_of_tail(-high, 1.0, n_others=n_others)
        excluded = WeibullTail.high_negatives(high, size, self.resolution)
        return replace(machine, extra=(included, excluded))

    def finish_model(self, training, extras):
        included, excluded = zip(*extras, strict=True)
        self.inclusion_weibull_ = WeibullTail.concatenate(included)
        self.exclusion_weibull_ = WeibullTail.concatenate(excluded)
        training = replace(training, params=[{"nu": nu} for nu in per_class(self, "nu", self.nu)])
        settings = Settings(**self.solver_settings, n_jobs=self.n_jobs)
        caps: list = [None] * len(self.classes_)
        for together in solve_classes(training, _cap_problem, settings, own_samples=True):
            for c, solved, samples in together:
                scores = solved.scores[:1]
                size = self.size_of_tail(scores, 0.0, fewest=0)
                tail = WeibullTail.low_positives(scores, size, self.resolution)
                caps[c] = replace(BinaryMachine.of(solved[0], samples=samples), extra=tail)
        used, self.cap_dual_coef_, self.cap_intercept_ = pack_machines(caps)
        self.cap_support_vectors_ = training.X[used]
        self.cap_weibull_ = WeibullTail.concatenate([machine.extra for machine in caps])

    def check_fitted(self):
        sizes = super().check_fitted()
        self.check_reach(self.cap_support_vectors_, self.cap_dual_coef_, self.cap_intercept_)
        return sizes

    def _product(self, f):
        return self.inclusion_weibull_.probability(f) * self.exclusion_weibull_.probability(f)

    def far_scores(self):
        # Far away all decision values tend to their biases.
        cap = self.cap_weibull_.probability(self.cap_intercept_)
        raw = np.stack([cap, self._product(self.intercept_)], axis=-1)
        return self.far_values(self.decide(raw))

    def inclusion_proba(self, X: Any) -> np.ndarray:
        """Product of the two probabilities, 0 where the CAP rejects; rows need not sum to 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        cap, product = np.moveaxis(self.raw_scores(X), -1, 0)
        return np.where(cap > self.delta_tau, product, 0.0)

    def raw_scores(self, X):
        # CAP and product, shape (n, K, 2).
        X = validate_samples(self, X, accept_sparse="csr")
        f = self.expand(X, self.support_vectors_, self.dual_coef_, self.intercept_)
        o = self.expand(X, self.cap_support_vectors_, self.cap_dual_coef_, self.cap_intercept_)
        return np.stack([self.cap_weibull_.probability(o), self._product(f)], axis=-1)

    def decide(self, raw):
        cap, product = raw[..., 0], raw[..., 1]
        return np.where(cap > self.delta_tau, product - self.delta_R, -1.0)


def tail_size(
    n_support: int, n_scores: int, factor: float, n_others: int = 1, fewest: int = _FEWEST
) -> int:
    """Number of scores in a tail: `factor` times the support vectors, per other class."""
    # All support vectors if that is no more than `fewest`; at least 3.
    size = int(factor * n_support / n_others)
    if size >= n_scores:
        size = n_support // n_others
    return max(n_support if size <= fewest else size, _FEWEST)


def _cap_problem(signs, weight, nu):
    # Boxes of 1: the models depend on the scale of the scores, weights must not enter it.
    problem = one_class_problem(signs > 0, nu)
    return problem, problem.total
