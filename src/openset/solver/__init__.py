"""The dual problem and its solvers: arrays in, a small result out."""

from . import landmarks
from ._engine import BatchSolver, LazyBatches, Scores, Settings, solve_batches
from ._expansion import EXACT_BAND, DecisionValues, decision_values
from ._path import solve_path
from ._problem import (
    Batch,
    Problem,
    Solution,
    Solved,
    feasible_start,
    fixed_bias_problem,
    one_class_problem,
    shift_total,
    svdd_problem,
    svm_problem,
)
from ._row_cache import kernel_rows
from ._rows import KernelRows, kernel_sums
from ._solve import Interrupted, lower_bias, refined_path, solve
from ._tuning import Tuning, tuned
from .points import needs_differences

__all__ = [
    "EXACT_BAND",
    "Batch",
    "BatchSolver",
    "DecisionValues",
    "Interrupted",
    "KernelRows",
    "LazyBatches",
    "Problem",
    "Scores",
    "Settings",
    "Solution",
    "Solved",
    "Tuning",
    "decision_values",
    "feasible_start",
    "fixed_bias_problem",
    "kernel_rows",
    "kernel_sums",
    "landmarks",
    "lower_bias",
    "needs_differences",
    "one_class_problem",
    "refined_path",
    "shift_total",
    "solve",
    "solve_batches",
    "solve_path",
    "svdd_problem",
    "svm_problem",
    "tuned",
]
