"""The dual problem and its solvers: arrays in, a small result out."""

from ._grid import solve_grid
from ._path import Path, solve_path
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
from ._rows import KernelRows
from ._solve import Interrupted, lower_bias, solve

__all__ = [
    "Interrupted",
    "KernelRows",
    "Path",
    "Problem",
    "Solution",
    "feasible_start",
    "fixed_bias_problem",
    "lower_bias",
    "one_class_problem",
    "shift_total",
    "solve",
    "solve_grid",
    "solve_path",
    "svdd_problem",
    "svm_problem",
]
