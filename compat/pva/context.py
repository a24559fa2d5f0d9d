"""Debug contexts, by libpva's names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pva.entry import Entry
from tilescope.analyser.program import contexts as table

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["DebugContext", "Location"]


@dataclass(frozen=True)
class Location:
    """The line of a source file; an empty name and 0 where it is not known."""

    fileName: str = ""
    lineNumber: int = 0


class DebugContext(Entry):
    """Who asked for something: a node of the model, a call of the library, or the graph itself."""

    def __init__(self, opened: Opened, context: table.DebugContext) -> None:
        super().__init__(opened, context.debug_context_id)
        self._found = context

    @property
    def id(self) -> int:
        """Number that no other debug context of the report has."""
        return self._found.debug_context_id

    @property
    def layer(self) -> str:
        """JSON object whose key ``layer`` is ``onnx``, ``library`` or ``poplar``."""
        return json.dumps({"layer": self._found.layer})

    @property
    def json(self) -> str:
        """JSON object: layer, name and type of the operation, and the call's arguments.

        ``inputs`` and ``outputs`` are lists of names. In training, an operation of the model has
        ``pass``, and a gradient has ``origin``, the name of the forward operation.
        """
        try:
            detail = json.loads(self._found.detail)
        except (RecursionError, ValueError):
            detail = {}
        properties: dict[str, Any] = detail if isinstance(detail, dict) else {}
        for key in ("inputs", "outputs"):
            if isinstance(properties.get(key), list):
                properties[key] = [_name(operand) for operand in properties[key]]
        named = {
            "layer": self._found.layer,
            "opName": self._found.name,
            "opType": self._found.operation,
            "op_name": self._found.name,
            "op_type": self._found.operation,
        }
        return json.dumps(properties | named)

    @property
    def location(self) -> Location:
        """The line of source that made the call, or the one around it."""
        location = table.location(self._opened, self._found.debug_context_id)
        return Location() if location is None else Location(*location)

    @property
    def parents(self) -> list[DebugContext]:
        """The context around this one, in a list; empty for the outermost."""
        parent = self._found.parent_id
        every = table.contexts(self._opened)
        return [DebugContext(self._opened, every[parent])] if parent in every else []

    def __repr__(self) -> str:
        return f"<DebugContext {self._found.layer} {self._found.name}>"


def _name(operand: object) -> str:
    """Return the name of an operand: the text itself, or the first of name, type and shape."""
    return str(operand[0] if isinstance(operand, list) and operand else operand)
