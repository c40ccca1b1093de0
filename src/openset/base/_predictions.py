"""Answers in words, fast enough for millions of rows.

The words contain no comma, so a CSV file needs no quotes for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from ..utils import answer_labels, decide
from ._certificate import Certificate
from ._explain import best_two

if TYPE_CHECKING:
    import pyarrow as pa


class PredictionExplainer:
    """Turns acceptance scores into answers: prediction, score, runner-up, margin and reason.

    Parameters
    ----------
    final : estimator
        The fitted open-set estimator itself, unwrapped.
    n_jobs : int, default=None
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.base import PredictionExplainer
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> rows = np.array([[0.0, 0.5], [9.0, 9.0]])
    >>> *_, reason = PredictionExplainer(model).columns(rows, model.decision_function(rows))
    >>> reason[0].as_py(), reason[1].as_py().endswith("outside every certificate")
    ('accepted by left', True)
    """

    NAMES = ("prediction", "known_score", "runner_up", "margin", "reason")

    def __init__(self, final: BaseEstimator, n_jobs: int | None = None):
        import pyarrow as pa

        answers = answer_labels(final.classes_, final.unknown_label_).tolist()
        self._answers = pa.array(answers)
        self._texts = pa.array([str(answer) for answer in answers])
        self._n_classes = len(final.classes_)
        self._outside = _outside_of(final, n_jobs)

    def columns(self, X: np.ndarray, scores: np.ndarray) -> list[pa.Array]:
        """Return the columns `NAMES`.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows as the final estimator sees them, after all transformers.
        scores : ndarray of shape (n, K)
            Their acceptance scores.

        Returns
        -------
        list of pyarrow.Array
        """
        import pyarrow as pa

        best, second, score, margin, n_accept = best_two(scores)
        # Rounded: the last digits of a score depend on the size of the batch.
        runner_up, margins = self._answers.take(pa.array(second)), pa.array(margin.round(5))
        if self._n_classes == 1:
            runner_up = pa.nulls(len(scores), self._answers.type)
            margins = pa.nulls(len(scores), pa.float64())
        reason = self._reasons(X, best, second, score, n_accept)
        answers = self._answers.take(pa.array(decide(scores)))
        return [answers, pa.array(score), runner_up, margins, reason]

    def _reasons(self, X, best, second, score, n_accept):
        import pyarrow as pa
        import pyarrow.compute as pc

        join = pc.binary_join_element_wise
        nearest = self._texts.take(pa.array(best))
        taken = join("accepted by ", nearest, "")
        if np.any(n_accept > 1):
            count = pc.cast(pa.array(n_accept), pa.string())
            count = pc.if_else(pa.array(n_accept == 2), "two", count)
            runner_up = self._texts.take(pa.array(second))
            several = join(count, " classes accept: ", nearest, " before ", runner_up, "")
            taken = pc.if_else(pa.array(n_accept > 1), several, taken)
        # A miss is never shown as zero.
        missed = pc.cast(pc.round(pa.array(np.maximum(-score, 1e-4)), 4), pa.string())
        refused = join("none accepts; nearest is ", nearest, "; missed by ", missed, "")
        accepted = n_accept > 0
        if self._outside is not None and not accepted.all():
            outside = np.zeros(len(X), dtype=bool)
            outside[~accepted] = self._outside(X[~accepted])
            further = join(refused, "; outside every certificate", "")
            refused = pc.if_else(pa.array(outside), further, refused)
        return pc.if_else(pa.array(accepted), taken, refused)


def _outside_of(final, n_jobs) -> Callable | None:
    """The function of X that tells which rows are outside every certificate, if there is one."""
    if not hasattr(final, "known_radius_"):
        return None
    if not hasattr(final, "support_vectors_"):  # moved thresholds of another estimator
        surroundings = final.surroundings()
        return lambda X: surroundings(X)[2] > 0
    certificate = Certificate(final)
    return partial(certificate.outside, n_jobs=n_jobs) if certificate.complete else None
