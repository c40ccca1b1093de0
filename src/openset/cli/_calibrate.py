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
    from openset.persistence import save_model
    from openset.utils import unwrap

    options.prepare_output(output)
    asked = {"--alpha": alpha, "--precision": precision, "--costs": costs, "--strangers": strangers}
    modes = {
        **{"--confidence": confidence, "--unknown-share": unknown_share, "--by": by},
        **{"--per-class": per_class or None, "--within": within, "--aggregate": aggregate},
    }
    if aggregate is not None and group is None:
        raise UsageError(f"--aggregate {aggregate} is about objects; name their column by --group")
    criterion, recorded = _criterion(asked, modes)
    scorer = shared.model(model)
    if strangers is not None and group is None:
        group = target  # the classes of unknown rows are their identities
    for option in ("--unknown-share", "--strangers", "--within") if traffic is not None else ():
        if (asked | modes)[option] is not None:
            raise UsageError(f"--traffic and {option} exclude each other; give one of them")
    columns = [name for name in (group, within) if name is not None]
    rows = scorer.labelled(shared.open(data), target, unknown, columns)
    X, y = rows.read()
    given: dict[str, Any] = {"groups": rows.texts(group), "categories": rows.texts(within)}
    if traffic is not None:
        given["X_traffic"], _ = scorer.read(shared.open(traffic))
    result = calibrated(scorer.model, X, y, **given, criterion=criterion)
    rejector = unwrap(result)
    recorded["source"] = data.name
    recorded["unknown_rows"] = int(np.sum(y == scorer.final.unknown_label_))
    if traffic is not None:  # unknown rows with a label were left out
        recorded["unknown_rows"] = 0
        recorded["traffic"] = {"source": traffic.name} | rejector.traffic_
        if "unknown_share" in recorded:
            recorded["unknown_share"] = rejector.criterion_.unknown_share
    if strangers is not None:
        recorded["strangers"] = rejector.strangers_
    elif group is not None:
        recorded["group"] = group
    card = save_model(result, output, scorer.card | point_card(rejector, recorded))
    shared.tell(card, [*describe_operating_point(card), *options.saved(output)])


def point_card(rejector, recorded: dict[str, Any]) -> dict[str, Any]:
    """What the card of a calibrated model says, beside what was asked for."""
    from openset.evaluation import certificate_card

    point = {
        "rows": rejector.n_calibration_,
        "promise": rejector.promise_,
        "price": rejector.price_,
        "thresholds": rejector.thresholds_.tolist(),
    }
    return {"operating_point": recorded | point, "certificate": certificate_card(rejector)}


# The options that a mode belongs to; all other modes belong to --alpha.
_OWNERS = {
    "--confidence": ("--precision", "--alpha"),
    "--unknown-share": ("--precision", "--costs"),
}


def _criterion(asked: dict[str, Any], modes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The criterion that the options ask for, and what the card says about it."""
    from openset.calibration import Cost, KnownRejected, Precision, StrangersAccepted

    given = [option for option, value in asked.items() if value is not None] or ["--alpha"]
    if len(given) > 1:
        names = ", ".join([*asked][:-1])
        raise UsageError(f"{names} and {[*asked][-1]} exclude each other; give one of them")
    kind, value = given[0], asked[given[0]]
    for option, mode in modes.items():
        owners = _OWNERS.get(option, ("--alpha",))
        if kind not in owners and mode is not None:
            shown = option if mode is True else f"{option} {mode}"
            raise UsageError(f"{shown} belongs to {' or '.join(owners)}; leave it out")
    confidence, unknown_share, by, per_class, column, aggregate = modes.values()
    if (per_class and by == "highest") or (per_class and column is not None):
        raise UsageError("--per-class excludes --by highest and --within; leave them out")
    card: dict[str, Any] = {"per_class": bool(per_class)}
    if kind == "--strangers":
        return StrangersAccepted(value), card | {"criterion": "strangers", "rate": value}
    if kind == "--alpha":
        alpha = 0.05 if value is None else value
        where = "class" if per_class else None if column is None else "category"
        told = {} if confidence is None else {"confidence": confidence}
        told |= {} if column is None else {"within": column}
        told |= {} if aggregate is None else {"aggregate": aggregate}
        promise = KnownRejected(alpha, confidence, where, by == "own", aggregate)
        return promise, {"alpha": alpha, **card, "by": by, **told}
    card["unknown_share"] = unknown_share or 0.0
    if kind == "--costs":
        costs = _parse(value)
        card |= {"criterion": "cost", "costs": costs}
        return Cost(**costs, unknown_share=unknown_share), card
    sure = 0.95 if confidence is None else confidence
    card |= {"criterion": "precision", "precision": value, "confidence": sure}
    return Precision(value, sure, unknown_share), card


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
