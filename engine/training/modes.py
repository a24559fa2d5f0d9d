"""What behaves otherwise in training: dropout, and normalisations by the statistics of a batch."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import (
    Expansion,
    IrBuilder,
    Model,
    Node,
    Operation,
    Parameter,
    Purpose,
    Region,
    State,
    TrainingPass,
    Update,
    Value,
    walk,
)
from tilescope.engine.operators.collectives import REPLICA_INDEX
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.dropout import DROPOUT
from tilescope.engine.operators.elementwise.elementwise import BINARY, binary
from tilescope.engine.operators.identity import BOOL_MASKS
from tilescope.engine.operators.norm.normalisation import trains_batch
from tilescope.engine.operators.quantisation import aligned
from tilescope.engine.operators.random_numbers import DRAW, draw_attributes
from tilescope.engine.operators.straight_through import STRAIGHT_THROUGH

__all__ = ["SEED", "drawing", "in_training_mode"]

#: Name of the seed that dropout draws from; every micro-batch has another one.
SEED = "seed"

#: The opset from which an input says whether a dropout trains; before, all do.
_TRAINING_MODE = 12

#: Between the seeds of the rounds of a loop: odd, so that none repeats.
_ROUND_STEP = 0x3C6EF373

#: Between the seeds of replicas, in the word that rounds leave as it is: odd, likewise.
_REPLICA_STEP = 0x1B873593


def drawing(model: Model, seed: int, n_replicas: int = 1) -> Model:
    """Return a model whose random operators draw other numbers in every run; the rest stays.

    Parameters
    ----------
    model
        As a front end loads it.
    seed
        What the first run draws from.
    n_replicas
        Replicas, each of which draws other numbers.
    """
    if not any(operation.operator.draws for operation in walk(model.operations)):
        return model
    return _TrainingModes(model.name, seed, n_replicas, trains=False).rebuilt(model)


def in_training_mode(model: Model, seed: int, n_replicas: int = 1) -> Model:
    """Return a model that draws, and whose batch normalisations keep running statistics.

    Dropouts and random operators draw other numbers in every micro-batch.

    Parameters
    ----------
    model
        As a front end loads it.
    seed
        What the numbers of the first micro-batch are drawn from.
    n_replicas
        Replicas, each of which draws other numbers.
    """
    return _TrainingModes(model.name, seed, n_replicas, trains=True).rebuilt(model)


class _TrainingModes(IrBuilder):
    """Copies a model.

    Parameters
    ----------
    name
        Of the model.
    seed
        What the first micro-batch draws from.
    n_replicas
        Replicas, each of which draws other numbers.
    trains
        Whether it is trained; else only random operators change.

    Attributes
    ----------
    updates
        Of the running statistics and of the seed.
    loop
        Whether the operation that is being added is a loop.
    """

    def __init__(self, name: str, seed: int, n_replicas: int, *, trains: bool) -> None:
        super().__init__(name)
        self.trains, self._n_replicas = trains, n_replicas
        self._own_seed: Value | None = None
        words = np.array([seed], np.int64).view(np.int32)
        self.seed = State(SEED, (2,), "int32", words, purpose=Purpose.WEIGHT)
        self.updates: list[Update] = []
        self._n_draws: Counter[str] = Counter()
        self.loop = False
        self._quantised: dict[Value, Node] = {}

    def rebuilt(self, model: Model) -> Model:
        """Return the model in training mode, with the updates."""
        copied = super().rebuilt(model)
        if self._n_draws:
            self._advance_seed()
        return replace(
            copied,
            operations=tuple(self.operations),
            updates=(*copied.updates, *self.updates),
        )

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        """Add operations on other values; in their regions, dropouts draw, and the rest stays."""
        _copy(self, operations, values)

    def copied(self, region: Region, values: Mapping[Value, Value]) -> Region:
        """Return a region on other values."""
        return _Region(region, self, self, self.loop).copied_region(region, values)

    def seed_for(self, node: Node) -> Value:
        """Return what an operation draws from: on every replica, something else."""
        if self._n_replicas == 1:
            return self.seed
        if self._own_seed is None:
            expansion = Expansion(self, node, f"{SEED}/replica")
            index = expansion.emit(REPLICA_INDEX)
            step = expansion.constant(np.array([0, _REPLICA_STEP], np.int32), "step")
            moved = binary(expansion, "multiply", step, index)
            self._own_seed = binary(expansion, "add", self.seed, moved)
        return self._own_seed

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add an operation, or what it is in training."""
        if node.operator.draws:
            return self.drawn(self, node, outputs)
        if node.operator.key == "ai.graphcore.Call":
            return _called(self, node, outputs)
        if not self.trains:
            return super().add(node, outputs)
        if node.operator.key == "QuantizeLinear":
            results = super().add(node, outputs)
            self._quantised.update((v, node) for v in results[:1] if v is not None)
            return results
        if node.operator.key == "DequantizeLinear" and node.operand(0) in self._quantised:
            return self._straight(node, outputs)
        if node.operator.name in ("Dropout", "ShapedDropout") and _draws(node):
            return self._dropout(node, outputs)
        if node.operator.name == "BatchNormalization" and trains_batch(node):
            return self._batch_norm(node, outputs)
        return super().add(node, outputs)

    def _straight(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add what is quantised and widened again, with the gradient of what it was."""
        (widened,) = super().add(node, outputs)
        x, scale = self._quantised[node.operand(0)].operand(0), node.operand(1)
        assert widened is not None
        if x.shape != widened.shape or x.dtype != widened.dtype:
            return (widened,)
        expansion = Expansion(self, node, widened.name)
        step = aligned(node, expansion, scale)
        assert step is not None
        return (expansion.emit(STRAIGHT_THROUGH, widened, x, step),)

    def _dropout(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        return self.dropped(self, node, outputs)

    def dropped(
        self, builder: _TrainingModes | _Region, node: Node, outputs: Sequence[str]
    ) -> tuple[Value | None, ...]:
        """Add a dropout that draws to a builder: this one, or that of a region.

        Parameters
        ----------
        builder
            Where it goes.
        node
            The dropout.
        outputs
            Names of its results.

        Raises
        ------
        BadModel
            When its ratio is out of range.
        """
        x, ratio = node.operand(0), _ratio(node)
        if not 0 <= ratio < 1:
            raise BadModel(f"{node}: its ratio is {ratio}: expected at least 0, and less than 1")
        if not ratio:
            return IrBuilder.add(builder, node, outputs)
        label, modifier = next(filter(None, outputs), node.name), self._modifier(node)
        seed, expansion = builder.seed_for(node), Expansion(builder, node, label)

        def drop(value: Value) -> Value:
            return expansion.emit(DROPOUT, value, seed, ratio=ratio, modifier=modifier)

        def ones(shape: Sequence[int]) -> Value:
            return expansion.constant(np.ones(shape, x.dtype), "ones")

        shape = node.attributes.get("shape")  # of a mask that several elements share
        out = drop(x) if shape is None else binary(expansion, "multiply", x, drop(ones(shape)))
        results: list[Value | None] = [out if outputs[0] else None, *(None for _ in outputs[1:])]
        if any(outputs[1:]):
            kept = drop(ones(x.shape))
            dtype = x.dtype if node.version < BOOL_MASKS else "bool"
            zero = expansion.constant(np.zeros((), x.dtype), "zero")
            mask = binary(expansion, "not_equal", kept, zero)
            results[1] = mask if dtype == "bool" else expansion.emit(CAST, mask, dtype=dtype)
        return tuple(results)

    def drawn(
        self, builder: _TrainingModes | _Region, node: Node, outputs: Sequence[str]
    ) -> tuple[Value | None, ...]:
        """Add random numbers to a builder: this one, or that of a region.

        Parameters
        ----------
        builder
            Where they go.
        node
            A random operator.
        outputs
            Name of its result.
        """
        label = next(filter(None, outputs), node.name)
        expansion = Expansion(builder, node, label)
        if node.operator.decompose is not None:  # which emits what draws
            results = node.operator.decompose(node, expansion)
            return results if isinstance(results, tuple) else (results,)
        seed = builder.seed_for(node)
        attributes = draw_attributes(node, self._modifier(node))
        return (expansion.emit(DRAW, seed, *node.operands, **attributes),)

    def _modifier(self, node: Node) -> int:
        """Return what makes the draws of a node its own; every call of a subgraph has others."""
        n = self._n_draws[node.name]
        self._n_draws[node.name] += 1
        return zlib.crc32((f"{node.name}/{n}" if n else node.name).encode())

    def _batch_norm(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add a normalisation whose running statistics are states, if they are initializers."""
        states: list[Any] = []
        for index in (3, 4):
            value = node.operand(index)
            if value.known is None and not isinstance(value, Parameter):
                return super().add(node, outputs)  # the model keeps them itself
            array = value.array if isinstance(value, Parameter) else np.asarray(value.known)
            kept = State(value.name, value.shape, value.dtype, array, purpose=Purpose.WEIGHT)
            states.append(kept)
        names = [*outputs, "", ""][: max(3, len(outputs))]
        names = [name or state.name for name, state in zip(names[1:3], states, strict=True)]
        held = replace(node, inputs=(*node.inputs[:3], *states), n_outputs=max(3, node.n_outputs))
        results = super().add(held, [outputs[0], *names, *outputs[3:]])
        for state, running in zip(states, results[1:3], strict=True):
            assert running is not None
            self.updates.append(Update(state, running))
        return tuple(value if name else None for value, name in zip(results, outputs, strict=False))

    def _advance_seed(self) -> None:
        one = self.constant(np.array([0, 1], np.int32), "one")
        following = self.emit(BINARY, [self.seed, one], name=SEED, source="Seed", function="add")
        if self.trains:
            last = self.operations[-1]
            self.operations[-1] = replace(last, training_pass=TrainingPass.UPDATE)
        self.updates.append(Update(self.seed, following))


class _Region(IrBuilder):
    """Copies a region of a model.

    Parameters
    ----------
    region
        The region.
    whole
        Builder of the whole model, which has the seed.
    outside
        Builder of what the region stands in.
    loop
        Whether it is the body of a loop, whose first input counts the rounds.
    """

    def __init__(
        self, region: Region, whole: _TrainingModes, outside: _TrainingModes | _Region, loop: bool
    ) -> None:
        super().__init__(region.name)
        self._whole, self._outside, self.loop = whole, outside, False
        self._round = region.inputs[0] if loop else None
        self._seed: Value | None = None

    def copied_region(self, region: Region, values: Mapping[Value, Value]) -> Region:
        """Return the region on other values."""
        here = dict(values)
        self.copy(region.operations, here)
        return self.region(region.inputs, tuple(here.get(value, value) for value in region.outputs))

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        """Add operations on other values."""
        _copy(self, operations, values)

    def copied(self, region: Region, values: Mapping[Value, Value]) -> Region:
        """Return a region within on other values."""
        return _Region(region, self._whole, self, self.loop).copied_region(region, values)

    def seed_for(self, node: Node) -> Value:
        """Return what an operation draws from: in a loop, something else in every round."""
        if self._seed is None:
            self._seed = self._outside.seed_for(node)
            if self._round is not None:
                expansion = Expansion(self, node, f"{node.name}/seed")
                count = expansion.emit(CAST, self._round, dtype="int32")
                step = expansion.constant(np.array([_ROUND_STEP, 0], np.int32), "step")
                moved = binary(expansion, "multiply", step, count)
                self._seed = binary(expansion, "add", self._seed, moved)
        return self._seed

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        """Add an operation, or what it is in training."""
        if node.operator.draws:
            return self._whole.drawn(self, node, outputs)
        is_dropout = node.operator.name in ("Dropout", "ShapedDropout")
        if self._whole.trains and is_dropout and _draws(node):
            return self._whole.dropped(self, node, outputs)
        if node.operator.key == "ai.graphcore.Call":
            return _called(self, node, outputs)
        return super().add(node, outputs)


def _copy(
    builder: _TrainingModes | _Region, operations: Sequence[Operation], values: dict[Value, Value]
) -> None:
    """Add operations one by one, so that their regions know whether they are bodies of a loop."""
    for operation in operations:
        builder.loop = operation.operator.name == "Loop"
        IrBuilder.copy(builder, [operation], values)


def _called(builder: IrBuilder, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
    """Add the operations of a subgraph in place of its call, each call with draws of its own."""
    decompose = node.operator.decompose
    assert decompose is not None, "a call stands for the operations of its subgraph"
    results = decompose(node, Expansion(builder, node, next(filter(None, outputs), node.name)))
    return results if isinstance(results, tuple) else (results,)


def _draws(node: Node) -> bool:
    if node.version < _TRAINING_MODE:
        return not node.attributes.get("is_test", 0)
    return node.optional(2) is not None and bool(node.known(2, "the training mode").any())


def _ratio(node: Node) -> float:
    if node.version < _TRAINING_MODE:
        return float(node.attributes.get("ratio", 0.5))
    return float(node.known(1, "the ratio")) if node.optional(1) is not None else 0.5
