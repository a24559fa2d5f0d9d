"""Debug contexts, by libpva's names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from pva.absent import WithAbsent
from tilescope.analyser import contexts as table

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["DebugContext"]


class DebugContext(WithAbsent):
    """Who asked for something: a node of the model, a call of the library, or the graph itself."""

    _absent: ClassVar[dict[str, str]] = {"location": "source files and lines"}

    def __init__(self, opened: Opened, found: table.DebugContext) -> None:
        self._opened = opened
        self._found = found

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
        """JSON object: layer, opName, opType and the call's arguments."""
        try:
            detail = json.loads(self._found.detail)
        except (RecursionError, ValueError):
            detail = {}
        said = detail if isinstance(detail, dict) else {}
        named = {
            "layer": self._found.layer,
            "opName": self._found.name,
            "opType": self._found.operation,
        }
        return json.dumps(said | named)

    @property
    def parents(self) -> list[DebugContext]:
        """The context around this one, in a list; empty for the outermost."""
        parent = self._found.parent_id
        every = table.contexts(self._opened)
        return [DebugContext(self._opened, every[parent])] if parent in every else []

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DebugContext)
            and other._opened is self._opened
            and other.id == self.id
        )

    def __hash__(self) -> int:
        return hash((id(self._opened), self.id))

    def __repr__(self) -> str:
        return f"<DebugContext {self._found.layer} {self._found.name}>"
