"""ONNX's own backend suite, newest and as of ONNX 1.6.0: ``python -m tests.onnx_suite``."""
