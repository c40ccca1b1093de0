"""``openset export``: a model file in, a file for other programs out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openset.cli._failures import reported
from openset.cli._fit import check_folder


@reported
def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file, written by `openset fit`.")
    ],
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Write a model as ONNX, scaler included, for programs without Python."""
    check_folder(onnx)
    from openset.cli._card import features_of
    from openset.export import to_onnx
    from openset.persistence import load_model, read_card
    from openset.utils import atomic_write

    exported = to_onnx(load_model(model), feature_names=features_of(read_card(model)))
    with atomic_write(onnx) as temporary:
        temporary.write_bytes(exported.SerializeToString())
    told = {prop.key: json.loads(prop.value) for prop in exported.metadata_props}
    outputs = [output.name for output in exported.graph.output]
    if as_json:
        typer.echo(json.dumps({"onnx": str(onnx), "input": "X", "outputs": outputs, **told}))
        return
    order = f", in this order: {', '.join(told['features'])}" if "features" in told else ""
    typer.echo(f"wrote {onnx} ({onnx.stat().st_size / 1e6:.2f} MB)")
    typer.echo(f"input X: float64, a row for each sample, the features unscaled{order}")
    typer.echo(f"outputs: {', '.join(outputs)}")
