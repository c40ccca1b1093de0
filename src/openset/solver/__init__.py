"""The dual problem and its solvers: arrays in, a small result out."""

from . import landmarks
from ._expansion import EXACT_BAND, DecisionValues, decision_values
from ._grid import solve_grid
from ._path import Path, feasible_near, solve_path
from ._problem import (
    Problem,
    Solution,
    feasible_start,
    fixed_bias_problem,
    one_class_problem,
    shift_total,
    svdd_problem,
    svm_problem,
)
from ._refine import refined_bias, refined_path
from ._row_cache import kernel_rows
from ._rows import KernelRows, kernel_sums
from ._solve import Interrupted, lower_bias, solve
from ._sweep import Group
from ._tuning import Tuning, tuned
from .points import needs_differences

__all__ = [
    "EXACT_BAND",
    "DecisionValues",
    "Group",
    "Interrupted",
    "KernelRows",
    "Path",
    "Problem",
    "Solution",
    "Tuning",
    "decision_values",
    "feasible_near",
    "feasible_start",
    "fixed_bias_problem",
    "kernel_rows",
    "kernel_sums",
    "landmarks",
    "lower_bias",
    "needs_differences",
    "one_class_problem",
    "refined_bias",
    "refined_path",
    "shift_total",
    "solve",
    "solve_grid",
    "solve_path",
    "svdd_problem",
    "svm_problem",
    "tuned",
]
