"""Models of floats in half: inputs, weights and everything computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilescope.engine.ir import Constant, IrBuilder, Model, Node, Parameter, Region, Value
from tilescope.engine.ir.standard import standard
from tilescope.engine.operators.elementwise.cast import CAST

__all__ = ["in_half"]

_LIMITS = np.finfo(np.float16)


def in_half(model: Model, *, has_masters: bool = False) -> Model:
    """Return the model with half in place of float, as PopART's ``convertFloatsToHalfs``.

    Inputs, outputs, weights and all results are half. Finite weights beyond half's range become
    its largest number, and those that would be zero its smallest, so that masks stay finite and
    divisors are not zero. Operands that ONNX defines as float only, such as the scales of Resize,
    keep their type; an operator on a computed one runs in float, between casts. Doubles stay.

    Parameters
    ----------
    model
        As a front end built it: constants are folded in float.
    has_masters
        Whether weights that are trained stay in float, so that small steps change them; what reads
        them takes a copy in half.
    """
    builder = _HalfBuilder(model.name, {}, has_masters=has_masters)
    values = {value: _halved(value) for value in model.inputs}
    builder.inputs = list(values.values())
    builder.copy(model.operations, values)
    outputs = [(name, builder.half_of(values.get(value, value))) for name, value in model.outputs]
    converted = builder.finish(outputs)
    return replace(
        model, inputs=converted.inputs, outputs=converted.outputs, operations=converted.operations
    )


class _HalfBuilder(IrBuilder):
    """Adds nodes with half in place of float.

    Parameters
    ----------
    name
        Of the model.
    constants
        In half, by what they are in float; builders of regions share it.
    has_masters
        Whether trained weights stay in float.
    """

    def __init__(self, name: str, constants: dict[Value, Value], *, has_masters: bool) -> None:
        super().__init__(name)
        self._constants, self._has_masters = constants, has_masters
        self._copies: dict[Value, Value | None] = {}

    def half_of(self, value: Value) -> Value:
        """Return a constant or a weight in half; other values have their type already."""
        if value.is_computed or value.dtype != "float32":
            return value
        if self._has_masters and isinstance(value, Parameter) and value.is_trainable:
            if value not in self._copies:
                name = f"{value.name}/half"
                to_half = {"dtype": "float16"}
                copy = Node(
                    operator=CAST, name=name, source="Cast", inputs=(value,), attributes=to_half
                )
                (self._copies[value],) = super().add(copy, (name,))
            return self._copies[value] or value
        if value not in self._constants:
            self._constants[value] = _halved(value)
        return self._constants[value]

    def inside(self, name: str) -> IrBuilder:
        return _HalfBuilder(name, self._constants, has_masters=self._has_masters)

    def copied(self, region: Region, values: Mapping[Value, Value]) -> Region:
        inside = self.inside(region.name)
        inputs = {value: _halved(value) for value in region.inputs}
        here = {**values, **inputs}
        inside.copy(region.operations, here)
        outputs = [self.half_of(here.get(value, value)) for value in region.outputs]
        return inside.region(tuple(inputs.values()), outputs)

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        takes_half = [standard().takes_half(node, i) for i in range(len(node.inputs))]
        computed = [
            takes
            for takes, value in zip(takes_half, node.inputs, strict=True)
            if value is not None and value.is_computed and value.dtype == "float16"
        ]
        if not all(computed):
            return self._add_in_float(node, outputs)
        inputs = tuple(
            self.half_of(value) if value is not None and takes else value
            for takes, value in zip(takes_half, node.inputs, strict=True)
        )
        return super().add(
            replace(node, inputs=inputs, attributes=standard().half_attributes(node)), outputs
        )

    def _add_in_float(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add a node that ONNX does not define for half, between casts."""
        inputs = [
            self._cast(node, value, "float32")
            if value is not None and value.is_computed and value.dtype == "float16"
            else value
            for value in node.inputs
        ]
        results = super().add(replace(node, inputs=tuple(inputs)), outputs)
        return tuple(
            self._cast(node, value, "float16")
            if value is not None and value.dtype == "float32"
            else value
            for value in results
        )

    def _cast(self, node: Node, value: Value, dtype: str) -> Value:
        return self.emit(
            CAST, [value], name=node.name, source=node.source, output=value.name, dtype=dtype
        )


def _halved(value: Value) -> Value:
    """Return a value of floats in half; another value as it is."""
    if value.dtype != "float32":
        return value
    if not isinstance(value, Constant | Parameter):
        return replace(value, dtype="float16")
    floats = np.asarray(value.array)
    with np.errstate(over="ignore"):
        array = floats.astype(np.float16)
    is_lost = (array == 0) & (floats != 0)
    array[is_lost] = np.copysign(_LIMITS.smallest_subnormal, floats[is_lost])
    is_beyond = np.isinf(array) & np.isfinite(floats)
    array[is_beyond] = np.copysign(_LIMITS.max, floats[is_beyond])
    return replace(value, dtype="float16", array=array)
