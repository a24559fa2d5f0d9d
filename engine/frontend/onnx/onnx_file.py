"""An ONNX file as a session takes it.

What reads models is imported when one is read: a program that was compiled before needs the digest
of its file only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tilescope.engine.frontend.model_path import lasting_path
from tilescope.engine.frontend.onnx.file_digest import file_digest, outside_files
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

    @cached_property
    def outside(self) -> tuple[str, ...]:
        """Names of the files that hold its weights, relative to its folder."""
        return outside_files(self.path)

    def digest(self, outside: Sequence[str]) -> str:
        """Return the digest of the file and of others."""
        return file_digest(self.path, outside)

    def stored_bytes(self) -> int:
        """Return the size of the file and of the files that hold its weights."""
        from tilescope.engine.frontend.onnx.source.skeleton import stored_bytes

        return stored_bytes(self.path)

    def weight_bytes(self, setup: Setup) -> int:
        """Return how many bytes of weights its nodes use."""
        from tilescope.engine.frontend.onnx.facts.census import take_census

        census = take_census(
            self.path, setup.shapes, setup.batch, setup.precision, setup.values, setup.dims
        )
        return census.weight_bytes

    def load(self, setup: Setup) -> Model:
        """Return its operator graph."""
        from tilescope.engine.frontend.onnx.load import load_onnx

        return load_onnx(
            self.path,
            setup.shapes,
            setup.trained,
            setup.values,
            setup.batch,
            setup.dims,
            setup.frozen,
        )

    def facts(self, model: Model, digest: str = "") -> dict[str, str]:
        """Return path, digest, opset, and the inputs whose batch was taken as 1."""
        facts = {
            "model_name": self.name,
            "model_path": lasting_path(self.path),
            "model_sha256": digest or self.digest(self.outside),
            "opset": str(model.opset),
        }
        if model.assumed_ones:
            facts["assumed_batch_of_one"] = json.dumps(list(model.assumed_ones))
        return facts
