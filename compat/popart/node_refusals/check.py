"""Checks of all nodes of a model by rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from popart.checked_node import CheckedModel, CheckedNode, EngineNode
from popart.errors import popart_exception
from popart.node_refusals import attributes, nodes, operands
from tilescope.engine.ir import Node

__all__ = ["check_node", "check_nodes", "check_trained_nodes", "explanation"]

#: Outputs of a batch normalisation that trains, where they say so.
_OUTPUTS_IN_TRAINING = 5


def check_nodes(proto: onnx.ModelProto) -> None:
    """Refuse nodes with attributes or operands that the engine has, and PopART has not.

    Raises
    ------
    popart_exception
        In PopART's words.
    """
    reason = _first_reason(proto, attributes.RULES, operands.SILENT_RULES)
    if reason is not None:
        raise popart_exception(reason)


def check_node(proto: onnx.NodeProto, node: Node) -> None:
    """Refuse a node that PopART refuses.

    Parameters
    ----------
    proto
        As the model has it.
    node
        As the engine has it.

    Raises
    ------
    popart_exception
        In PopART's words.
    """
    checked = EngineNode(proto, node)
    rule = nodes.RULES.get(checked.key)
    reason = None if rule is None else rule(checked)
    if reason is not None:
        raise popart_exception(reason)


def check_trained_nodes(protos: Sequence[onnx.NodeProto]) -> None:
    """Refuse nodes that have no gradient in the form that they have.

    Parameters
    ----------
    protos
        Nodes from which gradients are computed.

    Raises
    ------
    popart_exception
        In PopART's words.
    """
    for proto in protos:
        stated = {a.name for a in proto.attribute}
        if proto.op_type != "BatchNormalization" or "training_mode" in stated:
            continue
        n_outputs = sum(map(bool, proto.output))
        if n_outputs != _OUTPUTS_IN_TRAINING:
            raise popart_exception(
                f'BatchNorm Op "{proto.name or proto.output[0]}" has {n_outputs} output(s) which'
                " means it is in inference mode, but its gradient Op is being created. To use the"
                " BatchNorm Op in inference mode during training, it has to be detached first."
            )


def explanation(proto: onnx.ModelProto) -> str | None:
    """Return what PopART says of the operands of a model that cannot be used, or None."""
    return _first_reason(proto, operands.RULES)


def _first_reason(
    proto: onnx.ModelProto,
    *tables: Mapping[tuple[str, str], Callable[[CheckedNode], str | None]],
) -> str | None:
    reasons = (
        rules[node.key](node)
        for node in CheckedModel(proto).nodes()
        for rules in tables
        if node.key in rules
    )
    return next((reason for reason in reasons if reason is not None), None)
