"""The figures of a comparison: ranking, curves, decision regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from openset.cli._trials import GRID, Outcome, interval
from openset.plots import DecisionRegionsDisplay, KnownROCDisplay, OSCRDisplay
from openset.plots._style import BASE_COLORS, INK, class_colors, class_name, tint

# Large letters: on a phone a figure is shown at half its size.
_FONT = 12


def ranking_figure(ranked: Sequence[Outcome]) -> Figure:
    """Mean normalized accuracy of each method with its interval, best at the top."""
    figure = Figure(figsize=(6.4, 0.9 + 0.42 * len(ranked)), layout="constrained")
    ax = figure.subplots()
    for k, outcome in enumerate(ranked):
        mean, half = interval(outcome.values("normalized_accuracy"))
        style = {"color": BASE_COLORS[2] if k == 0 else INK, "capsize": 4, "markersize": 7}
        ax.errorbar(mean, k, xerr=half, fmt="o", **style)
    ax.set_yticks(range(len(ranked)), [outcome.method for outcome in ranked], fontsize=_FONT)
    ax.invert_yaxis()
    ax.set_xlabel("normalized accuracy", fontsize=_FONT)
    ax.tick_params(axis="x", labelsize=_FONT - 1)
    ax.grid(axis="x", alpha=0.3)
    return figure


def oscr_figure(ranked: Sequence[Outcome]) -> Figure:
    """Known samples accepted and named rightly against unknown ones accepted."""
    displays = [
        OSCRDisplay(
            fpr=GRID,
            ccr=outcome.mean("oscr"),
            area=outcome.values("oscr_area").mean(),
            operating_point=(
                1 - outcome.values("accuracy_unknown").mean(),
                outcome.values("accuracy_known").mean(),
            ),
            name=outcome.method,
        )
        for outcome in ranked
    ]
    return _curves(displays, "Accepted and named rightly (OSCR)")


def roc_figure(ranked: Sequence[Outcome]) -> Figure:
    """Known samples accepted against unknown ones accepted."""
    displays = [
        KnownROCDisplay(
            fpr=GRID,
            tpr=outcome.mean("roc"),
            area=outcome.values("auroc_known").mean(),
            operating_point=(
                1 - outcome.values("accuracy_unknown").mean(),
                1 - outcome.values("false_unknown_rate").mean(),
            ),
            name=outcome.method,
        )
        for outcome in ranked
    ]
    return _curves(displays, "Accepted, whatever the name (ROC)")


def _curves(displays, title):
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    ax = figure.subplots()
    for display in displays:
        display.plot(ax=ax)
    ax.set_title(title, fontsize=_FONT + 1)
    ax.xaxis.label.set_size(_FONT)
    ax.yaxis.label.set_size(_FONT)
    ax.tick_params(labelsize=_FONT - 1)
    display.legend_.remove()
    figure.legend(loc="outside lower center", ncols=2, fontsize=_FONT - 2, frameon=False)
    return figure


def regions_figure(ranked: Sequence[Outcome], X: np.ndarray, y: np.ndarray) -> Figure:
    """Cuts through the models of the first repeat, a panel for each, and samples beside them.

    Two features are the plane of the figure. Of more, the plane through the means of the first
    three known classes is shown, or without such that of the first two principal directions; after
    scaling, as the models see it.

    Parameters
    ----------
    ranked : sequence of Outcome
    X : ndarray of shape (n, d)
        d >= 2.
    y : ndarray of shape (n,)
    """
    before = ranked[0].model.best_estimator_[:-1]  # the scalers are the same for all
    known = ranked[0].model.classes_
    drawn = known if X.shape[1] == 2 else known[:3]
    shown = np.isin(y, drawn)
    Z, y = before.transform(X[shown]), y[shown]
    means = np.stack([Z[y == label].mean(axis=0) for label in drawn[:3]])
    plane = means if Z.shape[1] > 2 and np.linalg.matrix_rank(means[1:] - means[0]) == 2 else None

    n_rows = -(-len(ranked) // 2)
    figure = Figure(figsize=(6.8, 0.6 + 3.2 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 2, squeeze=False)
    for ax in axes.flat[len(ranked) :]:
        ax.axis("off")
    seen = set(range(len(drawn)))
    for ax, outcome in zip(axes.flat, ranked, strict=False):
        model = outcome.model.best_estimator_[-1]
        display = DecisionRegionsDisplay.from_estimator(
            model,
            Z,
            y,
            plane=plane,
            margin=0.5,
            grid_resolution=150,
            legend=False,
            point_size=8,
            ax=ax,
        )
        seen |= set(np.unique(display.regions).tolist())
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        ax.set_title(outcome.method, fontsize=_FONT + 2)
    colors = class_colors(len(known))
    patches = [
        Patch(facecolor=tint(colors[c]), edgecolor=colors[c], label=_short(class_name(known[c])))
        for c in sorted(seen - {len(known)})
    ]
    patches.append(Patch(facecolor="white", edgecolor=INK, label="unknown"))
    figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=_FONT)
    return figure


def _short(name):
    """A name that leaves room for others in a row of the legend."""
    return name if len(name) <= 14 else f"{name[:7]}…{name[-6:]}"
