"""A comparison of methods on one table: its rows, its verdict in words, and its page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator

from ..evaluation import (
    ComparedMethod,
    coinciding_methods,
    compare_methods,
    comparison_splits,
    confidence_interval,
    paired_differences,
    rows_within,
    stratified_rows,
)
from ..plots import DecisionRegionsDisplay, KnownROCDisplay, OSCRDisplay, plain_text
from ..registry import method_table
from ..utils import split_fitted, unwrap
from ..utils.text import join_names, shortened, text_table
from .page import Page, mark_best

_NA, _AKS, _AUS = "normalized_accuracy", "accuracy_known", "accuracy_unknown"
_AREA, _AUROC = "oscr_area", "auroc_known"
_COLUMNS = {"NA": _NA, "AKS": _AKS, "AUS": _AUS, "HNA": "harmonic_normalized_accuracy"}
_COLUMNS |= {"OSCR area": _AREA, "AUROC": _AUROC}
# A class must leave two samples for tuning after half are held out.
_FEWEST_ROWS = 4
# Simulations in the search of each repeat.
_N_TUNING = 3
# False positive rates at which the curves of the repeats are averaged.
_GRID = np.linspace(0.0, 1.0, 201)
# Large letters: on a phone a figure is shown at half its size.
_FONT = 12


@dataclass
class Comparison:
    """Methods on repeated splits of the rows X, y of a table: choose rows, `run` it, print it."""

    models: dict[str, BaseEstimator]  # by their names on the command line
    X: np.ndarray
    y: np.ndarray
    path: Path
    target: str
    n_read: int  # rows of the file
    n_repeats: int
    seed: int
    n_jobs: int
    unknown_label: Any
    notes: list[str]  # what was left out, and why
    fit_options: list[str] = field(default_factory=list)  # besides --method
    compared: list[ComparedMethod] = field(default_factory=list)

    def __post_init__(self):
        for model in self.models.values():
            unwrap(model).set_params(unknown_label=self.unknown_label)
        titles = {row.estimator: row.method for row in method_table()}
        self.names = {titles[type(unwrap(m)).__name__]: name for name, m in self.models.items()}
        self.methods = dict(zip(self.names, self.models.values(), strict=True))
        self._effort = {"n_repeats": _N_TUNING, "random_state": self.seed, "n_jobs": self.n_jobs}

    def choose_rows(self, max_rows: int | None, minutes: float) -> list[str]:
        """Keep rows of the large classes, as many as given or as the time allows; return these."""
        classes, counts = np.unique(self.y, return_counts=True)
        small = classes[counts < _FEWEST_ROWS]
        rows = np.flatnonzero(~np.isin(self.y, small))
        if max_rows is None:
            trial = self.X[rows], self.y[rows], self.splits, 60 * minutes
            max_rows = rows_within(self.methods, *trial, **self._effort)
        options = {"min_per_class": _FEWEST_ROWS, "random_state": self.seed}
        rows = rows[stratified_rows(self.y[rows], max_rows, **options)]
        if n_missing := self.n_read - len(self.y):
            self.notes.append(f"{n_missing:,} rows are left out: a value is missing")
        if len(small):
            named = shortened([str(label) for label in small], 11)
            self.notes.append(f"{len(small)} classes with too few rows are left out: {named}")
        self.X, self.y = self.X[rows], self.y[rows]
        self.drawn = self.splits(self.y)
        return np.setdiff1d(classes, small).tolist() if len(small) else []

    def splits(self, y: np.ndarray) -> list:
        """The splits of rows with these labels."""
        options = {"random_state": self.seed, "unknown_label": self.unknown_label}
        return comparison_splits(y, self.n_repeats, **options)

    def run(self, verbose: int = 0) -> None:
        """Tune, fit and measure every method on every split."""
        options = {**self._effort, "verbose": verbose}
        self.compared = compare_methods(self.methods, self.X, self.y, self.drawn, **options)
        if error := self.compared[0].error:
            raise ValueError(f"no method could be fitted; {self.compared[0].name}, {error}")

    @property
    def ranked(self) -> list[ComparedMethod]:
        """The methods that did not fail, best first."""
        return [method for method in self.compared if not method.error]

    @property
    def n_known(self) -> int:
        """Number of known classes in each repeat."""
        return len(self.drawn[0].known)

    @property
    def fit_command(self) -> str:
        """The command that fits the winner to the whole table."""
        words = [str(self.path), "--target", self.target]
        words += ["--method", self.names[self.compared[0].name], *self.fit_options]
        return shlex.join(["openset", "fit", *words, "-o", f"{self.path.stem}.skops"])

    def ranking(self) -> list[dict[str, Any]]:
        """For each method that did not fail, best first: its measures and how far it is behind."""
        behind = paired_differences(self.ranked)
        ranking = []
        for method in self.ranked:
            gap, gap_half = behind.get(method.name, (0.0, 0.0))
            means = {name: float(method.values(name).mean()) for name in method.results[0].measures}
            line = {
                "method": self.names[method.name],
                "normalized_accuracy_interval": confidence_interval(method.values(_NA))[1],
                "behind": gap,
                "behind_interval": gap_half,
                "measures": means,
            }
            for name in ("bounded", "seconds_tune", "seconds_predict"):
                line[name] = getattr(method, name)
            ranking.append(line)
        return ranking

    def as_dict(self) -> dict[str, Any]:
        """The results, as JSON allows."""
        groups = coinciding_methods(self.ranked)
        return {
            "data": self.path.name,
            "target": self.target,
            "n_rows": self.n_read,
            "n_compared": len(self.y),
            "n_repeats": self.n_repeats,
            "seed": self.seed,
            "notes": self.notes,
            "ranking": self.ranking(),
            "coincide": [[self.names[name] for name in names] for names in groups],
            "failed": {self.names[m.name]: m.error for m in self.compared if m.error},
            "fit_command": self.fit_command,
        }

    def __str__(self) -> str:
        """The ranking, the verdict and the command that fits the winner."""
        rows = []
        for method, line in zip(self.ranked, self.ranking(), strict=True):
            mean, *means = (f"{line['measures'][name]:.3f}" for name in (_NA, _AKS, _AUS, _AREA))
            half = f"± {line['normalized_accuracy_interval']:.3f}"
            rows.append([method.name, mean, half, *means, f"{method.seconds_tune:.1f} s"])
        rows += [[method.name, "failed", *[""] * 5] for method in self.compared if method.error]
        table = text_table(["method", "NA", "", "AKS", "AUS", "OSCR area", "tune"], rows)
        end = f"{verdict(self.ranked)}\nTo fit it on all the data:\n  {self.fit_command}"
        return f"{table}\n\n{end}"

    def page(self) -> Page:
        """Everything on one page: the answer first, then what it is based on."""
        page = Page(f"Which open-set method for {self.path.name}?")
        page.paragraph(
            f"{len(self.ranked)} methods were tuned and measured on {len(self.y):,} samples of "
            f"{len(np.unique(self.y))} classes (column {self.target!r}), {self.n_repeats} times; "
            f"each time {self.n_known} classes were known and the others, never shown, should have "
            "been answered 'unknown'."
        )
        page.section("Answer")
        page.paragraph(verdict(self.ranked))
        page.paragraph("To fit it on all the data:")
        page.code(self.fit_command)
        _add_ranking(page, self)
        _add_curves(page, self.ranked)
        if self.X.shape[1] > 1:
            _add_regions(page, self)
        page.section("Times")
        times = [
            [m.name, f"{m.seconds_tune:.2f} s", f"{1e6 * m.seconds_predict:.1f} µs"]
            for m in self.ranked
        ]
        head, caption = ["method", "tune and fit", "predict one sample"], "Medians over the repeats"
        page.table(head, times, caption=f"{caption}, on this machine.")
        _add_protocol(page, self)
        return page


def verdict(compared: Sequence[ComparedMethod]) -> str:
    """The answer in words: no more than the spread over the repeats supports."""
    mean, half = confidence_interval(compared[0].values(_NA))
    behind = paired_differences(compared)
    close = [name for name, (gap, width) in behind.items() if gap - width <= 0]
    score = f"a normalized accuracy of {mean:.3f} ± {half:.3f}"
    text = f"{compared[0].name} {'leads' if behind else 'is the only method'}, with {score}."
    if close:
        text = f"No single method leads. {compared[0].name} has the highest mean, {score}, but "
        text += f"these repeats cannot tell it from {join_names(close)}."
    elif behind:
        text += " It is ahead of every other method by more than chance explains."
    for names in coinciding_methods(compared):
        text += f" {join_names(names)} gave the same answer to every sample: with the parameters "
        text += "chosen here they are the same machine."
    return text


def _add_ranking(page, comparison):
    page.section("Ranking")
    ranked, lines = comparison.ranked, comparison.ranking()
    figure = Figure(figsize=(6.4, 0.9 + 0.42 * len(ranked)), layout="constrained")
    ax = figure.subplots()
    for k, line in enumerate(lines):
        mean, half = line["measures"][_NA], line["normalized_accuracy_interval"]
        color = "0.15" if k else "tab:blue"
        ax.errorbar(mean, k, xerr=half, fmt="o", color=color, capsize=4, markersize=7)
    ax.set_yticks(range(len(ranked)), [method.name for method in ranked], fontsize=_FONT)
    ax.invert_yaxis()
    low, high = ax.get_xlim()  # an interval of few repeats may leave [0, 1]
    ax.set_xlim(max(low, -0.02), min(high, 1.02))
    ax.set_xlabel("normalized accuracy", fontsize=_FONT)
    ax.tick_params(axis="x", labelsize=_FONT - 1)
    ax.grid(axis="x", alpha=0.3)
    alt = "Mean normalized accuracy of each method with its interval, best at the top."
    caption = "Mean over the repeats and its 95% interval."
    page.figure(figure, alt=alt, caption=caption, half=True)
    means = np.array([[line["measures"][name] for name in _COLUMNS.values()] for line in lines])
    rows = []
    for k, (method, line) in enumerate(zip(ranked, lines, strict=True)):
        cells = mark_best([f"{mean:.3f}" for mean in means[k]], means[k], means.max(axis=0))
        gap = f"{line['behind']:.3f} ± {line['behind_interval']:.3f}" if k else ""
        half = f"± {line['normalized_accuracy_interval']:.3f}"
        rows.append([method.name, cells[0], half, gap, *cells[1:], f"{method.bounded:.0%}"])
    caption = "Means over the repeats; the best value of each column in bold."
    head = ["method", "NA", "", "behind the first", *list(_COLUMNS)[1:], "bounded"]
    page.table(head, rows, caption=caption)
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
        ("Accepted and named correctly (OSCR)", OSCRDisplay, "ccr", _AREA),
        ("Accepted (ROC)", KnownROCDisplay, "tpr", _AUROC),
    ):
        named = kind is OSCRDisplay
        figure = Figure(figsize=(6.4, 5.4), layout="constrained")
        ax = figure.subplots()
        for m in ranked:
            curves = [r.evaluation.curve_at(_GRID, named=named) for r in m.results]
            accepted = m.values(_AKS) if named else 1 - m.values("false_unknown_rate")
            point = 1 - m.values(_AUS).mean(), accepted.mean()
            curve = {"fpr": _GRID, rate: np.mean(curves, axis=0), "area": m.values(area).mean()}
            display = kind(**curve, operating_point=point, name=m.name).plot(ax=ax)
        ax.set_title(title, fontsize=_FONT + 1)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_size(_FONT)
        ax.tick_params(labelsize=_FONT - 1)
        display.legend_.remove()
        figure.legend(loc="outside lower center", ncols=2, fontsize=_FONT - 2, frameon=False)
        page.figure(figure, alt=f"{title}: one curve per method, mean of the repeats.", half=True)


def _add_regions(page, comparison):
    page.section("Decision regions")
    where = "over the two features"
    caption = "The models of the first repeat {}, as scaled. Colored: accepted by the class; "
    caption += "white: unknown."
    if comparison.X.shape[1] > 2:
        where = "on the plane of the first two principal directions"
        if comparison.n_known > 2:
            where = "on the plane through the means of the first three known classes"
        caption += (
            " Samples off the plane are projected onto it, so one may be shown in a region that "
            "does not accept it."
        )
    alt = "One panel per method: colored regions are accepted by a class, white is unknown."
    figure = _regions_figure(comparison.ranked, comparison.X, comparison.y)
    page.figure(figure, alt=alt, caption=caption.format(where), format="png")


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
    options |= {"legend": True, "point_size": 8}
    n_rows = -(-len(ranked) // 3)
    figure = Figure(figsize=(10.2, 0.6 + 3.2 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 3, squeeze=False)
    for ax in axes.flat[len(ranked) :]:
        ax.axis("off")
    entries = {}
    for ax, method, (_, final) in zip(axes.flat, ranked, models, strict=False):
        display = DecisionRegionsDisplay.from_estimator(final, Z, y, **options, ax=ax)
        names = [text.get_text() for text in display.legend_.get_texts()]
        entries |= dict(zip(names, display.legend_.legend_handles, strict=True))
        display.legend_.remove()
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        ax.set_title(method.name, fontsize=_FONT + 2)
    entries["unknown"] = entries.pop("unknown")  # comes last
    # Names short enough for several in a row of the legend, not as `plain_text` escaped them.
    whole = [name.replace(r"\$", "$") for name in entries]
    names = [plain_text(n if len(n) <= 14 else f"{n[:7]}…{n[-6:]}") for n in whole]
    place = {"loc": "outside lower center", "ncols": 4, "fontsize": _FONT}
    figure.legend([*entries.values()], names, **place)
    return figure


def _add_protocol(page, comparison):
    page.section("How it was done")
    n_rows, n_read = len(comparison.y), comparison.n_read
    n_known, n_classes = comparison.n_known, len(np.unique(comparison.y))
    points = [f"{comparison.path.name} has {n_read:,} rows."]
    points += [f"{note[0].upper()}{note[1:]}." for note in comparison.notes]
    if n_rows < n_read:
        points.append(
            f"{n_rows:,} of the rows were used for the comparison, drawn in equal shares "
            "from all classes: as many as the time allowed (--minutes), or --max-rows. With all "
            "rows the measures may be higher and the order may differ."
        )
    withheld = "in which some of the known classes act as unknown."
    if n_known < 3:
        withheld = (
            "without unknown classes: two known classes are too few to withhold one. With more "
            "classes in the file the methods would be tuned to reject."
        )
    points += [
        f"{comparison.X.shape[1]} features, scaled to [0, 1] by the samples that each model was "
        "fitted on.",
        f"{comparison.n_repeats} repeats. In each, {n_known} of {n_classes} classes are drawn to "
        "be known; half of their samples are for tuning and fitting, the other half and all "
        "samples of the other classes for testing. All methods get the same splits.",
        "Parameters are chosen from the training samples alone, in "
        f"{_N_TUNING} simulations {withheld}",
        f"Seed {comparison.seed}: the same command with --max-rows {n_rows} gives the same "
        "measures; only the times vary.",
    ]
    failed = [method for method in comparison.compared if method.error]
    page.bullets(points + [f"{m.name} failed and is not ranked. {m.error}" for m in failed])
