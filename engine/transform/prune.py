"""Drops operations whose results nobody uses."""

from __future__ import annotations

from dataclasses import replace

from tilescope.engine.ir import Model

__all__ = ["prune"]


def prune(model: Model) -> Model:
    """Return the model without operations that no output depends on."""
    wanted = {value for _, value in model.outputs}
    kept = []
    for operation in reversed(model.operations):
        if operation.output in wanted:
            kept.append(operation)
            wanted.update(operation.inputs)
    return replace(model, operations=tuple(reversed(kept)))
