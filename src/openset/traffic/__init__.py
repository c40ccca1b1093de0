"""Unlabelled rows in use: how many of them are unknown, and what they teach."""

__all__: list[str] = []
