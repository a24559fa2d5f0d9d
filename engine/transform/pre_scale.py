"""Folds powers of two around products into their constant operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import frexp

import numpy as np

from tilescope.engine.ir import Constant, IrBuilder, Model, Operation, Parameter, Value
from tilescope.engine.operators.movement.layout import RESHAPE, TRANSPOSE
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.window.convolution import CONVOLUTION
from tilescope.engine.transform.uses import Uses, function_of

__all__ = ["pre_scale"]


def pre_scale(model: Model) -> Model:
    """Return the model without factors that are powers of two around products.

    The factor goes into the constant operand of the product, through reshapes, transpositions and
    sums with other constants. Attention loses 1 / √d where d is a power of four.

    Notes
    -----
    Products with a power of two are exact, so results have the same bits as before, unless numbers
    are subnormal or too large for their type with one of the factors alone. Constants may lose
    subnormal digits, less than the largest of them loses by rounding. Other factors would change
    the rounding of every weight and stay.
    Source: graphcore/PopRT, benchmarks/bert/test_bert_base.py: pass pre_scale.
    """
    uses = Uses(model)
    scaling = _Scaling(uses)
    for operation in uses.of_function("multiply", "divide"):
        scaling.take(operation)
    if not scaling.dropped:
        return model
    builder = _Scaled(model.name, scaling)
    return builder.rebuilt(model)


@dataclass(eq=False)
class _Scaling:
    """What becomes of constants, and which operations are dropped.

    Parameters
    ----------
    uses
        Of the model.
    constants
        Factor of every constant operand, by operation and operand.
    dropped
        Operations whose result is their operand now.
    """

    uses: Uses
    constants: dict[tuple[Operation, Value], float] = field(default_factory=dict)
    dropped: dict[Operation, Value] = field(default_factory=dict)

    def take(self, operation: Operation) -> None:
        """Drop a product with a power of two if constants before or after it can take it."""
        factor_ = _factor(operation)
        if factor_ is None:
            return
        value, factor = factor_
        targets = self._before(operation, value, factor) or self._after(operation, factor)
        if targets is not None:
            self.constants |= targets
            self.dropped[operation] = value

    def _before(
        self, reader: Operation, value: Value, factor: float
    ) -> dict[tuple[Operation, Value], float] | None:
        """Return the factors of constants that scale a value; None if none can.

        Parameters
        ----------
        reader
            The only operation that may read the value.
        """
        operation = self.uses.producer.get(value)
        if operation is None or not self._is_only_for(reader, value):
            return None
        if self.uses.block[operation] != self.uses.block[reader]:
            return None
        if operation.operator in (RESHAPE, TRANSPOSE):
            return self._before(operation, operation.operand(0), factor)
        if operation.operator in (MATMUL, CONVOLUTION):
            a, b = operation.operand(0), operation.operand(1)
            return (
                self._constant(operation, b, factor)
                or self._before(operation, b, factor)
                or self._constant(operation, a, factor)
                or self._before(operation, a, factor)
            )
        if function_of(operation) in ("add", "subtract"):
            parts = [
                self._constant(operation, v, factor) or self._before(operation, v, factor)
                for v in operation.operands
            ]
            return {k: f for part in parts if part for k, f in part.items()} if all(parts) else None
        return None

    def _after(
        self, operation: Operation, factor: float
    ) -> dict[tuple[Operation, Value], float] | None:
        """Return the constant operand of the product that alone reads a result."""
        value = operation.output
        readers = self.uses.readers[value]
        if len(readers) != 1 or value in self.uses.kept or readers[0].operands.count(value) != 1:
            return None
        (reader,) = readers
        if reader.operator not in (MATMUL, CONVOLUTION) or value not in reader.operands[:2]:
            return None
        if self.uses.block[reader] != self.uses.block[operation]:
            return None
        (second_operand,) = (v for v in reader.operands[:2] if v is not value)
        return self._constant(reader, second_operand, factor)

    def _is_only_for(self, reader: Operation, value: Value) -> bool:
        readers = self.uses.readers[value]
        return readers == [reader] and value not in self.uses.kept

    def _constant(
        self, operation: Operation, value: Value, factor: float
    ) -> dict[tuple[Operation, Value], float] | None:
        """Return the factor of an operand that is known, if it loses at most subnormal digits."""
        if not isinstance(value, Constant | Parameter) or value.known is None:
            return None
        product = self.constants.get((operation, value), 1.0) * factor
        with np.errstate(over="ignore", under="ignore"):
            scaled = _times(value, product)
            back = (scaled / np.asarray(product, scaled.dtype)).astype(scaled.dtype)
        loss = np.abs(back.astype(np.float64) - value.known).max(initial=0)
        tolerance = np.finfo(scaled.dtype).eps / 2 * float(np.abs(value.known).max(initial=0))
        is_near = np.isfinite(scaled).all() and loss <= tolerance
        return {(operation, value): product} if is_near else None


def _factor(operation: Operation) -> tuple[Value, float] | None:
    """Return what an operation multiplies by a power of two, and the power."""
    numbers = [v for v in operation.operands if v.known is not None and np.size(v.known) == 1]
    values = [v for v in operation.operands if v.known is None]
    if len(numbers) != 1 or len(values) != 1 or not values[0].dtype.startswith("float"):
        return None
    if values[0].shape != operation.output.shape:
        return None
    number = float(np.asarray(numbers[0].known).reshape(-1)[0])
    if function_of(operation) == "divide":
        if operation.operand(0) is numbers[0] or number == 0:
            return None
        number = 1 / number
    if not np.isfinite(number) or number <= 0 or frexp(number)[0] != 0.5:
        return None
    return values[0], number


def _times(value: Constant | Parameter, factor: float) -> np.ndarray:
    return np.asarray(value.array * np.asarray(factor, value.array.dtype))


class _Scaled(IrBuilder):
    """Copies operations with scaled constants, and without the factors."""

    def __init__(self, name: str, scaling: _Scaling) -> None:
        super().__init__(name)
        self._scaling = scaling
        #: Operations that share a constant and its factor share the product.
        self._scaled: dict[tuple[Value, float], Value] = {}

    def inside(self, name: str) -> IrBuilder:
        return _Scaled(name, self._scaling)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in operations:
            dropped = self._scaling.dropped.get(operation)
            if dropped is not None:
                values[operation.output] = values.get(dropped, dropped)
            else:
                inputs = tuple(self._inputs(operation))
                super().copy([replace(operation, inputs=inputs)], values)

    def _inputs(self, operation: Operation) -> Iterator[Value | None]:
        for value in operation.inputs:
            factor = None
            if value is not None:
                factor = self._scaling.constants.get((operation, value))
            if factor is None:
                yield value
            else:
                yield self._product(value, factor)

    def _product(self, value: Value | None, factor: float) -> Value:
        assert isinstance(value, Constant | Parameter)
        if (value, factor) not in self._scaled:
            self._scaled[value, factor] = replace(value, array=_times(value, factor))
        return self._scaled[value, factor]
