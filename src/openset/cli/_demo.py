"""``openset demo``: digits of which the classifier has learned only some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openset.cli._failures import reported

if TYPE_CHECKING:
    from openset.evaluation import MethodResult

N_KNOWN = 6
SEED = 0
PICTURE = Path("demo-regions.png")
TUNED = {"closed": "Tuned as usual, with all digits known", "open": "Tuned with digits withheld"}
_COLUMNS = ("AKS", "AUS", "NA", "HNA", "bounded", "time")
_MEASURES = ("accuracy_known", "accuracy_unknown", "normalized_accuracy")


@reported
def demo() -> None:
    """Learn six of the ten digits, leave four unknown, and compare two classifiers."""
    # Imported here, so that --version and --help do not load the estimators.
    from rich.console import Console
    from sklearn.datasets import load_digits

    from openset.evaluation import draw_split

    X, y = load_digits(return_X_y=True)
    X = X / 16  # grey levels to [0, 1]
    split = draw_split(y, N_KNOWN, random_state=SEED)
    console = Console(highlight=False)
    unknown = [digit for digit in range(10) if digit not in split.known]
    console.print(
        f"Digits {', '.join(map(str, split.known))} are learned from {len(split.train)} samples; "
        f"{', '.join(map(str, unknown))} are never shown, and should be answered 'unknown'.\n"
    )
    with console.status("Tuning (the first run also compiles, once) ..."):
        results = run_methods(X, y, split)
    console.print(_table(results))
    console.print(
        "AKS: share of known samples named correctly. AUS: share of unknown samples rejected. "
        "NA: their mean. HNA: their harmonic mean. bounded: classes that accept only a bounded "
        "region. SVM: OneVsRestSVC. OpenSetSearchCV has chosen the parameters from the training "
        "samples alone: above the line by accuracy on held-out samples, below by NA with half of "
        "the known digits, in turn, acting as unknown. One split of one small dataset.\n"
    )
    for sentence in verdict(results):
        console.print(f"- {sentence}")
    if _save_picture(results, X[split.train], y[split.train]):
        console.print(f"\nPicture of what OpenSetSVC accepts: {PICTURE}")


def run_methods(X, y, split) -> dict[str, dict[str, MethodResult]]:
    """Results by scenario of the search and by method."""
    from openset.evaluation import evaluate_method
    from openset.model_selection import OpenSetSearchCV
    from openset.svm import OneVsRestSVC, OpenSetSVC

    methods = {"SVM": OneVsRestSVC(), "OpenSetSVC": OpenSetSVC()}
    few = split.train[::10]
    for model in methods.values():  # compile before the times are taken
        OpenSetSearchCV(model, n_repeats=1).fit(X[few], y[few])
    results: dict[str, dict[str, MethodResult]] = {scenario: {} for scenario in TUNED}
    for scenario, by_method in results.items():
        for name, model in methods.items():
            search = OpenSetSearchCV(model, random_state=SEED).set_params(scenario=scenario)
            by_method[name] = evaluate_method(search, X, y, split)
    return results


def _table(results):
    from rich.table import Table

    from openset.cli._text import parameters

    table = Table()
    table.add_column("method")
    table.add_column("chosen")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for by_method in results.values():
        for method, result in by_method.items():
            fitted = result.fitted
            names = (*_MEASURES, "harmonic_normalized_accuracy")
            cells = [f"{result.measures[name]:.3f}" for name in names]
            bounded = f"{result.bounded.sum()} of {len(result.bounded)}"
            seconds = f"{fitted.seconds_search + fitted.seconds_fit:.1f} s"
            table.add_row(method, parameters(fitted.params), *cells, bounded, seconds)
        table.add_section()
    return table


def verdict(results: dict[str, dict[str, MethodResult]]) -> list[str]:
    """What the numbers show, in words."""
    sentences, same = [], False
    for scenario, by_method in results.items():
        svm, open_set = by_method.values()
        n_known = int(svm.evaluation.is_known.sum())
        n_unknown = len(svm.evaluation.truth) - n_known
        pair = (svm.measures, open_set.measures)
        fooled = [round((1 - m["accuracy_unknown"]) * n_unknown) for m in pair]
        right = [round(m["accuracy_known"] * n_known) for m in pair]
        theirs, ours = (f"{m['normalized_accuracy']:.3f}" for m in pair)
        leader = "OpenSetSVC" if ours > theirs else "the SVM"
        balance = f"NA {theirs} (SVM), {ours} (OpenSetSVC): {leader} is ahead."
        sentences.append(
            f"{TUNED[scenario]}: of {n_unknown} samples of unseen digits the SVM takes "
            f"{fooled[0]} for a known digit and OpenSetSVC {_change(*fooled)}; of {n_known} new "
            f"samples of known digits the SVM names {right[0]} correctly and OpenSetSVC "
            f"{_change(*right)}. {f'NA {ours} for both.' if ours == theirs else balance}"
        )
        same |= {**svm.fitted.params, "lam": 0.0} == open_set.fitted.params
    if same:
        sentences.append(
            "Where lam=0 was chosen with the same C and gamma, the two are one machine: the SVM "
            "happens to be bounded, OpenSetSVC would have raised lam had it not been."
        )
    return sentences


def _change(before: int, after: int) -> str:
    if after == before:
        return "as many"
    return f"{after}, {abs(after - before)} {'more' if after > before else 'fewer'}"


def _save_picture(results, X, y) -> bool:
    """Draw what OpenSetSVC accepts on a plane through three digits; False without matplotlib."""
    import numpy as np

    from openset.utils import atomic_write

    try:
        from openset.plots import DecisionRegionsDisplay
    except ImportError:
        return False
    from matplotlib.figure import Figure  # not pyplot, which needs a screen

    digits = np.unique(y)[:3]
    shown = np.isin(y, digits)
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for k, (scenario, by_method) in enumerate(results.items()):
        result = by_method["OpenSetSVC"]  # where lam=0 is chosen the SVM's picture is the same
        options = {"plane": "means", "margin": 0.9, "legend": k == 1, "ax": axes[k]}
        DecisionRegionsDisplay.from_estimator(result.fitted.model, X[shown], y[shown], **options)
        bounded = f"{result.bounded.sum()} of {len(result.bounded)} classes bounded"
        title = f"OpenSetSVC, {scenario}-set search\n{bounded}"
        axes[k].set(title=title, aspect="equal", xlabel="", ylabel="")
    names = ", ".join(map(str, digits))
    figure.suptitle(f"A plane through the mean images of {names}; white is unknown")
    with atomic_write(PICTURE) as temporary:
        figure.savefig(temporary, dpi=100)
    return True
