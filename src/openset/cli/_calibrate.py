"""``openset calibrate``: a model and a table it has not seen in, the model with a promise out."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from openset.cli import _options as options
from openset.cli._options import READS, UsageError, reported


@reported
def calibrate(
    shared: options.Working,
    model: options.ReplacedModel,
    data: options.Data,
    target: options.Target,
    output: options.NewModel,
    unknown: options.Unknown = None,
    alpha: options.Share = None,
    precision: options.Share = None,
    costs: str | None = None,
    confidence: options.Share = None,
    unknown_share: options.Share = None,
    traffic: Annotated[Path | None, typer.Option(metavar="TABLE"), READS] = None,
    strangers: options.Share = None,
    group: options.Column = None,
    aggregate: Literal["mean", "median", "votes"] | None = None,
    within: options.Column = None,
    per_class: bool = False,
    by: Literal["highest", "own"] | None = None,
) -> None:
    """Set the thresholds of a model on rows that it has not seen; `predict` then uses them.

    target: Column of the class; classes that were not learned are unknown.
    alpha: Largest share of known rows to reject; default: 0.05.
    precision: Instead of --alpha: share of the answers to be right.
    costs: Instead of --alpha: least cost; reject=1,wrong=10,accept_unknown=20.
    confidence: Probability that --precision (default: 0.95) or --alpha is kept by these rows.
    unknown_share: Share of unknown rows to expect, for --precision and --costs.
    traffic: Unlabelled rows in use, known and unknown mixed: tell the price for them, and the share
        of unknown rows for --precision and --costs.
    strangers: Instead of --alpha: largest share of rows of a stranger to accept.
    group: Column of the object (track, session) whose rows are alike; for --strangers of the
        identity of unknown rows, default: their class.
    aggregate: With --group: keep --alpha for the one answer per object that `predict --group`
        gives, by the mean or median of the scores or by votes; default: for its rows.
    within: Keep --alpha in every category (camera, site) separately.
    per_class: Keep --alpha in every class separately.
    by: For --alpha: 'highest' promises that a class accepts, 'own' that the right one does, which
        rejects fewer unknown rows; default: highest, own with --per-class.
    """
    import numpy as np

    from openset.calibration import calibrate as calibrated
    from openset.cli._text import describe_operating_point
    from openset.evaluation import operating_point_card
    from openset.persistence import save_model
    from openset.utils import unwrap

    options.prepare_output(output)
    given = options.given(
        **{"alpha": alpha, "precision": precision, "costs": costs, "strangers": strangers},
        **{"confidence": confidence, "unknown_share": unknown_share, "by": by, "within": within},
        **{"per_class": per_class, "aggregate": aggregate, "traffic": traffic, "group": group},
    )
    way = _way(given)
    criterion, recorded = _CRITERIA[way](given)
    scorer = shared.model(model)
    by_class = way == "--strangers" and group is None  # classes of unknown rows: identities
    objects = target if by_class else group
    rows = scorer.labelled(shared.open(data), target, unknown, (objects, within))
    X, y = rows.read()
    columns: dict[str, Any] = {"groups": rows.texts(objects), "categories": rows.texts(within)}
    columns["X_traffic"] = shared.features(scorer, traffic)
    result = calibrated(scorer.model, X, y, **columns, criterion=criterion)
    rejector = unwrap(result)
    recorded["source"] = data.name
    recorded["unknown_rows"] = int(np.sum(y == scorer.final.unknown_label_))
    if traffic is not None:  # unknown rows with a label were left out
        recorded |= {"unknown_rows": 0, "traffic": {"source": traffic.name} | rejector.traffic_}
    if "unknown_share" in recorded:  # as given, or as estimated from the traffic
        recorded["unknown_share"] = rejector.criterion_.unknown_share or 0.0
    if way == "--strangers":
        recorded["strangers"] = rejector.strangers_
    elif group is not None:
        recorded["group"] = group
    card = save_model(result, output, scorer.card | operating_point_card(rejector, recorded))
    shared.tell(card, [*describe_operating_point(card), *options.saved(output)])


# The ways to set thresholds, and the options that belong to each.
_WAYS: dict[str, tuple[str, ...]] = {
    "--precision": ("--confidence", "--unknown-share"),
    "--costs": ("--unknown-share",),
    "--alpha": ("--confidence", "--by", "--per-class", "--within", "--aggregate"),
    "--strangers": (),
}
_NOT_WITH_TRAFFIC = ("--unknown-share", "--strangers", "--within")


def _way(given: dict[str, Any]) -> str:
    """The way to set thresholds that the options ask for; UsageError if they do not fit."""
    if given.keys() & {"--aggregate", "--group"} == {"--aggregate"}:
        what = f"--aggregate {given['--aggregate']}"
        raise UsageError(f"{what} is about objects; name their column by --group")
    asked = [*(given.keys() & _WAYS.keys())] or ["--alpha"]
    if len(asked) > 1:
        raise UsageError(
            "--alpha, --precision, --costs and --strangers exclude each other; give one of them"
        )
    for option in sorted(given.keys() - _WAYS[asked[0]]):
        if owners := [way for way, modes in _WAYS.items() if option in modes]:
            shown = f"{option} {given[option]}".removesuffix(" True")
            raise UsageError(f"{shown} belongs to {' or '.join(owners)}; leave it out")
    for option in _NOT_WITH_TRAFFIC:
        if {"--traffic", option} <= given.keys():
            raise UsageError(f"--traffic and {option} exclude each other; give one of them")
    return asked[0]


# By way: the criterion that the options ask for, and what the card says about it.
def _known_rejected(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from openset.calibration import KnownRejected

    alpha, by, per_class = given.get("--alpha", 0.05), given.get("--by"), "--per-class" in given
    if per_class and (by == "highest" or "--within" in given):
        raise UsageError("--per-class excludes --by highest and --within; leave them out")
    where = "class" if per_class else "category" if "--within" in given else None
    confidence, aggregate = given.get("--confidence"), given.get("--aggregate")
    names = ("confidence", "within", "aggregate")
    told = {name: given[f"--{name}"] for name in names if f"--{name}" in given}
    promise = KnownRejected(alpha, confidence, where, by == "own", aggregate)
    return promise, {"alpha": alpha, "per_class": per_class, "by": by, **told}


def _strangers(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from openset.calibration import StrangersAccepted

    rate = given["--strangers"]
    return StrangersAccepted(rate), {"per_class": False, "criterion": "strangers", "rate": rate}


def _cost(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from openset.calibration import Cost

    share, costs = given.get("--unknown-share"), _parse(given["--costs"])
    card = {"per_class": False, "unknown_share": share, "criterion": "cost", "costs": costs}
    return Cost(**costs, unknown_share=share), card


def _precision(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from openset.calibration import Precision

    target, sure = given["--precision"], given.get("--confidence", 0.95)
    share = given.get("--unknown-share")
    card = {"per_class": False, "unknown_share": share, "criterion": "precision"}
    return Precision(target, sure, share), card | {"precision": target, "confidence": sure}


_CRITERIA = {
    **{"--alpha": _known_rejected, "--strangers": _strangers},
    **{"--costs": _cost, "--precision": _precision},
}


def _parse(costs: str) -> dict[str, float]:
    try:
        pairs = (item.split("=") for item in options.split(costs, "--costs") or ())
        parsed = {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        parsed = {}
    if parsed.keys() != {"reject", "wrong", "accept_unknown"}:
        raise UsageError(
            f"--costs {costs!r} must be NAME=NUMBER, comma-separated, for reject, wrong and "
            "accept_unknown: for example reject=1,wrong=10,accept_unknown=20"
        )
    return parsed
