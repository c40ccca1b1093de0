"""Extreme value theory: Weibull models of tails, and the methods that accept by them."""

from ._evm import ExtremeValueMachine
from ._svm import PISVM, WSVM
from ._weibull import WeibullTail, fit_weibull

__all__ = ["PISVM", "WSVM", "ExtremeValueMachine", "WeibullTail", "fit_weibull"]
