"""PI-SVM: the probability of inclusion from the tail of an SVM's positive scores."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..base import Traits
from ..base.parameters import BOXES, FRACTIONS, kernel_search, per_class
from ..kernels import Kernel, Linear
from ._svm_tails import TailClassifier, check_tails, count_support, inclusion_tail, low_tail
from ._weibull_tail import WeibullTail


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

    _parameter_constraints: dict = {
        **TailClassifier._parameter_constraints,
        "threshold": [Interval(Real, 0.0, 1.0, closed="both")],
        "tail_size": [Interval(Integral, 2, None, closed="left"), None],
        "class_prior": [Interval(Real, 0.0, 1.0, closed="right"), dict, None],
    }

    fitted_attributes = {**TailClassifier.machine_attributes, "weibull_": "", "prior_": "K"}
    traits = Traits(
        "PI-SVM",
        extreme_value=True,
        condition="the probability at b_c is below the threshold for every class",
        known_unknowns="negatives of every machine",
    )
    search_spec = kernel_search(
        {"C": BOXES, "threshold": FRACTIONS}, {"threshold": FRACTIONS}, after_fit=("threshold",)
    )

    class_attributes = (*TailClassifier.class_attributes, "weibull_", "prior_")

    def __init__(
        self,
        C: float | dict = 1.0,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel | Linear = "rbf",
        threshold: float = 0.1,
        tail_size: int | None = None,
        tail_factor: float = 1.5,
        class_prior: float | dict | None = None,
        class_weight: str | dict | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
        unknown_label: Any = "auto",
    ):
        super().__init__(
            gamma, kernel, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        )
        self.C = C
        self.threshold = threshold
        self.tail_size = tail_size
        self.tail_factor = tail_factor
        self.class_prior = class_prior
        self.class_weight = class_weight

    def finish_machine(self, machine, path, rows, stop, **params):
        positive = path.problem.upper > 0
        scores = path.scores[0, positive]
        if self.tail_size is not None:
            tail = low_tail(scores, self.tail_size, self.resolution)
        else:
            n_support = count_support(scores, 1.0, self.resolution)
            tail = inclusion_tail(scores, n_support, self.tail_factor, self.resolution)
        return replace(machine, extra=tail)

    def finish_model(self, training, extras):
        self.weibull_ = WeibullTail.concatenate(extras)
        prior = 1.0 if self.class_prior is None else self.class_prior
        self.prior_ = per_class(self, "class_prior", prior)

    def check_fitted(self):
        sizes = super().check_fitted()
        check_tails(self, sizes["K"], "weibull_")
        return sizes

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

    def raw_scores(self, X):
        return self.inclusion_proba(X)

    def decide(self, raw):
        return raw - self.threshold
