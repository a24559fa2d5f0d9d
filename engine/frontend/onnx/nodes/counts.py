"""Values whose number of entries data decide: at most so many, with a number of those that count.

The device computes all entries that there may be. The number follows a value through the operators
that treat its entries one by one; the others are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Count, IrBuilder, Node, Value
from tilescope.engine.operators.elementwise.elementwise import BINARY

__all__ = ["Counts"]


@dataclass(frozen=True)
class _Counted:
    """The axis of a value along which the first entries count, and their number."""

    axis: int
    number: Value


@dataclass
class Counts:
    """The values of a model whose number of entries data decide."""

    _of: dict[Value, _Counted] = field(default_factory=dict)

    def axis(self, value: Value) -> int | None:
        """Return the axis along which data decide the number of entries; None for other values."""
        axis_ = self._of.get(value)
        return None if axis_ is None else axis_.axis

    def with_number(self, node: Node, names: list[str]) -> list[str]:
        """Return the names of a node's results, with that of the number of its entries."""
        axes = _axes(node)
        if not axes:
            return names
        return [*names, *("",) * (len(axes) - len(names)), f"{names[0]}/count"]

    def add(self, builder: IrBuilder, node: Node, results: Sequence[Value | None]) -> None:
        """Note the results of a node whose number of entries data decide.

        Raises
        ------
        BadModel
            When the node has such operands and needs all entries, or their number, at once.
        """
        node_axes = _axes(node)
        for axis, value in zip(node_axes, results, strict=False):
            if axis is not None and value is not None:
                number = results[-1]
                assert number is not None
                self._of[value] = _Counted(axis, number)
        values = {i: v for i, v in enumerate(node.inputs) if v is not None and v in self._of}
        read = [v for region in node.regions.values() for v in region.captured if v in self._of]
        if not values and not read:
            return
        first = next(iter([*values.values(), *read]))
        counted = self._of[first]
        carried = None
        output = results[0]
        agree = all(self._of[v].number is counted.number for v in values.values())
        if agree and not node_axes and not read and node.operator.carries and output is not None:
            axes = {i: self._of[v].axis for i, v in values.items()}
            carried = node.operator.carries(node, axes, output.shape)
        if carried is None or output is None:
            raise BadModel(
                f"{node}: data decide how many entries of {first.name!r} count, at most"
                f" {first.shape[counted.axis]} along axis {counted.axis}, and the node needs all of"
                " them at once, which is not supported yet; do it on the host"
            )
        for value in results:
            if value is not None and value.known is None:
                number = _limited(builder, node, counted, first, value.shape[carried])
                self._of[value] = _Counted(carried, number)

    def check_none(self, name: str, outputs: Sequence[Value]) -> None:
        """Refuse results of a subgraph whose number of entries data decide.

        Raises
        ------
        BadModel
            Names the subgraph and the result.
        """
        for value in outputs:
            if value in self._of:
                raise BadModel(
                    f"Subgraph {name!r} returns {value.name!r}, of which data decide how many"
                    " entries count: not supported yet"
                )

    def of_outputs(
        self, outputs: Sequence[tuple[str, Value]]
    ) -> tuple[list[tuple[str, Value]], dict[str, Count]]:
        """Return additional outputs, with the numbers of entries, and what they belong to."""
        numbers, counts = [], {}
        for name, value in outputs:
            outputs_ = self._of.get(value)
            if outputs_ is not None:
                counts[name] = Count(outputs_.axis, f"{name}/count")
                numbers.append((f"{name}/count", outputs_.number))
        return numbers, counts


def _axes(node: Node) -> Sequence[int | None]:
    """Return the axes of a node's own results along which data decide the number of entries."""
    return node.operator.counted(node) if node.operator.counted else ()


def _limited(builder: IrBuilder, node: Node, counted: _Counted, source: Value, size: int) -> Value:
    """Return the number of entries that are left of those of a source."""
    if size >= source.shape[counted.axis]:
        return counted.number
    limit = builder.constant(np.asarray(size, counted.number.dtype), f"{node.name}/limit")
    return builder.emit(
        BINARY,
        [counted.number, limit],
        name=node.name,
        source=node.source,
        output=f"{node.name}/count",
        function="minimum",
    )
