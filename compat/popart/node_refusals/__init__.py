"""Nodes that PopART refuses, in its words.

`check_nodes` refuses attributes that ONNX and the engine have, and PopART has not. `explanation` is
asked when the engine has refused a model: it costs the types of all tensors.
"""

from popart.node_refusals.check import check_nodes, explanation

__all__ = ["check_nodes", "explanation"]
