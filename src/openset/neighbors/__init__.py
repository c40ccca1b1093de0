"""Open-set nearest neighbours."""

from ._osnn import OSNN

__all__ = ["OSNN"]
