"""Real models, whole: the catalogue beside onnxruntime, and ten thousand labelled digits."""
