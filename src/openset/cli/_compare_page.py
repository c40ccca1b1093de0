"""The results of a comparison as a page, a table and a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from openset.cli._text import join
from openset.evaluation import (
    ComparedMethod,
    coinciding_methods,
    confidence_interval,
    paired_differences,
)
from openset.plots import DecisionRegionsDisplay, KnownROCDisplay, OSCRDisplay, plain_text
from openset.study.page import Cell, Page
from openset.utils import split_fitted

_NA, _AKS, _AUS = "normalized_accuracy", "accuracy_known", "accuracy_unknown"
_COLUMNS = {"NA": _NA, "AKS": _AKS, "AUS": _AUS, "HNA": "harmonic_normalized_accuracy"}
_COLUMNS |= {"OSCR area": "oscr_area", "AUROC": "auroc_known"}
# False positive rates at which the curves of the repeats are averaged.
_GRID = np.linspace(0.0, 1.0, 201)
# Large letters: on a phone a figure is shown at half its size.
_FONT = 12


@dataclass(frozen=True)
class Subject:
    """The data that were compared on (X, y: the rows that were used), and how."""

    source: str
    target: str
    X: np.ndarray
    y: np.ndarray
    n_known: int
    n_read: int
    n_repeats: int
    n_tuning: int
    seed: int
    notes: list[str]  # what was left out, and why
    fit_command: str  # fits the winner


def verdict(compared: Sequence[ComparedMethod]) -> str:
    """The answer in words: no more than the spread over the repeats supports."""
    mean, half = confidence_interval(compared[0].values(_NA))
    behind = paired_differences(compared)
    close = [name for name, (gap, width) in behind.items() if gap - width <= 0]
    score = f"a normalized accuracy of {mean:.3f} ± {half:.3f}"
    text = f"{compared[0].name} {'leads' if behind else 'is the only method'}, with {score}."
    if close:
        text = (
            f"No single method leads. {compared[0].name} has the highest mean, {score}, but these "
            f"repeats cannot tell it from {join(close)}."
        )
    elif behind:
        text += " It is ahead of every other method by more than chance explains."
    for names in coinciding_methods(compared):
        text += (
            f" {join(names)} gave the same answer to every sample: with the parameters chosen here "
            "they are the same machine."
        )
    return text


def print_ranking(compared: Sequence[ComparedMethod]) -> None:
    """Print the ranking on the terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in ("NA", "", "AKS", "AUS", "OSCR area", "tune"):
        table.add_column(name, justify="right", no_wrap=True)
    for method in compared:
        if method.error:
            table.add_row(method.name, "failed")
            continue
        mean, half = confidence_interval(method.values(_NA))
        cells = [f"{method.values(name).mean():.3f}" for name in (_AKS, _AUS, "oscr_area")]
        seconds = f"{method.seconds_tune:.1f} s"
        table.add_row(method.name, f"{mean:.3f}", f"± {half:.3f}", *cells, seconds)
    Console().print(table)


def make_page(compared: Sequence[ComparedMethod], subject: Subject) -> Page:
    """Everything on one page: the answer first, then what it is based on."""
    ranked = [method for method in compared if not method.error]
    page = Page(f"Which open-set method for {subject.source}?")
    page.paragraph(
        f"{len(ranked)} methods were tuned and measured on {len(subject.y):,} samples of "
        f"{len(np.unique(subject.y))} classes (column {subject.target!r}), {subject.n_repeats} "
        f"times; each time {subject.n_known} classes were known and the others, never shown, "
        "should have been answered 'unknown'."
    )
    page.section("Answer")
    page.paragraph(verdict(ranked))
    page.paragraph("To fit it on all the data:")
    page.code(subject.fit_command)
    _add_ranking(page, ranked)
    _add_curves(page, ranked)
    if subject.X.shape[1] > 1:
        _add_regions(page, ranked, subject)
    page.section("Times")
    times = [(m.name, m.seconds_tune, 1e6 * m.seconds_predict) for m in ranked]
    page.table(
        ["method", "tune and fit", "predict one sample"],
        [[name, f"{tune:.2f} s", f"{predict:.1f} µs"] for name, tune, predict in times],
        caption="Medians over the repeats, on this machine.",
    )
    _add_protocol(page, compared, subject)
    return page


