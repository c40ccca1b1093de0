"""At most a share of the known samples is rejected: a rank of the calibration scores.

Of G exchangeable objects each has the mass 1 / (G + 1), in equal parts on its rows, and the object
to come has the rest, below all scores: a random row of it is below a score with a probability of at
most the mass below that score. Without objects each row is one: k / (n + 1) below the k-th of n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom

from ..base import AGGREGATES, group_levels
from ._criterion import SLACK, CalibrationScores, Criterion, between, fewest_groups, masses, width


@dataclass(frozen=True)
class KnownRejected(Criterion):
    """At most a share `alpha` of the known samples to come is rejected.

    Price: the lower `alpha`, the fewer unknown samples are rejected.

    Parameters
    ----------
    alpha : float in (0, 1), default=0.05
        Largest share of known samples that are rejected.
    confidence : float in (0, 1), default=None
        None: the promise holds on average over calibration sets; the one that was drawn may miss it
        by sqrt(alpha (1 - alpha) / n) or so. Otherwise it holds for that one with this probability,
        which takes log(1 - confidence) / log(1 - alpha) samples: 59 for 0.95 and alpha=0.05.
    within : {"class", "category"}, default=None
        "class": for the known samples of each class (Mondrian), with one threshold per class.
        "category": for those of each category (a camera, a site), which ``fit`` and ``predict``
        take as `categories`. Each needs enough samples: while only the lowest score lies below the
        threshold, one outlier makes a class accept almost all.
    own_class : bool, default=False
        False: any class may accept the sample. True, and always with ``within="class"``: its own
        class accepts it, so that ``predict_set`` contains the right class. Fewer unknown samples
        are rejected: where classes overlap, hardly any.
    aggregate : {"mean", "median", "votes"}, default=None
        With `groups` in ``fit`` samples come in objects (the frames of a track). None: the promise
        is about a random sample of an object to come, each object counting the same, and needs
        1 / alpha - 1 objects. Otherwise it is about the answer to an object that
        :func:`predict_groups` gives with the same `aggregate`, "votes" only for one threshold.

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer, 2005.
    S. S. Wilks, "Determination of sample sizes for setting tolerance limits", 1941 (confidence).
    Y. Lee, R. F. Barber, R. Willett, "Distribution-free inference with hierarchical data", 2023.

    Examples
    --------
    >>> from openset.calibration import KnownRejected
    >>> KnownRejected(0.01, confidence=0.95).sentence
    'at most 1 % of the known samples are rejected, with confidence 0.95'
    """

    alpha: float = 0.05
    confidence: float | None = None
    within: str | None = None  # type: ignore[assignment]
    own_class: bool = False
    aggregate: str | None = None

    promises: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ("groups", "categories")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.within not in (None, "class", "category"):
            raise ValueError(f"{self}: within must be None, 'class' or 'category'.")
        if not isinstance(self.own_class, bool | np.bool_):
            raise ValueError(f"{self}: own_class must be True or False.")
        if self.aggregate not in (None, *AGGREGATES):
            raise ValueError(f"{self}: aggregate must be None or one of {', '.join(AGGREGATES)}.")
        if self.aggregate == "votes" and self.counts_own_class:
            raise ValueError(
                f"{self}: votes are counted at one threshold, and for any class. Use 'mean' or "
                "'median' with own_class=True or within='class'."
            )

    @property
    def counts_own_class(self) -> bool:
        """Whether the score of a calibration sample for its own class counts, or the highest."""
        return self.own_class or self.within == "class"

    @property
    def sentence(self) -> str:
        whose = f"of each {self.within} " if self.within else ""
        end = " by their own class" if self.counts_own_class else ""
        sure = "" if self.confidence is None else f", with confidence {self.confidence:g}"
        what = "samples" if self.aggregate is None else "objects"
        return f"at most {self.alpha * 100:g} % of the known {what} {whose}are rejected{end}{sure}"

    @property
    def remedy(self) -> str:  # type: ignore[override]
        weaker = ", or own_class=False" if self.own_class and self.within != "class" else ""
        return f"Train a better estimator, or choose a larger alpha{weaker}."

    def check_enough(self, n: int, groups: np.ndarray | None, whose: str | None) -> None:
        if whose is None and self.within is not None:
            return  # each class or category has to have enough
        kind = "calibration samples"
        if groups is not None:
            n, kind = len(np.unique(groups)), "groups"
            if self.confidence is not None and self.aggregate is None:
                raise ValueError(
                    f"{self}: a confidence is for independent samples, not for those of groups. "
                    "Leave confidence out, or pass one sample per group and no groups."
                )
        if self._level(n) * SLACK >= 1 / (n + 1):
            return
        sure, possible, end, fewest = "", 1 / (n + 1), "", fewest_groups(self.alpha)
        if self.confidence is not None:
            sure, end = f" with confidence={self.confidence:g}", ", or leave confidence out"
            fewest = ceil(log(1 - self.confidence) / log(1 - self.alpha) / SLACK)
            possible = ceil((1 - (1 - self.confidence) ** (1 / max(1, n))) * 1e4) / 1e4
        raise ValueError(
            f"alpha={self.alpha:g}{sure} needs at least {fewest} {kind} "
            f"{whose or 'of known classes'}; there are {n}. Give more (for an estimator that is "
            "fitted here, a larger X or calibration_size)"
            + (f", or raise alpha to {possible:.3g} or more{end}." if n else ".")
        )

    def _level(self, n: int) -> float:
        """Mass, that of the sample to come included, which may lie below the threshold."""
        if self.confidence is None:
            return self.alpha
        # The share below the k-th smallest of n is at most alpha where Bin(n, alpha) is k or more.
        k = np.sum(binom.sf(np.arange(n), n, self.alpha) >= self.confidence)
        return float(k / (n + 1))

    def thresholds(self, scores: CalibrationScores) -> Any:
        if self.aggregate is not None:
            scores = self._of_groups(scores)
        counted = scores.known.max(axis=1)
        if self.counts_own_class:
            counted = scores.known[np.arange(len(counted)), scores.codes]
        if self.within != "class":
            return self._threshold(counted, scores, scores.far)
        parts = enumerate(scores.parts(scores.codes, "class", scores.classes))
        far = scores.far[:, None]
        return np.array([self._threshold(counted[rows], part, far[c]) for c, (rows, part) in parts])

    def _threshold(self, counted, scores: CalibrationScores, far) -> float:
        """Midway between the highest score that keeps the promise and the next lower one."""
        # An outlier far below does not lower the threshold: it lies no farther below that score
        # than the median lies above it.
        self.check_enough(len(counted), scores.groups, scores.whose)
        order = np.argsort(counted, kind="stable")
        mass = masses(order if scores.groups is None else scores.groups[order])[1:]
        enough = np.searchsorted(mass, self._level(len(counted)) * SLACK, side="right")
        highest = float(counted[order][enough])  # the lowest with more mass at or below it
        room = width(highest, scores.band)
        lower = counted[counted < highest - room]
        if lower.size:
            room = max(room, np.median(counted) - highest)
        return between(highest, lower.max(initial=highest - 2 * room), far)

    def _of_groups(self, scores: CalibrationScores) -> CalibrationScores:
        """One row of scores per group, as large as its answer tells."""
        if scores.groups is None:
            raise ValueError(f"{self} needs groups in fit, the object of each sample.")
        _, first, inverse = np.unique(scores.groups, return_index=True, return_inverse=True)
        codes = scores.codes[first]
        if np.any(scores.codes != codes[inverse]):
            raise ValueError(
                f"{self} gives one answer to each group, but a group has samples of more than one "
                "class. Use groups of one class each, or aggregate=None."
            )
        levels = group_levels(scores.known, inverse, self.aggregate or "mean")
        return scores._replace(known=levels, codes=codes, groups=None)
