"""The full description of a compilation, used as the key of the executable cache.

The description holds everything that determines the outcome: graph, programs, machine, options and
versions. Large arrays are represented by their digest, and cycle laws by the digest of their
answers, so a changed law is detected whoever wrote it. The contents of variables are left out:
nothing that the compiler computes depends on them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.step_cost import IPU_COLUMNS, TILE_COLUMNS, StepCost
from tilescope.engine.compiler.executable.versions import engine_versions
from tilescope.engine.graph import ComputeSet, DebugContext, GraphImage, RemoteBuffer, Variable
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.program import Function, Program

__all__ = ["describe", "describe_compilation"]

_DIGEST_BYTES = 32
#: Fields that do not affect the outcome.
_LEFT_OUT = {
    "GraphImage": {"sources"},
    "Variable": {"values"},
    "Codelet": {"kernel", "law", "flops", "pieces"},
}
#: Objects that the graph keeps in lists; elsewhere their number represents them.
_NUMBERED = (Variable, ComputeSet, RemoteBuffer)


def describe_compilation(
    graph: GraphImage,
    programs: Sequence[Program],
    compute_cost: Callable[[ComputeSet], StepCost],
    options: Mapping[str, bool],
) -> bytes:
    """Return the description: equal bytes mean equal outcomes.

    Parameters
    ----------
    graph
        The frozen image.
    programs
        Control programs.
    compute_cost
        Returns the cost of a compute set, from the cycle laws of its codelets.
    options
        Compiler options.

    Raises
    ------
    TypeError
        When the graph or the programs hold a value of an unsupported type.
    """
    walk = _Walk()
    described_programs = [walk.describe(program) for program in programs]
    content = {
        "versions": engine_versions(),
        "options": dict(options),
        "graph": walk.define_graph(graph),
        "programs": described_programs,
        "costs": {
            compute_set_id: [walk.describe(array) for array in _arrays(compute_cost(compute_set))]
            for compute_set_id, compute_set in sorted(walk.compute_sets.items())
        },
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def describe(question: object) -> bytes:
    """Return the description of a request to the engine's code, such as a plan's.

    Raises
    ------
    TypeError
        When it holds a value of an unsupported type.
    """
    content = {"versions": engine_versions(), "question": _Walk().describe(question)}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


class _Walk:
    """Converts the inputs of a compilation to JSON types, whatever fields they have."""

    def __init__(self) -> None:
        self.compute_sets: dict[int, ComputeSet] = {}
        self._functions: dict[Function, int] = {}

    def define_graph(self, graph: GraphImage) -> dict[str, Any]:
        """Describe the graph, with its variables, compute sets and buffers in full."""
        names = [field.name for field in dataclasses.fields(graph)]
        left_out = _LEFT_OUT["GraphImage"]
        return {name: self._define(getattr(graph, name)) for name in names if name not in left_out}

    def _define(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [
                self._fields(item) if isinstance(item, _NUMBERED) else self.describe(item)
                for item in value
            ]
        return self.describe(value)

    def describe(self, value: Any) -> Any:
        """Describe any value; variables, compute sets and buffers are given by their number."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.ndarray():
                return _described_array(value)
            case np.generic():
                return value.item()
            case Variable():
                return ["variable", value.variable_id]
            case ComputeSet():
                self.compute_sets[value.compute_set_id] = value
                return ["compute_set", value.compute_set_id]
            case RemoteBuffer():
                return ["buffer", value.buffer_id]
            case DebugContext():
                return value.name
            case Function():
                return self._function(value)
            case Mapping():
                return [[self.describe(k), self.describe(v)] for k, v in value.items()]
            case list() | tuple():
                return [self.describe(item) for item in value]
            case Enum():
                return value.name
        if dataclasses.is_dataclass(value):
            return self._fields(value)
        raise TypeError(f"{type(value).__name__} has no description")

    def _fields(self, value: Any) -> Any:
        kind = type(value).__name__
        left_out = _LEFT_OUT.get(kind, set())
        names = [f.name for f in dataclasses.fields(value) if f.name not in left_out]
        content = {name: self.describe(getattr(value, name)) for name in names}
        if isinstance(value, Codelet):
            content["state_bytes"] = value.state_bytes
        return [kind, content]

    def _function(self, function: Function) -> Any:
        if function in self._functions:
            return ["function", self._functions[function]]
        number = self._functions[function] = len(self._functions)
        return [
            "function",
            number,
            function.name,
            repr(function.role),
            self.describe(function.body),
        ]


def _arrays(cost: StepCost) -> list[NDArray[Any]]:
    columns = (getattr(cost, name) for name in (*TILE_COLUMNS, *IPU_COLUMNS))
    return [array for column in columns for array in (column.ids, column.narrow_values)]


def _described_array(array: NDArray[Any]) -> list[Any]:
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    digest = blake2b(data.data, digest_size=_DIGEST_BYTES).hexdigest()
    return [array.dtype.str, list(array.shape), digest]
