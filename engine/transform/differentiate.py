"""The backward pass: gradients of the parameters, and what they change.

Reverse mode: operations are walked from the last to the first, and the rule of each turns the
gradients of its outputs into those of its inputs. A value that several operations read has the sum
of what they give, added up from its last reader to its first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, reduce
from math import prod

import numpy as np

from tilescope.engine.errors import BadModel, UnsupportedOperators
from tilescope.engine.ir import (
    UNPLACED,
    Expansion,
    IrBuilder,
    Model,
    Node,
    Operation,
    Parameter,
    Region,
    Training,
    TrainingPass,
    Update,
    Updater,
    Value,
    walk,
)
from tilescope.engine.operators.control.rounds import ROUNDS
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.dynamic_slicing import joined
from tilescope.engine.operators.movement.layout import BROADCAST, reshape
from tilescope.engine.operators.movement.slicing import UNSLICE
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.transform.as_rounds import LOOPS, as_rounds
from tilescope.engine.transform.decompose import Decomposer, has_own_gradient

__all__ = ["GRADIENT", "differentiate"]

#: Before the name of a value, in that of its gradient.
GRADIENT = "Gradient___"  # Source: graphcore/popart, willow/include/popart/names.hpp

#: How the names and types of backward operations end.
_SUFFIX = {
    TrainingPass.DATA_GRADIENT: "DataGrad",
    TrainingPass.WEIGHT_GRADIENT: "WeightsGrad",
}


def differentiate(model: Model) -> Model:
    """Return the model with its backward pass and the updates of its parameters.

    Raises
    ------
    BadModel
        When the loss is no scalar, depends on no parameter, or does not hold the loss scaling; or
        when both the model and its training state micro-batches.
    UnsupportedOperators
        When an operator between a parameter and the loss has no gradient.
    """
    training = model.training
    if training is None:
        return model
    model = _ForTraining(model.name, _dependent(model, training.anchors)[0]).rebuilt(model)
    model = replace(
        model,
        operations=tuple(
            replace(operation, training_pass=operation.training_pass or TrainingPass.FORWARD)
            for operation in model.operations
        ),
    )
    if model.n_rounds > 1 and training.n_rounds > 1:
        raise BadModel(
            f"{model.name!r} is pipelined with {model.n_rounds} micro-batches and trained with"
            f" {training.n_rounds}: state their number once"
        )
    updater = training.optimiser.updater(training.factor, training.n_replicas, model.locations)
    backward = _Backward(model, training, updater)
    gradients = backward.run()
    updates = [*model.updates]
    outputs = (*model.outputs, *backward.anchored(training.anchors))
    closing = _Emitter(model.name, TrainingPass.UPDATE)
    closing_updates: list[Update] = []
    if training.n_rounds == 1:
        emitter = _Emitter(model.name, TrainingPass.UPDATE)
        updates += updater.updates(emitter, {p: whole for p, (whole,) in gradients.items()})
        backward.builder.operations += emitter.operations
    else:
        updates += backward.accumulated(gradients)
        closing_updates = updater.closing(closing)
    differentiated = replace(
        model,
        outputs=outputs,
        operations=(*model.operations, *backward.builder.operations),
        updates=tuple(updates),
        n_rounds=training.n_rounds * model.n_rounds,
        closing=tuple(closing.operations),
        closing_updates=tuple(closing_updates),
        training=None,
        recomputation=training.recomputation,
        counts_overflows=training.counts_overflows,
    )
    if any(has_own_gradient(operation.operator) for operation in walk(differentiated.operations)):
        return _Late(model.name).rebuilt(differentiated)
    return differentiated


class _Late(Decomposer):
    """Decomposes what was whole for its gradient, in the pass of the operation."""

    def __init__(self, name: str) -> None:
        super().__init__(name, frozenset())
        self._pass: TrainingPass | None = None

    def inside(self, name: str) -> IrBuilder:
        return _Late(name)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in operations:
            self._pass = operation.training_pass
            super().copy([operation], values)

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        marked = replace(node, training_pass=node.training_pass or self._pass)
        return super().add(marked, outputs)


class _ForTraining(Decomposer):
    """Replaces operations on the way to a loss by those of a form that has what gradients need.

    Parameters
    ----------
    name
        Of the model or of a region.
    active
        Values that depend on trained parameters; None in a region, where all may do.
    """

    def __init__(self, name: str, active: set[Value] | None) -> None:
        super().__init__(name, frozenset())
        self._active = active

    def inside(self, name: str) -> IrBuilder:
        return _ForTraining(name, None)

    def _is_active(self, node: Node) -> bool:
        return self._active is None or not self._active.isdisjoint(_read_by(node))

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        if node.operator.key in LOOPS and self._is_active(node):
            return as_rounds(self, node, outputs)
        return super().add(node, outputs)

    def copy(self, operations: Sequence[Operation], values: dict[Value, Value]) -> None:
        for operation in operations:
            super().copy([operation], values)
            if self._active is None:
                continue
            copies = [values[v] for v in operation.results if v in self._active and v in values]
            self._active.update(copies)

    def decomposed(self, node: Node, expansion: Expansion) -> tuple[Value, ...]:
        if not self._is_active(node):
            return super().decomposed(node, expansion)
        emit = node.operator.decompose_for_training
        if emit is None:
            return super().decomposed(node, expansion) if node.operator.gradient is None else ()
        results = emit(node, expansion)
        return results if isinstance(results, tuple) else (results,)


class _Emitter(Decomposer):
    """Emits operations of one pass, in the name of an operation of the forward pass."""

    def __init__(self, name: str, training_pass: TrainingPass | None = None) -> None:
        super().__init__(name, frozenset())
        self.training_pass = training_pass
        self.forward: Operation | None = None

    def decomposed(self, node: Node, expansion: Expansion) -> tuple[Value, ...]:
        return () if has_own_gradient(node.operator) else super().decomposed(node, expansion)

    def add(self, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
        origin = self.forward and (self.forward.origin or self.forward)
        self.placement = UNPLACED if self.forward is None else self.forward.placement
        is_of_part = self.forward is not None and self.forward.is_of_part
        marked = replace(
            node, origin=origin, training_pass=self.training_pass, is_of_part=is_of_part
        )
        return super().add(marked, outputs)


class _Walk:
    """Walks operations from the last to the first, and emits the gradients of what they read.

    Parameters
    ----------
    builder
        Takes the gradients.
    operations
        What is walked.
    active
        Values that depend on trained parameters.
    of_data
        Values that depend on data.

    Attributes
    ----------
    _omitted
        Values with a gradient that no rule computes.
    """

    def __init__(
        self,
        builder: _Emitter,
        operations: Sequence[Operation],
        active: set[Value],
        of_data: set[Value],
    ) -> None:
        self.builder, self.operations = builder, operations
        self._active, self._of_data = active, of_data
        self._gradients: dict[Value, Value] = {}
        self._omitted: set[Value] = set()

    def walk(self) -> None:
        """Emit the gradients.

        Raises
        ------
        UnsupportedOperators
            When an operator on the way has no gradient.
        """
        for operation in reversed(self.operations):
            gradients = [self._gradients.get(v) if v else None for v in operation.outputs]
            is_active = not self._active.isdisjoint(_read_by(operation))
            if is_active and any(gradient is not None for gradient in gradients):
                self._step(operation, gradients)
            if not self._omitted.isdisjoint(operation.results):
                self._omitted.update(_read_by(operation))

    def _step(self, operation: Operation, gradients: Sequence[Value | None]) -> None:
        """Emit the gradients of the inputs of an operation, and of what its regions read."""
        if operation.regions:
            self._region_step(operation, gradients)
            return
        rule = operation.operator.gradient
        if rule is None:
            raise UnsupportedOperators(self._without_rule(operation))
        first = len(self.builder.operations)
        self.builder.forward = operation
        output = GRADIENT + operation.operands[0].name
        expansion = Expansion(self.builder, operation, output)
        given = rule(operation, expansion, gradients)
        roots: dict[TrainingPass, list[Value]] = {kind: [] for kind in _SUFFIX}
        for value, gradient in zip(operation.inputs, given, strict=False):
            if value is None or value not in self._active:
                continue
            if gradient is None:
                if not operation.operator.omits_zeros:
                    self._omitted.add(value)
                continue
            expansion.output = GRADIENT + value.name
            total = self._added(expansion, value, _summed(expansion, gradient, value))
            self._gradients[value] = total
            kind = TrainingPass.DATA_GRADIENT
            if value not in self._of_data:
                kind = TrainingPass.WEIGHT_GRADIENT
            roots[kind].append(total)
        self._mark(first, operation, roots)

    def _region_step(self, operation: Operation, gradients: Sequence[Value | None]) -> None:
        """Emit the gradients of an operation with regions, which run again for that.

        Raises
        ------
        UnsupportedOperators
            When the operator has none.
        """
        key = operation.operator.key
        if key not in ("If", ROUNDS.key):
            raise UnsupportedOperators(self._without_rule(operation))
        first = len(self.builder.operations)
        self.builder.forward = operation
        expansion = Expansion(self.builder, operation, GRADIENT + operation.name)
        read = [v for v in dict.fromkeys(_read_by(operation)) if v in self._active]
        if key == "If":
            found = self._of_branches(operation, read, gradients)
        else:
            found = self._of_rounds(operation, read, gradients)
        roots: dict[TrainingPass, list[Value]] = {kind: [] for kind in _SUFFIX}
        for value, gradient in found.items():
            expansion.output = GRADIENT + value.name
            total = self._added(expansion, value, gradient)
            self._gradients[value] = total
            is_data = value in self._of_data
            kind = TrainingPass.DATA_GRADIENT if is_data else TrainingPass.WEIGHT_GRADIENT
            roots[kind].append(total)
        self._mark(first, operation, roots)

    def _of_branches(
        self, operation: Operation, read: Sequence[Value], gradients: Sequence[Value | None]
    ) -> dict[Value, Value]:
        """Emit a decision between the gradients of both branches."""
        if len(operation.outputs) > len(operation.regions["then_branch"].outputs):
            raise BadModel(
                f"{operation} lies between a parameter and the loss, and its branches return"
                " different shapes: keep the parameters before it from being trained"
            )
        regions = {}
        for key, branch in operation.regions.items():
            inside = _Emitter(key, TrainingPass.DATA_GRADIENT)
            inside.forward = operation
            walk = _RegionWalk(inside, branch, {}, set(read), self._of_data)
            walk.begin(branch.outputs, gradients)
            outputs = [walk.gradient_of(value) for value in read]
            regions[key] = inside.region((), outputs)
        node = replace(_node_of(operation), regions=regions, n_outputs=len(read))
        results = self.builder.add(node, [GRADIENT + value.name for value in read])
        return {v: result for v, result in zip(read, results, strict=True) if result is not None}

    def _of_rounds(
        self, operation: Operation, read: Sequence[Value], gradients: Sequence[Value | None]
    ) -> dict[Value, Value]:
        """Emit the rounds from the last to the first, each from the states before it."""
        body, n_states = operation.regions["body"], operation.attributes["n_states"]
        n_results = len(body.outputs) - 2 * n_states
        given = operation.operands
        active = _active_in(body, n_states, given, set(read))
        carried = [i for i in range(n_states) if body.inputs[i] in active]
        sliced = [j for j in range(n_states, len(given)) if body.inputs[j] in active]
        defined = {*body.inputs, *(v for op in body.operations for v in op.results)}
        outside = [v for v in _read_by(operation) if v in self._active and v not in defined]
        inner = {v for inner in walk(body.operations) for v in inner.operands} | set(body.outputs)
        outside = [v for v in dict.fromkeys(outside) if v in inner]
        inside = _Emitter("body", TrainingPass.DATA_GRADIENT)
        inside.forward = operation
        after = [_like(body.inputs[i], "gradient") for i in carried]
        totals = [_like(value, "total") for value in outside]
        entries = [_like(value, "entry") for value in body.inputs]
        of_results = [
            (k, _like(body.outputs[n_states + k], "gradient"))
            for k in range(n_results)
            if gradients[n_states + k] is not None
        ]
        here = dict(zip(body.inputs, entries, strict=True))
        within = set(outside) | {here[v] for v in body.inputs if v in active}
        walk_ = _RegionWalk(inside, body, here, within, self._of_data)
        walk_.begin([body.outputs[i] for i in carried], after)
        walk_.begin([body.outputs[n_states + k] for k, _ in of_results], [v for _, v in of_results])
        walk_.finish()
        outputs = [walk_.gradient_of(entries[i]) for i in carried]
        outputs += [
            walk_.sum_of(total, value) for total, value in zip(totals, outside, strict=True)
        ]
        outputs += [walk_.gradient_of(entries[j]) for j in sliced]
        stash = [value for value in operation.outputs[n_states + n_results :] if value is not None]
        kept = [gradients[n_states + k] for k, _ in of_results]
        initial = [self._start(body.inputs[i], gradients[i]) for i in carried]
        initial += [self._start(value, None) for value in outside]
        node = replace(
            _node_of(operation),
            inputs=(*initial, *stash, *given[n_states:], *kept),
            attributes={
                "n_states": len(initial),
                "n_rounds": operation.attributes["n_rounds"],
                "is_reversed": not operation.attributes["is_reversed"],
            },
            regions={
                "body": inside.region(
                    [*after, *totals, *entries, *(value for _, value in of_results)], outputs
                )
            },
            n_outputs=len(outputs),
        )
        of = [*(given[i] for i in carried), *outside, *(given[j] for j in sliced)]
        results = self.builder.add(node, [GRADIENT + value.name for value in of])
        found: dict[Value, Value] = {}
        expansion = Expansion(self.builder, operation, GRADIENT + operation.name)
        for value, result in zip(of, results, strict=True):
            if result is None or value not in self._active:
                continue
            before = found.get(value)
            found[value] = result if before is None else binary(expansion, "add", before, result)
        return found

    def _start(self, value: Value, gradient: Value | None) -> Value:
        """Return a gradient in the shape of its value; zeros if there is none."""
        if gradient is None:
            gradient = self.builder.constant(np.zeros((), value.dtype), "zero")
        if gradient.shape == value.shape:
            return gradient
        name = GRADIENT + value.name
        return self.builder.emit(
            BROADCAST, [gradient], name=name, source="Expand", shape=value.shape
        )

    def _added(self, expansion: Expansion, value: Value, gradient: Value) -> Value:
        """Return the sum of the gradients of a value so far, and another one."""
        total = self._gradients.get(value)
        if total is None:
            return gradient
        parts = [self._producer(v) for v in (total, gradient)]
        dynamic = joined(expansion, parts[1], parts[0])
        if dynamic is not None:
            return dynamic
        if all(part is not None and part.operator is UNSLICE for part in parts):
            # Parts of one tensor are written into one variable.
            slices = tuple(s for part in parts if part for s in part.attributes["slices"])
            operands = tuple(v for part in parts if part for v in part.operands)
            return expansion.emit(UNSLICE, *operands, shape=value.shape, slices=slices)
        return binary(expansion, "add", total, gradient)

    def _producer(self, value: Value) -> Operation | None:
        """Return the operation of the backward pass that computes a value, if there is one."""
        for operation in reversed(self.builder.operations):
            if value in operation.results:
                return operation
        return None

    def _mark(
        self, first: int, forward: Operation, roots: Mapping[TrainingPass, Sequence[Value]]
    ) -> None:
        """Give the operations from the first on their pass, and what says so in their names.

        What the gradient of data needs belongs to that.
        """
        needed = set(roots[TrainingPass.DATA_GRADIENT])
        operations = self.builder.operations
        for i in reversed(range(first, len(operations))):
            operation = operations[i]
            kind = TrainingPass.WEIGHT_GRADIENT
            if needed.intersection(operation.results):
                needed.update(operation.operands)
                kind = TrainingPass.DATA_GRADIENT
            operations[i] = replace(
                operation,
                name=f"{forward.name}:{forward.source}{_SUFFIX[kind]}",
                source=f"{forward.source}{_SUFFIX[kind]}",
                training_pass=kind,
            )

    def _whole(self, value: Value) -> Value:
        """Return the gradient of a value in its shape."""
        return self._in_shape(value, self._gradients[value])

    def _in_shape(self, value: Value, gradient: Value) -> Value:
        """Return a gradient in the shape of its value."""
        if gradient.shape == value.shape:
            return gradient
        self.builder.training_pass = TrainingPass.WEIGHT_GRADIENT
        name = GRADIENT + value.name
        return self.builder.emit(
            BROADCAST, [gradient], name=name, source="Expand", shape=value.shape
        )

    def _without_rule(self, operation: Operation) -> str:
        """Return the sentence about an operator without a gradient, with its way to the loss."""
        readers: dict[Value, Operation] = {}
        for other in reversed(self.operations):
            for value in other.operands:
                readers[value] = other
        names, value = [operation.name], operation.output
        while value in readers:
            names.append(readers[value].name)
            value = readers[value].output
        way = " → ".join(dict.fromkeys(names[:_MOST_NAMES])) + (" …" * (len(names) > _MOST_NAMES))
        source = operation.origin or operation
        reason = operation.operator.no_gradient
        return (
            f"{source} lies between a parameter and the loss, and operator"
            f" {operation.operator.key!r} has no gradient{reason and f': {reason}'} (way to the"
            f" loss: {way}); keep the parameters before it from being trained"
        )


class _RegionWalk(_Walk):
    """Runs the operations of a region again, and walks them back.

    Parameters
    ----------
    builder
        Takes the operations, and the gradients.
    region
        What is walked.
    here
        What stands in the builder for values of the region; takes in the results.
    active, of_data
        As of `_Walk`, in the builder's values.
    """

    def __init__(
        self,
        builder: _Emitter,
        region: Region,
        here: dict[Value, Value],
        active: set[Value],
        of_data: set[Value],
    ) -> None:
        builder.copy(region.operations, here)
        operations = tuple(builder.operations)
        for operation in operations:
            active.update(_active_results(operation, active))
        super().__init__(builder, operations, active, of_data)
        self._here = here
        self._is_walked = False

    def begin(self, values: Sequence[Value], gradients: Sequence[Value | None]) -> None:
        """State the gradients of results of the region."""
        for value, gradient in zip(values, gradients, strict=False):
            own = self._here.get(value, value)
            if gradient is None or own not in self._active:
                continue
            expansion = self._expansion(own)
            self._gradients[own] = self._added(expansion, own, gradient)

    def finish(self) -> None:
        """Walk the operations, once."""
        if not self._is_walked:
            self.walk()
            self._is_walked = True

    def gradient_of(self, value: Value) -> Value:
        """Return the gradient of a value in its shape; zeros if it has none."""
        self.finish()
        return self._start(value, self._gradients.get(value))

    def sum_of(self, total: Value, value: Value) -> Value:
        """Return a sum with the gradient of a value added, if it has one."""
        self.finish()
        gradient = self._gradients.get(value)
        if gradient is None:
            return total
        return binary(self._expansion(value), "add", total, self._start(value, gradient))

    def _expansion(self, value: Value) -> Expansion:
        forward = self.builder.forward
        assert forward is not None
        return Expansion(self.builder, forward, GRADIENT + value.name)


def _node_of(operation: Operation) -> Node:
    """Return the node of an operation, without its results."""
    return Node(**{field.name: getattr(operation, field.name) for field in fields(Node)})


def _like(value: Value, name: str) -> Value:
    return Value(f"{value.name}/{name}", value.shape, value.dtype)


def _active_in(
    body: Region, n_states: int, given: Sequence[Value], outside: set[Value]
) -> set[Value]:
    """Return the values of a body that depend on active ones, from round to round."""
    active = set(outside)
    active |= {inner for inner, v in zip(body.inputs, given, strict=True) if v in outside}
    while True:
        n_before = len(active)
        for operation in body.operations:
            active.update(_active_results(operation, active))
        pairs = zip(body.inputs[:n_states], body.outputs[:n_states], strict=True)
        active |= {state for state, result in pairs if result in active}
        if len(active) == n_before:
            return active


class _Backward(_Walk):
    """Walks a model from its loss to its parameters.

    Attributes
    ----------
    builder
        Has the backward operations.
    """

    def __init__(self, model: Model, training: Training, updater: Updater) -> None:
        dependent = _dependent(model, training.anchors)
        super().__init__(_Emitter(model.name), model.operations, *dependent)
        self.model, self.training, self._updater = model, training, updater
        self.loss = _loss_of(model, training)
        self._has_sums_by_stage = model.is_pipelined and training.n_rounds > 1
        self._by_stage: dict[Value, dict[int | None, Value]] = {}

    def run(self) -> dict[Parameter, tuple[Value, ...]]:
        """Emit the backward pass and return the gradients by parameter.

        A parameter has one, except in a pipeline over micro-batches: there, one of every stage that
        reads it. Stages run at different times, and added up first, the gradients of the later ones
        would have to wait for those of the earlier.

        Raises
        ------
        BadModel
            When the loss depends on no parameter and no gradient is asked for, or its type does not
            hold the loss scaling.
        UnsupportedOperators
            When an operator between a parameter and the loss has no gradient.
        """
        if self.loss not in self._active:
            if self.training.anchors:
                return {}  # all gradients that are asked for are 0
            raise BadModel(
                f"The loss {self.training.loss!r} depends on no parameter that can be trained"
            )
        loss_scaling = self.training.optimiser.loss_scaling
        largest = float(np.finfo(self.loss.dtype).max)
        if loss_scaling > largest:
            raise BadModel(
                f"The loss {self.training.loss!r} is {self.loss.dtype}, which holds at most"
                f" {largest:g}, less than the loss scaling {loss_scaling:g}: scale less, or cast"
                " the output of the model to float32"
            )
        self._gradients[self.loss] = self._of_loss(loss_scaling)
        self.walk()
        return {
            parameter: self._of_stages(parameter)
            for parameter in self.model.parameters
            if parameter.is_trainable and parameter in self._gradients
        }

    def _added(self, expansion: Expansion, value: Value, gradient: Value) -> Value:
        """Return the sum of the gradients of a value so far, and another one.

        Of a parameter in a pipeline over micro-batches, the gradients of a stage.
        """
        forward = self.builder.forward
        if not self._has_sums_by_stage or not isinstance(value, Parameter) or forward is None:
            return super()._added(expansion, value, gradient)
        stage, totals = forward.placement.stage, self._by_stage.setdefault(value, {})
        self._gradients.pop(value, None)
        if stage in totals:
            self._gradients[value] = totals[stage]
        totals[stage] = super()._added(expansion, value, gradient)
        return totals[stage]

    def _of_stages(self, parameter: Parameter) -> tuple[Value, ...]:
        """Return the gradients of a parameter by stage, or its only one, in its shape."""
        totals = self._by_stage.get(parameter, {None: self._gradients[parameter]})
        return tuple(self._in_shape(parameter, total) for total in totals.values())

    def _whole(self, value: Value) -> Value:
        """Return the gradient of a value in its shape, added up over stages."""
        if value not in self._by_stage:
            return super()._whole(value)
        reader = next(op for op in self.operations if value in _read_by(op))
        totals = [self._in_shape(value, total) for total in self._by_stage[value].values()]
        self.builder.training_pass = TrainingPass.WEIGHT_GRADIENT
        expansion = Expansion(self.builder, reader, GRADIENT + value.name)
        return reduce(partial(binary, expansion, "add"), totals)

    def _of_loss(self, loss_scaling: float) -> Value:
        """Return the gradient of the loss, which is the loss scaling."""
        self.builder.training_pass = TrainingPass.DATA_GRADIENT
        scaling = self._updater.scaling(self.builder, self.loss.dtype)
        if scaling is None:
            array = np.full(self.loss.shape, loss_scaling, self.loss.dtype)
            return self.builder.constant(array, GRADIENT + self.loss.name)
        name = GRADIENT + self.loss.name
        return self.builder.emit(
            BROADCAST, [scaling], name=name, source="LossScaling", shape=self.loss.shape
        )

    def anchored(self, names: Sequence[str]) -> list[tuple[str, Value]]:
        """Return the gradients of values by name, in the shapes of the values.

        That of a value which the loss does not depend on, or only by steps, is 0.

        Raises
        ------
        BadModel
            When the model has no floating-point value of a name, or no rule computes its gradient.
        """
        values: dict[str, Value] = {}
        for value in self._gradients:
            # Parts of an operation have its result's name; the walk meets the result first.
            values.setdefault(value.name, value)
        results = (v for op in self.operations for v in op.results)
        others = (*self.model.inputs, *self.model.parameters, *self.model.held, *results)
        flat = {v.name: v for v in others if v not in self._omitted and _is_real(v)}
        for name in names:
            if name not in values and name not in flat:
                raise BadModel(
                    f"There is no gradient of {name!r}: the loss depends on no floating-point value"
                    " of that name"
                )
        return [
            (
                GRADIENT + name,
                self._whole(values[name]) if name in values else self._flat(flat[name]),
            )
            for name in names
        ]

    def _flat(self, value: Value) -> Value:
        """Return the gradient of what the loss does not follow: zeros in its shape."""
        return self.builder.constant(np.zeros(value.shape, value.dtype), GRADIENT + value.name)

    def accumulated(self, gradients: Mapping[Parameter, tuple[Value, ...]]) -> list[Update]:
        """Emit the additions of a micro-batch to the sums."""
        self.builder.training_pass = TrainingPass.WEIGHT_GRADIENT
        self.builder.forward = None
        return [
            update
            for parameter, parts in gradients.items()
            for update in self._updater.accumulated(self.builder, parameter, parts)
        ]


#: Names of nodes that a sentence lists.
_MOST_NAMES = 6


def _loss_of(model: Model, training: Training) -> Value:
    """Return the value that is minimised.

    Raises
    ------
    BadModel
        When there is none of that name, or it is no floating-point scalar.
    """
    outputs = dict(model.outputs)
    if training.loss not in outputs:
        names = ", ".join(outputs)
        raise BadModel(f"There is no loss {training.loss!r}: the outputs are {names}")
    loss = outputs[training.loss]
    if prod(loss.shape) != 1 or not loss.dtype.startswith("float"):
        raise BadModel(
            f"The loss {training.loss!r} is {loss.dtype} of shape {loss.shape}: it has to be one"
            " floating-point number; reduce it by sum or mean"
        )
    return loss


def _dependent(model: Model, anchors: Sequence[str]) -> tuple[set[Value], set[Value]]:
    """Return the values that depend on trainable parameters, and those that depend on data.

    Values whose gradients are asked for by name count as parameters.
    """
    active: set[Value] = {p for p in model.parameters if p.is_trainable}
    of_data: set[Value] = {value for value in model.inputs if value.known is None}
    asked = frozenset(anchors)
    given = (*model.inputs, *model.parameters, *model.held)
    active |= {v for v in given if v.name in asked and _is_real(v)}
    for operation in model.operations:
        active.update(_active_results(operation, active))
        active.update(v for v in operation.results if v.name in asked and _is_real(v))
        if not of_data.isdisjoint(_read_by(operation)):
            of_data.update(operation.results)
    return active, of_data


def _active_results(operation: Operation, active: set[Value]) -> list[Value]:
    """Return the results of an operation that have gradients, where some of what it reads has."""
    if operation.operator.stops_gradient or active.isdisjoint(_read_by(operation)):
        return []
    return [value for value in operation.results if _is_real(value)]


def _is_real(value: Value) -> bool:
    return value.dtype.startswith("float")


def _read_by(node: Node) -> list[Value]:
    """Return what a node reads, in its regions too."""
    used = [*node.operands]
    for region in node.regions.values():
        used += [value for inner in walk(region.operations) for value in inner.operands]
        used += [*region.captured, *region.outputs]
    return used


def _summed(expansion: Expansion, gradient: Value, operand_: Value) -> Value:
    """Return a gradient summed to an operand that was broadcast.

    It may lack dimensions of the operand, along which it is the same.
    """
    extra = len(gradient.shape) - len(operand_.shape)
    stated = (1,) * extra + operand_.shape[max(0, -extra) :]
    axes = [d for d, size in enumerate(gradient.shape) if size > stated[d]]
    if axes:
        gradient = reduced(expansion, "sum", gradient, axes)
    return reshape(expansion, gradient, gradient.shape[extra:]) if extra > 0 else gradient
