"""Attention, as ONNX and as onnxruntime's optimiser write it."""
