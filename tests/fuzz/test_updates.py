"""Several processes that update one file, a few rounds; the long run is in reliability.md."""

import numpy as np
import pytest

from .fuzz_updates import attack


@pytest.mark.parametrize("case", range(4))
def test_a_few_rounds(case):
    attack(np.random.default_rng([1, case]))


@pytest.mark.slow
def test_two_hundred_rounds():
    killed = sum(attack(np.random.default_rng([20261118, case]))["killed"] for case in range(200))
    assert killed > 100
