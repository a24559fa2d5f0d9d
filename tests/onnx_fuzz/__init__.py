"""Random ONNX graphs, compared with onnxruntime."""
