"""Operators that contain regions: decisions and loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import Constant, Expansion, Node, Operation, Operator, Region, Value
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import binary, copy_to, row_major_copy
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_update
from tilescope.engine.lower import Lowering
from tilescope.engine.program import ErrorProgram, If, Repeat, RepeatWhile

__all__ = [
    "RECORDS",
    "branch_of",
    "check_start",
    "is_endless",
    "reachable",
    "shown_types",
    "types_of",
]

Type = tuple[tuple[int, ...], str]

#: As many rounds do not end: a counter of 32 bits holds one less.
_UNREACHED = 1 << 31

_BRANCHES = ("then_branch", "else_branch")

#: Of a number of entries that data decide.
_NUMBER: Type = ((), "int64")


def types_of(values: Sequence[Value]) -> list[Type]:
    """Return the types of values."""
    return [(value.shape, value.dtype) for value in values]


def shown_types(types: Sequence[Type]) -> str:
    """Return types as a message shows them."""
    return ", ".join(f"{dtype} {shape}" for shape, dtype in types)


def _check_condition(node: Node, condition: Value) -> None:
    if condition.dtype != "bool" or prod(condition.shape) != 1:
        raise BadModel(
            f"{node}: expected one bool as its condition, got {condition.dtype} {condition.shape}"
        )


class _Results(NamedTuple):
    """What a decision returns: the types of its results, and how they differ by branch.

    Parameters
    ----------
    types
        With the larger size where that depends on the branch.
    axes
        Along which that is so, None for results of one shape; empty if all are.
    sizes
        Along these axes, of both branches.
    """

    types: list[Type]
    axes: tuple[int | None, ...] = ()
    sizes: tuple[int, int] = (0, 0)


def _results(node: Node) -> _Results:
    """Return what a decision returns whose condition data decide.

    Raises
    ------
    BadModel
        When its branches return different types, or shapes that one number cannot tell apart.
    """
    regions = [node.regions[key] for key in _BRANCHES]
    possible = [types_of(region.outputs) for region in regions if not region.error]
    first_values, last_values = possible[0], possible[-1]
    pairs = list(zip(first_values, last_values, strict=False))
    axes = tuple(itertools.starmap(_unlike_axis, pairs))
    sizes = {
        (first_type[0][axis], last_type[0][axis])
        for axis, (first_type, last_type) in zip(axes, pairs, strict=True)
        if axis is not None
    }
    agree = len(first_values) == len(last_values) and all(
        first_type == last_type or axis is not None
        for axis, (first_type, last_type) in zip(axes, pairs, strict=True)
    )
    if not agree or len(sizes) > 1:
        raise BadModel(
            f"{node}: its branches return {shown_types(first_values)} and"
            f" {shown_types(last_values)}; where"
            " these differ by more than one size, its condition must be known: give the inputs that"
            " it depends on with --set"
        )
    if not sizes:
        return _Results(first_values)
    largest = [
        (tuple(map(max, first_type[0], last_type[0])), first_type[1])
        for first_type, last_type in pairs
    ]
    return _Results(largest, axes, sizes.pop())


def branch_of(condition: Value) -> str:
    """Return the name of the branch that a known condition takes."""
    return _BRANCHES[0] if condition.known is not None and condition.known.all() else _BRANCHES[1]


def _unlike_axis(first: Type, second: Type) -> int | None:
    """Return the one axis along which two types differ; None if they differ otherwise."""
    if first[1] != second[1] or len(first[0]) != len(second[0]):
        return None
    unlike = [
        axis
        for axis, pair in enumerate(zip(first[0], second[0], strict=True))
        if len(set(pair)) > 1
    ]
    return unlike[0] if len(unlike) == 1 else None


def _if_types(node: Node) -> list[Type]:
    """Return the types of a decision's results."""
    _check_condition(node, node.operand(0))
    results = _results(node)
    return [*results.types, _NUMBER] if results.axes else results.types


def _if_axes(node: Node) -> tuple[int | None, ...]:
    """Return the axes of results along which the branch that runs decides the size."""
    return () if node.operand(0).known is not None else _results(node).axes


def _if(node: Node, expansion: Expansion) -> tuple[Value, ...] | None:
    """Emit the one branch that runs, where the condition is known.

    Raises
    ------
    BadModel
        When it cannot run.
    """
    condition = node.operand(0)
    if condition.known is None:
        return None
    _check_condition(node, condition)
    region = node.regions[branch_of(condition)]
    if region.error:
        raise BadModel(region.error)
    return expansion.inline(region)


