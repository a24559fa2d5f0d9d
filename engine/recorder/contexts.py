"""Debug contexts as rows: numbered on first reference, parents first."""

from __future__ import annotations

import json

from tilescope.engine.graph import DebugContext
from tilescope.reports import ReportWriter
from tilescope.reports.schema import debug_context

__all__ = ["ContextTable"]


class ContextTable:
    """Collects contexts and writes every one once."""

    def __init__(self, writer: ReportWriter) -> None:
        self._writer = writer
        self._ids: dict[DebugContext, int] = {}
        self._rows: list[dict[str, object]] = []

    def id_of(self, context: DebugContext) -> int | None:
        """Return a context's number; None for the root, which has no content."""
        if not context.name:
            return None
        found = self._ids.get(context)
        if found is not None:
            return found
        parent = None if context.parent is None else self.id_of(context.parent)
        number = len(self._rows)
        self._ids[context] = number
        self._rows.append(
            {
                "debug_context_id": number,
                "parent_id": parent,
                "layer": context.layer,
                "name": context.name,
                "operation": context.operation,
                "detail": json.dumps(dict(context.detail), sort_keys=True),
                "weights_digest": context.weights_digest,
                "flops": context.flops,
                "file_name": None if context.line is None else context.line[0],
                "line_number": None if context.line is None else context.line[1],
            }
        )
        return number

    def flush(self) -> None:
        """Write the rows."""
        self._writer.add(debug_context, self._rows)
