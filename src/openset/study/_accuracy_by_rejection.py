"""Accuracy and F1 at every threshold: what a study with an operating point records."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..evaluation import Evaluation
from ..metrics import OpenSetCounts, encode_labels
from ..utils import decide

# Shares of the known test rows that are rejected.
_SHARES = np.linspace(0, 0.6, 31)


def accuracy_by_rejection(evaluation: Evaluation) -> dict[str, Any]:
    """Return accuracy and macro F1 by the share of known samples that is rejected.

    Parameters
    ----------
    evaluation : Evaluation
        Of known and unknown samples.

    Returns
    -------
    dict
        Lists ``rejected``, ``accuracy`` and ``f1`` over thresholds, and under ``chosen`` the three
        at the threshold of the model itself. F1 is averaged over the known classes and the open
        class.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import Evaluation
    >>> from openset.study import accuracy_by_rejection
    >>> scores = np.array([[0.5, -1.0], [-0.2, 0.3], [-1.0, -1.0], [0.1, -0.5]])
    >>> truth = np.array(["a", "b", "x", "y"])
    >>> accuracy_by_rejection(Evaluation(truth, scores, np.array(["a", "b"])))["chosen"]["accuracy"]
    0.75
    """
    truth = encode_labels(evaluation.truth, evaluation.classes)
    known = evaluation.scores[evaluation.is_known].max(axis=1)
    names = ("rejected", "accuracy", "f1")
    chosen = (np.mean(known < 0), *_accuracy_and_f1(truth, evaluation.scores))
    thresholds = np.quantile(known, _SHARES)
    values = [_accuracy_and_f1(truth, evaluation.scores - t) for t in thresholds]
    columns = (_SHARES.round(3).tolist(), *np.round(values, 5).T.tolist())
    return {
        **dict(zip(names, columns, strict=True)),
        "chosen": dict(zip(names, map(float, chosen), strict=True)),
    }


def _accuracy_and_f1(truth: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Accuracy and F1 averaged over the K classes and the open class, whose code is K."""
    counts = OpenSetCounts.from_codes(truth, decide(scores), scores.shape[1])
    f1 = 2 * counts.hit / np.maximum(1, counts.predicted + counts.support)
    return counts.hit.sum() / len(truth), f1.mean()
