"""Numbers, names and model cards as lines of text."""

from collections.abc import Mapping, Sequence
from typing import Any

from openset.utils.text import shortened

# Titles of the measures, in the order in which they are printed.
TITLES = {
    "accuracy_known": "known rows named correctly (AKS)",
    "accuracy_unknown": "unknown rows rejected (AUS)",
    "rejected_withheld": "  of them rows of withheld classes",
    "rejected_others": "  of them other unknown rows",
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


def measure_lines(
    measures: Mapping[str, float], spread: Mapping[str, Sequence[float]] | None = None
) -> list[str]:
    """One line per measure, values in one column, with the lowest and the highest if given."""
    width = max(map(len, TITLES.values()))
    spread = spread or {}
    ranges = {name: "   {:.4f} to {:.4f}".format(*ends) for name, ends in spread.items()}
    return [
        f"  {TITLES[n]:<{width}} {measures[n]:8.4f}{ranges.get(n, '')}"
        for n in TITLES
        if n in measures
    ]


def parameters(params: Mapping[str, Any]) -> str:
    """Parameters as in a call: gamma=0.1, lam=0."""
    shown = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in params.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def data_of(card: Mapping[str, Any]) -> dict[str, Any]:
    """What the card says about the training data: that of `openset fit` describes them."""
    data = card.get("data")  # a card written from Python may hold anything
    return data if isinstance(data, dict) else {}


def describe_data(data: Mapping[str, Any]) -> list[str]:
    """Lines about the training data: rows, classes, features, dropped columns."""
    by_class = dict(data["rows_by_class"])
    n_unknown = by_class.pop(data.get("unknown"), 0)
    counts = by_class.values()
    target = f"target {data['target']!r}: {len(counts)} classes of {min(counts):,} to "
    target += f"{max(counts):,} rows: {shortened(list(by_class))}"
    if n_unknown:
        target += f"; {n_unknown:,} rows of {data['unknown']!r} are examples of the unknown"
    lines = [
        f"{data['source']}: {data['rows']:,} rows, {data['rows_used']:,} to learn from",
        target,
        f"features: {len(data['features'])} numeric columns: {shortened(data['features'])}",
    ]
    if "group" in data:
        lines.append(f"rows of one {data['group']!r} are one object: {data['objects']:,} objects")
    if categories := data.get("categories"):
        named = [f"{name} ({len(values)} values)" for name, values in categories.items()]
        lines.append(f"categorical, one 0/1 column per value: {shortened(named)}")
    return lines + dropped_columns(data["dropped"])


def dropped_columns(dropped: Mapping[str, str]) -> list[str]:
    """One line per reason for which columns were dropped."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in dropped.items():
        by_reason.setdefault(reason, []).append(name or "a column without a name")
    return [f"dropped: {shortened(names)} ({why})" for why, names in by_reason.items()]


def describe_result(card: Mapping[str, Any]) -> list[str]:
    """Lines about the search, the held-out report and the certificate, as far as there are any."""
    lines = []
    if search := card.get("search"):
        how = "with classes withheld" if search["scenario"] == "open" else "with all classes known"
        lines.append(
            f"{card['method']} tuned on {search['rows']:,} rows, {search['settings']} settings "
            f"{how}, {search['repeats']} times each: {parameters(search['chosen'])}"
            + (" (the defaults)" if search.get("defaults") else "")
        )
    if held_out := card.get("held_out"):
        lines += _describe_held_out(held_out)
        if "operating_point" in card:
            lines.append("  (of the model before it was calibrated)")
    lines += describe_operating_point(card)
    if certificate := card.get("certificate"):
        lines.append(_describe_certificate(certificate, card))
    return lines


def _describe_certificate(certificate: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    bounded = f"{sum(certificate['bounded'])} of {len(certificate['bounded'])}"
    line = f"certificate: {bounded} classes accept only a bounded region"
    if radii := [r for r in certificate.get("radius", []) if r is not None]:
        scaled = "MinMaxScaler" in card.get("steps", ["MinMaxScaler"])
        line += (
            f"; a class rejects everything farther than {min(radii):.3g} to {max(radii):.3g}"
            f"{' (features scaled to [0, 1])' * scaled} from its support vectors"
        )
        # Scaled rows lie in a unit cube: no two are farther apart than its diagonal.
        diagonal = scaled * len(data_of(card).get("features", [])) ** 0.5
        if n_wide := sum(r > diagonal > 0 for r in radii):
            line += (
                f". {n_wide} of these distances are larger than any distance within the data "
                f"({diagonal:.3g}): they prove that samples far away are rejected, and say "
                "little about samples between the classes"
            )
    return line


def describe_changes(changes: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    """Lines about what a model learned, and what held-out rows say about it."""
    if "adapted" in changes:
        return describe_adaptation(changes["adapted"])
    lines = [f"new class {name}: {n:,} rows" for name, n in changes["new"].items()]
    lines += [f"corrected rows: {changes['corrected']:,}"] if changes["corrected"] else []
    lines += [f"junk rows: {changes['junk']:,}"] if changes["junk"] else []
    lines += [f"removed {name}" for name in changes["removed"]]
    lines += [f"renamed {old} to {new}" for old, new in changes["renamed"].items()]
    if old := report.get("old"):
        lines.append(
            f"old classes, {old['rows']:,} held-out rows named correctly: {old['before']:.1%} "
            f"before, {old['after']:.1%} after"
        )
    if new := report.get("new"):
        lines.append(
            f"new rows, {new['rows']:,} held out: {new['rejected_before']:.1%} rejected before, "
            f"{new['after']:.1%} named correctly after"
        )
    return lines


def describe_adaptation(told: Mapping[str, Any]) -> list[str]:
    """Lines about what unlabelled rows taught a model."""
    if not told["learned"]:
        return [f"the model stays as it is: {told['reason']}"]
    head = f"learned from the {told['rows']:,} rows of {told['source']}: {told['reason']}"
    return [head, *_describe_price(told["price"])]


# What an operating point promises, by the criterion on its card.
_PROMISES = {
    "precision": "at least {precision:.3%} of the answers are right, with confidence "
    "{confidence:g} and {unknown_share:.3g} of the rows unknown",
    "cost": "least expected cost ({shown_costs}) with {unknown_share:.3g} of the rows unknown",
    "strangers": "at most {rate:.3%} of the rows of a new identity are accepted",
}


def describe_operating_point(card: Mapping[str, Any]) -> list[str]:
    """Lines about the operating point of a calibrated model."""
    if not (point := card.get("operating_point")):
        return []
    criterion, costs = point.get("criterion"), parameters(point.get("costs", {}))
    promise = _PROMISES.get(criterion) or _rejected(point)
    promise = promise.format(**point, shown_costs=costs)
    kept = "" if point["promise"] or criterion == "cost" else ", not kept"
    if criterion == "precision" and "traffic" in point:
        kept = ", an estimate"
    lines = [
        f"operating point{kept}: {promise}",
        f"calibrated on {point['rows']:,} known and {point['unknown_rows']:,} unknown rows of "
        f"{point['source']}",
    ]
    if "group" in point and "aggregate" not in point:
        lines.append(f"rows of one {point['group']!r} are counted as one object")
    if traffic := point.get("traffic"):
        lines.append(f"{traffic['source']}: {traffic['rows']:,} rows, {unknown_share(traffic)}")
    return lines + _describe_price(point.get("price", {})) + _describe_strangers(point)


def _rejected(point: Mapping[str, Any]) -> str:
    """The promise to reject few known rows."""
    kind = "{group!r} objects" if "aggregate" in point else "rows"
    where = "of each {within!r} " if "within" in point else "of each class "
    where = where if "within" in point or point["per_class"] else ""
    by_own = ", by their own class" if point.get("by") == "own" else ""
    sure = ", with confidence {confidence:g}" if "confidence" in point else ""
    return f"at most {{alpha:.3%}} of the known {kind} {where}are rejected{by_own}{sure}"


def _describe_strangers(point: Mapping[str, Any]) -> list[str]:
    if not (told := point.get("strangers")):
        return []
    return [
        f"  {told['identities']:,} identities of strangers",
        *(
            f"  at most {row['rate']:.3%} of strangers: {row['named_right']:.1%} of the known rows "
            "are named right"
            for row in told["trade_off"]
        ),
    ]


def unknown_share(told: Mapping[str, Any]) -> str:
    """How much of unlabelled rows is unknown, in words: the estimate, and the promise if any."""
    low, high = told["unknown_interval"]
    text = f"about {told['unknown_share']:.1%} unknown ({low:.1%} to {high:.1%})"
    if told["unknown_at_least"]:
        confidence = told.get("confidence", 0.95)
        text += f", at least {told['unknown_at_least']:.1%} (confidence {confidence:g})"
    return text


def _describe_price(price: Mapping[str, Any]) -> list[str]:
    lines = []
    for kind, found in price.items():
        told = "not known (no unknown rows, no withheld classes)"
        if found["before"] is not None:
            told = f"{found['before']:.1%} before, {found['after']:.1%} now ({found['source']})"
        lines.append(f"  {kind} rows rejected: {told}")
    return lines


def _describe_held_out(report: Mapping[str, Any]) -> list[str]:
    turns = report["turns"]
    if not turns:
        return ["no held-out report"]
    number = " to ".join(f"{n:,}" for n in sorted({len(turn["withheld"]) for turn in turns}))
    number += " class" if number == "1" else " classes"
    head = f"held-out report of this setting: a fifth of the rows held out, {number} withheld"
    spread = None
    if len(turns) > 1:
        spread = report.get("spread")
        head = (
            f"held-out report of this setting: {len(turns)} turns, each with another fifth of the "
            f"rows held out and {number} withheld; means, lowest and highest turn"
        )
    if number == "0 classes":
        head = (
            "held-out report: the last fifth of the rows; two classes are too few to withhold any"
        )
    lines = [head, *measure_lines(report["measures"], spread)]
    if all_known := report.get("all_known"):
        share = all_known["accuracy_known"]
        lines.append(f"  with no class withheld, known rows named correctly (AKS): {share:.4f}")
    lines += _describe_worst(report, "rejected", "withheld classes rejected least often")
    return lines + _describe_worst(report, "named", "known classes named correctly least often")


def _describe_worst(report: Mapping[str, Any], what: str, text: str) -> list[str]:
    rows = [(row[what], label) for label, row in report["by_class"].items() if what in row]
    worst = ", ".join(f"{label} {share:.0%}" for share, label in sorted(rows)[:3])
    return [f"  {text}: {worst}"] if len(rows) > 3 else []
