"""Results over parameters, time or methods: lambda path, heat map, evidence, average ranks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..evaluation.stats import Test, critical_difference
from ..metrics import OpenSetCounts, encode_labels
from ..monitoring import UnknownRateMonitor
from ..svm import LambdaPath
from ..utils import decide
from ._display import (
    BASE_COLORS,
    INK,
    Display,
    axes_for,
    class_colors,
    class_marker,
    class_name,
    line_style,
    plain_text,
)

# Distance of the bars of two cliques, in rows of methods.
_CLIQUE = 0.45


@dataclass(kw_only=True, eq=False, repr=False)
class LambdaPathDisplay:
    """Bias of each class against lambda, and optionally the accuracies below it.

    Filled markers mean that the class accepts a bounded region (its bias is negative), hollow
    markers that the region is unbounded. A tick on the zero line is the smallest lambda at which
    the class becomes bounded. Build it with :meth:`from_path`.

    Parameters
    ----------
    path : LambdaPath
        From :func:`openset.svm.lambda_path`.
    accuracy_known, accuracy_unknown : ndarray of shape (T,), default=None
        AKS and AUS of the classifier at each lambda of the path.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, of shape (1,) or (2,)
    figure_ : matplotlib Figure
    lines_ : list of Line2D
        Bias of each class.
    crossings_ : list of Line2D
        Smallest lambda that bounds the class, for each class that is unbounded at lambda = 0.
    accuracy_lines_ : list of Line2D
        AKS, AUS and NA, the mean of both.

    Examples
    --------
    >>> from openset.datasets import make_boat
    >>> from openset.plots import LambdaPathDisplay
    >>> from openset.svm import lambda_path
    >>> X, y = make_boat(random_state=0)
    >>> display = LambdaPathDisplay.from_path(lambda_path(X, y, gamma=1.0))
    >>> len(display.lines_), len(display.crossings_)
    (3, 1)
    """

    path: LambdaPath
    accuracy_known: np.ndarray | None = None
    accuracy_unknown: np.ndarray | None = None

    @classmethod
    def from_path(
        cls,
        path: LambdaPath,
        *,
        y_validation: ArrayLike | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> LambdaPathDisplay:
        """Draw a lambda path.

        Parameters
        ----------
        path
            As for the class.
        y_validation : array-like of shape (n,), default=None
            Labels of the validation samples of the path, for the accuracies; a label that is not
            one of its classes is unknown.
        ax : matplotlib Axes or sequence of two, default=None
            Where to draw: one Axes for the bias and, with `y_validation`, a second one for the
            accuracies. None makes a new figure.

        Returns
        -------
        LambdaPathDisplay
        """
        if y_validation is None:
            return cls(path=path).plot(ax=ax)
        if path.scores is None:
            raise ValueError(
                "y_validation was passed, but the path has no scores; "
                "call lambda_path with X_validation=."
            )
        true, n_scored = encode_labels(y_validation, path.classes), path.scores.shape[2]
        if len(true) != n_scored:
            raise ValueError(
                f"y_validation has {len(true)} labels, the path scores of {n_scored} samples."
            )
        answers = decide(np.moveaxis(path.scores, 0, -1))
        counts = OpenSetCounts.from_codes(true, answers, len(path.classes))
        known, unknown = counts.accuracy_known(), counts.accuracy_unknown()
        return cls(path=path, accuracy_known=known, accuracy_unknown=unknown).plot(ax=ax)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax
            As for :meth:`from_path`.

        Returns
        -------
        display
        """
        n_axes = 1 if self.accuracy_known is None else 2
        ax = axes_for(ax, nrows=n_axes, sharex=True)
        self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object))
        if self.axes_.shape != (n_axes,):
            raise ValueError(f"ax has {self.axes_.size} axes; this display draws on {n_axes}.")
        self.figure_ = self.axes_[0].figure
        self._draw_bias(self.axes_[0])
        self.accuracy_lines_ = [] if n_axes == 1 else self._draw_accuracies(self.axes_[1])
        self.axes_[-1].set_xlabel(r"$\lambda$, fraction of its range")
        return self

    def _draw_bias(self, ax):
        path = self.path
        colors = class_colors(len(path.classes))
        ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
        self.lines_, self.crossings_ = [], []
        for c, label in enumerate(path.classes):
            marker = {"marker": class_marker(c), "markersize": 5, "color": colors[c]}
            (line,) = ax.plot(path.lams, path.bias[c], label=class_name(label), **marker)
            self.lines_.append(line)
            unbounded = ~path.bounded[c]
            if unbounded.any():
                over = {"markerfacecolor": "white", "linestyle": "none", "zorder": 3}
                ax.plot(path.lams[unbounded], path.bias[c, unbounded], **marker, **over)
                tick = {"color": colors[c], "markersize": 16, "markeredgewidth": 2, "zorder": 4}
                self.crossings_ += ax.plot(path.smallest_bounding[c], 0, "|", **tick)
        ax.set_ylabel("bias $b$")
        ax.legend(title="hollow: unbounded", loc="lower left")  # free, as the bias falls

    def _draw_accuracies(self, ax):
        curves = [self.accuracy_known, self.accuracy_unknown]
        curves.append((self.accuracy_known + self.accuracy_unknown) / 2)
        lines = []
        for k, name in enumerate(("AKS, known", "AUS, unknown", "NA, mean")):
            style = {"color": str(0.25 * k), "linestyle": line_style(k), "label": name}
            lines += ax.plot(self.path.lams, curves[k], **style)
        ax.set(ylabel="accuracy", ylim=(-0.03, 1.03))
        ax.legend()
        return lines


