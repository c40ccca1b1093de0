"""Has the stream changed? Tests that may run for ever, with a bounded chance of a false alarm."""

from ._monitor import MonitorFileError, UnknownRateMonitor

__all__ = ["MonitorFileError", "UnknownRateMonitor"]
