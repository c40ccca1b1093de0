"""What the unknowns are: groups among the samples that a model turned away."""

from ._group_unknowns import Group, UnknownGroups, group_unknowns

__all__ = ["Group", "UnknownGroups", "group_unknowns"]