@dataclass(kw_only=True, eq=False, repr=False)
class SearchHeatmapDisplay(Display):
    """Mean score of a search for each pair of values of two parameters.

    If the search varied more parameters, each cell shows the best score over them. A hatched cell
    was not tried or scored -inf, as OpenSetSVC does where a class is unbounded. The star is the
    best setting. Build it with :meth:`from_estimator`.

    Parameters
    ----------
    scores : ndarray of shape (ny, nx)
        Best mean score of each cell; not finite where there is none.
    x_values, y_values : sequence of length nx, ny
        Values of the two parameters.
    x_name, y_name : str
    best : (int, int), default=None
        Row and column of the best setting.
    score_name : str, default="mean score"

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    image_, colorbar_ : matplotlib AxesImage, Colorbar
    star_ : Line2D or None

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.datasets import make_four_gauss
    >>> from openset.model_selection import OpenSetSearchCV
    >>> from openset.plots import SearchHeatmapDisplay
    >>> X, y = make_four_gauss(random_state=0)
    >>> grid = {"gamma": [0.1, 1.0], "lam": [0.0, 0.2, 0.4]}
    >>> search = OpenSetSearchCV(OpenSetSVC(), grid, random_state=0).fit(X, y)
    >>> SearchHeatmapDisplay.from_estimator(search).scores.shape
    (2, 3)
    """

    scores: np.ndarray
    x_values: Sequence[Any]
    y_values: Sequence[Any]
    x_name: str
    y_name: str
    best: tuple[int, int] | None = None
    score_name: str = "mean score"

    @classmethod
    def from_estimator(
        cls,
        search: BaseEstimator,
        *,
        params: Sequence[str] | None = None,
        class_label: Hashable = None,
        ax: Axes | None = None,
    ) -> SearchHeatmapDisplay:
        """Draw the results of a search.

        Parameters
        ----------
        search : OpenSetSearchCV or another search with ``cv_results_``
        params : sequence of two str, default=None
            Parameters of the horizontal and of the vertical axis; None takes the two with the most
            values.
        class_label : label, default=None
            The class to show, for a search at level "class".
        ax : matplotlib Axes, default=None

        Returns
        -------
        SearchHeatmapDisplay
        """
        if not hasattr(search, "cv_results_"):
            raise ValueError(f"{type(search).__name__} has no cv_results_; fit the search first.")
        results = search.cv_results_
        rows = _rows_of(results, class_label)
        params_of = [key for key in results if key.startswith("param_")]
        tried = {key.removeprefix("param_"): _levels(results[key][rows]) for key in params_of}
        if params is None:
            if len(tried) < 2:
                raise ValueError(
                    f"the search varied {sorted(tried)}; a heat map needs two parameters."
                )
            params = sorted(tried, key=lambda name: -len(tried[name][0]))[:2]
        if len(params) != 2 or not set(params) <= tried.keys():
            raise ValueError(f"params={params!r} must be two of {sorted(tried)}.")
        (x_values, x_at), (y_values, y_at) = (tried[name] for name in params)
        scores = np.full((len(y_values), len(x_values)), np.nan)
        means = np.asarray(results["mean_test_score"], dtype=np.float64)[rows]
        np.fmax.at(scores, (y_at, x_at), means)
        best = int(np.argmax(np.nan_to_num(means, nan=-np.inf)))  # the first one on ties
        scoring = getattr(search, "scoring_", getattr(search, "scoring", None))
        axes = {"x_values": x_values, "y_values": y_values, "scores": scores}
        return cls(
            **axes,
            x_name=params[0],
            y_name=params[1],
            best=(y_at[best], x_at[best]) if np.isfinite(means[best]) else None,
            score_name=scoring.replace("_", " ") if isinstance(scoring, str) else "mean score",
        ).plot(ax=ax)

    def _draw(self, ax):
        shown = np.ma.masked_invalid(self.scores)
        ax.patch.set(hatch="xxx", edgecolor="0.75")
        self.image_ = ax.imshow(shown, cmap="viridis", origin="lower", aspect="auto")
        self.star_ = None
        if self.best is not None:
            style = {"color": "white", "markeredgecolor": INK, "markersize": 14}
            (self.star_,) = ax.plot(self.best[1], self.best[0], "*", **style)
        of_y = ax.yaxis, self.y_values, self.y_name
        for axis, values, name in ((ax.xaxis, self.x_values, self.x_name), of_y):
            step = -(-len(values) // 12)  # at most twelve labels, so that they do not collide
            places = range(0, len(values), step)
            texts = _texts(values)
            axis.set_ticks(places, [texts[k] for k in places])
            axis.set_label_text(plain_text(name))
        label = plain_text(self.score_name)
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=ax, label=label)


