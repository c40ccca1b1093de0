"""Classes as means and subspaces: Gaussians, centroids, SIMCA, and the virtual logit."""

from ._centroids import OpenSetCentroids
from ._lda import OpenSetLDA
from ._simca import SIMCA
from ._vim import ViM

__all__ = ["SIMCA", "OpenSetCentroids", "OpenSetLDA", "ViM"]
