"""Answers in words, fast enough for millions of rows.

The words contain no comma, so a CSV file needs no quotes for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from ..utils import answer_labels, decide
from ._certificate import Certificate

if TYPE_CHECKING:
    import pyarrow as pa


class PredictionExplainer:
    """Turns acceptance scores into the columns prediction, known score, runner-up and reason.

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

    NAMES = ("prediction", "known_score", "runner_up", "reason")

    def __init__(self, final: BaseEstimator, n_jobs: int | None = None):
        import pyarrow as pa

        answers = answer_labels(final.classes_, final.unknown_label_).tolist()
        self._answers = pa.array(answers)
        self._texts = pa.array([str(answer) for answer in answers])
        self._n_classes, self._n_jobs = len(final.classes_), n_jobs
        certificate = Certificate(final) if hasattr(final, "known_radius_") else None
        self._certificate = certificate if certificate and certificate.complete else None

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

        rows = np.arange(len(scores))
        best = scores.argmax(axis=1)
        others = scores.copy()
        others[rows, best] = -np.inf
        second = others.argmax(axis=1)
        runner_up = self._answers.take(pa.array(second))
        if self._n_classes == 1:
            runner_up = pa.nulls(len(scores), self._answers.type)
        score = scores[rows, best]
        codes = decide(scores)
        reason = self._reasons(X, best, second, score, codes, others[rows, second] >= 0)
        return [self._answers.take(pa.array(codes)), pa.array(score), runner_up, reason]

    def _reasons(self, X, best, second, score, codes, also):
        import pyarrow as pa
        import pyarrow.compute as pc

        join = pc.binary_join_element_wise
        nearest = self._texts.take(pa.array(best))
        taken = join("accepted by ", nearest, "")
        if also.any():
            both = join(taken, self._texts.take(pa.array(second)), "; also by ")
            taken = pc.if_else(pa.array(also), both, taken)
        # A miss is never shown as zero.
        missed = pc.cast(pc.round(pa.array(np.maximum(-score, 1e-4)), 4), pa.string())
        refused = join("nearest ", nearest, "; missed by ", missed, "")
        accepted = codes < self._n_classes
        if self._certificate is not None:
            outside = np.zeros(len(X), dtype=bool)
            outside[~accepted] = self._certificate.outside(X[~accepted], self._n_jobs)
            further = join(refused, "; outside every certificate", "")
            refused = pc.if_else(pa.array(outside), further, refused)
        return pc.if_else(pa.array(accepted), taken, refused)
