"""Tensors of a backward step, as operands of expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.derivative import substituted
from tilescope.engine.library.popops.elementwise.map import map_expression, map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import copy_to

__all__ = ["CellOperands"]


class CellOperands:
    """Tensors that expressions read and replace, by their position."""

    def __init__(self, builder: Builder, tensors: Sequence[View | None]) -> None:
        self.builder, self.tensors = builder, [*tensors]

    def _used(self, expression: Expression, first: int | None) -> tuple[Expression, list[View]]:
        """Return an expression over the tensors that it reads, and these."""
        used = {node.index for node in expression.nodes() if node.is_operand}
        order = sorted(used, key=lambda index: (index != first, index))
        parts = [operand(0)] * len(self.tensors)
        tensors = []
        for place, index in enumerate(order):
            tensor = self.tensors[index]
            assert tensor is not None
            parts[index] = operand(place)
            tensors.append(tensor)
        return substituted(expression, parts), tensors

    def computed(self, expression: Expression, name: str) -> Tensor:
        """Compute an expression."""
        build = self.builder.inside(name, "popops.map", {}, flops=0)
        return map_expression(build, *self._used(expression, None))

    def replace(self, index: int, expression: Expression) -> None:
        """Replace a tensor by an expression that reads it."""
        map_in_place(self.builder, *self._used(expression, index))

    def copy(self, tensor: View, index: int) -> None:
        """Replace a tensor by another one."""
        target = self.tensors[index]
        assert isinstance(target, Tensor)
        copy_to(self.builder, tensor, target)

    def see(self, index: int, gate: int, peepholes: View) -> None:
        """Add to a tensor a gate times its peepholes."""
        target, gradient = self.tensors[index], self.tensors[gate]
        assert target is not None
        assert gradient is not None
        own = peepholes.slice(0, gate, gate + 1)
        map_in_place(self.builder, operand(0) + operand(1) * operand(2), [target, gradient, own])
