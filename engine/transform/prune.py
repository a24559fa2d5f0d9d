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
        if wanted.intersection(operation.results):
            kept.append(operation)
            wanted.update(operation.operands)
            wanted.update(v for region in operation.regions.values() for v in region.captured)
    if len(kept) == len(model.operations):
        return model
    return replace(model, operations=tuple(reversed(kept)))
