"""Extreme value theory: Weibull models of tails, and the Extreme Value Machine."""

from openset.evt._evm import ExtremeValueMachine
from openset.evt._weibull import WeibullTail, fit_weibull

__all__ = ["ExtremeValueMachine", "WeibullTail", "fit_weibull"]
