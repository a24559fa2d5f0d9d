"""Recomputation: forward operations run again where the backward pass reads their results.

What is computed again need not stay in memory until then. Copies of operations stand in front of
their first reader in the backward pass, and compute the same bits from what was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isqrt, prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import (
    RECOMPUTATIONS,
    IrBuilder,
    Model,
    Operation,
    Recomputation,
    TrainingPass,
    Value,
    walk,
)
from tilescope.engine.operators.recurrent.training import LAYER, RECOMPUTES

__all__ = ["recompute"]

#: Operators of normalisations, and of the non-linearities that may follow them, in training.
_NORMS = frozenset({"norm"})
_AFTER_NORMS = frozenset({"non_linearity", "unary"})


def recompute(model: Model) -> Model:
    """Return the model with forward operations computed again, as `Model.recomputation` says.

    Where it says that none are, they are marked with the kinds that would compute them again.

    Raises
    ------
    BadModel
        When stages are to be computed again, and the model is not a pipeline.

    Notes
    -----
    Kinds are those of PopART, whose explicit form this is; ``standard`` chooses places as it does,
    by what is alive. Recurrent layers are not copied: ``standard`` and ``all`` mark them, and they
    keep their states every few steps. Source: graphcore/popart, willow/src/recompute.cpp.
    """
    wanted = model.recomputation
    if wanted is None:
        return model
    if wanted.kind == "pipeline" and not model.is_pipelined:
        raise BadModel(
            f"Recomputation 'pipeline' is of the stages of a pipeline, and {model.name!r} has none:"
            " split it into stages, or choose another one"
        )
    model = replace(model, recomputation=None)
    model = _with_layers(model, wanted)
    forward = [op for op in model.operations if op.training_pass == TrainingPass.FORWARD]
    if wanted == Recomputation():
        return replace(model, operations=_marked(model, forward))
    again = _again(model, forward, wanted)
    if not again:
        return model
    return _Copies(model.name, forward, again, is_pipelined=model.is_pipelined).of(model)


def _marked(model: Model, forward: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return the operations; forward ones know which kinds would compute them again."""
    kinds: dict[Operation, list[str]] = {}
    for kind in RECOMPUTATIONS:
        for operation in _done_again(model, forward, _again(model, forward, Recomputation(kind))):
            kinds.setdefault(operation, []).append(kind)
    return tuple(
        replace(operation, recomputed_by=tuple(kinds[operation]))
        if operation in kinds
        else operation
        for operation in model.operations
    )


def _again(model: Model, forward: Sequence[Operation], wanted: Recomputation) -> set[Value]:
    """Return the results of forward operations that need not stay."""
    last_stage = _last_stage(forward) if model.is_pipelined else None
    chosen = _chosen(wanted, forward, last_stage)
    again = {value for operation in chosen for value in operation.results}
    return again - {value for _, value in model.outputs} - {up.value for up in model.updates}


def _done_again(
    model: Model, forward: Sequence[Operation], again: set[Value]
) -> dict[Operation, None]:
    """Return the forward operations whose results the backward pass needs and does not have."""
    made_by = {value: op for op in forward for value in op.results if value in again}
    done: dict[Operation, None] = {}
    pending = [
        (operation, value)
        for operation in model.operations
        if operation.training_pass != TrainingPass.FORWARD
        for value in _read_by(operation)
    ]
    while pending:
        reader, value = pending.pop()
        maker = made_by.get(value)
        if maker is None or maker in done or (model.is_pipelined and _is_apart(reader, maker)):
            continue
        done[maker] = None
        pending += [(maker, value) for value in _read_by(maker)]
    return done


def _is_apart(reader: Operation, maker: Operation) -> bool:
    """Return whether an operation is of another stage than what it reads: it keeps that."""
    stage = reader.placement.stage
    return stage is not None and stage != maker.placement.stage


def _last_stage(forward: Sequence[Operation]) -> int:
    return max((op.placement.stage or 0 for op in forward), default=0)


def _chosen(
    wanted: Recomputation, forward: Sequence[Operation], last_stage: int | None
) -> Iterator[Operation]:
    """Yield the operations that are computed again; None is the last stage without a pipeline."""
    kept = _alive_at_checkpoints(forward) if wanted.kind == "standard" else set()
    last = _last_checkpoint(forward)
    normal = {v for op in forward if op.operator.key in _NORMS for v in op.results}
    for i, operation in enumerate(forward):
        if operation.operator is LAYER or wanted.keeps(_name_of(operation)):
            continue
        is_of_kind = {
            "none": False,
            "all": True,
            "pipeline": last_stage is not None and operation.placement.stage != last_stage,
            "standard": i <= last and kept.isdisjoint(operation.results),
            "norm": operation.operator.key in _NORMS
            or (
                operation.operator.key in _AFTER_NORMS and not normal.isdisjoint(operation.operands)
            ),
        }[wanted.kind]
        if is_of_kind or wanted.repeats(_name_of(operation)):
            yield operation


def _name_of(operation: Operation) -> str:
    """Return the name of the model's node."""
    return (operation.origin or operation).name


