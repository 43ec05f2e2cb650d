"""Take a model elsewhere: a file in ONNX, which ONNX Runtime and many other programs run. See `export`."""

from .export import export

__all__ = ["export"]
