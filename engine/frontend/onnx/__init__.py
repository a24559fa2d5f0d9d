"""ONNX models: read and checked, then imported node by node as whole operators."""

from tilescope.engine.frontend.onnx.load import load_onnx

__all__ = ["load_onnx"]
