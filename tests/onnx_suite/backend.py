"""The engine as a backend of ONNX's suite."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.base import Backend, BackendRep

from tilescope.engine import CompiledModel, Engine, compile_model, load_machine, load_onnx
from tilescope.engine.frontend.onnx import inputs_to_set
from tilescope.engine.options import resolve

__all__ = ["TileBackend", "TileRep"]

#: Tiles of the machine: few compile quickly. A model that needs more, or is large, takes all.
_FEW_TILES, _MANY_NODES = 16, 60


class TileRep(BackendRep):
    """A model, compiled once for each set of values that decide its shapes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._proto = model
        initialized = {tensor.name for tensor in model.graph.initializer}
        self._names = [i.name for i in model.graph.input if i.name not in initialized]
        self._outputs = [output.name for output in model.graph.output]
        self._set = inputs_to_set(model)
        self._compiled: dict[tuple[Any, ...], CompiledModel] = {}

    def run(self, inputs: Sequence[NDArray[Any]], **_: Any) -> tuple[NDArray[Any], ...]:
        """Return the outputs of one set of inputs, in the model's order."""
        values = {name: np.asarray(array) for name, array in zip(self._names, inputs, strict=False)}
        decided = {name: array for name, array in values.items() if name in self._set}
        shapes = {name: array.shape for name, array in values.items()}
        key = (
            *((name, array.shape, array.tobytes()) for name, array in decided.items()),
            *shapes.items(),
        )
        if key not in self._compiled:
            self._compiled[key] = self._compile(decided, shapes)
        compiled = self._compiled[key]
        streamed = {value.name for value in compiled.model.inputs}
        with Engine(compiled.executable, resolve()) as engine:
            actual = compiled.run(engine, {k: v for k, v in values.items() if k in streamed})
        return tuple(actual[name] for name in self._outputs)

    def _compile(
        self, decided: dict[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]]
    ) -> CompiledModel:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(self._proto, path)
            model = load_onnx(path, shapes=shapes, values=decided)
        if len(self._proto.graph.node) <= _MANY_NODES:
            few = load_machine("gc200", tiles_per_ipu=_FEW_TILES)
            compiled = compile_model(model, few, is_checked=True)
            if not compiled.executable.overfull_tiles.size:
                return compiled
        return compile_model(model, load_machine("gc200"))


class TileBackend(Backend):
    """Runs models on one simulated IPU; its only device is ``CPU``, where the simulation runs."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, *_: Any, **__: Any) -> TileRep:
        """Return the model, which is compiled when it is first run."""
        return TileRep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device is the simulation's."""
        return device == "CPU"
