"""Gives every operation an IPU, and copies values to the IPUs that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import (
    IrBuilder,
    Model,
    Operation,
    Placement,
    Update,
    Value,
    read_from_outside,
    walk,
)
from tilescope.engine.operators.movement.ipu_copy import IPU_COPY
from tilescope.engine.operators.movement.remote import REMOTE_LOAD, REMOTE_STORE

__all__ = ["place"]


def place(model: Model) -> Model:
    """Return a model whose operations have IPUs, with copies where a value is read on another one.

    An operation that states no IPU runs where the largest of its operands is, or on the first IPU.
    Inputs and held values are on the IPU of their first reader. A
    model in which nothing states an IPU stays as it is.

    Raises
    ------
    BadModel
        When an operation inside a region states another IPU than the one around it.
    """
    if all(op.placement.ipu is None for op in walk((*model.operations, *model.closing))):
        return model
    placed = _Placed()
    operations = placed.operations(model.operations)
    updates = placed.updates(model.updates)
    operations += placed.pending
    placed.pending = []
    closing = placed.operations(model.closing)
    closing_updates = placed.updates(model.closing_updates)
    return replace(
        model,
        operations=tuple(operations),
        updates=updates,
        closing=(*closing, *placed.pending),
        closing_updates=closing_updates,
    )


class _Placed:
    """Walks the operations of a model in their order.

    Attributes
    ----------
    pending
        Copies that were added since it was emptied.
    _stored
        What stands for values in streaming memory.
    """

    def __init__(self) -> None:
        self.pending: list[Operation] = []
        self._home: dict[Value, int] = {}
        self._copies: dict[tuple[Value, int], Value] = {}
        self._stored: set[Value] = set()

    def operations(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return operations with IPUs; copies stand before the group that needs them.

        Operations of one name, one after the other, are a group: they share a place in reports.
        """
        placed: list[Operation] = []
        for _, members in groupby(operations, key=lambda operation: operation.name):
            group = []
            for operation in members:
                ipu = self._ipu_of(operation)
                if operation.operator is IPU_COPY:  # reads on one IPU, and computes on another
                    group.append(operation)
                else:
                    group.append(self._on(operation, ipu))
                self._home |= dict.fromkeys(operation.results, ipu)
            made = {value for operation in group for value in operation.results}
            early = [copy for copy in self.pending if made.isdisjoint(copy.operands)]
            late = {copy.output: copy for copy in self.pending if copy not in early}
            self.pending = []
            placed += early
            for operation in group:
                placed += [late.pop(value) for value in operation.operands if value in late]
                placed.append(operation)
        return placed

    def updates(self, updates: Iterable[Update]) -> tuple[Update, ...]:
        """Return updates whose values are on the IPUs of what they replace."""
        placed = []
        for update in updates:
            ipu = self._home.get(update.held)
            if ipu is None:
                ipu = self._home.setdefault(update.held, self._home.get(update.value, 0))
            value = update.value
            if value not in self._stored:
                value = self._there(value, ipu, None)
            placed.append(replace(update, value=value))
        return tuple(placed)

    def _off_chip(self, operation: Operation) -> tuple[Value, ...]:
        """Return what an operation reads in streaming memory, which no IPU is closer to."""
        if operation.operator is REMOTE_STORE:
            self._stored.update(operation.results)
            return operation.operands[:-1]
        return tuple(operation.operands) if operation.operator is REMOTE_LOAD else ()

    def _ipu_of(self, operation: Operation) -> int:
        stated = operation.placement.ipu
        if stated is not None:
            return stated
        there = [value for value in _read_by(operation) if value in self._home]
        return self._home[max(there, key=lambda value: prod(value.shape))] if there else 0

    def _on(self, operation: Operation, ipu: int) -> Operation:
        """Return an operation that reads values on its IPU."""
        for inner in walk(tuple(op for r in operation.regions.values() for op in r.operations)):
            if inner.placement.ipu not in (None, ipu):
                raise BadModel(
                    f"{inner} is on IPU {inner.placement.ipu}, inside {operation} on IPU {ipu}: an"
                    " operation and what is inside it run on one IPU"
                )
        read = [value for value in _read_by(operation) if value not in self._off_chip(operation)]
        there = {value: self._there(value, ipu, operation) for value in read}
        placed = replace(operation, placement=replace(operation.placement, ipu=ipu))
        return IrBuilder(operation.name).reading(placed, there)

    def _there(self, value: Value, ipu: int, reader: Operation | None) -> Value:
        """Return a value on an IPU: itself, or its copy."""
        if value.known is not None:
            return value
        if self._home.setdefault(value, ipu) == ipu:
            return value
        if (value, ipu) not in self._copies:
            copy = Value(value.name, value.shape, value.dtype)
            self._copies[value, ipu] = copy
            stage = None if reader is None else reader.placement.stage
            self.pending.append(
                Operation(
                    operator=IPU_COPY,
                    name=f"{value.name}/toIpu{ipu}",
                    source="IpuCopy",
                    inputs=(value,),
                    outputs=(copy,),
                    attributes={"ipu": ipu},
                    placement=Placement(ipu, stage),
                    training_pass=None if reader is None else reader.training_pass,
                )
            )
        return self._copies[value, ipu]


def _read_by(operation: Operation) -> list[Value]:
    """Return what an operation and its regions read; constants left out."""
    return [value for value in read_from_outside(operation) if value.known is None]
