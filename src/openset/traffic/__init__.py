"""Unlabelled rows in use: how many of them are unknown, and what they teach."""

from ._classifier import TrafficClassifier

__all__ = ["TrafficClassifier"]
