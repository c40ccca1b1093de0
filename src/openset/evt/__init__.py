"""Extreme value theory: Weibull models of tails, and the methods that accept by them."""

from ._evm import ExtremeValueMachine
from ._pisvm import PISVM
from ._weibull import fit_weibull
from ._weibull_tail import WeibullTail
from ._wsvm import WSVM

__all__ = ["PISVM", "WSVM", "ExtremeValueMachine", "WeibullTail", "fit_weibull"]
