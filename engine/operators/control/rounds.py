"""Rounds: a loop with a known number of rounds over slices of sequences, which carries states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor, dtype_of
from tilescope.engine.ir import ENGINE_DOMAIN, Node, Operation, Operator, Value
from tilescope.engine.ir.standard import standard
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import copy_to, row_major_copy
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.library.popops.slicing.sliceable import create_by_columns, is_sliceable
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.control.control import shown_types, types_of
from tilescope.engine.program import Repeat

__all__ = ["RECORDS", "ROUNDS"]

Type = tuple[tuple[int, ...], str]


def _types(node: Node) -> list[Type]:
    """Return the types of the last states, and of the results of all rounds.

    Raises
    ------
    BadModel
        When the body takes or returns other types than it is given.
    """
    body, n_states = node.regions["body"], node.attributes["n_states"]
    n_rounds, operands = node.attributes["n_rounds"], types_of(node.operands)
    slices = [(shape[1:], dtype) for shape, dtype in operands[n_states:]]
    given, taken = [*operands[:n_states], *slices], types_of(body.inputs)
    after = types_of(body.outputs)
    if given != taken or after[:n_states] != operands[:n_states]:
        raise BadModel(
            f"{node}: a round is given {shown_types(given)}, takes {shown_types(taken)} and returns"
            f" {shown_types(after)}; a change of type or shape is not supported"
        )
    results = [((n_rounds, *shape), dtype) for shape, dtype in after[n_states:]]
    return [*operands[:n_states], *results]


def _arrays(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the results in numpy, of a body that reads nothing from outside.

    Raises
    ------
    BadModel
        When the body reads computed values from outside, which are no operands.
    """
    body, n_states = node.regions["body"], node.attributes["n_states"]
    if body.captured:
        raise BadModel(f"{node}: its body reads {body.captured[0].name!r} from outside")
    n_rounds, states = node.attributes["n_rounds"], [*arrays[:n_states]]
    collected: list[list[NDArray[Any]]] = [[] for _ in body.outputs[n_states:]]
    order = range(n_rounds)[::-1] if node.attributes["is_reversed"] else range(n_rounds)
    for number in order:
        slices = [array[number] for array in arrays[n_states:]]
        values = dict(zip(body.inputs, [*states, *slices], strict=True))
        for operation in body.operations:
            operands = [None if v is None else _array_of(v, values) for v in operation.inputs]
            evaluate = operation.operator.evaluate or standard().evaluate
            results = evaluate(operation, operands)
            values.update(
                (value, np.asarray(result))
                for value, result in zip(operation.outputs, results, strict=False)
                if value is not None
            )
        returned = [_array_of(value, values) for value in body.outputs]
        states = returned[:n_states]
        for entries, array in zip(collected, returned[n_states:], strict=True):
            entries.append(array)
    turned = [rounds[::-1] if node.attributes["is_reversed"] else rounds for rounds in collected]
    return [*states, *(np.stack(rounds) for rounds in turned)]


def _array_of(value: Value, values: Mapping[Value, NDArray[Any]]) -> NDArray[Any]:
    return values[value] if value in values else np.asarray(value.known)


def _lower(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add a loop over variables that hold the states.

    What a round returns is copied aside before it is copied to the variables, since a round may
    return what another variable held.
    """
    build, body, n_states = lowering.builder, op.regions["body"], op.attributes["n_states"]
    n_rounds = op.attributes["n_rounds"]
    states = [lowering.variable(value) for value in body.inputs[:n_states]]
    for value, state in zip(op.operands, states, strict=False):
        copy_to(build, lowering.tensor(value).reshape(*state.shape), state, "initial")
    sequences = [_sliceable(build, lowering.tensor(value)) for value in op.operands[n_states:]]
    counter, one = _counter(build, n_rounds - 1 if op.attributes["is_reversed"] else 0)
    collected = [_collected(lowering, value, n_rounds) for value in body.outputs[n_states:]]
    inside = lowering.inside("body")
    for value, sequence in zip(body.inputs[n_states:], sequences, strict=True):
        part = dynamic_slice(inside.builder, sequence, counter, [0], [1])
        inside.tensors[value] = part.reshape(*value.shape)
    inside.tensors.update(zip(body.inputs[:n_states], states, strict=True))
    inside.add(body.operations, body.outputs)
    for value, target in zip(body.outputs[n_states:], collected, strict=True):
        entry = inside.tensor(value).reshape(1, *(value.shape or (1,)))
        dynamic_update(inside.builder, target, entry, counter, [0])
    after = [
        row_major_copy(inside.builder, inside.tensor(value), "result")
        for value in body.outputs[:n_states]
    ]
    for source, target in zip(after, states, strict=True):
        copy_to(inside.builder, source.reshape(*target.shape), target, "carry")
    direction = "subtract" if op.attributes["is_reversed"] else "add"
    binary_in_place(inside.builder, direction, counter, one)
    build.sequence.add(Repeat(n_rounds, inside.builder.sequence, op.name, debug=build.debug))
    results = body.outputs[n_states:]
    shaped = (_shaped(t, v, n_rounds) for t, v in zip(collected, results, strict=True))
    tensors = [*states, *shaped]
    return tuple(t for t, value in zip(tensors, op.outputs, strict=True) if value is not None)


def _counter(builder: Builder, first: int) -> tuple[Tensor, Tensor]:
    """Return the number of the round, at the first one, and the constant one."""
    graph = builder.graph
    counter = graph.add_variable("int32", (1,), "counter", builder.debug)
    one = graph.add_constant(np.array([1], np.int32), "one", debug=builder.debug)
    for tensor in (counter, one):
        graph.set_tile_mapping(tensor, [0], builder.tiles.ids[:1])
    fill(builder, counter, first)
    return counter, one


def _sliceable(builder: Builder, sequence: Tensor) -> Tensor:
    """Return a sequence whose rounds are slices on their tiles: itself, or a copy."""
    shape = sequence.shape if len(sequence.shape) > 1 else (*sequence.shape, 1)
    given = sequence.reshape(*shape)
    if is_sliceable(builder, given, 0):
        return given
    sliceable = create_by_columns(builder, sequence.dtype, shape, 0, "sequence")
    copy_to(builder, given, sliceable, "arrangeSequence")
    return sliceable


def _collected(lowering: Lowering, value: Value, n_rounds: int) -> Tensor:
    """Return a variable for the results of all rounds, which begins with zeros."""
    shape = (n_rounds, *(value.shape or (1,)))
    target = create_by_columns(
        lowering.builder, dtype_of(value.dtype), shape, 0, f"{value.name}/rounds"
    )
    fill(lowering.builder, target, 0)
    return target


def _shaped(tensor: Tensor, value: Value, n_rounds: int) -> Tensor:
    return tensor.reshape(n_rounds, *value.shape)


#: States, then sequences of `n_rounds` entries, of which the body gets one in a round, from the
#: last if `is_reversed`. It returns the states, then results of the round, which stand at its
#: place; those of rounds that have a gradient end with the states before the round.
ROUNDS = Operator(name="rounds", domain=ENGINE_DOMAIN, infer=_types, evaluate=_arrays, lower=_lower)

RECORDS: Sequence[Operator] = (ROUNDS,)
