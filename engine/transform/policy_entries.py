"""What the entries of a policy of half name in a model; those that name nothing are refused."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tilescope.engine.errors import BadOption
from tilescope.engine.ir import Model, Node, Operation, walk
from tilescope.engine.ir.half_policy import WITH_PARTIALS, HalfPolicy, matches

__all__ = ["check_entries", "kinds_of"]


def kinds_of(node: Node) -> tuple[str, ...]:
    """Return what the operator of a node is called: in the model, and in the table of operators."""
    return node.source, node.operator.key


def check_entries(policy: HalfPolicy, model: Model) -> None:
    """Refuse entries that name nothing in the model.

    Parameters
    ----------
    policy
        Whose entries are checked.
    model
        As a front end built it.

    Raises
    ------
    BadOption
        Names the entry, and what is called alike.
    """
    if not policy.is_changed:
        return
    nodes = list(walk(model.operations))
    summed = [node for node in nodes if not set(kinds_of(node)).isdisjoint(WITH_PARTIALS)]
    _check("keep_float", policy.keep_float, nodes)
    _check("in_half", policy.in_half, nodes)
    _check("half_partials", policy.half_partials, summed, " with partial sums")


def _check(option: str, entries: Sequence[str], nodes: Sequence[Operation], only: str = "") -> None:
    for entry in entries:
        if any(matches(entry, kinds_of(node), node.name) for node in nodes):
            continue
        known = sorted({name for node in nodes for name in (*kinds_of(node), node.name)})
        near = get_close_matches(entry, known, 3, 0.5)
        kinds = sorted({node.source for node in nodes})
        hint = f"close names are {', '.join(near)}" if near else f"it has {', '.join(kinds)}"
        raise BadOption(
            f"{option}: the model has no operator and no node{only} {entry!r}; {hint}"
            if known
            else f"{option}: the model has no operator{only}, so {entry!r} names nothing"
        )