def _with_layers(model: Model, wanted: Recomputation) -> Model:
    """Return the model with marks on recurrent layers, which compute their own steps again."""
    is_of_kind = wanted.kind in ("standard", "all")

    def marked(operation: Operation) -> Operation:
        if operation.operator is not LAYER:
            return operation
        is_again = is_of_kind or wanted.repeats(_name_of(operation))
        is_kept = wanted.keeps(_name_of(operation))
        if not is_again and not is_kept:
            return operation
        mark = {RECOMPUTES: is_again and not is_kept}
        return replace(operation, attributes={**operation.attributes, **mark})

    operations = tuple(map(marked, model.operations))
    return replace(model, operations=operations)


def _places(forward: Sequence[Operation]) -> list[int]:
    """Return the operations after which least is alive, one in each of about √n stretches of n."""
    n_bytes = _alive_bytes(forward)
    n_stretches = max(1, isqrt(len(forward)))
    edges = np.linspace(0, len(forward), n_stretches + 1).astype(int)
    # Nothing is alive after the last one.
    return [
        int(first + np.argmin(n_bytes[first:end]))
        for first, end in pairwise(edges)
        if end > first and end < len(forward)
    ]


def _last_checkpoint(forward: Sequence[Operation]) -> int:
    """Return the last place; what follows it is read at once by the backward pass, and stays."""
    places = _places(forward)
    return places[-1] if places else -1


def _alive_at_checkpoints(forward: Sequence[Operation]) -> set[Value]:
    """Return the results that later forward operations read beyond a place."""
    last_read, kept = _last_reads(forward), set()
    made: list[Value] = []
    places = set(_places(forward))
    for i, operation in enumerate(forward):
        made += operation.results
        if i in places:
            kept |= {value for value in made if last_read.get(value, -1) > i}
    return kept


def _last_reads(forward: Sequence[Operation]) -> dict[Value, int]:
    """Return the last forward operation that reads a value, by value."""
    return {value: i for i, operation in enumerate(forward) for value in _read_by(operation)}


def _alive_bytes(forward: Sequence[Operation]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the bytes of results that later forward operations read, after every operation."""
    last_read = _last_reads(forward)
    change = np.zeros(len(forward) + 1, np.int64)
    for i, operation in enumerate(forward):
        for value in operation.results:
            end = last_read.get(value, i)
            size = prod(value.shape) * np.dtype(value.dtype).itemsize
            change[i] += size
            change[end] -= size
    return np.cumsum(change[:-1])


def _read_by(operation: Operation) -> list[Value]:
    """Return what an operation reads, in its regions too."""
    read = [value for inner in walk((operation,)) for value in inner.operands]
    return read + [value for region in operation.regions.values() for value in region.outputs]


class _Copies(IrBuilder):
    """Adds operations, and copies of forward ones before what reads them in the backward pass.

    Parameters
    ----------
    name
        Of the model.
    forward
        The forward operations.
    again
        Results of them that are computed again.
    is_pipelined
        Whether what another stage computes stays.
    """

    def __init__(
        self, name: str, forward: Sequence[Operation], again: set[Value], *, is_pipelined: bool
    ) -> None:
        super().__init__(name)
        self._is_pipelined = is_pipelined
        self._made_by = {value: op for op in forward for value in op.results if value in again}
        self._values: dict[Value, Value] = {}

    def of(self, model: Model) -> Model:
        """Return the model with the copies."""
        made: set[Value] = set()
        for operation in model.operations:
            if operation.training_pass == TrainingPass.FORWARD:
                self.operations.append(operation)
                continue
            for value in self._missing(operation):
                self._compute(value)
            self._copy(operation)
            made.update(operation.results)
        here = {old: new for old, new in self._values.items() if old in made}
        return replace(
            model,
            operations=tuple(self.operations),
            outputs=tuple((name, here.get(value, value)) for name, value in model.outputs),
            updates=tuple(
                replace(update, value=here.get(update.value, update.value))
                for update in model.updates
            ),
        )

    def _missing(self, reader: Operation) -> list[Value]:
        """Return what an operation reads and is to be computed again, and is not yet."""
        return [
            value
            for value in _read_by(reader)
            if value in self._made_by
            and value not in self._values
            and not self._is_kept_for(reader, value)
        ]

    def _is_kept_for(self, reader: Operation, value: Value) -> bool:
        """Return whether an operation reads a value that stays, though other stages compute it."""
        maker = self._made_by.get(value)
        return self._is_pipelined and maker is not None and _is_apart(reader, maker)

    def _copy(self, operation: Operation) -> None:
        """Add an operation on what is computed again for it."""
        kept = [value for value in _read_by(operation) if self._is_kept_for(operation, value)]
        hidden = {value: self._values.pop(value) for value in kept if value in self._values}
        self.copy([operation], self._values)
        self._values |= hidden

    def _compute(self, value: Value) -> None:
        """Add copies of the operations that a value comes from, unless they are there."""
        pending = [value]
        while pending:
            operation = self._made_by.get(pending[-1])
            if operation is None or pending[-1] in self._values:
                pending.pop()
                continue
            missing = self._missing(operation)
            if missing:
                pending += missing
                continue
            self._copy(operation)
            self.operations[-1] = replace(
                self.operations[-1], training_pass=TrainingPass.RECOMPUTATION
            )
            pending.pop()
