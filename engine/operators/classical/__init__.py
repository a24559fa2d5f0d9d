"""Operators of ONNX's domain for classical machine learning."""