def _rows_of(results, class_label):
    """Rows of the table to show."""
    if "class" in results:
        classes = results["class"].tolist()
        if class_label not in classes:
            raise ValueError(
                "the search chose a setting for each class; pass class_label= one of "
                f"{sorted(set(classes))}, not {class_label!r}."
            )
        return [k for k, label in enumerate(classes) if label == class_label]
    if class_label is not None:
        raise ValueError(
            f"class_label={class_label!r} was passed, but the search chose one setting for all "
            "classes; leave class_label out."
        )
    # A default of the estimator may be a name, such as gamma="scale", without a place.
    first = results["params"][0]
    return [
        k
        for k, params in enumerate(results["params"])
        if all(isinstance(v, str) <= isinstance(first.get(n, v), str) for n, v in params.items())
    ]


def _levels(values):
    """The distinct values of a parameter, sorted if numeric, and the index of each row's value."""
    plain = [None if value is np.ma.masked else value for value in values]
    levels = list(dict.fromkeys(plain))
    if all(isinstance(value, int | float) for value in levels):
        levels.sort()
    return levels, np.array([levels.index(value) for value in plain])


def _texts(values):
    """Tick labels of the values; as powers of two if all of them are."""
    if not all(isinstance(value, float) for value in values):
        return [plain_text(value) for value in values]
    mantissas, exponents = np.frexp(values)
    powers = [f"$2^{{{exponent - 1}}}$" for exponent in exponents]
    return powers if np.all(mantissas == 0.5) else [f"{value:.3g}" for value in values]


