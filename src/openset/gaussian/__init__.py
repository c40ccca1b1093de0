"""Classes as means and subspaces: Gaussians, centroids, SIMCA, and the virtual logit."""

from ._means import OpenSetCentroids, OpenSetLDA
from ._subspaces import SIMCA, ViM

__all__ = ["SIMCA", "OpenSetCentroids", "OpenSetLDA", "ViM"]
