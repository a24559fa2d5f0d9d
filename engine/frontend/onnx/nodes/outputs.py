"""Outputs in place of a model's own."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import onnx

from tilescope.engine.errors import BadInput

__all__ = ["set_outputs"]


def set_outputs(graph: onnx.GraphProto, names: Collection[str]) -> None:
    """Make inputs, or results of nodes, the outputs of a graph, in place.

    Raises
    ------
    BadInput
        When the model has no such value; names a close one.
    """
    known = [info.name for info in graph.input]
    known += [name for node in graph.node for name in node.output if name]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise BadInput(f"The model computes no {name!r}, which cannot be an output{hint}")
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
