"""``openset calibrate``: a model and a table it has not seen in, the model with a promise out."""

import json
from typing import Annotated, Literal

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
        typer.Option(min=0, max=1, help="Probability that --precision is kept; default: 0.95."),
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
    if sum(option is not None for option in (alpha, precision, costs)) > 1:
        raise ValueError("--alpha, --precision and --costs exclude each other; give one of them")
    if confidence is not None and precision is None:
        raise ValueError(f"--confidence {confidence:g} belongs to --precision, which is not given")
    if unknown_share is not None and precision is None and costs is None:
        raise ValueError(
            f"--unknown-share {unknown_share:g} belongs to --precision or --costs; give one of them"
        )
    if by is not None and (precision is not None or costs is not None):
        raise ValueError(f"--by {by} belongs to --alpha; leave it out")
    point: dict = {"alpha": 0.05 if alpha is None else alpha, "per_class": per_class, "by": by}
    if precision is not None or costs is not None:
        point = {"criterion": "cost", "unknown_share": unknown_share or 0.0, "per_class": per_class}
        point["costs"] = None if costs is None else _parse(costs)
    if precision is not None:
        point |= {"criterion": "precision", "precision": precision}
        point["confidence"] = 0.95 if confidence is None else confidence
    scorer = TableModel(*read_model(model), n_jobs=jobs)
    X, y = scorer.labelled(open_table(data, encoding), target, unknown).read()
    result = calibrated(scorer.model, X, y, **point)
    rejector = unwrap(result)
    card = scorer.card | {
        "operating_point": {
            **point,
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


def _parse(costs: str) -> dict[str, float]:
    try:
        pairs = (item.split("=") for item in options.split(costs, "--costs") or ())
        found = {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        found = {}
    if found.keys() != {"reject", "wrong", "accept_unknown"}:
        raise ValueError(
            f"--costs {costs!r} must be NAME=NUMBER, comma-separated, for reject, wrong and "
            "accept_unknown: for example reject=1,wrong=10,accept_unknown=20"
        )
    return found
