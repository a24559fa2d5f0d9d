"""ONNX models: one file per operator family."""

from tilescope.engine.frontend.onnx.load import load_onnx

__all__ = ["load_onnx"]
