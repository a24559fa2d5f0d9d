"""Values in streaming memory: loads before what reads them, and stores after what writes them.

A weight is loaded before every node that reads it, or once in a phase, and so is a state before the
update that changes it. Results of the forward pass that later phases or the backward pass read are
stored, and loaded there. What is loaded is on the tiles only until it is read for the last time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import (
    UNPLACED,
    Constant,
    IrBuilder,
    Locations,
    Model,
    NarrowConstant,
    Operation,
    Operator,
    Parameter,
    Purpose,
    State,
    Update,
    Value,
    read_from_outside,
)
from tilescope.engine.operators.movement.remote import REMOTE_LOAD, REMOTE_STORE
from tilescope.engine.transform.phases import UPDATE, in_phases, pass_of

__all__ = ["offload"]

#: Kinds of locations by what a state is for; others stay on the tiles.
_KIND_OF_STATE = {
    Purpose.OPTIMISER_STATE: "optimizer-state",
    Purpose.GRADIENT: "accumulators",
}
#: Primitives that change the view of a value only: a later phase repeats them.
_VIEWS = frozenset({"reshape", "transpose"})
#: Those that are repeated on a weight that is loaded again, besides.
_OF_WEIGHTS = _VIEWS | {"cast"}


def offload(model: Model) -> Model:
    """Return the model with copies from and to streaming memory, as its locations say.

    Raises
    ------
    BadModel
        When a phase reads what a later one computes, or the activations of a pipeline are to be
        off chip.
    """
    if model.locations.is_on_chip:
        return model
    rule = model.locations.of_kinds.get("activations")
    if model.is_pipelined and rule is not None and rule.location.is_off_chip:
        raise BadModel(
            f"{model.name!r} is a pipeline, whose stages keep activations of several micro-batches:"
            " they cannot be offloaded; leave activations on chip, or compute them again"
        )
    model = in_phases(model)
    is_trained = any(operation.training_pass is not None for operation in model.operations)
    walk = _Offloaded(model.locations, has_tables=not is_trained)
    operations = walk.operations(model.operations, model.updates)
    updates, stores = walk.rest(model.updates)
    closing = walk.operations(model.closing, model.closing_updates)
    closing_updates, closing_stores = walk.rest(model.closing_updates)
    return replace(
        model,
        operations=(*operations, *stores),
        updates=updates,
        closing=(*closing, *closing_stores),
        closing_updates=closing_updates,
    )


class _Offloaded:
    """Walks the operations of a model in their order.

    Parameters
    ----------
    locations
        Where values are kept.
    has_tables
        Whether constants of several dimensions are weights: in inference, whose weights are folded.

    Attributes
    ----------
    _makers
        Operations by what they compute.
    _crossing
        Computed values that are stored after their maker, and loaded by later segments.
    _stored
        What loads read of those.
    _replaced
        What stands for the value that has replaced a held one in streaming memory.
    _there
        What stands on the tiles for a value that is not kept there, by segment: the operations
        that share a load.
    _new
        Operations to add before the group that needs them.
    """

    def __init__(self, locations: Locations, *, has_tables: bool) -> None:
        self._locations, self._has_tables = locations, has_tables
        self._makers: dict[Value, Operation] = {}
        self._crossing: set[Value] = set()
        self._stored: dict[Value, Value] = {}
        self._replaced: dict[Value, Value] = {}
        self._there: dict[tuple[Value, Hashable], Value] = {}
        self._new: list[Operation] = []

    def operations(
        self, operations: Sequence[Operation], updates: Sequence[Update]
    ) -> list[Operation]:
        """Return operations with loads before the group that reads a value, and stores after it.

        Operations of one name, one after the other, are a group: they share a place in reports.

        Parameters
        ----------
        operations
            Of the model, in their order.
        updates
            What replaces held values after them; `rest` stores what they do not compute.
        """
        self._find_crossing(operations)
        groups = [list(members) for _, members in groupby(operations, key=lambda op: op.name)]
        replaced: dict[Value, list[Value]] = defaultdict(list)
        for update in updates:
            if self._is_off_chip(update.held):
                replaced[update.value].append(update.held)
        last_read = {
            value: number
            for number, group in enumerate(groups)
            for operation in group
            for value in read_from_outside(operation)
        }
        stores: dict[int, list[Operation]] = defaultdict(list)
        placed: list[Operation] = []
        for number, group in enumerate(groups):
            members = [self._reading(operation) for operation in group]
            placed += [*self._taken(), *members]
            for operation in members:
                for value in operation.results:
                    if value in self._crossing:
                        placed.append(self._store(value, operation))
                    for held in replaced.get(value, ()):
                        after = max(number, last_read.get(held, number))
                        stores[after].append(self._store(value, operation, held))
            placed += stores.pop(number, [])
        return placed

    def rest(self, updates: Sequence[Update]) -> tuple[tuple[Update, ...], list[Operation]]:
        """Return updates, and operations that store what no operation of the model has computed."""
        stores: list[Operation] = []
        for update in updates:
            if update.held in self._replaced:
                continue
            value = self._on_tiles(update.value, None)
            if self._is_off_chip(update.held):
                stores.append(self._store(value, None, update.held))
        placed = tuple(
            Update(
                update.held,
                self._replaced.get(update.held) or self._on_tiles(update.value, None),
            )
            for update in updates
        )
        stores = [*self._taken(), *stores]
        self._replaced, self._there = {}, {}  # what follows runs after these updates
        return placed, stores

    def _taken(self) -> list[Operation]:
        """Return the new operations, which are no longer new."""
        taken, self._new = self._new, []
        return taken

    def _reading(self, operation: Operation) -> Operation:
        """Return an operation that reads values on the tiles."""
        known = operation.operator.known_operands
        fixed = {v for i in known if i < len(operation.inputs) if (v := operation.inputs[i])}
        there = {
            value: value if value in fixed else self._on_tiles(value, operation)
            for value in read_from_outside(operation)
        }
        return IrBuilder(operation.name).reading(operation, there)

    def _on_tiles(self, value: Value, reader: Operation | None) -> Value:
        """Return a value on the tiles: itself, or what an operation loads."""
        maker = self._makers.get(value)
        if maker is not None and reader is not None and self._crosses(maker, reader):
            is_view = _is_one_of(_VIEWS, maker) and self._base(value) in self._stored
            if is_view or self._is_of_weight(value):
                key = value, _segment(reader)
                if key not in self._there:
                    operand = self._on_tiles(maker.operand(0), reader)
                    self._there[key] = self._add(maker.operator, (operand,), value, reader, maker)
                return self._there[key]
            source = self._stored.get(value)
        else:
            source = value if self._is_off_chip(value) else None
        if source is None:
            return value
        key = value, _segment(reader)
        if key not in self._there:
            self._there[key] = self._add(REMOTE_LOAD, (source,), value, reader)
        return self._there[key]

    def _add(
        self,
        operator: Operator,
        operands: tuple[Value, ...],
        like: Value,
        reader: Operation | None,
        copied: Operation | None = None,
    ) -> Value:
        """Add an operation that computes a value like another one, for a reader."""
        result = Value(like.name, like.shape, like.dtype)
        self._new.append(
            Operation(
                operator=operator,
                name=f"{like.name}/load" if copied is None else copied.name,
                source="RemoteLoad" if copied is None else copied.source,
                inputs=operands,
                outputs=(result,),
                attributes={} if copied is None else copied.attributes,
                placement=UNPLACED if reader is None else reader.placement,
                training_pass=None if reader is None else reader.training_pass,
            )
        )
        return result

    def _store(self, value: Value, maker: Operation | None, held: Value | None = None) -> Operation:
        """Return the operation that stores a value, in place of a held one or as it is."""
        stored = Value((held or value).name, value.shape, value.dtype)
        (self._stored if held is None else self._replaced)[held or value] = stored
        return Operation(
            operator=REMOTE_STORE,
            name=f"{stored.name}/store",
            source="RemoteStore",
            inputs=(value,) if held is None else (held, value),
            outputs=(stored,),
            placement=UNPLACED if maker is None else maker.placement,
            training_pass=None if maker is None else maker.training_pass,
        )

    def _find_crossing(self, operations: Sequence[Operation]) -> None:
        """Find the makers of values, and the values that are stored for other parts of a step."""
        for operation in operations:
            for value in read_from_outside(operation):
                maker = self._makers.get(value)
                if maker is None or not self._crosses(maker, operation):
                    continue
                if self._is_of_weight(value):
                    continue
                base = self._base(value)
                n_elements = prod(base.shape)
                if self._locations.of("activations", base.name, n_elements).is_off_chip:
                    self._crossing.add(base)
            self._makers |= dict.fromkeys(operation.results, operation)

    def _base(self, value: Value) -> Value:
        """Return what a value is a view of, as far as its own part of the step computes it."""
        maker = self._makers[value]
        while _is_one_of(_VIEWS, maker):
            operand = maker.operand(0)
            before = self._makers.get(operand)
            if before is None or self._crosses(before, maker):
                break
            value, maker = operand, before
        return value

    def _is_of_weight(self, value: Value) -> bool:
        """Return whether a value is a view of what is loaded before every use, or a cast of it."""
        maker = self._makers.get(value)
        while maker is not None and _is_one_of(_OF_WEIGHTS, maker):
            value = maker.operand(0)
            maker = self._makers.get(value)
        return maker is None and self._is_off_chip(value)

    @staticmethod
    def _crosses(maker: Operation, reader: Operation) -> bool:
        """Return whether a result is read in a later phase, or in the backward pass."""
        parts = pass_of(maker), pass_of(reader)
        if UPDATE in parts:
            return False
        return parts[0] != parts[1] or maker.placement.phase != reader.placement.phase

    def _is_off_chip(self, value: Value) -> bool:
        """Return whether a value that is there before a run is kept in streaming memory."""
        kind = _kind_of(value)
        if not kind or (isinstance(value, Constant) and not self._has_tables):
            return False
        return self._locations.of(kind, value.name, prod(value.shape)).is_off_chip


def _kind_of(value: Value) -> str:
    """Return the kind of location that a value from before a run has; empty if it has none."""
    if isinstance(value, State):
        return "" if value.is_setting else _KIND_OF_STATE.get(value.purpose, "")
    is_table = isinstance(value, Constant) and len(value.shape) > 1
    if isinstance(value, NarrowConstant) or not (is_table or isinstance(value, Parameter)):
        return ""
    return "weights" if value.dtype.startswith("float") else ""


def _is_one_of(names: frozenset[str], operation: Operation) -> bool:
    return operation.operator.is_primitive and operation.operator.name in names


def _segment(reader: Operation | None) -> Hashable:
    """Return what operations share a load: those of a node, or of a phase, in one pass."""
    if reader is None:
        return None
    placement = reader.placement
    name = (reader.origin or reader).name if placement.phase is None else ""
    return pass_of(reader), name, placement
