"""Values of a graph whose content decides shapes or plans, by name."""

from __future__ import annotations

import onnx

from tilescope.engine.frontend.onnx.nodes.fixed_slices import FixedSlices
from tilescope.engine.frontend.onnx.source.sequences import SEQUENCES
from tilescope.engine.frontend.onnx.source.walk import key_of, nodes_of
from tilescope.engine.operators import OPERATORS

__all__ = ["body_of", "deciding_names", "needs_rounds"]

#: Their result follows from the shape of their operand, not from its content.
_OF_SHAPE = frozenset({"Shape", "Size"})


def deciding_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of values that shapes or plans of a graph depend on."""
    producers: dict[str, onnx.NodeProto] = {}
    names: list[str] = []
    slices = FixedSlices(graph)
    for node in nodes_of(graph):
        producers.update(dict.fromkeys(filter(None, node.output), node))
        if not slices.sizes_of(node):
            names += [node.input[i] for i in _places(node) if i < len(node.input)]
    needed: set[str] = set()
    while names:
        name = names.pop()
        if not name or name in needed:
            continue
        needed.add(name)
        producer = producers.get(name)
        if producer is not None and producer.op_type not in _OF_SHAPE:
            names += producer.input
    return needed


def body_of(node: onnx.NodeProto) -> onnx.GraphProto:
    """Return the body of a loop."""
    bodies: list[onnx.GraphProto] = [a.g for a in node.attribute if a.name == "body"]
    return bodies[0]


def needs_rounds(node: onnx.NodeProto) -> bool:
    """Return whether shapes in the body of a Loop depend on the number of the round."""
    body = body_of(node)
    return bool(body.input) and body.input[0].name in deciding_names(body)


def _places(node: onnx.NodeProto) -> tuple[int, ...]:
    """Return the positions of operands that decide shapes or plans."""
    if key_of(node) in SEQUENCES:
        return SEQUENCES[key_of(node)]
    operator = OPERATORS.get(key_of(node))
    if node.op_type != "Loop":
        return operator.known_operands if operator else ()
    if needs_rounds(node):
        return (0, 1)
    n_states = max(0, len(node.input) - 2)
    return (0,) if len(body_of(node).output) > 1 + n_states else ()
