"""Fitted models for other programs: ONNX graphs that need neither this library nor Python."""

try:
    import onnx  # noqa: F401
except ImportError as error:
    raise ImportError(
        'openset.export needs onnx; run: pip install "openset[onnx]"', name="onnx"
    ) from error

from ._model import to_onnx

__all__ = ["to_onnx"]
