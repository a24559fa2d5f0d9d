"""Debug contexts: the origin of a variable, compute set or program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilescope.engine.graph.identity.caller import calling_line

__all__ = ["ENGINE_LAYERS", "OUTLINE_COPY", "ROOT", "DebugContext"]

#: Layers of what the engine adds; all others are those of a front end.
ENGINE_LAYERS = ("library", "poplar")
#: Operation of the copies from and to the variables that outlined operations share.
OUTLINE_COPY = "outline.copy"


@dataclass(frozen=True, eq=False)
class DebugContext:
    """One level of the context chain: model operation, library call, step.

    Parameters
    ----------
    name
        Full name; levels are separated by ``/``.
    layer
        ``library``, ``poplar``, or the name of the model's front end, such as ``onnx``.
    operation
        Type of the operation.
    detail
        Arguments of the operation; JSON types only.
    weights_digest
        Digest of its constant operands; None without any.
    flops
        Useful floating-point operations of one execution; None if its definition does not determine
        them.
    line
        Base name and line of the source that called the graph API, or that an operation of a model
        is from; None where the model does not say.
    """

    name: str
    layer: str = "poplar"
    operation: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    parent: DebugContext | None = None
    weights_digest: str | None = None
    flops: int | None = None
    line: tuple[str, int] | None = None

    def child(
        self,
        name: str,
        layer: str,
        operation: str = "",
        detail: Mapping[str, Any] | None = None,
        *,
        weights_digest: str | None = None,
        flops: int | None = None,
        line: tuple[str, int] | None = None,
    ) -> DebugContext:
        """Return a context nested in this one.

        Parameters
        ----------
        name
            Its own name, inside this one's.
        layer, operation, detail, weights_digest, flops, line
            As for `DebugContext`.
        """
        return DebugContext(
            self.join(name),
            layer,
            operation,
            detail or {},
            self,
            weights_digest,
            flops,
            line if layer not in ENGINE_LAYERS or self.is_in_model else calling_line(),
        )

    @property
    def is_in_model(self) -> bool:
        """Whether it belongs to an operation of a model."""
        return self.is_of_model or (self.parent is not None and self.parent.is_in_model)

    @property
    def is_of_model(self) -> bool:
        """Whether it is an operation of a model."""
        return self.layer not in ENGINE_LAYERS

    def join(self, name: str) -> str:
        """Return the full name of an object created in this context."""
        if not self.name:
            return name
        return f"{self.name}/{name}" if name else self.name


ROOT = DebugContext("")
