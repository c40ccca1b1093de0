"""The critical-difference diagram: methods on an axis of average ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text

from ..evaluation.stats import Test, critical_difference
from ._display import BASE_COLORS, INK, Display, plain_text

# Distance of the bars of two cliques, in rows of methods.
_CLIQUE = 0.45


@dataclass(kw_only=True, eq=False, repr=False)
class CriticalDifferenceDisplay(Display):
    """Average ranks of methods, and which of them differ: from a control, or from each other.

    The best rank, 1, is at the right. With a control, the thick red bar on the axis extends one
    critical difference to both sides of it: a method whose line starts inside the bar does not
    differ significantly from the control by the Bonferroni-Dunn test. Without one, all pairs are
    compared by Nemenyi's test, and each bar below the axis joins a clique of methods no two of
    which differ. Build it with :meth:`from_ranks`.

    Parameters
    ----------
    ranks : dict {str: float}
        Average rank of each method; 1 is the best.
    control : str or None
        The method that the others are compared with; None compares all pairs.
    critical_difference : float
        Difference of ranks beyond which two methods differ significantly.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    bars_ : list of Line2D
        The bar of the control, or one per clique.
    names_, lines_ : dict {str: Text}, dict {str: Line2D}

    References
    ----------
    J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of
    Machine Learning Research 7, 2006.

    Examples
    --------
    >>> from openset.plots import CriticalDifferenceDisplay
    >>> ranks = {"OSSVM": 1.5, "EVM": 1.9, "SVM": 2.6}
    >>> display = CriticalDifferenceDisplay.from_ranks(ranks, control="OSSVM", n_datasets=20)
    >>> round(display.critical_difference, 3)
    0.709
    >>> display.not_different
    ['EVM']
    >>> CriticalDifferenceDisplay.from_ranks(ranks, n_datasets=20).cliques
    [['OSSVM', 'EVM'], ['EVM', 'SVM']]
    """

    ranks: dict[str, float]
    control: str | None
    critical_difference: float

    @classmethod
    def from_ranks(
        cls,
        ranks: dict[str, float],
        *,
        control: str | None = None,
        n_datasets: int,
        alpha: float = 0.05,
        ax: Axes | None = None,
    ) -> CriticalDifferenceDisplay:
        """Draw the diagram from average ranks alone.

        Parameters
        ----------
        ranks, control
            As for the class.
        n_datasets : int
            Number of datasets (or other blocks) over which the ranks are averaged.
        alpha : float, default=0.05
            Level of the Bonferroni-Dunn test, or of Nemenyi's without a control.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        CriticalDifferenceDisplay
        """
        if n_datasets < 1:
            raise ValueError(f"n_datasets={n_datasets!r} must be at least 1.")
        test: Test = "nemenyi" if control is None else "bonferroni-dunn"
        difference = critical_difference(max(len(ranks), 2), n_datasets, test=test, alpha=alpha)
        return cls(ranks=ranks, control=control, critical_difference=difference).plot(ax=ax)

    @property
    def not_different(self) -> list[str]:
        """Methods that do not differ significantly from the control, best first."""
        if self.control is None:
            return []
        reach = self.critical_difference
        return [
            name
            for name in self._best_first()
            if name != self.control and abs(self.ranks[name] - self.ranks[self.control]) <= reach
        ]

    @property
    def cliques(self) -> list[list[str]]:
        """The largest groups of two methods or more no two of which differ, best first."""
        order = self._best_first()
        ranks = np.array([self.ranks[name] for name in order])
        ends = np.searchsorted(ranks, ranks + self.critical_difference, side="right")
        new = np.diff(ends, prepend=0) > 0  # else the group is part of the one before
        return [order[i:end] for i, end in enumerate(ends) if new[i] and end - i > 1]

    def _best_first(self):
        return sorted(self.ranks, key=self.ranks.__getitem__)

    def _start(self, ax, **subplots):
        self._check()
        rows = -(-len(self.ranks) // 2) + sum(self._room())
        return super()._start(ax, figsize=(6, 0.9 + 0.28 * rows))

    def _room(self):
        """Heights of the bars of the cliques and of the ruler, in rows of methods."""
        return (0, 0) if self.control is not None else (_CLIQUE * len(self.cliques), 1.2)

    def _draw(self, ax):
        k = len(self.ranks)
        worst_first = sorted(self.ranks, key=self.ranks.__getitem__, reverse=True)
        n_left = -(-k // 2)
        self._draw_axis(ax, k, n_left)
        below = self._room()[0]
        self.names_: dict[str, Text] = {}
        self.lines_: dict[str, Line2D] = {}
        for depth, name in enumerate(worst_first[:n_left], start=1):
            self._draw_method(ax, name, depth + below, k, "right")
        for depth, name in enumerate(reversed(worst_first[n_left:]), start=1):
            self._draw_method(ax, name, depth + below, 1, "left")
        style = {"color": BASE_COLORS[0], "linewidth": 5, "solid_capstyle": "butt", "zorder": 3}
        if self.control is not None:
            reach = self.critical_difference * np.array([-1, 1])
            ends = np.clip(self.ranks[self.control] + reach, 1, k)
            self.bars_ = ax.plot(ends, [0, 0], **style)
            return
        self.bars_ = []
        for row, clique in enumerate(self.cliques, start=1):
            ends = self.ranks[clique[0]] - 0.04, self.ranks[clique[-1]] + 0.04
            self.bars_ += ax.plot(ends, [-_CLIQUE * row] * 2, **(style | {"linewidth": 3.5}))
        ends = 1, 1 + self.critical_difference
        ax.errorbar(ends, [1.75] * 2, yerr=0.18, color=INK, linewidth=1.2)
        text = f"critical difference {self.critical_difference:.2f}"
        ax.text(np.mean(ends), 1.95, text, ha="center", va="bottom")

    def _check(self):
        k = len(self.ranks)
        if k < 2:
            raise ValueError(f"ranks has {k} methods; a comparison needs at least 2.")
        if self.control is not None and self.control not in self.ranks:
            raise ValueError(
                f"control={self.control!r} must be one of the methods {list(self.ranks)}."
            )
        for name, rank in self.ranks.items():
            if not 1 <= rank <= k:
                raise ValueError(
                    f"ranks[{name!r}] = {rank!r} is not an average rank of {k} methods; it must "
                    f"lie between 1 and {k}."
                )

    def _draw_axis(self, ax, k, n_left):
        ax.plot([1, k], [0, 0], color=INK, linewidth=1.2)
        for rank in range(1, k + 1):
            ax.plot([rank, rank], [0, 0.3], color=INK, linewidth=1.2)
            ax.text(rank, 0.4, str(rank), ha="center", va="bottom")
        for half in np.arange(1.5, k):
            ax.plot([half, half], [0, 0.18], color=INK, linewidth=0.8)
        # The axis grows to the left: rank 1, the best, is at the right.
        room = 0.28 * (k - 1)
        below, above = self._room()
        ax.set(xlim=(k + room, 1 - room), ylim=(-n_left - 0.7 - below, 1.3 + above))
        ax.set_axis_off()

    def _draw_method(self, ax, name, depth, end, align):
        rank = self.ranks[name]
        side = 0.03 * (len(self.ranks) - 1) * (1 if align == "right" else -1)
        stop = end + side
        (self.lines_[name],) = ax.plot([rank, rank, stop], [0, -depth, -depth], color=INK, lw=1)
        style = {"ha": align, "va": "center"}
        style["weight"] = "bold" if name == self.control else "normal"
        text = f"{plain_text(name)} ({rank:.2f})"
        self.names_[name] = ax.text(stop + side / 2, -depth, text, **style)
