"""Why a row was answered as it was, in words: fast enough for millions of rows.

The words have no comma in them, so that a CSV file needs no quotes for them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.base import BaseEstimator

from openset.utils import answer_labels, decide, thread_map

# Rows of a tile, whose distances stay in the cache.
_TILE = 256

# What float32 may err in a squared distance, relative to the norms: nearer than this to the edge
# of a certificate, a row is not said to be outside.
_ROUNDING = 1e-5


class Certificate:
    """Tells rows that lie outside the certificate of every class.

    A row lies inside that of class c if it is no farther than ``known_radius_[c]`` from a positive
    support vector of c. So each support vector carries the largest radius of the classes it is
    positive for, and one comparison a support vector tells: |x - s|^2 <= r_s^2, or
    2 x.s - |s|^2 + r_s^2 >= |x|^2.

    Parameters
    ----------
    final : estimator
        Fitted, with ``known_radius_`` and finite radii; see :meth:`exists`.
    """

    def __init__(self, final: BaseEstimator):
        positive = final.dual_coef_ > 0
        reach = np.where(positive, final.known_radius_[:, None], -np.inf).max(axis=0)
        used = np.isfinite(reach)
        support = final.support_vectors_[used]
        self._center = support.mean(axis=0)
        support = support - self._center
        norms = np.einsum("ij,ij->i", support, support)
        self._planes = np.column_stack([2 * support, reach[used] ** 2 - norms]).T.astype(np.float32)
        self._largest = norms.max()
        # Nearer than this, squares stay within float32; farther away is outside anyway.
        self._far = 1e6 * (np.sqrt(self._largest) + reach[used].max() + 1)

    @staticmethod
    def exists(final: BaseEstimator) -> bool:
        """Whether every class of a fitted estimator has a certificate."""
        radius = getattr(final, "known_radius_", None)
        if radius is None or not hasattr(final, "dual_coef_") or not np.isfinite(radius).all():
            return False
        return bool((final.dual_coef_ > 0).any())

    def outside(self, Z: np.ndarray, jobs: int) -> np.ndarray:
        """(n,) bool: which rows are certainly outside every certificate."""
        Z = np.clip(Z - self._center, -self._far, self._far)
        norms = np.einsum("ij,ij->i", Z, Z)
        extended = np.column_stack([Z, np.ones(len(Z))]).astype(np.float32)

        def reached(start):
            return (extended[start : start + _TILE] @ self._planes).max(axis=1)

        tiles = list(thread_map(reached, range(0, len(Z), _TILE), jobs))
        margin = _ROUNDING * (norms + self._largest)
        return np.concatenate([np.zeros(0), *tiles]) < norms - margin


class Explainer:
    """Puts prediction, known score, runner-up and reason beside rows.

    Parameters
    ----------
    final : estimator
        The fitted open-set estimator itself.
    jobs : int
    """

    NAMES = ("prediction", "known_score", "runner_up", "reason")

    def __init__(self, final: BaseEstimator, jobs: int):
        answers = answer_labels(final.classes_, final.unknown_label_).tolist()
        self._answers = pa.array(answers)
        self._texts = pa.array([str(answer) for answer in answers])
        self._n_classes, self._jobs = len(final.classes_), jobs
        self._certificate = Certificate(final) if Certificate.exists(final) else None

    def columns(self, Z: np.ndarray, scores: np.ndarray) -> list[pa.Array]:
        """The columns NAMES for rows Z of shape (n, d) with acceptance scores (n, K)."""
        every = np.arange(len(scores))
        best = scores.argmax(axis=1)
        score = scores[every, best]
        others = scores.copy()
        others[every, best] = -np.inf
        second = others.argmax(axis=1)
        accepted = score >= 0
        prediction = self._answers.take(pa.array(decide(scores)))
        if self._n_classes > 1:
            runner_up = self._answers.take(pa.array(second))
        else:
            runner_up = pa.nulls(len(scores), self._answers.type)
        also = others[every, second] >= 0
        return [
            prediction,
            pa.array(score),
            runner_up,
            self._reasons(Z, best, second, score, accepted, also),
        ]

    def _reasons(self, Z, best, second, score, accepted, also):
        nearest = self._texts.take(pa.array(best))
        taken = pc.binary_join_element_wise("accepted by ", nearest, "")
        if also.any():
            both = pc.binary_join_element_wise(
                taken, self._texts.take(pa.array(second)), "; also by "
            )
            taken = pc.if_else(pa.array(also), both, taken)
        # A miss is never shown as zero.
        missed = pc.cast(pc.round(pa.array(np.maximum(-score, 1e-4)), 4), pa.string())
        refused = pc.binary_join_element_wise("nearest ", nearest, "; missed by ", missed, "")
        if self._certificate is not None:
            outside = np.zeros(len(Z), dtype=bool)
            outside[~accepted] = self._certificate.outside(Z[~accepted], self._jobs)
            further = pc.binary_join_element_wise(refused, "; outside every certificate", "")
            refused = pc.if_else(pa.array(outside), further, refused)
        return pc.if_else(pa.array(accepted), taken, refused)
