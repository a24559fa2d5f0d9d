"""An ONNX file as a session takes it."""

from __future__ import annotations

import json
from pathlib import Path

from tilescope.engine.frontend.model_path import lasting_path
from tilescope.engine.frontend.onnx.facts.census import take_census
from tilescope.engine.frontend.onnx.load import load_onnx
from tilescope.engine.frontend.onnx.source.read import model_digest
from tilescope.engine.frontend.onnx.source.skeleton import stored_bytes
from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.ir import Model

__all__ = ["OnnxFile"]


class OnnxFile:
    """An ONNX file (a `tilescope.engine.frontend.source_model.SourceModel`).

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Name of the file without its ending."""
        return self.path.stem

    @property
    def place(self) -> str:
        """Its path."""
        return str(self.path)

    def stored_bytes(self) -> int:
        """Return the size of the file and of the files that hold its weights."""
        return stored_bytes(self.path)

    def weight_bytes(self, setup: Setup) -> int:
        """Return how many bytes of weights its nodes use."""
        census = take_census(
            self.path, setup.shapes, setup.batch, setup.precision, setup.values, setup.dims
        )
        return census.weight_bytes

    def load(self, setup: Setup) -> Model:
        """Return its operator graph."""
        return load_onnx(
            self.path,
            setup.shapes,
            setup.trained,
            setup.values,
            setup.batch,
            setup.dims,
            setup.frozen,
        )

    def facts(self, model: Model) -> dict[str, str]:
        """Return path, digest, opset, and the inputs whose batch was taken as 1."""
        facts = {
            "model_name": self.name,
            "model_path": lasting_path(self.path),
            "model_sha256": model_digest(self.path),
            "opset": str(model.opset),
        }
        if model.assumed_ones:
            facts["assumed_batch_of_one"] = json.dumps(list(model.assumed_ones))
        return facts
