"""Helpers that everyone needs: unwrapping, and the checks of an open-set estimator."""

from ._unwrap import unwrap

__all__ = ["unwrap"]
