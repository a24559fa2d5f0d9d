"""A node of an ONNX graph with its inputs resolved, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import IrBuilder, Value
from tilescope.engine.options.available_memory import is_proportion
from tilescope.engine.options.catalogue import PARTIALS_TYPES

__all__ = ["CONVERTERS", "Node", "converter", "emit_each"]


@dataclass
class Node:
    """One node.

    Parameters
    ----------
    op_type, name
        As in the model; unnamed nodes are called by their first output.
    opset
        Version of the operator set the model asks for.
    inputs
        Values; None for an optional one that is left out.
    attributes
        Python values.
    output
        Name of the first output.
    """

    op_type: str
    name: str
    opset: int
    inputs: list[Value | None]
    attributes: dict[str, Any]
    output: str
    builder: IrBuilder

    def operand(self, index: int) -> Value:
        """Return an input that must be there.

        Raises
        ------
        BadModel
            When it is not.
        """
        value = self.optional(index)
        if value is None:
            raise BadModel(f"Node {self.name!r} ({self.op_type}) has no input {index}")
        return value

    def optional(self, index: int) -> Value | None:
        """Return an input, or None when it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def known(self, index: int, what: str) -> NDArray[Any]:
        """Return the content of an input that must be known at compile time.

        Raises
        ------
        BadModel
            When it is not.
        """
        value = self.operand(index)
        if value.constant is None:
            raise BadModel(
                f"Node {self.name!r} ({self.op_type}): {what} must be constant, but {value.name!r}"
                " is computed at run time"
            )
        return np.asarray(value.constant)

    @property
    def memory(self) -> dict[str, float]:
        """What PopART's attribute says of the memory available to this node, as an attribute.

        Source: graphcore/popart, willow/include/popart/names.hpp, sAvailMemAttribute.

        Raises
        ------
        BadModel
            When it is not one number above 0, up to 1.
        """
        given = self.attributes.get("__available_memory")
        if given is None:
            return {}
        if isinstance(given, list | tuple) and len(given) == 1:
            given = given[0]  # as PopART writes it for convolutions
        if not isinstance(given, int | float) or not is_proportion(given):
            raise BadModel(
                f"Node {self.name!r} ({self.op_type}): __available_memory must be above 0 and at"
                f" most 1, got {given}"
            )
        # The nearest short decimal: the file holds 0.3 as a float of 32 bits.
        return {"available_memory_proportion": float(f"{given:.7g}")}

    @property
    def partials(self) -> dict[str, str]:
        """What PopART's attribute says of the type of this node's partial sums, as an attribute.

        Source: graphcore/popart, willow/include/popart/names.hpp, sPartialsTypeAttribute.

        Raises
        ------
        BadModel
            When it is neither float nor half.
        """
        given = self.attributes.get("__partials_type")
        if given is None:
            return {}
        name = given.decode(errors="replace") if isinstance(given, bytes) else given
        if not isinstance(name, str) or name.lower() not in PARTIALS_TYPES:
            raise BadModel(
                f"Node {self.name!r} ({self.op_type}): __partials_type must be"
                f" {' or '.join(PARTIALS_TYPES)}, got {name!r}"
            )
        return {"partials_type": name.lower()}

    def axes(self, rank: int) -> tuple[int, ...] | None:
        """Return axes from the attribute or, in newer sets, the second input; None if not given."""
        given = self.attributes.get("axes")
        if given is None and self.optional(1) is not None:
            given = self.known(1, "the axes").tolist()
        if given is None:
            return None
        return tuple(sorted(self.axis(a, rank) for a in given))

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front.

        Raises
        ------
        BadModel
            When it is outside.
        """
        if not -rank <= axis < rank:
            raise BadModel(
                f"Node {self.name!r} ({self.op_type}): axis {axis} is out of range for rank {rank}"
            )
        return int(axis) % rank

    def emit(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        """Add an operation in this node's name."""
        return self.builder.emit(
            kind, inputs, name=self.name, source=self.op_type, output=self.output, **attributes
        )

    def unary(self, function: str, x: Value) -> Value:
        """Add a function of one operand."""
        return self.emit("unary", x, function=function)

    def binary(self, function: str, a: Value, b: Value) -> Value:
        """Add a function of two operands."""
        return self.emit("binary", a, b, function=function)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Add a reshape, unless the shape is that already."""
        return x if x.shape == shape else self.emit("reshape", x, shape=shape)

    def scalar(self, value: float, like: Value) -> Value:
        """Return a constant of an operand's type."""
        return self.builder.constant(np.asarray(value, dtype=like.dtype), f"{self.name}/scalar")


Converter = Callable[[Node], Value]

CONVERTERS: dict[str, Converter] = {}


def converter(*op_types: str) -> Callable[[Converter], Converter]:
    """Register a function as the converter of ONNX operators."""

    def register(function: Converter) -> Converter:
        for op_type in op_types:
            CONVERTERS[op_type] = function
        return function

    return register


def emit_each(node: Node, function: str) -> Value:
    """Join any number of operands by a function of two."""
    result = node.operand(0)
    for index in range(1, len(node.inputs)):
        result = node.binary(function, result, node.operand(index))
    return result
