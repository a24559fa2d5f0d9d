"""ONNX models: read and checked, then imported node by node as whole operators."""

from tilescope.engine.frontend.onnx.load import load_onnx
from tilescope.engine.frontend.onnx.nodes.settings import inputs_to_set

__all__ = ["inputs_to_set", "load_onnx"]
