"""Fitted models whose scores are kernel expansions: scores, certificate, checks."""

from __future__ import annotations

from copy import copy
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear, get_kernel
from ..solver import EXACT_BAND, DecisionValues
from ._certificate import known_radius
from ._classifier import OpenSetClassifier
from ._validation import validate_samples
from .fitted import require

# Sum of the coefficients of a machine in a model file, above which the file is damaged.
_LARGEST = 1e150


class KernelExpansionClassifier(OpenSetClassifier):
    """The part of a kernel machine classifier that a fitted model uses.

    The expansion is prepared at the first prediction and kept until an array or the kernel is
    replaced. Assign new arrays: a change of a few values in place may go unnoticed.
    """

    kernel: str | Kernel | Linear
    n_jobs: int | None
    device: str
    support_: np.ndarray
    support_vectors_: Any
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    gamma_: np.ndarray

    class_attributes: tuple[str, ...] = (
        *("dual_coef_", "intercept_", "gamma_", "known_radius_"),
        *("dual_objective_", "kkt_gap_", "n_iter_"),
    )

    machine_attributes = {
        **{"support_": "n row", "support_vectors_": "n d", "dual_coef_": "K n", "gamma_": "K"},
        **{"intercept_": "K", "dual_objective_": "K", "kkt_gap_": "K", "n_iter_": "K int"},
    }
    fitted_attributes = {**machine_attributes, "known_radius_": "K inf"}

    def raw_scores(self, X) -> np.ndarray:
        # f_c(x) = sum_i coef_ci k(x_i, x) + b_c
        X = validate_samples(self, X, accept_sparse="csr")
        return self.expand(X, self.support_vectors_, self.dual_coef_, self.intercept_)

    def expand(self, X, support_vectors, coef: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Evaluate kernel expansions with the kernel and widths of the model.

        Parameters
        ----------
        X, support_vectors : ndarray or CSR matrix of shapes (n, d) and (n_sv, d)
        coef, bias : ndarray of shapes (K, n_sv) and (K,)

        Returns
        -------
        ndarray of shape (n, K)
        """
        if sparse.issparse(X) != sparse.issparse(support_vectors):
            # Follow the layout of the model, which is usually larger than X.
            X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        arrays, kernel = (support_vectors, coef, self.gamma_), self.kernel
        settings = kernel if isinstance(kernel, str) else (type(kernel), dict(vars(kernel)))
        values = self.prepared(
            lambda: DecisionValues(support_vectors, coef, get_kernel(kernel), self.gamma_),
            arrays,
            settings,
        )
        return values(X, bias, self.n_jobs, self.device)

    @property
    def exact_band(self) -> float:
        """Scores up to this absolute value are computed in double precision."""
        return EXACT_BAND if hasattr(self, "known_radius_") else np.inf

    def far_scores(self) -> np.ndarray:
        return self.far_values(self.intercept_)

    def far_values(self, at_bias: np.ndarray) -> np.ndarray:
        """Return `at_bias` if the decision values tend to the bias far away, else inf.

        Parameters
        ----------
        at_bias : ndarray of shape (K,)
            Scores where the decision values are equal to the bias.

        Returns
        -------
        ndarray of shape (K,)
        """
        return np.where(get_kernel(self.kernel).decaying, at_bias, np.inf)

    def with_thresholds(self, thresholds: np.ndarray) -> OpenSetClassifier:
        # Where scores are kernel expansions the bias moves: then decision values near the new
        # threshold are computed in double precision, and the certificate holds there.
        if not hasattr(self, "known_radius_"):
            return super().with_thresholds(thresholds)
        moved = copy(self)
        moved.intercept_ = self.intercept_ - thresholds
        moved._certify()
        # Only the bias differs.
        moved.__dict__["_prepared"] = self.__dict__.setdefault("_prepared", [])
        return moved

    def check_fitted(self):
        sizes = super().check_fitted()
        if is_dataclass(self.kernel):
            replace(self.kernel)  # checks its parameters
        get_kernel(self.kernel)
        require(np.all(self.gamma_ > 0), "gamma_ is not positive")
        self.check_reach(self.support_vectors_, self.dual_coef_, self.intercept_)
        if "known_radius_" in vars(self):
            fresh = copy(self)
            fresh._certify()
            # A larger radius promises less; one of an unbounded class is infinite.
            radius, limit = self.known_radius_, fresh.known_radius_ * (1 - 1e-6)
            fits = (np.isinf(radius) == np.isinf(limit)) & (radius >= limit)
            require(fits.all(), "known_radius_ does not follow from intercept_ and dual_coef_")
        return sizes

    def check_reach(self, support_vectors, coef: np.ndarray, bias: np.ndarray) -> None:
        """Raise ValueError if coefficients are so large that sums of them may overflow.

        Parameters
        ----------
        support_vectors, coef, bias
            As for :meth:`expand`.
        """
        with np.errstate(over="ignore"):
            reach = abs(coef)
            if not get_kernel(self.kernel).decaying:
                reach = reach @ abs(support_vectors)
            reach = reach.sum(axis=1) + abs(bias)
        require(np.all(reach < _LARGEST), "coefficients are so large that scores overflow")

    def take_classes(self, index: np.ndarray) -> None:
        super().take_classes(index)
        used = self.dual_coef_.any(axis=0)  # vectors that only supported a removed class go
        self.dual_coef_ = np.ascontiguousarray(self.dual_coef_[:, used])
        self.support_, self.support_vectors_ = self.support_[used], self.support_vectors_[used]

    def _certify(self):
        kernel = get_kernel(self.kernel)
        self.known_radius_ = known_radius(self.dual_coef_, self.intercept_, kernel, self.gamma_)
