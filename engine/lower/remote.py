"""Values in streaming memory while a model is lowered: their buffers, and how they lie on tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, count
from math import prod

from tilescope.engine.graph import Graph, RemoteBuffer, Tensor
from tilescope.engine.graph.variable import to_host
from tilescope.engine.ir import Constant, Model, Operation, Parameter, State, Value
from tilescope.engine.number.dtype import dtype_of

__all__ = ["RemoteValues", "is_remote", "remote_values"]

#: Operators that copy between tiles and streaming memory.
_LOAD, _STORE = "remote_load", "remote_store"


def is_remote(operation: Operation) -> bool:
    """Return whether an operation copies a value between tiles and streaming memory."""
    return operation.operator.is_primitive and operation.operator.name in (_LOAD, _STORE)


def remote_values(model: Model) -> list[Parameter | State | Constant]:
    """Return what streaming memory holds before the first run, what changes first."""
    sources = (
        operation.operand(0)
        for operation in (*model.operations, *model.closing)
        if is_remote(operation)
    )
    values = [v for v in dict.fromkeys(sources) if isinstance(v, Parameter | State | Constant)]
    return sorted(values, key=lambda value: not value.is_held)


@dataclass
class RemoteValues:
    """The values that are in streaming memory.

    Parameters
    ----------
    buffers
        By value: one that is there before the first run, or what a store returned.
    layouts
        How a value lay on tiles when it was last there.
    """

    buffers: dict[Value, RemoteBuffer] = field(default_factory=dict)
    layouts: dict[Value, Tensor] = field(default_factory=dict)

    def add(self, graph: Graph, value: Parameter | State | Constant) -> None:
        """Add a buffer with the content of a value.

        Raises
        ------
        BadGraph
            When the streaming memory has no room for it.
        """
        contents = to_host(value.array, dtype_of(value.dtype), value.name).reshape(1, -1)
        name = _unused(graph, value.name)
        buffer = graph.add_remote_buffer(name, value.dtype, contents.size, values=contents)
        self.buffers[value] = buffer

    def add_result(self, graph: Graph, stored: Value, tensor: Tensor) -> RemoteBuffer:
        """Add a buffer for a value that a run computes, and return it."""
        name = _unused(graph, stored.name)
        buffer = graph.add_remote_buffer(name, tensor.dtype.name, prod(tensor.shape))
        self.buffers[stored], self.layouts[stored] = buffer, tensor
        return buffer

    def layout(self, value: Value, on_chip: dict[Value, Tensor]) -> Tensor | None:
        """Return as what a value is to lie on tiles; None where its readers decide."""
        if value in self.layouts:
            return self.layouts[value]
        like = value.like if isinstance(value, State) else None
        if like is None or like.shape != value.shape:
            return None
        return self.layouts.get(like) or on_chip.get(like)


def _unused(graph: Graph, name: str) -> str:
    """Return a name that no buffer has: the name itself, or with a number."""
    taken = {buffer.name for buffer in graph.remote_buffers}
    numbered = (f"{name}/{number}" for number in count(2))
    return next(text for text in chain([name], numbered) if text not in taken)