@dataclass(kw_only=True, eq=False, repr=False)
class EvidenceDisplay(Display):
    """Evidence that a stream has changed, over the number of samples.

    The dashed line is the threshold of the alarm. Build it with :meth:`from_monitor`.

    Parameters
    ----------
    n_samples : ndarray of shape (n,)
    log_evidence : ndarray of shape (n,)
        Natural logarithms.
    log_threshold : float
    alarm_at : int or None
        Sample at which the alarm was raised.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    line_, threshold_ : Line2D
    alarm_ : Line2D or None
        A line at the sample of the alarm.
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from openset.monitoring import UnknownRateMonitor
    >>> from openset.plots import EvidenceDisplay
    >>> monitor = UnknownRateMonitor(rate0=0.1)
    >>> monitor.update([1, 1, -1, -1, -1, 1, -1])
    True
    >>> display = EvidenceDisplay.from_monitor(monitor)
    >>> display.alarm_at
    5
    """

    n_samples: np.ndarray
    log_evidence: np.ndarray
    log_threshold: float
    alarm_at: int | None = None

    @classmethod
    def from_monitor(cls, monitor: UnknownRateMonitor, *, ax: Axes | None = None) -> Self:
        """Draw the history of a monitor.

        Parameters
        ----------
        monitor : UnknownRateMonitor
        ax : matplotlib Axes, default=None

        Returns
        -------
        EvidenceDisplay
        """
        n_samples, log_evidence = monitor.history
        alarm: dict[str, Any] = {"alarm_at": monitor.alarm_at}
        alarm["log_threshold"] = monitor.log_threshold
        return cls(n_samples=n_samples, log_evidence=log_evidence, **alarm).plot(ax=ax)

    def _draw(self, ax):
        red, _, blue = class_colors(3)
        ten = np.log(10)
        (self.line_,) = ax.plot(self.n_samples, self.log_evidence / ten, color=blue)
        style = {"color": INK, "linestyle": "--", "label": "alarm threshold"}
        self.threshold_ = ax.axhline(self.log_threshold / ten, **style)
        self.alarm_ = None
        if self.alarm_at is not None:
            label = f"alarm at sample {self.alarm_at:,}"
            self.alarm_ = ax.axvline(self.alarm_at, color=red, linestyle=":", label=label)
        ax.set(xlabel="samples", ylabel="evidence of a change (log 10)")
        self.legend_ = ax.legend()


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
        behind = {name: abs(self.ranks[name] - self.ranks[self.control]) for name in self._order}
        reach = self.critical_difference
        return [name for name in behind if name != self.control and behind[name] <= reach]

    @property
    def cliques(self) -> list[list[str]]:
        """The largest groups of two methods or more no two of which differ, best first."""
        order = self._order
        ranks = np.array([self.ranks[name] for name in order])
        ends = np.searchsorted(ranks, ranks + self.critical_difference, side="right")
        new = np.diff(ends, prepend=0) > 0  # else the group is part of the one before
        return [order[i:end] for i, end in enumerate(ends) if new[i] and end - i > 1]

    @property
    def _order(self):
        """The methods, best first."""
        return sorted(self.ranks, key=self.ranks.__getitem__)

    def _axes(self, ax):
        self._check()
        rows = -(-len(self.ranks) // 2) + sum(self._room())
        return axes_for(ax, figsize=(6, 0.9 + 0.28 * rows))

    def _room(self):
        """Heights of the bars of the cliques and of the ruler, in rows of methods."""
        return (0, 0) if self.control is not None else (_CLIQUE * len(self.cliques), 1.2)

    def _draw(self, ax):
        k = len(self.ranks)
        worst_first = sorted(self.ranks, key=self.ranks.__getitem__, reverse=True)
        n_left = -(-k // 2)
        self._draw_axis(ax, k, n_left)
        self.names_: dict[str, Text] = {}
        self.lines_: dict[str, Line2D] = {}
        sides = (worst_first[:n_left], k, "right"), (worst_first[n_left:][::-1], 1, "left")
        for names, end, align in sides:
            for depth, name in enumerate(names, start=1):
                self._draw_method(ax, name, depth + self._room()[0], end, align)
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
        for name in [name for name, rank in self.ranks.items() if not 1 <= rank <= k]:
            raise ValueError(
                f"ranks[{name!r}] = {self.ranks[name]!r} is not an average rank of {k} methods; it "
                f"must lie between 1 and {k}."
            )

    def _draw_axis(self, ax, k, n_left):
        ax.plot([1, k], [0, 0], color=INK, linewidth=1.2)
        for rank in range(1, k + 1):
            ax.plot([rank, rank], [0, 0.3], color=INK, linewidth=1.2)
            ax.text(rank, 0.4, str(rank), ha="center", va="bottom")
        for half in np.arange(1.5, k):
            ax.plot([half, half], [0, 0.18], color=INK, linewidth=0.8)
        # The axis grows to the left: rank 1, the best, is at the right.
        room, (below, above) = 0.28 * (k - 1), self._room()
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
