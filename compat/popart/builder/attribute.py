"""Attributes of nodes in both directions: from Python's values, and to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from popart.arguments import FLOATS, INT, INTS, TEXTS, Mismatch
from popart.builder.tensor import tensor_of
from popart.errors import popart_exception

__all__ = ["attribute_of", "custom_attribute", "node_attribute", "value_of"]

_Types = onnx.AttributeProto


def attribute_of(name: str, value: Any) -> onnx.AttributeProto:
    """Return an attribute; its type is that of the value, whose lists must not be empty.

    Parameters
    ----------
    name
        Of the attribute.
    value
        An int, float, string, list of one of them, array or graph.
    """
    attribute = onnx.AttributeProto(name=name)
    if isinstance(value, bool | int | np.integer):
        attribute.type, attribute.i = _Types.INT, int(value)
    elif isinstance(value, float | np.floating):
        attribute.type, attribute.f = _Types.FLOAT, float(value)
    elif isinstance(value, str):
        attribute.type, attribute.s = _Types.STRING, value.encode()
    elif isinstance(value, np.ndarray):
        attribute.type = _Types.TENSOR
        attribute.t.CopyFrom(tensor_of(value, name))
    elif isinstance(value, onnx.GraphProto):
        attribute.type = _Types.GRAPH
        attribute.g.CopyFrom(value)
    else:
        _set_list(attribute, value)
    return attribute


def _set_list(attribute: onnx.AttributeProto, values: Sequence[Any]) -> None:
    if all(isinstance(value, str) for value in values) and values:
        attribute.type = _Types.STRINGS
        attribute.strings.extend(value.encode() for value in values)
    elif all(isinstance(value, int | np.integer) for value in values):
        attribute.type = _Types.INTS
        attribute.ints.extend(int(value) for value in values)
    elif all(isinstance(value, int | float | np.number) for value in values):
        attribute.type = _Types.FLOATS
        attribute.floats.extend(float(value) for value in values)
    else:
        raise popart_exception(f"Unsupported attribute value type of {attribute.name}: {values!r}")


def custom_attribute(name: str, value: Any) -> onnx.AttributeProto:
    """Return an attribute of a custom operator: a string, number, or list of equal numbers."""
    if isinstance(value, list):
        is_int = all(isinstance(entry, int) for entry in value)
        if not is_int and not all(isinstance(entry, float) for entry in value):
            raise popart_exception(
                f"Invalid or mismatched python list type provided in custom op attribute '{name}'"
            )
    elif not isinstance(value, str | int | float):
        raise popart_exception(f"Invalid type provided in custom op attribute '{name}'")
    return attribute_of(name, value)


def node_attribute(name: str, value: Any) -> onnx.AttributeProto:
    """Return an attribute that a program adds to a node; `Mismatch` for another kind of value."""
    if isinstance(value, str | float) and not isinstance(value, bool):
        return attribute_of(name, value)
    for kind in (INT, INTS, FLOATS, TEXTS):
        try:
            return attribute_of(name, kind.convert(value))
        except Mismatch:
            continue
    if isinstance(value, np.floating):
        return attribute_of(name, float(value))
    raise Mismatch("neither a number, a string nor a list of one of them")


#: What an attribute is called where it is not of the kind that is read.
_KINDS: dict[int, str] = {
    _Types.INT: "an integer",
    _Types.INTS: "an integer vector",
    _Types.FLOAT: "a float",
    _Types.FLOATS: "a float vector",
    _Types.STRING: "a string",
    _Types.STRINGS: "a string vector",
}


def value_of(attribute: onnx.AttributeProto, kind: int) -> Any:
    """Return the value of an attribute; refuse one of another kind.

    Parameters
    ----------
    attribute
        The attribute.
    kind
        Number of the type in ``onnx.AttributeProto``.
    """
    if attribute.type != kind:
        raise popart_exception(f"Attribute {attribute.name} is not {_KINDS[kind]}.")
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float):
        return value
    return [entry.decode() if isinstance(entry, bytes) else entry for entry in value]
