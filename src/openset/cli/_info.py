"""``openset info`` and ``openset export``: what is in a model file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._options import READS, WRITES, reported

# Parameters that do not change the model.
_TECHNICAL = {"cache_size", "n_jobs", "verbose", "max_iter", "unknown_label"}


@reported
def info(
    shared: options.Output,
    model: Annotated[Path | None, typer.Argument(metavar="MODEL"), READS] = None,
) -> None:
    """Show the card of a model; without one, versions, BLAS, threads and compiled code.

    model: Model file from `openset fit`; default: none.
    """
    if model is None:
        from openset.host import host_info, version_lines

        found = host_info()
        shared.tell(found, version_lines(found))
    else:
        from openset.persistence import read_card

        card = read_card(model)
        shared.tell(card, _card_lines(card))


def _card_lines(card: dict[str, Any]) -> Iterator[str]:
    from openset.cli import _text

    yield f"{card['method']}, written by openset {card['openset']} on {card['created']}"
    classes = _text.shortened([str(c) for c in card["classes"]], 30)
    yield f"classes: {classes}; anything else is answered {card['unknown_label']!r}"
    if _text.data_of(card).get("features"):
        yield from _text.describe_data(card["data"])
    if "parameters" in card:
        shown = {k: repr(v) for k, v in card["parameters"].items() if k not in _TECHNICAL}
        yield f"parameters: {_text.parameters(shown)}"
    yield from _text.describe_result(card)
    for entry in (descent := card.get("descent", [])):
        report = card.get("learned", {}) if entry is descent[-1] else {}
        yield f"learned on {entry['when']}:"
        yield from (f"  {line}" for line in _text.describe_changes(entry["changes"], report))
    yield "versions: " + ", ".join(f"{k} {v}" for k, v in card["versions"].items())


@reported
def export(
    shared: options.Output,
    model: options.Model,
    onnx: Annotated[Path, WRITES],
    float32: bool = False,
) -> None:
    """Write a model as ONNX, scaler included, for programs without Python.

    onnx: ONNX file to write.
    float32: Take numbers of 32 bits instead of 64.
    """
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
    order = f", in this order: {', '.join(told['features'])}" if told.get("features") else ""
    lines = {
        "X": f"input X: {dtype}, one row per sample, the features unscaled{order}",
        "categories": "input categories: texts, in this order: "
        + ", ".join(told.get("categories", ())),
    }
    wrote = f"wrote {onnx} ({onnx.stat().st_size / 1e6:.2f} MB)"
    shown = [wrote, *(lines[name] for name in inputs), f"outputs: {', '.join(outputs)}"]
    shared.tell({"onnx": str(onnx), "inputs": inputs, "outputs": outputs, **told}, shown, None)
