"""Checks of all nodes of a model by rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from popart.checked_node import CheckedModel, CheckedNode
from popart.errors import popart_exception
from popart.node_refusals import attributes, operands

__all__ = ["check_nodes", "explanation"]


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
