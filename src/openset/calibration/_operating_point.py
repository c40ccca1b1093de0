"""Where the threshold lies: what each criterion needs, what it promises, and its thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..base import OpenSetClassifier
from ._cost import CostCurve, check_costs, cost_curve_of
from ._curve import between
from ._precision import count_above, precision_threshold
from ._thresholds import conformal_thresholds, finite_scores, tradeoff_thresholds


@dataclass(frozen=True)
class OperatingPoint:
    """The criterion of a CalibratedRejector, with the parameters of that class."""

    criterion: str
    alpha: float
    per_class: bool
    by: str
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
    def _weighs_unknown(self) -> bool:
        """Whether unknown samples count with the weight `unknown_share`."""
        return self.criterion in ("precision", "cost")

    @property
    def needs_unknown(self) -> bool:
        """Whether the thresholds depend on a sample of unknowns."""
        return self.unknown_share > 0 if self._weighs_unknown else self.criterion != "fu"

    def check(self, X_unknown: Any, has_known_unknowns: bool) -> None:
        """Raise ValueError if the parameters contradict each other or the samples given."""
        if self.per_class and self.by == "highest":
            raise ValueError(
                "by='highest' is for one threshold; with per_class=True each class needs the "
                "scores of its own samples. Use by='own'."
            )
        if self.criterion == "cost":
            check_costs(self.costs, self.unknown_share)
        if self.criterion == "fu":
            if X_unknown is not None:
                raise ValueError(
                    "X_unknown was passed, but the promise of criterion='fu' is about known "
                    "samples. Leave it out, or choose criterion='aus' or 'hna'."
                )
            return
        if self._weighs_unknown and self.unknown_share == 0 and X_unknown is not None:
            raise ValueError(
                "X_unknown was passed, but unknown_share=0 says that no unknown samples come. Set "
                "unknown_share, or leave X_unknown out."
            )
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
        if self.criterion == "fu":
            promise = self.alpha, self.per_class, self.by
            return conformal_thresholds(model, transform, X, codes, *promise), None
        n_classes = len(model.classes_)
        scores = finite_scores(model, transform(X))
        others = np.empty((0, n_classes))
        if X_unknown is not None:
            others = finite_scores(model, transform(X_unknown))
        if self.criterion == "precision":
            counts = count_above(scores, codes, others)
            share = self.unknown_share
            threshold = precision_threshold(counts, self.precision, self.confidence, share)
            return np.full(n_classes, threshold), None
        codes = np.append(codes, np.full(len(others), n_classes))
        scores = np.vstack([scores, others])
        if self.criterion != "cost":
            return tradeoff_thresholds(scores, codes, self.alpha, self.criterion), None
        curve = cost_curve_of(codes, scores, self.costs, self.unknown_share)
        best = int(curve.cost.argmin())
        if best == 0:
            raise ValueError(
                f"With costs={self.costs!r} and unknown_share={self.unknown_share:g} it is "
                "cheapest to reject every sample: an answer costs more than it saves. Check the "
                "costs, or train a better estimator."
            )
        return np.full(n_classes, between(curve.thresholds, best)), curve
