"""The page of a comparison: the answer first, then what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openset.cli._compare_figures import oscr_figure, ranking_figure, regions_figure, roc_figure
from openset.cli._trials import (
    CONFIDENCE,
    FEWEST_ROWS,
    N_TUNING,
    Outcome,
    differences,
    interval,
    n_known_of,
    verdict,
)
from openset.utils.page import Cell, Page


@dataclass(frozen=True)
class Subject:
    """What was compared on.

    Attributes
    ----------
    source, target : str
        The file and its column of labels.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        What is left after `notes`.
    n_read : int
        Rows of the file.
    n_repeats, seed : int
    notes : list of str
        What was left out before, and why.
    fit_command : str
        The command that fits the winner.
    """

    source: str
    target: str
    X: np.ndarray
    y: np.ndarray
    n_read: int
    n_repeats: int
    seed: int
    notes: list[str]
    fit_command: str


def make_page(outcomes: list[Outcome], subject: Subject) -> Page:
    """Everything on one page.

    Parameters
    ----------
    outcomes : list of Outcome
        Best first; at least one without an error.
    subject : Subject

    Returns
    -------
    Page
    """
    ranked = [outcome for outcome in outcomes if not outcome.error]
    page = Page(f"Which open-set method for {subject.source}?")
    _answer(page, ranked, subject)
    _ranking(page, ranked)
    _curves(page, ranked)
    _regions(page, ranked, subject)
    _times(page, ranked)
    _protocol(page, outcomes, subject)
    return page


def _answer(page, ranked, subject):
    n_classes = len(np.unique(subject.y))
    page.paragraph(
        f"{len(ranked)} methods were tuned and judged on {len(subject.y):,} samples of "
        f"{n_classes} classes (column {subject.target!r}), {subject.n_repeats} times; each time "
        f"{n_known_of(n_classes)} classes were known and the others, never shown, should have been "
        "answered 'unknown'."
    )
    page.section("Answer")
    page.paragraph(verdict(ranked))
    page.paragraph("To fit it on all the data:")
    page.code(subject.fit_command)


def _ranking(page, ranked):
    page.section("Ranking")
    page.figure(
        ranking_figure(ranked),
        alt="Mean normalized accuracy of each method with its interval, best at the top.",
        caption=f"Mean over the repeats and its {CONFIDENCE:.0%} interval.",
    )
    behind = differences(ranked)
    columns = {
        "NA": "normalized_accuracy",
        "AKS": "accuracy_known",
        "AUS": "accuracy_unknown",
        "HNA": "harmonic_normalized_accuracy",
        "OSCR area": "oscr_area",
        "AUROC": "auroc_known",
    }
    means = np.array([[o.values(name).mean() for name in columns.values()] for o in ranked])
    rows = []
    for k, outcome in enumerate(ranked):
        cells = [
            Cell(f"{value:.3f}", "best") if value == best else f"{value:.3f}"
            for value, best in zip(means[k], means.max(axis=0), strict=True)
        ]
        half = interval(outcome.values("normalized_accuracy"))[1]
        gap = "" if k == 0 else "{:.3f} ± {:.3f}".format(*behind[outcome.method])
        bounded = f"{outcome.mean('bounded'):.0%}"
        rows.append([outcome.method, cells[0], f"± {half:.3f}", gap, *cells[1:], bounded])
    page.table(
        ["method", "NA", "", "behind the first", *list(columns)[1:], "bounded"],
        rows,
        caption="Means over the repeats; the best of a column in bold.",
    )
    page.bullets(
        [
            "AKS: share of samples of known classes named rightly. AUS: share of samples of "
            "unknown classes answered 'unknown'. NA, normalized accuracy: the mean of the two. "
            "HNA: their harmonic mean.",
            "OSCR area and AUROC judge the scores at every threshold, not only at the one chosen.",
            "behind the first: mean difference of NA, repeat by repeat on the same splits, with "
            "its interval. The repeats share samples, so that the intervals are rather too narrow.",
            "bounded: share of the classes whose accepted region provably does not reach to "
            "infinity.",
        ]
    )


def _curves(page, ranked):
    page.section("Curves")
    page.paragraph(
        "How many samples of known classes are accepted when a share of the unknown ones is. "
        "Higher and further left is better; the marker is where the method itself decides."
    )
    for figure, what in (
        (oscr_figure(ranked), "accepted and named rightly"),
        (roc_figure(ranked), "accepted"),
    ):
        page.figure(figure, alt=f"Known samples {what}: one curve a method, mean of the repeats.")


def _regions(page, ranked, subject):
    n_features = subject.X.shape[1]
    if n_features < 2:
        return
    page.section("Decision regions")
    where, warning = "over the two features", ""
    if n_features > 2:
        where = "on the plane through the means of the first three known classes"
        if len(ranked[0].model.classes_) < 3:
            where = "on the plane of the first two principal directions"
        warning = (
            " Samples that lie off the plane are projected onto it, so that one may be shown in a "
            "region that is not its own."
        )
    page.figure(
        regions_figure(ranked, subject.X, subject.y),
        alt="One panel a method: coloured regions are accepted by a class, white is unknown.",
        caption=f"The models of the first repeat {where}, as scaled. Coloured: accepted by the "
        f"class; white: unknown.{warning}",
        format="png",
    )


def _times(page, ranked):
    page.section("Times")
    rows = [
        [
            outcome.method,
            f"{outcome.median('seconds_tune'):.2f} s",
            f"{1e6 * outcome.median('seconds_predict'):.1f} µs",
        ]
        for outcome in ranked
    ]
    page.table(
        ["method", "tune and fit", "predict one sample"],
        rows,
        caption="Medians over the repeats, on this machine.",
    )


def _protocol(page, outcomes, subject):
    page.section("How it was done")
    n_classes = len(np.unique(subject.y))
    n_known = n_known_of(n_classes)
    points = [f"{subject.source} has {subject.n_read:,} rows."]
    points += [f"{note[0].upper()}{note[1:]}." for note in subject.notes]
    if len(subject.y) < subject.n_read:
        points.append(
            f"{len(subject.y):,} of the rows were used for the comparison, drawn in equal shares "
            f"from all classes of at least {FEWEST_ROWS} rows. With all of them the measures "
            "may be higher and the order may differ."
        )
    points += [
        f"{subject.X.shape[1]} features, brought to [0, 1] by the samples that each model was "
        "fitted on.",
        f"{subject.n_repeats} repeats. In each, {n_known} of {n_classes} classes are drawn to be "
        "known; half of their samples are for tuning and fitting, the other half and all samples "
        "of the other classes for judging. All methods get the same splits.",
        f"Parameters are chosen from the fitting samples alone, in {N_TUNING} simulations "
        + (
            "in which some of the known classes play the unknown."
            if n_known > 2
            else "without unknown classes: two known classes are too few to withhold one. With "
            "more classes in the file the methods would be tuned to reject."
        ),
        f"Seed {subject.seed}: the same command gives the same measures; only the times vary.",
    ]
    points += [
        f"{outcome.method} failed and is not ranked. {outcome.error}"
        for outcome in outcomes
        if outcome.error
    ]
    page.bullets(points)
