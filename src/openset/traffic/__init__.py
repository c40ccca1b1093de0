"""Unlabelled rows in use: how many of them are unknown, and what they teach."""

from ._classifier import TrafficClassifier
from ._learned_score import LearnedScore
from ._report import TrafficReport, estimate_traffic

__all__ = ["LearnedScore", "TrafficClassifier", "TrafficReport", "estimate_traffic"]
