"""Open-set nearest neighbours."""

from openset.neighbors._osnn import OpenSetNearestNeighbors

__all__ = ["OpenSetNearestNeighbors"]
