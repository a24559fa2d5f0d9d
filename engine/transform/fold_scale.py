"""Folds factors and offsets of channels into the convolution or factor before them."""

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
    """Return the model with batch normalisations folded into what scales channels before them.

    Weights of a convolution that only a product with a constant per channel uses are scaled, and
    constants added before and after the product become one: y = (w ∗ x + a) · s + b becomes
    (s · w) ∗ x + (s · a + b). So does a product with a constant per channel in the convolution's
    place. Weights and offset are computed in double precision and rounded once.

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
    chains: list[_Chain] = []
    folded = set[Operation]()
    for operation in every:
        weights = _weights_of(operation)
        if weights is None or operation in folded:
            continue
        chain = _Chain.after(operation, weights, user, uses)
        if chain.is_worthwhile:
            chains.append(chain)
            folded.update(chain.steps)
    if not chains:
        return model
    builder = _Folder(model.name, chains)
    return builder.rebuilt(model)


@dataclass(eq=False)
class _Chain:
    """An operation that scales channels, and the products and sums by channel that follow it.

    Each is the only use of the one before.

    Parameters
    ----------
    head
        The first operation: a convolution, or a product with a constant per channel.
    weights
        Its constant operand.
    steps
        The operations after it, with the operand that comes from the one before.
    factor, offset : ndarray of float64, shape (out channels,)
        What the steps apply in all.
    adding
        The last sum; None without one.
    """

    head: Operation
    weights: Value
    factor: NDArray[np.float64]
    offset: NDArray[np.float64]
    steps: dict[Operation, Value] = field(default_factory=dict)
    adding: Operation | None = None
    has_factor: bool = False

    @classmethod
    def after(
        cls,
        head: Operation,
        weights: Value,
        user: Mapping[Value, Operation],
        uses: Counter[Value],
    ) -> _Chain:
        """Return the chain that starts with an operation."""
        value = head.results[0]
        n_channels = value.shape[1]
        chain = cls(head, weights, np.ones(n_channels), np.zeros(n_channels))
        while uses[value] == 1 and value in user and chain._takes(user[value], value):
            value = user[value].results[0]
        return chain

    @property
    def is_worthwhile(self) -> bool:
        """Whether there is a factor, and no scaled weight or offset exceeds its type."""
        dtype = self.head.results[0].dtype
        weights = _by_channels(self.weights, self.factor.size)
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
        self._of_head = {chain.head: chain for chain in self._chains}
        self._of_step = {step: chain for chain in self._chains for step in chain.steps}
        #: Operations that share weights and their factors share the products, as sums do.
        self._made: dict[tuple[Any, ...], Value] = {}

    def inside(self, name: str) -> IrBuilder:
        return _Folder(name, self._chains)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in operations:
            chain = self._of_head.get(operation) or self._of_step.get(operation)
            if chain is None:
                super().copy([operation], values)
            elif operation is chain.head:
                (x,) = (operand for operand in operation.operands if operand is not chain.weights)
                scaled = self._scaled(chain)
                super().copy([replace(operation, inputs=(x, scaled))], values)
            elif operation is chain.adding:
                x, result = chain.steps[operation], operation.results[0]
                offset = chain.offset.astype(result.dtype).reshape(-1, 1, 1)
                key = operation.name, offset.dtype.name, offset.tobytes()
                if key not in self._made:
                    self._made[key] = self.constant(offset, f"{operation.name}/offset")
                added = self._made[key]
                super().copy([replace(operation, inputs=(x, added))], values)
            else:
                values[operation.results[0]] = values[chain.steps[operation]]

    def _scaled(self, chain: _Chain) -> Value:
        """Return the weights times a factor per output channel, rounded once."""
        key = chain.head.name, chain.weights, chain.factor.tobytes()
        if key not in self._made:
            self._made[key] = self._product(chain)
        return self._made[key]

    def _product(self, chain: _Chain) -> Value:
        weights = chain.weights
        if chain.head.operator is BINARY:
            by_channel = _by_channels(weights, chain.factor.size).astype(np.float64)
            scaled = by_channel * chain.factor[:, None, None, None]
            dtype = chain.head.results[0].dtype
            return self.constant(
                scaled.astype(dtype).reshape(-1, 1, 1), f"{chain.head.name}/factor"
            )
        assert isinstance(weights, Constant | Parameter)
        return replace(weights, array=_times(weights.array, chain.factor))


def _times(weights: NDArray[Any], factor: NDArray[np.float64]) -> NDArray[Any]:
    """Return weights times a factor per channel, computed in float64 and rounded once."""
    scaled = np.empty(weights.shape, weights.dtype)
    rows, results = (array.reshape(factor.size, -1) for array in (weights, scaled))
    # So many at once that what is between stays in the processor's cache.
    n_rows = max(1, _AT_ONCE // max(1, rows.shape[1]))
    for first in range(0, factor.size, n_rows):
        some = slice(first, first + n_rows)
        products = rows[some].astype(np.float64) * factor[some, None]
        np.copyto(results[some], products, casting="unsafe")
    return scaled


#: Elements of weights that are scaled at once.
_AT_ONCE = 1 << 15
#: Types of products whose constants are rounded again.
_SCALED_TYPES = ("float16", "float32")


def _weights_of(operation: Operation) -> Value | None:
    """Return the constant by which an operation scales the channels of its result, if any."""
    if operation.operator is CONVOLUTION:
        weights = operation.operand(1)
        return weights if weights.known is not None else None
    if operation.operator is not BINARY or operation.attributes["function"] != "multiply":
        return None
    result = operation.results[0]
    if len(result.shape) != 4 or result.dtype not in _SCALED_TYPES:
        return None
    for weights, x in (operation.operands, operation.operands[::-1]):
        if x.shape == result.shape and _by_channel(weights, result.shape[1]) is not None:
            return weights
    return None


def _by_channel(value: Value, n_channels: int) -> NDArray[np.float64] | None:
    """Return a constant as one number per channel; None if it differs within a channel."""
    if value.known is None:
        return None
    array: NDArray[Any] = np.asarray(value.known)
    shape = (1,) * (4 - array.ndim) + array.shape
    if array.ndim > 4 or shape[0] != 1 or shape[2:] != (1, 1) or shape[1] not in (1, n_channels):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (n_channels,))


def _by_channels(weights: Value, n_channels: int) -> NDArray[Any]:
    """Return constant weights of shape (channels, …) or by channel: ndarray, four dimensions."""
    array: NDArray[Any] = np.asarray(weights.known)
    if array.ndim == 4 and array.shape[0] == n_channels:
        return array
    return np.broadcast_to(array.reshape(-1, 1, 1, 1), (n_channels, 1, 1, 1))
