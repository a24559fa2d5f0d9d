"""What operators take: inputs and outputs with their types, and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from popart.tensor_info import DataType

__all__ = ["OpDefinition", "definition_of_schema"]

#: Names of types in ONNX's schemas.
_TYPES = {
    f"tensor({name})": DataType[kind]
    for name, kind in (
        ("bool", "BOOL"),
        ("double", "DOUBLE"),
        ("float", "FLOAT"),
        ("float16", "FLOAT16"),
        ("int16", "INT16"),
        ("int32", "INT32"),
        ("int64", "INT64"),
        ("int8", "INT8"),
        ("uint16", "UINT16"),
        ("uint32", "UINT32"),
        ("uint64", "UINT64"),
        ("uint8", "UINT8"),
    )
}


@dataclass(frozen=True)
class _Operand:
    """An input or output.

    Parameters
    ----------
    name
        As the schema has it, else its position.
    supportedTensors
        Types of its elements; empty where they follow from the other operands.
    constant
        Whether its content decides shapes.
    """

    name: str
    supportedTensors: list[DataType] = field(default_factory=list)
    constant: bool = False


@dataclass(frozen=True)
class _Attribute:
    """An attribute, and which values of it are supported, as a pattern."""

    supportedValuesRegex: str = "*"


@dataclass(frozen=True)
class OpDefinition:
    """What an operator takes and returns.

    Parameters
    ----------
    inputs, outputs
        In their order.
    attributes
        By name.
    """

    inputs: list[_Operand] = field(default_factory=list)
    outputs: list[_Operand] = field(default_factory=list)
    attributes: dict[str, _Attribute] = field(default_factory=dict)

    @classmethod
    def of_counts(cls, n_inputs: int, n_outputs: int, attributes: Sequence[str]) -> OpDefinition:
        """Return what is known of an operator without a schema: names are positions."""
        return cls(
            [_Operand(str(place)) for place in range(n_inputs)],
            [_Operand(str(place)) for place in range(n_outputs)],
            {name: _Attribute() for name in attributes},
        )


def definition_of_schema(schema: Any, known: Sequence[int] = ()) -> OpDefinition:
    """Return what an operator of ONNX takes and returns.

    Parameters
    ----------
    schema
        ONNX's.
    known
        Positions of inputs that must be constant.
    """
    return OpDefinition(
        [
            _Operand(entry.name, _supported(entry.types), place in known)
            for place, entry in enumerate(schema.inputs)
        ],
        [_Operand(entry.name, _supported(entry.types)) for entry in schema.outputs],
        {name: _Attribute() for name in schema.attributes},
    )


def _supported(types: Sequence[str]) -> list[DataType]:
    return [_TYPES[name] for name in sorted(types) if name in _TYPES]
