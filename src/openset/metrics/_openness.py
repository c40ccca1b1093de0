"""Openness: how many of the test classes were missing in training."""

from math import sqrt
from numbers import Integral


def openness(n_train: int, n_test: int, n_target: int | None = None) -> float:
    """Compute how open a problem is, ``1 - sqrt(2 n_train / (n_target + n_test))``.

    Parameters
    ----------
    n_train : int
        Number of classes in training.
    n_test : int
        Number of classes in testing, known and unknown: at least `n_train`.
    n_target : int, optional
        Number of classes to be recognised; `n_train` by default, for which the original and the
        recalibrated definition agree. With fewer targets than training classes, the original
        definition, computed here, can be negative.

    Returns
    -------
    float
        0 for a closed-set problem; approaches 1 as unknown classes are added.

    Examples
    --------
    >>> from openset.metrics import openness
    >>> round(openness(3, 26), 6)
    0.545141
    """
    n_target = n_train if n_target is None else n_target
    numbers = {"n_test": n_test, "n_train": n_train, "n_target": n_target}
    for name, value in numbers.items():  # n_test first: the others are compared with it
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r} must be a number of classes, an integer >= 1.")
        if value > n_test:
            raise ValueError(
                f"{name}={value} exceeds n_test={n_test}; count the known classes in n_test too."
            )
    return 1 - sqrt(2 * n_train / (n_target + n_test))
