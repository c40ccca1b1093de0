"""Open-set nearest neighbours."""

from openset.neighbors._osnn import OSNN

__all__ = ["OSNN"]
