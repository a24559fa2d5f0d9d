"""Folds factors and offsets of channels into the convolution before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.ir import Constant, IrBuilder, Model, Operation, Parameter, Value
from tilescope.engine.ir.model import walk
from tilescope.engine.operators.elementwise.elementwise import BINARY
from tilescope.engine.operators.window.convolution import CONVOLUTION

__all__ = ["fold_scale"]


def fold_scale(model: Model) -> Model:
    """Return the model with batch normalisations folded into the convolutions before them.

    Weights of a convolution that only a product with a constant per channel uses are scaled, and
    constants added before and after the product become one: y = (w ∗ x + a) · s + b becomes
    (s · w) ∗ x + (s · a + b). Weights and offset are computed in double precision and rounded once.

    Parameters
    ----------
    model
        Primitives; operators that are still whole are copied.

    Notes
    -----
    Weights that training or a stream may change are not known, and so are not scaled.
    """
    every = list(walk(model.operations))
    regions = [region for operation in every for region in operation.regions.values()]
    uses = Counter(value for operation in every for value in operation.operands)
    uses.update(value for region in regions for value in region.outputs)
    uses.update(value for _, value in model.outputs)
    user = {value: operation for operation in every for value in operation.operands}
    chains = [
        _Chain.after(operation, user, uses)
        for operation in every
        if operation.operator is CONVOLUTION and operation.operand(1).known is not None
    ]
    chains = [chain for chain in chains if chain.is_worthwhile]
    if not chains:
        return model
    builder = _Folder(model.name, chains)
    return builder.rebuilt(model)


@dataclass(eq=False)
class _Chain:
    """A convolution and the products and sums by channel that follow it, each the only use.

    Parameters
    ----------
    convolution
        The first operation.
    steps
        The operations after it, with the operand that comes from the one before.
    factor, offset : ndarray of float64, shape (out channels,)
        What the steps apply in all.
    adding
        The last sum; None without one.
    """

    convolution: Operation
    factor: NDArray[np.float64]
    offset: NDArray[np.float64]
    steps: dict[Operation, Value] = field(default_factory=dict)
    adding: Operation | None = None
    has_factor: bool = False

    @classmethod
    def after(
        cls, convolution: Operation, user: Mapping[Value, Operation], uses: Counter[Value]
    ) -> _Chain:
        """Return the chain that starts with a convolution."""
        n_channels = convolution.operand(1).shape[0]
        chain = cls(convolution, np.ones(n_channels), np.zeros(n_channels))
        value = convolution.results[0]
        while uses[value] == 1 and value in user and chain._takes(user[value], value):
            value = user[value].results[0]
        return chain

    @property
    def is_worthwhile(self) -> bool:
        """Whether there is a factor, and no scaled weight or offset exceeds its type."""
        dtype = self.convolution.results[0].dtype
        weights = np.asarray(self.convolution.operand(1).known)
        highest, lowest = (end(axis=(1, 2, 3), initial=0) for end in (weights.max, weights.min))
        most_of_channel = np.maximum(highest.astype(np.float64), -lowest.astype(np.float64))
        largest = most_of_channel * np.abs(self.factor)
        largest_value = max(largest.max(initial=0), np.abs(self.offset).max(initial=0))
        return self.has_factor and bool(largest_value <= np.finfo(dtype).max)

    def _takes(self, operation: Operation, value: Value) -> bool:
        """Append an operation if it is a product or sum by channel; return whether it is."""
        if operation.operator is not BINARY:
            return False
        (result,) = operation.results
        (second_operand,) = (operand for operand in operation.operands if operand is not value)
        by_channel = _by_channel(second_operand, len(self.factor))
        function = operation.attributes["function"]
        is_same_type = (result.shape, result.dtype) == (value.shape, value.dtype)
        if by_channel is None or not is_same_type or function not in ("add", "multiply"):
            return False
        if function == "multiply":
            self.factor, self.offset = self.factor * by_channel, self.offset * by_channel
            self.has_factor = True
        else:
            self.offset = self.offset + by_channel
            self.adding = operation
        self.steps[operation] = value
        return True


class _Folder(IrBuilder):
    """Copies operations, those of chains in their folded form."""

    def __init__(self, name: str, chains: Iterable[_Chain]) -> None:
        super().__init__(name)
        self._chains = list(chains)
        self._of_convolution = {chain.convolution: chain for chain in self._chains}
        self._of_step = {step: chain for chain in self._chains for step in chain.steps}

    def inside(self, name: str) -> IrBuilder:
        return _Folder(name, self._chains)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in operations:
            chain = self._of_convolution.get(operation) or self._of_step.get(operation)
            if chain is None:
                super().copy([operation], values)
            elif operation is chain.convolution:
                x, weights = operation.operand(0), operation.operand(1)
                scaled = _scaled(weights, chain.factor)
                super().copy([replace(operation, inputs=(x, scaled))], values)
            elif operation is chain.adding:
                x, result = chain.steps[operation], operation.results[0]
                offset = chain.offset.astype(result.dtype).reshape(-1, 1, 1)
                added = self.constant(offset, f"{operation.name}/offset")
                super().copy([replace(operation, inputs=(x, added))], values)
            else:
                values[operation.results[0]] = values[chain.steps[operation]]


def _by_channel(value: Value, n_channels: int) -> NDArray[np.float64] | None:
    """Return a constant as one number per channel; None if it differs within a channel."""
    if value.known is None:
        return None
    array: NDArray[Any] = np.asarray(value.known)
    shape = (1,) * (4 - array.ndim) + array.shape
    if array.ndim > 4 or shape[0] != 1 or shape[2:] != (1, 1) or shape[1] not in (1, n_channels):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (n_channels,))


def _scaled(weights: Value, factor: NDArray[np.float64]) -> Value:
    """Return the weights times a factor per output channel, rounded once."""
    assert isinstance(weights, Constant | Parameter)
    scaled = np.empty_like(weights.array)
    by_channel = factor[:, None, None, None]
    np.multiply(weights.array, by_channel, out=scaled, dtype=np.float64, casting="unsafe")
    return replace(weights, array=scaled)
