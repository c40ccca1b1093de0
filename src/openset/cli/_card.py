"""What a model file tells of its model, as data and as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from openset.cli._tables import TrainingData
from openset.cli._training import HeldOut, Tuned
from openset.utils import unwrap

# Long names of the measures, in the order in which they are printed.
TITLES = {
    "accuracy_known": "known rows named rightly (AKS)",
    "accuracy_unknown": "unknown rows rejected (AUS)",
    "normalized_accuracy": "mean of the two (NA)",
    "harmonic_normalized_accuracy": "harmonic mean of the two (HNA)",
    "false_unknown_rate": "known rows rejected",
    "misclassification_rate": "known rows given a wrong class",
    "open_set_f1_macro": "open-set F, macro",
    "open_set_f1_micro": "open-set F, micro",
    "f1_with_unknown_macro": "F with unknown as a class, macro",
    "f1_with_unknown_micro": "F with unknown as a class, micro",
    "auroc_known": "AUROC, known against unknown",
    "fpr_at_tpr": "unknown accepted where 95 % of known are",
    "oscr_area": "area under the OSCR curve",
}


def summarize(data: TrainingData, target: str, source: str) -> dict[str, Any]:
    """What the card tells of the data.

    Parameters
    ----------
    data : TrainingData
    target : str
    source : str
        Name of the file they come from.

    Returns
    -------
    dict
        As JSON allows.
    """
    labels, counts = np.unique(data.y, return_counts=True)
    low, high = np.nanmin(data.X, axis=0), np.nanmax(data.X, axis=0)
    return {
        "source": source,
        "target": target,
        "rows": data.n_rows,
        "rows_used": len(data.y),
        "rows_by_class": {str(k): int(n) for k, n in zip(labels, counts, strict=True)},
        "features": data.features,
        # NaN, of a column without values, is no JSON.
        "ranges": [
            [float(a), float(b)] if np.isfinite(a) else None for a, b in zip(low, high, strict=True)
        ],
        "dropped": data.dropped,
    }


def features_of(card: dict[str, Any]) -> list[str] | None:
    """Columns that the model was fitted on, where its card tells them: that of `openset fit` does.

    Whoever saves a model from Python writes into the card what they like.
    """
    data = card.get("data")
    return data.get("features") if isinstance(data, dict) else None


def make_card(summary: dict[str, Any], tuned: Tuned, held_out: HeldOut) -> dict[str, Any]:
    """The card of a fitted model.

    Parameters
    ----------
    summary : dict
        Of the training data.
    tuned : Tuned
    held_out : HeldOut

    Returns
    -------
    dict
        As JSON allows.
    """
    model, search, n_rows = tuned
    return {
        "data": summary,
        "steps": [type(step).__name__ for _, step in model.steps],
        "parameters": {k: v for k, v in unwrap(model).get_params(deep=False).items()},
        "search": {
            "chosen": {k.rpartition("__")[2]: v for k, v in search.best_params_.items()},
            "score": search.best_score_ if np.isfinite(search.best_score_) else None,
            "measure": search.scoring,
            "scenario": search.scenario_,
            "rows": n_rows,
            "settings": len(search.cv_results_["params"]),
            "repeats": search.n_splits_,
        },
        "held_out": {
            "measures": held_out.means(),
            "turns": held_out.turns,
            "by_class": {str(label): row for label, row in held_out.classes.items()},
        },
        "certificate": certificate(model),
    }


def certificate(model: BaseEstimator) -> dict[str, Any]:
    """Which classes accept a bounded region only, and how far it goes where that is known."""
    final = unwrap(model)
    found: dict[str, Any] = {"bounded": np.asarray(final.bounded_).tolist()}
    if hasattr(final, "known_radius_"):
        radius = final.known_radius_
        found["radius"] = [float(r) if np.isfinite(r) else None for r in radius]
    return found


def describe_data(data: dict[str, Any]) -> list[str]:
    """Lines about the data: rows, classes, features, and what was left out."""
    counts = data["rows_by_class"].values()
    lines = [
        f"{data['source']}: {data['rows']:,} rows, {data['rows_used']:,} to learn from",
        f"target {data['target']!r}: {len(counts)} classes of {min(counts):,} to {max(counts):,} "
        f"rows: {shortened(list(data['rows_by_class']))}",
        f"features: {len(data['features'])} numeric columns: {shortened(data['features'])}",
    ]
    by_reason: dict[str, list[str]] = {}
    for name, reason in data["dropped"].items():
        by_reason.setdefault(reason, []).append(name)
    lines += [f"dropped: {shortened(names)} ({why})" for why, names in by_reason.items()]
    return lines


def describe_search(card: dict[str, Any]) -> str:
    """A line about the tuning."""
    search = card["search"]
    chosen = ", ".join(f"{k}={_number(v)}" for k, v in search["chosen"].items())
    how = "with classes withheld" if search["scenario"] == "open" else "with all classes known"
    return (
        f"{card['method']} tuned on {search['rows']:,} rows, {search['settings']} settings "
        f"{how}, {search['repeats']} times each: {chosen}"
    )


def describe_held_out(card: dict[str, Any]) -> list[str]:
    """The table of measures, and the classes that fare worst."""
    held = card["held_out"]
    if not held["turns"]:
        return ["no held-out report"]
    turns = held["turns"]
    withheld = [len(turn["withheld"]) for turn in turns]
    if max(withheld):
        head = (
            f"held-out report: {len(turns)} turns, in each {spread(withheld)} of the classes "
            f"withheld from tuning and fitting; means over the turns"
        )
    else:
        head = "held-out report: a fifth of the rows; two classes are too few to withhold any"
    lines = [head, *measure_lines(held["measures"])]
    for what, text in (
        ("rejected", "withheld classes rejected least"),
        ("named", "known classes named rightly least"),
    ):
        rows = [(row[what], label) for label, row in held["by_class"].items() if what in row]
        worst = sorted(rows)[:3]
        if len(rows) > 3:
            shown = ", ".join(f"{label} {share:.0%}" for share, label in worst)
            lines.append(f"  {text}: {shown}")
    return lines


def measure_lines(measures: dict[str, float]) -> list[str]:
    """One line a measure, values in one column."""
    width = max(map(len, TITLES.values()))
    return [f"  {TITLES[n]:<{width}} {measures[n]:8.4f}" for n in TITLES if n in measures]


def describe_certificate(card: dict[str, Any]) -> str:
    """A line about boundedness."""
    found = card["certificate"]
    bounded, n_classes = sum(found["bounded"]), len(found["bounded"])
    line = f"certificate: {bounded} of {n_classes} classes accept a bounded region only"
    radii = [r for r in found.get("radius", []) if r is not None]
    if radii:
        line += (
            f"; beyond {min(radii):.3g} to {max(radii):.3g} (features scaled to [0, 1]) from its "
            "support vectors a class rejects"
        )
    return line


def spread(values) -> str:
    """Smallest and largest of some numbers, or the only one."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def shortened(names: list[str], most: int = 8) -> str:
    """Names in a row, the middle left out where there are many."""
    if len(names) <= most:
        return ", ".join(names)
    return ", ".join([*names[: most - 1], "...", names[-1]])


def _number(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)
