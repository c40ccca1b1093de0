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
    float32: Annotated[
        bool, typer.Option("--float32", help="Take numbers of 32 bits instead of 64.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a model as ONNX, scaler included, for programs without Python."""
    options.prepare_output(onnx)
    from openset.cli._text import data_of
    from openset.export import to_onnx
    from openset.persistence import read_model
    from openset.tables import model_encoder
    from openset.utils import atomic_write

    loaded, card = read_model(model)
    # A model file of 0.1.0 has no encoder: its card has the names.
    names = None if model_encoder(loaded) else data_of(card).get("features")
    dtype = "float32" if float32 else "float64"
    exported = to_onnx(loaded, feature_names=names, dtype=dtype)
    with atomic_write(onnx) as temporary:
        temporary.write_bytes(exported.SerializeToString())
    told = {prop.key: json.loads(prop.value) for prop in exported.metadata_props}
    outputs = [output.name for output in exported.graph.output]
    inputs = [given.name for given in exported.graph.input]
    if as_json:
        typer.echo(json.dumps({"onnx": str(onnx), "inputs": inputs, "outputs": outputs, **told}))
        return
    order = f", in this order: {', '.join(told['features'])}" if told.get("features") else ""
    lines = {
        "X": f"input X: {dtype}, one row per sample, the features unscaled{order}",
        "categories": "input categories: texts, in this order: "
        + ", ".join(told.get("categories", ())),
    }
    say(
        f"wrote {onnx} ({onnx.stat().st_size / 1e6:.2f} MB)",
        *(lines[name] for name in inputs),
        f"outputs: {', '.join(outputs)}",
    )
