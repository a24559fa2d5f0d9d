"""Builds a model: infers every shape at once, and folds constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tilescope.engine.ir.graph import Model, Operation, Value
from tilescope.engine.ir.operators import OPERATORS

__all__ = ["IrBuilder"]


class IrBuilder:
    """Collects operations in the order they are emitted.

    Parameters
    ----------
    name
        Of the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.operations: list[Operation] = []

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Value:
        """Add an input of the model."""
        value = Value(name, tuple(int(s) for s in shape), dtype)
        self.inputs.append(value)
        return value

    def constant(self, values: ArrayLike, name: str) -> Value:
        """Return a value whose content is known."""
        array = np.asarray(values)
        return Value(name, array.shape, array.dtype.name, array)

    def emit(
        self,
        kind: str,
        inputs: Sequence[Value],
        *,
        name: str,
        source: str,
        output: str = "",
        **attributes: Any,
    ) -> Value:
        """Add an operation and return its result; one on constants is folded instead.

        Parameters
        ----------
        kind
            Of `tilescope.engine.ir.OPERATORS`.
        inputs
            Its operands.
        name, source
            Name and type of the model's own node.
        output
            Name of the result; the node's own when empty.
        **attributes
            As the operator takes them.

        Raises
        ------
        BadModel
            When the operands do not go together.
        """
        spec = OPERATORS[kind]
        shape, dtype = spec.infer(inputs, attributes)
        label = output or name
        known = [value.constant for value in inputs]
        if all(array is not None for array in known):
            result = spec.evaluate([np.asarray(array) for array in known], attributes)
            return Value(label, shape, dtype, result)
        value = Value(label, tuple(int(s) for s in shape), dtype)
        self.operations.append(Operation(kind, name, source, tuple(inputs), value, attributes))
        return value

    def finish(
        self, outputs: Sequence[tuple[str, Value]], assumed_ones: Sequence[str] = ()
    ) -> Model:
        """Return the model whose results are `outputs`; see `Model` for `assumed_ones`."""
        return Model(
            self.name,
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.operations),
            tuple(assumed_ones),
        )
