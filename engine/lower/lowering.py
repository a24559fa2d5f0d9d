"""Lowers operations one after the other: keeps their tensors and their place in the program."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import DebugContext, Tensor
from tilescope.engine.graph.identity.digest import digest_of, joint_digest
from tilescope.engine.graph.variable import to_host
from tilescope.engine.ir import NarrowConstant, Operation, Parameter, Value
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import cast
from tilescope.engine.lower.last_use import LastUses
from tilescope.engine.program import Sequence, StreamCopyIn

__all__ = ["Lowering"]

#: Elements of an array that a debug context states one by one.
_LONGEST_ATTRIBUTE = 256

#: Least bytes of a constant that a tile holds: who reads it all listens to fewer tiles.
_LEAST_BYTES = 128  # Source: graphcore/poplibs, lib/poputil/TileMapping.cpp: minBytesPerTile


@dataclass(frozen=True)
class Lowering:
    """Where operations are lowered to.

    Parameters
    ----------
    builder
        What library calls write into.
    front_end
        Of the model, which names its operations in reports.
    tensors
        Of the values computed so far.
    last_uses
        Of the operations that are being lowered, and the variables of their results.
    """

    builder: Builder
    front_end: str
    tensors: dict[Value, Tensor] = field(default_factory=dict)
    last_uses: LastUses = field(default_factory=LastUses)

    def add_input(self, value: Value, content: NDArray[Any] | None = None) -> None:
        """Add a variable for an input of the model, and its copy from the host.

        With a content there is no copy: the input is on the device before the program starts.
        """
        graph = self.builder.graph
        tensor = graph.add_variable(value.dtype, value.shape or (1,), value.name)
        # A row stays together where there are rows enough for the tiles.
        self.builder.spread(tensor, grain=4 if prod(value.shape) >= 4 else 1)
        self.tensors[value] = _shaped(tensor, value.shape)
        if content is None:
            self.builder.sequence.add(StreamCopyIn(value.name, self.tensors[value]))
        else:
            tensor.variable.values = to_host(content, tensor.dtype, value.name).reshape(-1)

    def add(self, operations: Items[Operation], results: Items[Value]) -> None:
        """Lower operations in their order.

        Parameters
        ----------
        operations
            Of a model or a region.
        results
            Values that are read after them.

        Raises
        ------
        BadModel
            When one has no lowering.
        """
        sequence, outside = self.builder.sequence, self.builder.debug
        here = replace(self, last_uses=LastUses.of(operations, results, self.tensors.values()))
        inside = here
        for operation in operations:
            here.last_uses.begin()
            if inside is here or inside.builder.debug.name != outside.join(operation.name):
                # Operations that stand for one node of the model share its place in the tree.
                node = operation.origin or operation
                weights = []
                for value in node.operands:
                    if value.known is not None:
                        weights.append(value.digest)
                        self.builder.digests.add(value.known, value.digest)
                debug = outside.child(
                    operation.name,
                    self.front_end,
                    operation.source,
                    _detail(node),
                    weights_digest=joint_digest(weights),
                )
                inside = here._at(Sequence(operation.name, debug=debug), debug)
            if operation.operator.lower is None:
                raise BadModel(f"{operation}: operator {operation.operator.key} has no lowering")
            result = operation.operator.lower(inside, operation)
            tensors = result if isinstance(result, tuple) else (result,)
            for value, tensor in zip(operation.results, tensors, strict=True):
                self.tensors[value] = tensor
                here.last_uses.keep(value, tensor)
            inner_sequence = inside.builder.sequence
            if inner_sequence.children and inner_sequence not in sequence.children[-1:]:
                sequence.add(inner_sequence)

    def inside(self, name: str) -> Lowering:
        """Return where a region is lowered to: a sequence that is not part of the program yet."""
        debug = self.builder.debug
        return replace(self._at(Sequence(name, debug=debug), debug), tensors=dict(self.tensors))

    def tensor(self, value: Value) -> Tensor:
        """Return the tensor of a value; a constant becomes a variable where it is used.

        Raises
        ------
        BadModel
            When the value is a parameter that training or a stream changes.
        """
        if value in self.tensors:
            return self.tensors[value]
        if value.known is None:
            is_trained = isinstance(value, Parameter) and value.is_trainable
            role = "trainable" if is_trained else "streamed"
            raise BadModel(f"Parameter {value.name!r} is {role}, which is not supported yet")
        array = np.asarray(value.known)
        narrow_dtype = self.narrow_dtype(value)
        variable = self.builder.graph.add_constant(
            array.reshape(array.shape or (1,)),
            value.name,
            dtype=narrow_dtype or array.dtype,
            debug=self.builder.debug,
        )
        min_elements = -(-_LEAST_BYTES // variable.dtype.n_bytes)
        first = self.builder.tiles.take(variable.n_elements // min_elements + 1)
        grain = 4 // variable.dtype.n_bytes
        self.builder.spread(variable, grain=max(2, grain), minimum=min_elements, first=first)
        if narrow_dtype is not None:
            variable = cast(self.builder, variable, value.dtype)
        return _shaped(variable, value.shape)

    def narrow_dtype(self, value: Value) -> str | None:
        """Return the type in which the device keeps a constant that is widened where it is used.

        None for other values, and where the machine does not have the type.
        """
        has_float8 = self.builder.graph.machine.float8_conv_units > 0
        return value.narrow_dtype if isinstance(value, NarrowConstant) and has_float8 else None

    def is_free(self, value: Value) -> bool:
        """Return whether the operation that is being lowered may write over an operand."""
        return value in self.tensors and self.last_uses.is_free(self.tensors[value])

    def variable(self, value: Value) -> Tensor:
        """Return a new variable that can hold a value, spread over the tiles."""
        graph = self.builder.graph
        tensor = graph.add_variable(
            value.dtype, value.shape or (1,), value.name, self.builder.debug
        )
        self.builder.spread(tensor, grain=2)
        return _shaped(tensor, value.shape)

    def _at(self, sequence: Sequence, debug: DebugContext) -> Lowering:
        return replace(self, builder=replace(self.builder, sequence=sequence, debug=debug))


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.shape == shape else Tensor(tensor.variable, 0, ())


def _detail(operation: Operation) -> dict[str, Any]:
    """Return what a debug context says of a model's own operation, in JSON types."""
    detail: dict[str, Any] = {
        "attributes": {key: _plain(item) for key, item in operation.attributes.items()},
        "inputs": [
            [value.name, value.dtype, list(value.shape), value.known is not None]
            for value in operation.operands
        ],
        "outputs": [[value.name, value.dtype, list(value.shape)] for value in operation.results],
    }
    hints = operation.hints.stated()
    return {**detail, "hints": hints} if hints else detail


def _plain(value: Any) -> Any:
    """Return an attribute in JSON types; an array of many elements as its digest."""
    if isinstance(value, np.ndarray):
        if value.size > _LONGEST_ATTRIBUTE:
            return f"{value.dtype} {value.shape} {digest_of([value])}"
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
