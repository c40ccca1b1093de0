"""Classes as means: Gaussians with one covariance, and centroids with a radius."""

from ._centroids import OpenSetCentroids
from ._lda import OpenSetLDA

__all__ = ["OpenSetCentroids", "OpenSetLDA"]
