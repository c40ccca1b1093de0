"""``openset info`` and ``openset export``: what is in a model file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from openset.cli import _options as options
from openset.cli._options import READS, WRITES, reported, say

# Parameters that do not change the model.
_TECHNICAL = {"cache_size", "n_jobs", "verbose", "max_iter", "unknown_label"}


@reported
def info(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="Model file from `openset fit`; default: none."),
        READS,
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the card of a model; without one, versions, BLAS, threads and compiled code."""
    if model is None:
        from openset.host import host_info, show_versions

        typer.echo(json.dumps(host_info(), indent=1)) if as_json else show_versions()
        return
    from openset.cli import _text
    from openset.persistence import read_card

    card = read_card(model)
    if as_json:
        typer.echo(json.dumps(card, indent=1))
        return
    lines = [
        f"{card['method']}, written by openset {card['openset']} on {card['created']}",
        f"classes: {_text.shortened([str(c) for c in card['classes']], 30)}; "
        f"anything else is answered {card['unknown_label']!r}",
    ]
    if _text.data_of(card).get("features"):
        lines += _text.describe_data(card["data"])
    if "parameters" in card:
        shown = {k: repr(v) for k, v in card["parameters"].items() if k not in _TECHNICAL}
        lines.append(f"parameters: {_text.parameters(shown)}")
    lines += _text.describe_result(card)
    for entry in (descent := card.get("descent", [])):
        report = card.get("learned", {}) if entry is descent[-1] else {}
        told = _text.describe_changes(entry["changes"], report)
        lines += [f"learned on {entry['when']}:", *(f"  {line}" for line in told)]
    lines.append("versions: " + ", ".join(f"{k} {v}" for k, v in card["versions"].items()))
    say(*lines)


@reported
def export(
    model: options.Model,
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write."), WRITES],
    as_json: options.AsJson = False,
) -> None:
    """Write a model as ONNX, scaler included, for programs without Python."""
    options.prepare_output(onnx)
    from openset.cli._text import data_of
    from openset.export import to_onnx
    from openset.persistence import read_model
    from openset.utils import atomic_write

    loaded, card = read_model(model)
    exported = to_onnx(loaded, feature_names=data_of(card).get("features"))
    with atomic_write(onnx) as temporary:
        temporary.write_bytes(exported.SerializeToString())
    told = {prop.key: json.loads(prop.value) for prop in exported.metadata_props}
    outputs = [output.name for output in exported.graph.output]
    if as_json:
        typer.echo(json.dumps({"onnx": str(onnx), "input": "X", "outputs": outputs, **told}))
        return
    order = f", in this order: {', '.join(told['features'])}" if "features" in told else ""
    say(
        f"wrote {onnx} ({onnx.stat().st_size / 1e6:.2f} MB)",
        f"input X: float64, one row per sample, the features unscaled{order}",
        f"outputs: {', '.join(outputs)}",
    )
