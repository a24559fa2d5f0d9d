"""Debug contexts: the origin of a variable, compute set or program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ROOT", "DebugContext"]


@dataclass(frozen=True, eq=False)
class DebugContext:
    """One level of the context chain: model operation, library call, step.

    Parameters
    ----------
    name
        Full name; levels are separated by ``/``.
    layer
        ``onnx``, ``library`` or ``poplar``.
    operation
        Type of the operation.
    detail
        Arguments of the operation; JSON types only.
    """

    name: str
    layer: str = "poplar"
    operation: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    parent: DebugContext | None = None

    def child(
        self, name: str, layer: str, operation: str = "", detail: Mapping[str, Any] | None = None
    ) -> DebugContext:
        """Return a context nested in this one."""
        return DebugContext(self.join(name), layer, operation, detail or {}, self)

    def join(self, name: str) -> str:
        """Return the full name of an object created in this context."""
        if not self.name:
            return name
        return f"{self.name}/{name}" if name else self.name


ROOT = DebugContext("")
