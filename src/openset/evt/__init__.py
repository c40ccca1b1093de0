"""Extreme value theory: Weibull models of tails, and the methods that accept by them."""

from openset.evt._evm import ExtremeValueMachine
from openset.evt._pisvm import PISVM
from openset.evt._weibull import fit_weibull
from openset.evt._weibull_tail import WeibullTail
from openset.evt._wsvm import WSVM

__all__ = ["PISVM", "WSVM", "ExtremeValueMachine", "WeibullTail", "fit_weibull"]
