"""Checks that an estimator keeps the open-set contract, in addition to scikit-learn's own checks.

scikit-learn's checks assume that every answer is one of ``classes_`` and that two classes have
one score. An open-set classifier breaks both on purpose. :data:`EXPECTED_FAILED_CHECKS` lists the
checks that fail for this reason, and the checks here repeat everything else that those test.
"""

from __future__ import annotations

from collections.abc import Iterator

from sklearn.base import BaseEstimator

from . import _checks
from ._tools import Check

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "check_open_set_estimator",
    "expected_failed_checks",
    "open_set_checks",
]

_UNKNOWN = "An answer may be unknown, which is not in classes_."

#: Checks of scikit-learn that an open-set estimator may fail: name -> reason.
EXPECTED_FAILED_CHECKS = {
    "check_classifiers_train": "decision_function has two columns for two classes.",
    "check_classifiers_classes": "decision_function has two columns for two classes.",
    "check_classifiers_one_label": _UNKNOWN,
    "check_classifiers_one_label_sample_weights": _UNKNOWN,
    "check_class_weight_classifiers": _UNKNOWN,
    "check_sample_weight_equivalence_on_dense_data": "Solutions agree to tol, not to 1e-7.",
    "check_sample_weight_equivalence_on_sparse_data": "Solutions agree to tol, not to 1e-7.",
}

# These failures are expected only of an estimator with a parameter of this name.
_NEEDS = {
    "check_class_weight_classifiers": "class_weight",
    "check_sample_weight_equivalence_on_dense_data": "tol",
    "check_sample_weight_equivalence_on_sparse_data": "tol",
}


def expected_failed_checks(estimator: BaseEstimator) -> dict[str, str]:
    """Return the checks of scikit-learn that `estimator` may fail, each with a reason.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator.

    Returns
    -------
    dict
        For the argument of the same name of scikit-learn's ``parametrize_with_checks``.

    Examples
    --------
    >>> from sklearn.utils.estimator_checks import parametrize_with_checks
    >>> from openset import OpenSetSVC
    >>> from openset.utils.estimator_checks import expected_failed_checks
    >>> @parametrize_with_checks([OpenSetSVC()], expected_failed_checks=expected_failed_checks)
    ... def test_scikit_learn(estimator, check):
    ...     check(estimator)
    """
    parameters = {name.split("__")[-1] for name in estimator.get_params()}
    return {
        check: reason
        for check, reason in EXPECTED_FAILED_CHECKS.items()
        if check not in _NEEDS or _NEEDS[check] in parameters
    }


def open_set_checks() -> Iterator[Check]:
    """Iterate over the single checks; each takes an unfitted estimator.

    Yields
    ------
    callable
        Raises AssertionError, which quotes the line of the contract that the estimator breaks.

    Examples
    --------
    >>> from openset.utils.estimator_checks import open_set_checks
    >>> [check.__name__ for check in open_set_checks()][:2]
    ['check_decision_shape', 'check_one_class']
    """
    for name, check in vars(_checks).items():
        if name.startswith("check_"):
            yield check


def check_open_set_estimator(estimator: BaseEstimator) -> None:
    """Check that an estimator keeps the contract of :class:`openset.base.OpenSetClassifier`.

    Parameters
    ----------
    estimator : estimator
        An instance. It is cloned and stays unfitted. Most checks fit it to 15 samples per class;
        if it needs more, pass it with parameters that need fewer, such as
        ``CalibratedRejector(OpenSetSVC(), alpha=0.3)``.

    Raises
    ------
    AssertionError
        From the first check that fails; the message quotes the line of the contract.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.utils.estimator_checks import check_open_set_estimator
    >>> check_open_set_estimator(OpenSetSVC())
    """
    if isinstance(estimator, type):
        raise TypeError(f"Pass an instance, {estimator.__name__}(), not the class.")
    for check in open_set_checks():
        check(estimator)
