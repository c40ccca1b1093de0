"""Groups of similar samples among those that a model rejected."""

from ._group_unknowns import Group, UnknownGroups, group_unknowns

__all__ = ["Group", "UnknownGroups", "group_unknowns"]
