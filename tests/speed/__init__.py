"""Where the time of a run, a compile and a start goes, beside onnxruntime: ``make bench``."""
