"""What lambda does to each class: the lambda path as a feature for users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..base import validate_samples
from ..base.machines import solve_classes
from ..kernels import Kernel
from ..solver import Settings, decision_values
from ._open_set_svc import OpenSetSVC


@dataclass(frozen=True)
class LambdaPath:
    """Bias, objective and size of every machine as functions of lambda.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The known classes, sorted.
    lams : ndarray of shape (T,)
        Fractions of the sum of the positive boxes.
    bias, objective : ndarray of shape (K, T)
        Bias b and dual objective of each class at each lambda.
    bounded : ndarray of shape (K, T), bool
        b < 0.
    n_support : ndarray of shape (K, T), int
        Number of support vectors.
    smallest_bounding : ndarray of shape (K,)
        Smallest lambda at which b = -tol; 0 where the plain SVM is bounded already.
    scores : ndarray of shape (K, T, n) or None
        Decision values of the validation samples.
    """

    classes: np.ndarray
    lams: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    bounded: np.ndarray
    n_support: np.ndarray
    smallest_bounding: np.ndarray
    scores: np.ndarray | None


def lambda_path(
    X: Any,
    y: ArrayLike,
    *,
    lams: ArrayLike | None = None,
    X_validation: Any = None,
    C: float | dict = 1.0,
    gamma: float | str | dict = "scale",
    kernel: str | Kernel = "rbf",
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-3,
    cache_size: float = 1000,
    n_jobs: int | None = None,
) -> LambdaPath:
    """Follow every class of an OpenSetSVC along lambda.

    The bias of a class never rises with lambda; where it crosses zero, the region that the class
    accepts becomes bounded.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (m, d)
    y : array-like of shape (m,)
        At least two classes.
    lams : array-like of shape (T,), default=None
        Increasing fractions in [0, 1); None is the paper's 0, 0.05, ..., 0.95.
    X_validation : array-like or CSR matrix of shape (n, d), default=None
        Samples whose decision values are wanted along the path.
    C, gamma, kernel, sample_weight, tol, cache_size, n_jobs
        As for :class:`openset.OpenSetSVC`.

    Returns
    -------
    LambdaPath

    Examples
    --------
    >>> from openset.svm import lambda_path
    >>> X = [[-2.0], [-1.5], [1.5], [2.0], [0.0], [0.3]]
    >>> path = lambda_path(X, ["out"] * 4 + ["in"] * 2, lams=[0, 0.25, 0.5], gamma=1.0, tol=1e-6)
    >>> path.bias[1].round(4)
    array([ 0.4014,  0.0572, -0.279 ])
    >>> path.bounded[1]
    array([False, False,  True])
    """
    lams = np.arange(20) * 0.05 if lams is None else np.asarray(lams, dtype=np.float64)
    if lams.ndim != 1 or lams.size == 0 or not np.all(np.diff(lams) > 0):
        raise ValueError(f"lams must be a list of increasing numbers, got {lams!r}.")
    if not (lams[0] >= 0 and lams[-1] < 1):
        raise ValueError(f"lams must lie in [0, 1), got values from {lams[0]:g} to {lams[-1]:g}.")
    model = OpenSetSVC(
        C=C, gamma=gamma, kernel=kernel, tol=tol, cache_size=cache_size, n_jobs=n_jobs
    )
    model._validate_params()
    training = model.prepare(X, y, sample_weight, min_classes=2)
    if X_validation is not None:
        X_validation = validate_samples(model, X_validation, accept_sparse="csr")
        if sparse.issparse(training.X):
            X_validation = sparse.csr_array(X_validation)
        elif sparse.issparse(X_validation):
            X_validation = X_validation.toarray()

    # Zero first: below the smallest lambda that bounds a class there is one that does not, or 0.
    extra = int(lams[0] > 0)
    solved_for = np.append(np.zeros(extra), lams)
    training = replace(training, params=[own | {"lam": solved_for} for own in training.params])
    settings = Settings(tol, cache_size=cache_size, n_jobs=n_jobs)
    shape = len(model.classes_), len(lams)
    bias, objective, bounding = np.empty(shape), np.empty(shape), np.zeros(len(model.classes_))
    n_support = np.empty(shape, dtype=np.int64)
    scores: list[Any] = [None] * len(model.classes_)
    for together in solve_classes(training, model.problem, settings, largest_bias=-tol):
        for c, solved, _ in together:
            beta = solved.beta[extra:]
            bias[c], objective[c] = solved.bias[extra:], solved.objective[extra:]
            n_support[c] = np.count_nonzero(beta, axis=1)
            if solved.held is not None:
                total = float(solved.held.beta.sum() / solved.problem.upper.sum())
                bounding[c] = max(0.0, total)
            if X_validation is not None:
                used = np.flatnonzero(beta.any(axis=0))
                expansion = training.X[used], beta[:, used], bias[c], training.kernel
                gammas = np.full(len(lams), training.gamma[c])
                scores[c] = decision_values(X_validation, *expansion, gammas, n_jobs=n_jobs).T
    return LambdaPath(
        model.classes_,
        lams,
        bias=bias,
        objective=objective,
        bounded=bias < 0,
        n_support=n_support,
        smallest_bounding=bounding,
        scores=None if X_validation is None else np.array(scores),
    )
