"""Drops operations whose results nobody uses."""

from __future__ import annotations

from dataclasses import replace

from tilescope.engine.ir import Model

__all__ = ["prune"]


def prune(model: Model) -> Model:
    """Return the model without operations that no output and no update depends on.

    Operators that are kept whatever happens, such as what prints, stay.
    """
    needed = {value for _, value in model.outputs} | {update.value for update in model.updates}
    kept_operations = []
    for operation in reversed(model.operations):
        if operation.operator.is_kept or needed.intersection(operation.results):
            kept_operations.append(operation)
            needed.update(operation.operands)
            needed.update(v for region in operation.regions.values() for v in region.captured)
    if len(kept_operations) == len(model.operations):
        return model
    return replace(model, operations=tuple(reversed(kept_operations)))
