"""``openset calibrate``: a model and a table it has not seen in, the model with a promise out."""

import json
from typing import Annotated, Any, Literal

import typer

from openset.cli import _options as options
from openset.cli._options import reported, say


@reported
def calibrate(
    model: options.ReplacedModel,
    data: options.Data,
    target: options.TrueTarget,
    output: options.NewModel,
    unknown: options.Unknown = None,
    alpha: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Largest share of known rows to reject; default: 0.05."),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Instead of --alpha: share of the answers to be right."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(help="Instead of --alpha: least cost; reject=1,wrong=10,accept_unknown=20."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Probability that --precision (default: 0.95) or --alpha is kept by these rows.",
        ),
    ] = None,
    unknown_share: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of unknown rows to expect, for --precision and --costs."
        ),
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Keep --alpha in every class separately.")
    ] = False,
    by: Annotated[
        Literal["highest", "own"] | None,
        typer.Option(
            help="For --alpha: 'highest' promises that a class accepts, 'own' that the right one "
            "does, which rejects fewer unknown rows; default: highest, own with --per-class."
        ),
    ] = None,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Set the thresholds of a model on rows that it has not seen; `predict` then uses them."""
    import numpy as np

    from openset.calibration import calibrate as calibrated
    from openset.cli._text import describe_operating_point
    from openset.evaluation import certificate_card
    from openset.persistence import read_model, save_model
    from openset.tables import TableModel, open_table
    from openset.utils import unwrap

    options.prepare_output(output)
    asked = {"--alpha": alpha, "--precision": precision, "--costs": costs}
    criterion, recorded = _criterion(asked, confidence, unknown_share, per_class, by)
    scorer = TableModel(*read_model(model), n_jobs=jobs)
    X, y = scorer.labelled(open_table(data, encoding), target, unknown).read()
    result = calibrated(scorer.model, X, y, criterion=criterion)
    rejector = unwrap(result)
    card = scorer.card | {
        "operating_point": {
            **recorded,
            "source": data.name,
            "rows": rejector.n_calibration_,
            "unknown_rows": int(np.sum(y == scorer.final.unknown_label_)),
            "promise": rejector.promise_,
            "price": rejector.price_,
            "thresholds": rejector.thresholds_.tolist(),
        },
        "certificate": certificate_card(rejector),
    }
    card = save_model(result, output, card)
    if as_json:
        typer.echo(json.dumps(card, indent=1))
        return
    say(*describe_operating_point(card), f"saved {output}")


def _criterion(asked, confidence, unknown_share, per_class, by) -> tuple[Any, dict[str, Any]]:
    """The criterion that the options ask for, and what the card says about it."""
    from openset.calibration import Cost, KnownRejected, Precision

    given = [option for option, value in asked.items() if value is not None] or ["--alpha"]
    if len(given) > 1:
        raise ValueError("--alpha, --precision and --costs exclude each other; give one of them")
    kind, value = given[0], asked[given[0]]
    if kind == "--costs" and confidence is not None:
        raise ValueError(f"--confidence {confidence:g} belongs to --precision or --alpha")
    if kind == "--alpha" and unknown_share is not None:
        raise ValueError(
            f"--unknown-share {unknown_share:g} belongs to --precision or --costs; give one of them"
        )
    if kind != "--alpha" and (by is not None or per_class):
        option = "--per-class" if by is None else f"--by {by}"
        raise ValueError(f"{option} belongs to --alpha; leave it out")
    if per_class and by == "highest":
        raise ValueError("--by highest is for one threshold; leave out --by or --per-class")
    if kind == "--alpha":
        alpha, within = 0.05 if value is None else value, "class" if per_class else None
        promise = KnownRejected(alpha, confidence, within=within, own_class=by == "own")
        told = {} if confidence is None else {"confidence": confidence}
        return promise, {"alpha": alpha, "per_class": per_class, "by": by, **told}
    card = {"unknown_share": unknown_share or 0.0, "per_class": False}
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
        raise ValueError(
            f"--costs {costs!r} must be NAME=NUMBER, comma-separated, for reject, wrong and "
            "accept_unknown: for example reject=1,wrong=10,accept_unknown=20"
        )
    return parsed
