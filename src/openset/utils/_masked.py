"""Masked arrays: NumPy's conversions drop the mask without a word."""

from __future__ import annotations

from typing import Any

import numpy as np


def refuse_masked(name: str, values: Any) -> None:
    """Raise ValueError if an argument has masked entries.

    Parameters
    ----------
    name : str
        Of the argument.
    values : object

    Examples
    --------
    >>> import numpy as np
    >>> from openset.utils import refuse_masked
    >>> refuse_masked("X", np.ma.masked_equal([[1.0, -9.0]], -9.0))
    Traceback (most recent call last):
    ...
    ValueError: X has 1 masked entry; leave such rows out, or fill in values by X.filled(...).
    """
    if np.ma.is_masked(values):
        n = int(np.ma.count_masked(values))
        entries = "1 masked entry" if n == 1 else f"{n} masked entries"
        raise ValueError(
            f"{name} has {entries}; leave such rows out, or fill in values by {name}.filled(...)."
        )
