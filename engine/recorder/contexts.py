"""Debug contexts as rows: numbered on first reference, parents first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from tilescope.engine.compiler.executable.executable import Node
from tilescope.engine.graph import DebugContext
from tilescope.engine.ir import TrainingPass
from tilescope.reports import ReportWriter
from tilescope.reports.schema import debug_context
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

__all__ = ["ContextTable"]

#: Programs whose body does not run once whenever the program does.
_NOT_ONCE = frozenset(("If", "Switch", "Repeat", "RepeatWhile", "Call"))


class ContextTable:
    """Collects contexts and writes every one once.

    Parameters
    ----------
    writer
        Target of the rows.
    nodes
        The program tree.
    """

    def __init__(self, writer: ReportWriter, nodes: Iterable[Node]) -> None:
        self._writer = writer
        self._ids: dict[DebugContext, int] = {}
        self._undetermined = {node.debug for node in nodes if node.kind in _NOT_ONCE}

    def id_of(self, context: DebugContext) -> int | None:
        """Return a context's number; None for the root, which has no content."""
        if not context.name:
            return None
        context_id = self._ids.get(context)
        if context_id is not None:
            return context_id
        if context.parent is not None:
            self.id_of(context.parent)
        number = self._ids[context] = len(self._ids)
        return number

    def flush(self) -> Sequence[Mapping[str, object]]:
        """Write the rows, and return them."""
        flops = self._flops()
        forward = self._forward()
        rows = [
            {
                "debug_context_id": number,
                "parent_id": None if context.parent is None else self.id_of(context.parent),
                "layer": context.layer,
                "name": context.name,
                "operation": context.operation,
                "detail": json.dumps(dict(context.detail), sort_keys=True),
                "weights_digest": context.weights_digest,
                "flops": flops[context],
                "file_name": None if context.line is None else context.line[0],
                "line_number": None if context.line is None else context.line[1],
                "training_pass": _training_pass(context),
                "origin_id": forward.get((context.parent, str(context.detail.get("origin")))),
            }
            for context, number in self._ids.items()
        ]
        self._writer.add(debug_context, rows)
        return rows

    def _forward(self) -> dict[tuple[DebugContext | None, str], int]:
        """Return the numbers of forward operations by what they are in, and their own name."""
        forward: dict[tuple[DebugContext | None, str], int] = {}
        for context, number in self._ids.items():
            if _training_pass(context) == TrainingPass.FORWARD:
                outer = "" if context.parent is None else context.parent.join("")
                name = context.name[len(outer) + 1 :] if outer else context.name
                forward.setdefault((context.parent, name), number)
        return forward

    def _flops(self) -> dict[DebugContext, int | None]:
        """Return the useful operations of every context.

        A context without a definition of its own has the sum of those inside it: an operation of a
        model 0 where there are none, a call that is taken apart None.
        """
        inside: dict[DebugContext, list[int | None]] = {context: [] for context in self._ids}
        flops_by_context: dict[DebugContext, int | None] = {}
        # Parents come first, so that in reverse what is inside is known.
        for context in reversed(self._ids):
            parts = inside[context]
            flops = context.flops
            is_sum = context.is_of_model or (context.layer == "library" and parts)
            if flops is None and is_sum and context not in self._undetermined:
                known = [part for part in parts if part is not None]
                flops = sum(known) if len(known) == len(parts) else None
            flops_by_context[context] = flops
            if context.parent in inside:
                inside[context.parent].append(flops)
        return flops_by_context


def _training_pass(context: DebugContext) -> str | None:
    """Return what a context belongs to in a training step; None if it does not say so."""
    name = context.detail.get("pass")
    return name if isinstance(name, str) and name in TRAINING_PASSES else None
