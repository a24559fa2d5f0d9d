"""Nodes that PopART refuses, in its words.

A rule takes a `CheckedNode` and returns what PopART says of it, or None. `check_nodes` reads the
file, and refuses attributes that ONNX and the engine have, and PopART has not. `check_node` is
asked by the front end before a node is added, with the types that the engine has of its operands.
`check_trained_nodes` is asked for those from which gradients are computed, and `explanation` when
the engine has refused a model: it costs the types of all tensors.
"""

from popart.node_refusals.check import (
    check_node,
    check_nodes,
    check_trained_nodes,
    explanation,
)

__all__ = ["check_node", "check_nodes", "check_trained_nodes", "explanation"]
