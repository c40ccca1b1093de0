"""Helpers that everyone needs: unwrapping, discovery, and the checks of an open-set estimator."""

from ._discovery import MethodRow, all_estimators, method_table
from ._unwrap import unwrap

__all__ = ["MethodRow", "all_estimators", "method_table", "unwrap"]