def _lower_if(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add both branches, which copy their results to the same variables."""
    targets, results = [lowering.variable(value) for value in op.results], _results(op)
    axes = [*results.axes, None] if results.axes else [None] * len(op.outputs)
    branches = []
    for branch, key in enumerate(_BRANCHES):
        region, inside = op.regions[key], lowering.inside(key)
        branches.append(inside.builder.sequence)
        if region.error:
            inside.builder.sequence.add(ErrorProgram(region.error, debug=lowering.builder.debug))
            continue
        inside.add(region.operations, region.outputs)
        values = [*region.outputs]
        if results.axes:
            number = np.asarray(results.sizes[branch], _NUMBER[1])
            values.append(Constant(f"{op.name}/{key}/count", *_NUMBER, number))
        used = [
            (value, axis)
            for value, axis, output in zip(values, axes, op.outputs, strict=True)
            if output is not None
        ]
        for (value, axis), target in zip(used, targets, strict=True):
            _return(inside, value, target, axis, f"{key}/result")
    predicate = lowering.tensor(op.operand(0))
    then, otherwise = branches
    lowering.builder.sequence.add(
        If(predicate, then, otherwise, op.name, debug=lowering.builder.debug)
    )
    return tuple(targets)


def _return(lowering: Lowering, value: Value, target: Tensor, axis: int | None, name: str) -> None:
    """Copy a result of a branch to a variable; what it leaves along an axis becomes zero."""
    if axis is None or value.shape == target.shape:
        copy_to(lowering.builder, lowering.tensor(value), target, name)
        return
    n = value.shape[axis]
    if n:
        copy_to(lowering.builder, lowering.tensor(value), target.slice(axis, 0, n), name)
    fill(lowering.builder, target.slice(axis, n, target.shape[axis]), 0)


def _loop_types(node: Node) -> list[Type]:
    """Return the types of a loop's results: its initial values, then what its rounds return.

    Raises
    ------
    BadModel
        When the body changes a type or shape, or returns results of unknown number.
    """
    body, initial = node.regions["body"], [node.operand(i) for i in range(2, len(node.inputs))]
    carried = body.outputs[1 : 1 + len(initial)]
    _check_condition(node, body.outputs[0])
    before, inside, after = types_of(initial), types_of(body.inputs[2:]), types_of(carried)
    if not before == inside == after:
        raise BadModel(
            f"{node}: a round takes {shown_types(before)} and returns {shown_types(after)}; a"
            " change of type or shape is not supported"
        )
    check_start(node)
    collected = body.outputs[1 + len(initial) :]
    if _limit(node) is None and is_endless(node.optional(1), body) and not _is_skipped(node):
        raise BadModel(
            f"{node} never ends: its condition is always true, and no number of rounds below"
            f" {_UNREACHED:,} is given; give one, or a condition that becomes false"
        )
    if not collected:
        return before
    if _limit(node) is None:
        raise BadModel(f"{node} returns results of its rounds: state the largest number of rounds")
    n_rounds = int(node.known(0, "the largest number of rounds, whose results it returns,").item())
    results = [((n_rounds, *value.shape), value.dtype) for value in collected]
    return [*before, *results, _NUMBER]


def check_start(node: Node) -> None:
    """Refuse a number of rounds or a first condition that is not one element.

    Raises
    ------
    BadModel
        Names the node, and what it has.
    """
    rounds, condition = node.optional(0), node.optional(1)
    if rounds is not None and (rounds.dtype != "int64" or prod(rounds.shape) != 1):
        raise BadModel(
            f"{node}: expected one int64 as the largest number of rounds, got {rounds.dtype}"
            f" {rounds.shape}"
        )
    if condition is not None:
        _check_condition(node, condition)


def _loop_axes(node: Node) -> tuple[int | None, ...]:
    """Return the axes of the results of rounds, if data decide how many rounds run."""
    body, n_states = node.regions["body"], len(node.inputs) - 2
    n_collected = len(body.outputs) - 1 - n_states
    if n_collected <= 0 or is_endless(node.optional(1), body) or _is_skipped(node):
        return ()
    return (*(None,) * n_states, *(0,) * n_collected)


def _is_skipped(node: Node) -> bool:
    """Return whether it is known that no round runs."""
    n_rounds, condition = node.optional(0), node.optional(1)
    if n_rounds is not None and n_rounds.known is not None and n_rounds.known.item() <= 0:
        return True
    return condition is not None and condition.known is not None and not condition.known.all()


def _loop(node: Node, expansion: Expansion) -> tuple[Value, ...] | None:
    """Return the initial values, and no results of rounds, where it is known that none runs."""
    check_start(node)
    if not _is_skipped(node):
        return None
    n_states = len(node.inputs) - 2
    collected = node.regions["body"].outputs[1 + n_states :]
    return (
        *(node.operand(2 + index) for index in range(n_states)),
        *(
            expansion.constant(np.zeros((0, *value.shape), value.dtype), "none")
            for value in collected
        ),
        expansion.constant(np.array(0), "number"),
    )


def _lower_loop(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add a loop over variables that hold the carried values.

    What a round returns is copied aside before it is copied to the variables, since a round may
    return what another variable held.
    """
    body = op.regions["body"]
    counter, condition, *states = (lowering.variable(value) for value in body.inputs)
    start = [lowering.tensor(op.operand(2 + index)) for index in range(len(states))]
    first = op.optional(1) or Constant("true", (), "bool", np.asarray(True))
    start = [lowering.tensor(_number(body.inputs[0], 0)), lowering.tensor(first), *start]
    for source, target in zip(start, (counter, condition, *states), strict=True):
        copy_to(lowering.builder, source.reshape(*target.shape), target, "initial")
    inside = lowering.inside("body")
    inside.tensors.update(zip(body.inputs, (counter, condition, *states), strict=True))
    inside.add(body.operations, body.outputs)
    results = [
        row_major_copy(inside.builder, inside.tensor(v), "result")
        for v in body.outputs[: 1 + len(states)]
    ]
    collected = _collected(lowering, inside, body.outputs[1 + len(states) :], counter, op)
    increment = inside.tensor(_number(body.inputs[0], 1))
    results.insert(0, binary(inside.builder, "add", counter, increment, counter.shape))
    for source, target in zip(results, (counter, condition, *states), strict=True):
        copy_to(inside.builder, source.reshape(*target.shape), target, "carry")
    rounds = _limit(op)
    if rounds is not None and rounds.known is not None and is_endless(op.optional(1), body):
        loop = Repeat(
            rounds.known.item(), inside.builder.sequence, op.name, debug=lowering.builder.debug
        )
        lowering.builder.sequence.add(loop)
        return _used(op, [*states, *collected, counter])
    decide = lowering.inside("condition")
    predicate = condition
    if rounds is not None:
        limit = decide.tensor(rounds).reshape(*counter.shape)
        is_due = binary(decide.builder, "less", counter, limit, counter.shape)
        is_due = is_due.reshape(*condition.shape)
        predicate = binary(decide.builder, "logical_and", is_due, condition, condition.shape)
    lowering.builder.sequence.add(
        RepeatWhile(
            decide.builder.sequence,
            predicate,
            inside.builder.sequence,
            name=op.name,
            debug=lowering.builder.debug,
        )
    )
    return _used(op, [*states, *collected, counter])


def _collected(
    lowering: Lowering, inside: Lowering, values: Sequence[Value], counter: Tensor, op: Operation
) -> list[Tensor]:
    """Add variables for the results of all rounds, and their update in a round."""
    collected = []
    for value in values:
        n_rounds = int(op.known(0, "the largest number of rounds").item())
        result = Value(f"{value.name}/rounds", (n_rounds, *value.shape), value.dtype)
        target = lowering.variable(result)
        fill(lowering.builder, target, 0)
        entry = inside.tensor(value).reshape(1, *value.shape)
        dynamic_update(inside.builder, target, entry, counter.reshape(1), [0])
        collected.append(target)
    return collected


def _used(op: Operation, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the tensors of the results that are used."""
    pairs = zip(tensors, op.outputs, strict=False)
    return tuple(tensor for tensor, value in pairs if value is not None)


def _number(like: Value, number: int) -> Constant:
    """Return a whole number of a value's type and shape."""
    array = np.full(like.shape, number, like.dtype)
    return Constant(f"{like.name}/{number}", like.shape, like.dtype, array)


def _limit(op: Node) -> Value | None:
    return reachable(op.optional(0))


def reachable(rounds: Value | None) -> Value | None:
    """Return the largest number of rounds; None if a loop has none, or one that it cannot reach.

    Exporters state the largest integer of 64 bits where a condition alone ends a loop.
    """
    if rounds is None or rounds.known is None:
        return rounds
    return rounds if rounds.known.item() < _UNREACHED else None


def is_endless(first: Value | None, body: Region) -> bool:
    """Return whether the condition of a loop is true in every round; the first may be left out."""
    last = body.outputs[0]
    is_true_at_first = first is None or (first.known is not None and bool(first.known.all()))
    made_by = {value: operation for operation in body.operations for value in operation.results}
    while last in made_by and made_by[last].operator.name == "Identity":
        last = made_by[last].operand(0)
    is_kept = last is body.inputs[1] or (last.known is not None and bool(last.known.all()))
    return is_true_at_first and is_kept


RECORDS = (
    Operator(name="If", decompose=_if, infer=_if_types, lower=_lower_if, counted=_if_axes),
    Operator(
        name="Loop", decompose=_loop, infer=_loop_types, lower=_lower_loop, counted=_loop_axes
    ),
)
