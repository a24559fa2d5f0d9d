"""ONNX files: read, checked, and rewritten into the usual form."""
