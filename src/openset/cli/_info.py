"""``openset info``: what a model file tells of itself, without loading the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openset.cli._failures import reported


@reported
def info(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file, written by `openset fit`.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> None:
    """Show the card of a model: data, classes, parameters, measures, certificate, versions."""
    from openset.persistence import read_card

    card = read_card(model)
    if as_json:
        typer.echo(json.dumps(card, indent=1))
        return
    typer.echo("\n".join(_lines(card)))


def _lines(card):
    from openset.cli import _card

    lines = [f"{card['method']}, written by openset {card['openset']} on {card['created']}"]
    lines.append(
        f"classes: {_card.shortened([str(c) for c in card['classes']], 30)}; "
        f"anything else is answered {card['unknown_label']!r}"
    )
    if _card.features_of(card):
        lines += _card.describe_data(card["data"])
    if "parameters" in card:
        shown = {k: v for k, v in card["parameters"].items() if k not in _TECHNICAL}
        lines.append("parameters: " + ", ".join(f"{k}={v!r}" for k, v in shown.items()))
    if "search" in card:
        lines.append(_card.describe_search(card))
    if "held_out" in card:
        lines += _card.describe_held_out(card)
    if "certificate" in card:
        lines.append(_card.describe_certificate(card))
    lines.append("versions: " + ", ".join(f"{k} {v}" for k, v in card["versions"].items()))
    return lines


# Parameters that do not change the model.
_TECHNICAL = {"cache_size", "n_jobs", "verbose", "max_iter", "unknown_label"}
