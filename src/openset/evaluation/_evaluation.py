"""Samples with their true labels and scores: the measures, the answers and the curves."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import metrics
from ..base import resolve_unknown_label
from ..utils import answer_labels, decide


@dataclass(frozen=True)
class Evaluation:
    """True labels of samples and the scores that a model gives them.

    Attributes
    ----------
    truth : ndarray of shape (n,)
        True labels; a label outside `classes` is unknown.
    scores : ndarray of shape (n, K)
        Acceptance scores.
    classes : ndarray of shape (K,)
        The known classes.
    unknown_label : label, default=None
        The label of the answer "unknown"; None takes the default of the estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import Evaluation
    >>> truth, classes = np.array(["a", "b", "x", "y"]), np.array(["a", "b"])
    >>> scores = np.array([[0.5, -1.0], [-0.2, 0.3], [-1.0, -1.0], [0.1, -0.5]])
    >>> evaluation = Evaluation(truth, scores, classes)
    >>> evaluation.measures["accuracy_known"], evaluation.measures["accuracy_unknown"]
    (1.0, 0.5)
    """

    truth: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    unknown_label: Hashable = None

    def __post_init__(self):
        if self.unknown_label is None:
            object.__setattr__(self, "unknown_label", resolve_unknown_label("auto", self.classes))

    @cached_property
    def answers(self) -> np.ndarray:
        """What ``predict`` answers, (n,)."""
        return answer_labels(self.classes, self.unknown_label)[decide(self.scores)]

    @cached_property
    def is_known(self) -> np.ndarray:
        """Which samples are of a known class, (n,) bool."""
        return np.isin(self.truth, self.classes)

    @cached_property
    def report(self) -> metrics.OpenSetReport:
        """Measures of the answers, and precision, recall and F per class."""
        labels: dict[str, Any] = {"known": self.classes, "unknown_label": self.unknown_label}
        return metrics.open_set_report(self.truth, self.answers, **labels)

    @cached_property
    def confusion_matrix(self) -> np.ndarray:
        """Counts of true classes (rows) by answers (columns), (K + 1, K + 1), unknown last."""
        labels: dict[str, Any] = {"known": self.classes, "unknown_label": self.unknown_label}
        return metrics.open_set_confusion_matrix(self.truth, self.answers, **labels)

    @cached_property
    def measures(self) -> dict[str, float]:
        """Every measure that is defined for these samples, by the names of openset.metrics.

        Measures of unknown samples are left out where there are none, and likewise those of known
        samples.
        """
        found = {name: value for name, value in self.report.items() if isinstance(value, float)}
        best = self.scores.max(axis=1)
        found["auroc_known"] = metrics.auroc_known(self.truth, best, known=self.classes)
        found["fpr_at_tpr"] = metrics.fpr_at_tpr(self.truth, best, known=self.classes)
        found["oscr_area"] = metrics.oscr_area(self.truth, self.scores, known=self.classes)
        return {name: float(value) for name, value in found.items() if np.isfinite(value)}

    def curve_at(self, false_positive_rates: ArrayLike, *, named: bool = True) -> np.ndarray:
        """Return the share of known samples accepted at given shares of unknown ones accepted.

        Parameters
        ----------
        false_positive_rates : array-like of shape (k,)
            Increasing, from 0 to 1.
        named : bool, default=True
            Count only samples that are also given their own class (the OSCR curve); False counts
            all that are accepted (the ROC curve of known against unknown).

        Returns
        -------
        ndarray of shape (k,)
        """
        if named:
            fpr, rate, _ = metrics.oscr_curve(self.truth, self.scores, known=self.classes)
        else:  # the OSCR curve of a single class that all known samples belong to
            best = self.scores.max(axis=1)[:, None]
            fpr, rate, _ = metrics.oscr_curve(self.is_known, best, known=[True])
        return np.interp(np.asarray(false_positive_rates, dtype=float), fpr, rate)