def _add_ranking(page, ranked):
    page.section("Ranking")
    intervals = [confidence_interval(method.values(_NA)) for method in ranked]
    figure = Figure(figsize=(6.4, 0.9 + 0.42 * len(ranked)), layout="constrained")
    ax = figure.subplots()
    for k, (mean, half) in enumerate(intervals):
        color = "tab:blue" if k == 0 else "0.15"
        ax.errorbar(mean, k, xerr=half, fmt="o", color=color, capsize=4, markersize=7)
    ax.set_yticks(range(len(ranked)), [method.name for method in ranked], fontsize=_FONT)
    ax.invert_yaxis()
    low, high = ax.get_xlim()  # an interval of few repeats may leave [0, 1]
    ax.set_xlim(max(low, -0.02), min(high, 1.02))
    ax.set_xlabel("normalized accuracy", fontsize=_FONT)
    ax.tick_params(axis="x", labelsize=_FONT - 1)
    ax.grid(axis="x", alpha=0.3)
    page.figure(
        figure,
        alt="Mean normalized accuracy of each method with its interval, best at the top.",
        caption="Mean over the repeats and its 95% interval.",
        half=True,
    )
    behind = paired_differences(ranked)
    means = np.array([[m.values(name).mean() for name in _COLUMNS.values()] for m in ranked])
    rows = []
    for k, method in enumerate(ranked):
        cells = [
            Cell(f"{value:.3f}", "best") if value == best else f"{value:.3f}"
            for value, best in zip(means[k], means.max(axis=0), strict=True)
        ]
        gap = "{:.3f} ± {:.3f}".format(*behind[method.name]) if k else ""
        half = f"± {intervals[k][1]:.3f}"
        rows.append([method.name, cells[0], half, gap, *cells[1:], f"{method.bounded:.0%}"])
    page.table(
        ["method", "NA", "", "behind the first", *list(_COLUMNS)[1:], "bounded"],
        rows,
        caption="Means over the repeats; the best value of each column in bold.",
    )
    page.bullets(
        [
            "AKS: share of known samples named correctly. AUS: share of unknown samples answered "
            "'unknown'. NA, normalized accuracy: the mean of the two. HNA: their harmonic mean.",
            "OSCR area and AUROC evaluate the scores at every threshold, not only the chosen one.",
            "behind the first: mean difference of NA, repeat by repeat on the same splits, with "
            "its interval, which holds for all methods at once. The repeats share samples, so the "
            "intervals are somewhat too narrow.",
            "bounded: share of the classes whose accepted region is provably bounded.",
        ]
    )


def _add_curves(page, ranked):
    page.section("Curves")
    page.paragraph(
        "Share of known samples accepted when a given share of the unknown ones is. Higher and "
        "further left is better; the marker is where the method itself decides."
    )
    for title, kind, rate, area in (
        ("Accepted and named correctly (OSCR)", OSCRDisplay, "ccr", "oscr_area"),
        ("Accepted (ROC)", KnownROCDisplay, "tpr", "auroc_known"),
    ):
        named = kind is OSCRDisplay
        figure = Figure(figsize=(6.4, 5.4), layout="constrained")
        ax = figure.subplots()
        for method in ranked:
            curves = [r.evaluation.curve_at(_GRID, named=named) for r in method.results]
            accepted = method.values(_AKS) if named else 1 - method.values("false_unknown_rate")
            point = 1 - method.values(_AUS).mean(), accepted.mean()
            display = kind(
                fpr=_GRID,
                **{rate: np.mean(curves, axis=0)},
                area=method.values(area).mean(),
                operating_point=point,
                name=method.name,
            ).plot(ax=ax)
        ax.set_title(title, fontsize=_FONT + 1)
        ax.xaxis.label.set_size(_FONT)
        ax.yaxis.label.set_size(_FONT)
        ax.tick_params(labelsize=_FONT - 1)
        display.legend_.remove()
        figure.legend(loc="outside lower center", ncols=2, fontsize=_FONT - 2, frameon=False)
        page.figure(figure, alt=f"{title}: one curve per method, mean of the repeats.", half=True)


