"""What a well-formed model is, as a check that runs in tests and after every transformation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.builder import TypeMemo, results_of
from tilescope.engine.ir.model import Model
from tilescope.engine.ir.operation import Operation, Region
from tilescope.engine.ir.value import Update, Value

__all__ = ["check_model"]


def check_model(model: Model) -> None:
    """Raise BadModel unless operations run in order, on what exists, with results as inferred.

    Raises
    ------
    BadModel
        Names the operation that breaks a rule.
    """
    available: set[Value] = set(model.inputs)
    memo: TypeMemo = {}
    _check_operations(model.operations, available, memo)
    for name, value in model.outputs:
        if value.is_computed and value not in available:
            raise BadModel(f"Output {name!r} is not computed by any operation")
    _check_updates(model.updates, available)
    at_the_end: set[Value] = set()
    _check_operations(model.closing, at_the_end, memo)
    _check_updates(model.closing_updates, at_the_end)


def _check_updates(updates: Sequence[Update], available: set[Value]) -> None:
    """Raise BadModel unless every held value is replaced once, by one like it that exists.

    Raises
    ------
    BadModel
        Names the held value.
    """
    seen: set[Value] = set()
    for update in updates:
        held, value = update.held, update.value
        if held in seen or not held.is_held:
            how = "twice" if held in seen else "though the device does not hold it"
            raise BadModel(f"{held.name!r} is updated {how}")
        seen.add(held)
        if (held.shape, held.dtype) != (value.shape, value.dtype):
            raise BadModel(
                f"{held.name!r} is {held.dtype} {held.shape}, but its update is {value.dtype}"
                f" {value.shape}"
            )
        if value.is_computed and value not in available:
            raise BadModel(f"The update of {held.name!r} is not computed by any operation")


def _check_operations(
    operations: Sequence[Operation], available: set[Value], memo: TypeMemo
) -> None:
    """Check operations in their order; `available` takes in their results."""
    for operation in operations:
        _check_available(operation, operation.operands, available)
        for key, region in operation.regions.items():
            _check_region(operation, key, region, available, memo)
        _check_results(operation, memo)
        available.update(operation.results)


def _check_available(operation: Operation, values: Iterable[Value], available: set[Value]) -> None:
    for value in values:
        if value.is_computed and value not in available:
            raise BadModel(f"{operation} uses {value.name!r} before it is computed")


def _check_region(
    operation: Operation, key: str, region: Region, available: set[Value], memo: TypeMemo
) -> None:
    """Check a region: it reads its inputs, what it captures, and what it computes itself.

    Raises
    ------
    BadModel
        Names the operation and the value.
    """
    _check_available(operation, region.captured, available)
    inside = {*region.inputs, *region.captured}
    _check_operations(region.operations, inside, memo)
    for value in region.outputs:
        if value.is_computed and value not in inside:
            raise BadModel(f"{operation}: result {value.name!r} of its {key} is not computed there")


def _check_results(operation: Operation, memo: TypeMemo) -> None:
    """Refuse an operation whose results are not those that its operator infers.

    Raises
    ------
    BadModel
        Names the operation, and type and shape on both sides.
    """
    names = [value.name if value else "" for value in operation.outputs]
    results = results_of(operation, names, memo)
    for stated, inferred in zip(operation.outputs, results, strict=True):
        if stated is None or inferred is None:
            continue
        if (inferred.shape, inferred.dtype) != (stated.shape, stated.dtype):
            raise BadModel(
                f"{operation} states {stated.dtype} {stated.shape} for {stated.name!r} and"
                f" computes {inferred.dtype} {inferred.shape}"
            )
