"""``openset export``: a model file in, a file for other programs out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from openset.cli._failures import reported
from openset.cli._fit import check_folder


@reported
def export(
    model: Annotated[Path, typer.Argument(help="Model file, from openset fit.")],
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")],
) -> None:
    """Write a model as ONNX, scaler included, for programs without Python."""
    check_folder(onnx)
    from openset.export import to_onnx
    from openset.persistence import load_model
    from openset.utils._files import atomic_write

    exported = to_onnx(load_model(model))
    with atomic_write(onnx) as temporary:
        temporary.write_bytes(exported.SerializeToString())
    features = exported.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    outputs = ", ".join(output.name for output in exported.graph.output)
    typer.echo(f"wrote {onnx} ({onnx.stat().st_size / 1e6:.2f} MB)")
    typer.echo(f"input X: float64, one row a sample, {features} features; outputs: {outputs}")
