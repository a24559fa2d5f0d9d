"""The batch in parts: operations run on one part of the batch after another.

Less is alive at a time: what one part computes on the way is gone before the next one begins.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import (
    UNPLACED,
    WHOLE_BATCH,
    BatchParts,
    Expansion,
    IrBuilder,
    Model,
    Node,
    Operation,
    Parts,
    Placement,
    Value,
    read_from_outside,
)
from tilescope.engine.operators.movement.slicing import CONCAT, IS_PART, cut_one
from tilescope.engine.operators.parts import divided, parts_of
from tilescope.engine.transform.decompose import Decomposer

__all__ = ["in_batch_parts", "serialise_batch"]

#: After the name of a value, in those of its parts: the same for all, as their programs are.
_PART = "/part"


def in_batch_parts(
    model: Model, n_parts: int, joined_between: Sequence[str] = WHOLE_BATCH.joined_between
) -> Model:
    """Return a model that is computed in equal parts of its batch, one after another.

    Parameters
    ----------
    model
        As a front end loads it, before `for_training`.
    n_parts, joined_between
        As for `BatchParts`.

    Raises
    ------
    BadOption
        When the number is less than 1, or a border does not exist.
    """
    return replace(model, batch_parts=BatchParts(n_parts, tuple(joined_between)))


def serialise_batch(model: Model) -> Model:
    """Return the model with its operations on parts of the batch, as `Model.batch_parts` says.

    The batch is the first dimension of the first input, or the second where only that can be in
    parts, as that of a sequence whose steps come first. Other inputs are of the batch where they
    have its size there.

    Raises
    ------
    BadModel
        When the model has no batch, or the number of parts does not divide it.

    Notes
    -----
    Operations whose record has no rule for parts run whole, on operands that are joined for them.
    Stretches of operations on parts are as long as what they read allows, and of one placement:
    all operations of a part come before those of the next one, as in PopART's order.
    Source: graphcore/popart, willow/src/transforms/batchserialize.cpp, batchserialscheduler.cpp.
    """
    wanted = model.batch_parts
    if wanted.n_parts == 1:
        return model
    anchors = frozenset(model.training.anchors if model.training else ())
    model = _ForParts(model.name).rebuilt(replace(model, batch_parts=WHOLE_BATCH))
    return _Serial(model, wanted, anchors).serialised(model)


class _ForParts(Decomposer):
    """Replaces operations by those that compute the same of parts, where they have such a form."""

    def __init__(self, name: str, keep: frozenset[str] = frozenset()) -> None:
        super().__init__(name, keep)

    def inside(self, name: str) -> IrBuilder:
        return IrBuilder(name)

    def decomposed(self, node: Node, expansion: Expansion) -> tuple[Value, ...]:
        emit = node.operator.decompose_for_parts
        result = None if emit is None else emit(node, expansion)
        return () if result is None else (result,)


def _batch(model: Model, n_parts: int) -> dict[Value, int]:
    """Return the inputs that are of the batch, with its axis.

    Raises
    ------
    BadModel
        When there is no batch, or the parts do not divide it.
    """
    if not model.inputs or not model.inputs[0].shape:
        raise BadModel(
            f"{model.name!r} has no batch to be computed in {n_parts} parts: its first input has no"
            " dimension"
        )
    first = model.inputs[0]
    axis = _axis_of(first, model)
    size = first.shape[axis]
    if size % n_parts or not size:
        raise BadModel(
            f"{n_parts} parts do not divide the batch of {model.name!r}, which is {size}, axis"
            f" {axis} of input {first.name!r}"
        )
    axes = {value: _axis_of(value, model, size) for value in model.inputs if value.shape}
    return {value: axis for value, axis in axes.items() if value.shape[axis] == size}


def _axis_of(value: Value, model: Model, size: int | None = None) -> int:
    """Return the first of two axes of an input that may be in parts; 0 without one."""
    readers = [op for op in model.operations if value in op.operands]
    for axis in range(min(2, len(value.shape))):
        if size is None or value.shape[axis] == size:
            for reader in readers:
                axes = {i: axis for i, operand in enumerate(reader.inputs) if operand is value}
                if parts_of(reader, axes, 1) is not None:
                    return axis
    return 0


@dataclass(frozen=True)
class _Found:
    """What is known of a model's operations: which run in parts, and which values are of the batch.

    Parameters
    ----------
    parts
        Of the operations that run in parts.
    axis_of
        Of values of the batch: its axis.
    """

    parts: Mapping[Operation, Parts]
    axis_of: Mapping[Value, int]

    @classmethod
    def of(cls, model: Model, n_parts: int) -> _Found:
        """Return it for a model."""
        axis_of, parts = _batch(model, n_parts), {}
        for operation in model.operations:
            inputs = enumerate(operation.inputs)
            axes = {i: axis_of[v] for i, v in inputs if v is not None and v in axis_of}
            found = parts_of(operation, axes, n_parts)
            if found is not None:
                parts[operation] = found
                pairs = zip(operation.outputs, found.axes, strict=False)
                axis_of |= {value: axis for value, axis in pairs if value is not None}
            else:
                axis_of |= _still_of_batch(operation, axis_of)
        return cls(parts, axis_of)


def _still_of_batch(operation: Operation, axis_of: Mapping[Value, int]) -> dict[Value, int]:
    """Return the results of an operation on the whole that have the batch where an operand has.

    What reads them is in parts again.
    """
    found = {}
    for value in operation.results:
        for operand in operation.operands:
            axis = axis_of.get(operand)
            if axis is not None and value.shape[: axis + 1] == operand.shape[: axis + 1]:
                found[value] = axis
                break
    return found


class _Serial(IrBuilder):
    """Adds operations on parts, on the whole where they need it, and what is between the two.

    Parameters
    ----------
    model
        What is to be computed in parts.
    wanted
        In how many, and where they are joined.
    anchors
        Names of values whose gradients are outputs: they are joined, so that they have one.
    """

    def __init__(self, model: Model, wanted: BatchParts, anchors: frozenset[str]) -> None:
        super().__init__(model.name)
        self._wanted, self._anchors = wanted, anchors
        self._found = _Found.of(model, wanted.n_parts)
        self._made_by = {value: op for op in model.operations for value in op.results}
        #: Values of the model as they are here: whole, and in parts.
        self._whole: dict[Value, Value] = {}
        self._parts: dict[Value, list[Value]] = defaultdict(list)
        #: Parts of values that are whole, in the stretch that is added now: by axis and number.
        self._cut: dict[tuple[Value, int, int], Value] = {}
        #: The model's own operation that one is added for now.
        self._origin: Operation | None = None

    def serialised(self, model: Model) -> Model:
        """Return the model in parts."""
        self.inputs = list(model.inputs)
        for stretch in self._stretches(model.operations):
            if stretch.is_whole:
                self._add_whole(stretch.operations[0])
            else:
                self._add_in_parts(stretch)
        outputs = tuple((name, self._as_whole(value)) for name, value in model.outputs)
        updates = tuple(
            replace(update, value=self._as_whole(update.value)) for update in model.updates
        )
        return replace(model, operations=tuple(self.operations), outputs=outputs, updates=updates)

    def _stretches(self, operations: Sequence[Operation]) -> Iterator[_Stretch]:
        """Yield all operations in stretches, each as long as what is computed before it allows."""
        pending = deque(operations)
        while pending:
            if pending[0] not in self._found.parts:
                yield _Stretch([pending.popleft()], UNPLACED, is_whole=True)
                continue
            stretch = self._stretch(pending)
            yield stretch
            taken = set(stretch.operations)
            pending = deque(operation for operation in pending if operation not in taken)

    def _stretch(self, pending: Iterable[Operation]) -> _Stretch:
        """Return the stretch that begins with the first of the operations that are left."""
        in_parts = self._found.parts
        missing = {value for operation in pending for value in operation.results}
        placement, own, chosen = UNPLACED, set[Value](), []
        for operation in pending:
            is_here = not operation.placement.is_stated or not placement.is_stated
            if not is_here and operation.placement != placement:
                continue
            read = set(read_from_outside(operation))
            if not missing.isdisjoint(read):
                continue
            is_in_parts = operation in in_parts
            if not is_in_parts and not own.isdisjoint(read):
                continue  # it reads what this stretch computes in parts
            chosen.append(operation)
            missing.difference_update(v for v in operation.results if v.name not in self._anchors)
            if is_in_parts:
                own.update(operation.results)
                placement = operation.placement if operation.placement.is_stated else placement
        return _Stretch(self._needed(chosen), placement)

    def _needed(self, chosen: Sequence[Operation]) -> list[Operation]:
        """Return the operations in parts, and of the others those that they read from."""
        needed, kept = set[Value](), []
        for operation in reversed(chosen):
            if operation in self._found.parts or not needed.isdisjoint(operation.results):
                kept.append(operation)
                needed.update(read_from_outside(operation))
        return kept[::-1]

    def _add_whole(self, operation: Operation) -> None:
        """Add an operation on whole operands."""
        for value in read_from_outside(operation):
            self._as_whole(value)
        self.copy([operation], self._whole)

    def _add_in_parts(self, stretch: _Stretch) -> None:
        """Add the operations of a stretch: those of a part before those of the next one."""
        self._cut.clear()
        borders = self._joined_before(stretch)
        for number in range(self._wanted.n_parts):
            for operation in stretch.operations:
                if operation in self._found.parts:
                    self._add_part(operation, number, stretch, borders)
                elif number == 0:
                    self._add_whole(operation)
        for operation in stretch.operations:
            for value in operation.results:
                if value.name in self._anchors and operation in self._found.parts:
                    self._as_whole(value)
                    del self._parts[value]  # what reads it takes parts of the whole

    def _joined_before(self, stretch: _Stretch) -> set[Value]:
        """Join the values from other places that are to arrive whole, and return them."""
        joined = set()
        for operation in stretch.operations:
            for value in operation.operands:
                maker = self._made_by.get(value)
                if maker is None or value not in self._parts:
                    continue
                if self._wanted.joins(maker.placement, operation.placement):
                    self._as_whole(value)
                    joined.add(value)
        return joined

    def _add_part(
        self, operation: Operation, number: int, stretch: _Stretch, borders: set[Value]
    ) -> None:
        """Add an operation on one of the parts."""
        found, n_parts = self._found.parts[operation], self._wanted.n_parts
        inputs: list[Value | None] = []
        for i, value in enumerate(operation.inputs):
            axis = found.cut.get(i, None if value is None else self._found.axis_of.get(value))
            if i in found.known:
                inputs.append(self.constant(found.known[i], operation.name))
            elif value is None or axis is None:
                inputs.append(None if value is None else self._as_whole(value))
            elif value in self._parts and value not in borders:
                inputs.append(self._parts[value][number])
            else:
                inputs.append(self._cut_here(operation, value, axis, number, stretch))
        fields = {name: getattr(operation, name) for name in Node.__dataclass_fields__}
        changed = {
            "inputs": tuple(inputs),
            "attributes": {**operation.attributes, **found.attributes},
            "origin": operation.origin or operation,
            "is_of_part": True,
        }
        names = [value.name + _PART if value else "" for value in operation.outputs]
        results = self.add(Node(**fields | changed), names)
        for value, result, axis in zip(operation.outputs, results, found.axes, strict=False):
            if value is None or result is None:
                continue
            expected = divided(value.shape, axis, n_parts)
            assert result.shape == expected, f"{operation} in parts: {result.shape}, {expected}"
            self._parts[value].append(result)

    def _cut_here(
        self, operation: Operation, value: Value, axis: int, number: int, stretch: _Stretch
    ) -> Value:
        """Return a part of a value that is whole, where the stretch is."""
        key = value, axis, number
        if key not in self._cut:
            whole = self._as_whole(value)
            with self._emitting(operation, value.name + _PART, stretch.placement) as expansion:
                n_parts = self._wanted.n_parts
                self._cut[key] = cut_one(expansion, whole, axis, n_parts, number)
        return self._cut[key]

    def _as_whole(self, value: Value) -> Value:
        """Return a value as it is here, with its parts joined."""
        if value in self._whole or value not in self._parts:
            return self._whole.get(value, value)
        maker, parts = self._made_by[value], self._parts[value]
        axis = self._found.axis_of[value]
        with self._emitting(maker, value.name, maker.placement) as expansion:
            self._whole[value] = expansion.emit(CONCAT, *parts, axis=axis, **{IS_PART: True})
        return self._whole[value]

    @contextmanager
    def _emitting(
        self, operation: Operation, output: str, placement: Placement
    ) -> Iterator[Expansion]:
        """Add meanwhile what brings a value to an operation, or from it."""
        outside = self.placement, self._origin
        self.placement, self._origin = placement, operation.origin or operation
        yield Expansion(self, operation, output)
        self.placement, self._origin = outside

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        return super().add(replace(node, origin=node.origin or self._origin), outputs)


@dataclass(frozen=True)
class _Stretch:
    """Operations that run together: on one part after another, or one on the whole.

    Parameters
    ----------
    operations
        In their order. Those on the whole that others read run with the first part.
    placement
        Where they run.
    is_whole
        Whether it is one operation on the whole.
    """

    operations: Sequence[Operation]
    placement: Placement
    is_whole: bool = False
