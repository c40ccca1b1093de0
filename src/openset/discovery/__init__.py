"""Groups of similar samples among those that a model rejected, and what a person makes of them."""

from ._group_unknowns import Group, UnknownGroups, group_unknowns
from ._review import DecisionError, Decisions, read_decisions, review_data, write_review

__all__ = [
    "DecisionError",
    "Decisions",
    "Group",
    "UnknownGroups",
    "group_unknowns",
    "read_decisions",
    "review_data",
    "write_review",
]
