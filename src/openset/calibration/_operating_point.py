"""Where the threshold lies: what each criterion needs, what it promises, and its thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..base import OpenSetClassifier
from ._cost import CostCurve, check_costs, cost_curve_of
from ._curve import below, is_gap
from ._precision import count_above, precision_threshold
from ._thresholds import conformal_thresholds, settled_thresholds, tradeoff_thresholds


@dataclass(frozen=True)
class OperatingPoint:
    """The criterion of a CalibratedRejector, with the parameters of that class."""

    criterion: str
    alpha: float
    per_class: bool
    by: str | None
    precision: float
    confidence: float
    unknown_share: float
    costs: Any  # checked by check_costs

    @classmethod
    def of(cls, rejector: Any) -> OperatingPoint:
        """The operating point that the parameters of an estimator ask for."""
        return cls(**{field.name: getattr(rejector, field.name) for field in fields(cls)})

    def __str__(self) -> str:
        alpha = f", alpha={self.alpha:g}" if self.criterion in ("fu", "aus") else ""
        return f"criterion={self.criterion!r}{alpha}"

    @property
    def promises(self) -> bool:
        """Whether samples to come are promised anything."""
        return self.criterion in ("fu", "precision")

    @property
    def compared(self) -> str:
        """Which score of a calibration sample counts for criterion="fu"."""
        return self.by or ("own" if self.per_class else "highest")

    @property
    def _weighs_unknown(self) -> bool:
        """Whether unknown samples count with the weight `unknown_share`."""
        return self.criterion in ("precision", "cost")

    @property
    def needs_unknown(self) -> bool:
        """Whether the thresholds depend on a sample of unknowns."""
        return self.unknown_share > 0 if self._weighs_unknown else self.criterion != "fu"

    @property
    def remedy(self) -> str:
        """What to do where few unknown samples are rejected any more."""
        if self.criterion != "fu":
            return "Train a better estimator, or choose a stricter operating point."
        weaker = ", or by='highest'" if self.compared == "own" and not self.per_class else ""
        return f"Train a better estimator, or choose a larger alpha{weaker}."

    def check_unknown(self, X_unknown: Any) -> None:
        """Raise ValueError if unknown samples are passed although none are said to come."""
        if self._weighs_unknown and self.unknown_share == 0 and X_unknown is not None:
            raise ValueError(
                "X_unknown was passed, but unknown_share=0 says that no unknown samples come. Set "
                "unknown_share, or leave X_unknown out."
            )

    def check(self, X_unknown: Any, has_known_unknowns: bool) -> None:
        """Raise ValueError if the parameters contradict each other or the samples given."""
        if self.per_class and self.by == "highest":
            raise ValueError(
                "by='highest' is for one threshold; with per_class=True each class needs the "
                "scores of its own samples. Leave by out."
            )
        if self.criterion == "cost":
            check_costs(self.costs, self.unknown_share)
        if self.criterion == "fu":
            return
        missing = X_unknown is None and not has_known_unknowns
        if missing and self._weighs_unknown and self.needs_unknown:
            raise ValueError(
                f"unknown_share={self.unknown_share:g} needs X_unknown in fit, samples of no known "
                "class."
            )
        if missing and not self._weighs_unknown:
            raise ValueError(
                f"criterion={self.criterion!r} needs X_unknown in fit, samples of no known class, "
                "or known unknowns: rows of y that carry an explicit unknown_label."
            )
        if self.per_class:
            raise ValueError(
                f"per_class=True is for criterion='fu'; criterion={self.criterion!r} sets one "
                "threshold for all classes, since an unknown sample is of none."
            )

    def thresholds(
        self, model: OpenSetClassifier, transform: Callable, X, codes: np.ndarray, X_unknown
    ) -> tuple[np.ndarray, CostCurve | None]:
        """Thresholds (K,) of a fitted model, and the curve of costs if the criterion is "cost".

        The samples X are of known classes, with the class indices `codes`; `transform` maps samples
        to the input of the model.
        """

        def choose(scores, unknown, band):
            return self._choose(scores, codes, unknown, band, model.classes_, model.far_scores())

        unknown = X_unknown if self.needs_unknown else None
        return settled_thresholds(model, transform, X, unknown, choose)

    def _choose(self, known, codes, unknown, band, classes, far):
        """The same from scores of known (n, K) and unknown samples (m, K), and far away (K,)."""
        if self.criterion == "fu":
            per_class, by = self.per_class, self.compared
            return conformal_thresholds(
                known, codes, self.alpha, per_class, by, classes, band, far
            ), None
        n_classes = len(classes)
        if self.criterion == "precision":
            counts = count_above(known, codes, unknown)
            share = self.unknown_share
            threshold = precision_threshold(
                counts, self.precision, self.confidence, share, band, far
            )
            return np.full(n_classes, threshold), None
        codes = np.append(codes, np.full(len(unknown), n_classes))
        scores = np.vstack([known, unknown])
        if self.criterion != "cost":
            return tradeoff_thresholds(scores, codes, self.alpha, self.criterion, band, far), None
        curve = cost_curve_of(codes, scores, self.costs, self.unknown_share)
        best = int(np.where(is_gap(curve.thresholds, band), curve.cost, np.inf).argmin())
        if best == 0:
            raise ValueError(
                f"With costs={self.costs!r} and unknown_share={self.unknown_share:g} it is "
                "cheapest to reject every sample: an answer costs more than it saves. Check the "
                "costs, or train a better estimator."
            )
        return np.full(n_classes, below(curve.thresholds, best, far)), curve
