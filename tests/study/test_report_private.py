"""Numbers of the report as they are printed."""

import numpy as np
import pytest

from openset.study.page import duration, p_value, with_error


@pytest.mark.parametrize(
    "shown, text",
    [
        (with_error(0.5, 0.0125), "0.500±.013"),
        (with_error(0.5, np.nan), "0.500"),
        (with_error(1.0, 0.0), "1.000±.000"),
        (p_value(0.0431), "0.043"),
        (p_value(3.2e-7), "3e-07"),
        (p_value(0.0), "<1e-16"),
        (duration(0.0123), "12.3 ms"),
        (duration(12.3), "12.30 s"),
        (duration(600), "10.0 min"),
        (duration(9000), "2.5 h"),
        (duration(np.nan), "–"),
    ],
)
def test_numbers_as_they_are_read(shown, text):
    assert shown == text
