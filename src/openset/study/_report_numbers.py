"""Numbers as they are printed in the report."""

from __future__ import annotations

import pandas as pd


def number(value: float, digits: int = 3) -> str:
    """Format a number; a dash if it is missing."""
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def with_error(value: float, error: float) -> str:
    """Format a mean and its error, as in 0.731±.012."""
    return number(value) + ("" if pd.isna(error) else f"±{error:.3f}".replace("±0.", "±."))


def p_value(p: float) -> str:
    """Format a p-value."""
    return "<1e-16" if p < 1e-16 else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def duration(seconds: float) -> str:
    """Format a time."""
    if pd.isna(seconds):
        return "–"
    if seconds >= 100:
        return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"