def _add_regions(page, ranked, subject):
    page.section("Decision regions")
    where, warning = "over the two features", ""
    if subject.X.shape[1] > 2:
        where = "on the plane through the means of the first three known classes"
        if subject.n_known < 3:
            where = "on the plane of the first two principal directions"
        warning = (
            " Samples off the plane are projected onto it, so one may be shown in a region that "
            "does not accept it."
        )
    page.figure(
        _regions_figure(ranked, subject.X, subject.y),
        alt="One panel per method: colored regions are accepted by a class, white is unknown.",
        caption=f"The models of the first repeat {where}, as scaled. Colored: accepted by the "
        f"class; white: unknown.{warning}",
        format="png",
    )


def _regions_figure(ranked, X, y):
    """One panel per method: a cut through its model of the first repeat, and samples."""
    models = [split_fitted(method.results[0].fitted.model) for method in ranked]
    transform, first = models[0]  # the scaling is the same for all
    drawn = first.classes_ if X.shape[1] == 2 else first.classes_[:3]
    shown = np.isin(y, drawn)
    Z, y = transform(X[shown]), y[shown]
    means = np.stack([Z[y == label].mean(axis=0) for label in drawn[:3]])
    flat = Z.shape[1] == 2 or np.linalg.matrix_rank(means[1:] - means[0]) < 2
    options = {"plane": None if flat else means, "margin": 0.5, "grid_resolution": 150}
    n_rows = -(-len(ranked) // 3)
    figure = Figure(figsize=(10.2, 0.6 + 3.2 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 3, squeeze=False)
    for ax in axes.flat[len(ranked) :]:
        ax.axis("off")
    entries = {}
    for ax, method, (_, final) in zip(axes.flat, ranked, models, strict=False):
        display = DecisionRegionsDisplay.from_estimator(
            final, Z, y, **options, legend=True, point_size=8, ax=ax
        )
        names = [text.get_text() for text in display.legend_.get_texts()]
        entries |= dict(zip(names, display.legend_.legend_handles, strict=True))
        display.legend_.remove()
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        ax.set_title(method.name, fontsize=_FONT + 2)
    order = [*(name for name in entries if name != "unknown"), "unknown"]
    # Names short enough for several in a row of the legend.
    whole = [name.replace(r"\$", "$") for name in order]  # not as `plain_text` escaped them
    names = [name if len(name) <= 14 else f"{name[:7]}…{name[-6:]}" for name in whole]
    handles = [entries[name] for name in order]
    figure.legend(
        handles, map(plain_text, names), loc="outside lower center", ncols=4, fontsize=_FONT
    )
    return figure


def _add_protocol(page, compared, subject):
    page.section("How it was done")
    points = [f"{subject.source} has {subject.n_read:,} rows."]
    points += [f"{note[0].upper()}{note[1:]}." for note in subject.notes]
    if len(subject.y) < subject.n_read:
        points.append(
            f"{len(subject.y):,} of the rows were used for the comparison, drawn in equal shares "
            "from all classes: as many as the time allowed (--minutes), or --max-rows. With all "
            "rows the measures may be higher and the order may differ."
        )
    withheld = "in which some of the known classes act as unknown."
    if subject.n_known < 3:
        withheld = (
            "without unknown classes: two known classes are too few to withhold one. With more "
            "classes in the file the methods would be tuned to reject."
        )
    points += [
        f"{subject.X.shape[1]} features, scaled to [0, 1] by the samples that each model was "
        "fitted on.",
        f"{subject.n_repeats} repeats. In each, {subject.n_known} of {len(np.unique(subject.y))} "
        "classes are drawn to be known; half of their samples are for tuning and fitting, the "
        "other half and all samples of the other classes for testing. All methods get the same "
        "splits.",
        "Parameters are chosen from the training samples alone, in "
        f"{subject.n_tuning} simulations {withheld}",
        f"Seed {subject.seed}: the same command with --max-rows {len(subject.y)} gives the same "
        "measures; only the times vary.",
    ]
    points += [f"{m.name} failed and is not ranked. {m.error}" for m in compared if m.error]
    page.bullets(points)
