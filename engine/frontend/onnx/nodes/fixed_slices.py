"""Slices whose start is computed when the program runs, and whose size follows from the graph.

An exporter writes ``x[:, i : i + 8]`` as a Slice from ``i`` to ``Add(i, 8)``: the size is their
difference, whatever ``i`` is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["FixedSlices"]

#: An integer that is computed: what it begins with, None for a constant, and what is added.
Term: TypeAlias = tuple[tuple[str, int] | None, int]

_SAME = frozenset({"Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten"})
_DEEPEST = 40
#: Operands of a slice: more have no use, and a list of them would be long.
_MOST_TERMS = 16


@dataclass(frozen=True)
class _Source:
    """Where values of a graph come from."""

    nodes: dict[str, onnx.NodeProto]
    constants: dict[str, list[int]]


class FixedSlices:
    """Finds slices of a graph that have a fixed size.

    Parameters
    ----------
    graph
        A model's graph or a subgraph.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.output:
                for attribute in node.attribute:
                    if attribute.name == "value":
                        tensors[node.output[0]] = attribute.t
        self._source = _Source(
            {name: node for node in graph.node for name in node.output if name},
            {name: numbers for name, t in tensors.items() if (numbers := _integers(t)) is not None},
        )

    def sizes_of(self, node: onnx.NodeProto) -> tuple[tuple[int, int, int, int], ...]:
        """Return position in the starts, axis, start and size of every axis that a Slice cuts.

        The start is -1 where it is computed. Empty where a size does not follow, nothing is
        computed, or the node is no such Slice.

        Parameters
        ----------
        node
            A node of the graph.
        """
        if node.op_type != "Slice" or node.domain not in ("", "ai.onnx") or len(node.input) < 4:
            return ()
        axes = self._source.constants.get(node.input[3])
        steps = [1]
        if len(node.input) > 4 and node.input[4]:
            steps = self._source.constants.get(node.input[4], [0])
        if not axes or len(axes) > _MOST_TERMS or set(steps) != {1}:
            return ()
        starts = self._terms(node.input[1], len(axes), 0)
        ends = self._terms(node.input[2], len(axes), 0)
        slice_sizes = []
        for index, (axis, start, end) in enumerate(zip(axes, starts, ends, strict=True)):
            if start[0] != end[0] or end[1] - start[1] < 1:
                return ()
            is_constant = start[0] is None
            if is_constant and (start[1] < 0 or end[1] < 0):
                return ()
            slice_sizes.append((index, axis, start[1] if is_constant else -1, end[1] - start[1]))
        return tuple(slice_sizes) if any(start < 0 for _, _, start, _ in slice_sizes) else ()

    def _terms(self, name: str, count: int, depth: int) -> list[Term]:
        """Return the integers of a value, of which there are `count`."""
        unknown: list[Term] = [((name, i), 0) for i in range(count)]
        if name in self._source.constants:
            numbers = self._source.constants[name]
            return [(None, n) for n in numbers] if len(numbers) == count else unknown
        node = self._source.nodes.get(name)
        if node is None or depth > _DEEPEST or node.domain not in ("", "ai.onnx"):
            return unknown
        if node.op_type in _SAME:
            return self._terms(node.input[0], count, depth + 1)
        if node.op_type == "Concat" and len(node.input) == count:
            return [self._terms(term, 1, depth + 1)[0] for term in node.input]
        if node.op_type in ("Add", "Sub") and len(node.input) == 2:
            sign = 1 if node.op_type == "Add" else -1
            term, second = (self._terms(input_, count, depth + 1) for input_ in node.input)
            return [
                _sum(pair, sign, rest) for *pair, rest in zip(term, second, unknown, strict=True)
            ]
        return unknown


def _sum(pair: list[Term], sign: int, unknown: Term) -> Term:
    """Return a sum or difference of two integers, one of them a constant."""
    (base, offset), (second_base, second_offset) = pair
    if second_base is None:
        return base, offset + sign * second_offset
    if base is None and sign > 0:
        return second_base, offset + second_offset
    return unknown


def _integers(tensor: onnx.TensorProto) -> list[int] | None:
    """Return the elements of a small tensor of integers; None for any other."""
    kinds = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    is_small = int(np.prod(tensor.dims, dtype=np.int64)) <= _MOST_TERMS
    if tensor.data_type not in kinds or not is_small:
        return None
    try:
        return [int(n) for n in numpy_helper.to_array(tensor).reshape(-1)]
    except (TypeError, ValueError):  # external, or not what it declares
        return None
