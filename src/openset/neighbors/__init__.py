"""Nearest-neighbour methods."""

from ._knn import OpenSetKNN
from ._osnn import OSNN

__all__ = ["OSNN", "OpenSetKNN"]
