"""Operators that contain regions: decisions and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor, concat
from tilescope.engine.ir import Constant, Expansion, Node, Operation, Operator, Region, Value
from tilescope.engine.library.elementwise import binary, copy_to, row_major_copy
from tilescope.engine.lower import Lowering
from tilescope.engine.program import If, Repeat, RepeatWhile

__all__ = ["RECORDS"]

Type = tuple[tuple[int, ...], str]

_BRANCHES = ("then_branch", "else_branch")


def _types(values: Sequence[Value]) -> list[Type]:
    return [(value.shape, value.dtype) for value in values]


def _shown(types: Sequence[Type]) -> str:
    return ", ".join(f"{dtype} {shape}" for shape, dtype in types)


def _check_condition(node: Node, condition: Value) -> None:
    if condition.dtype != "bool" or condition.shape not in ((), (1,)):
        raise BadModel(
            f"{node}: expected one bool as its condition, got {condition.dtype} {condition.shape}"
        )


def _if_types(node: Node) -> list[Type]:
    """Return the types of a decision's results, which both branches must agree on.

    Raises
    ------
    BadModel
        When they do not, or the condition is not one bool.
    """
    _check_condition(node, node.operand(0))
    ones, others = (_types(node.regions[key].outputs) for key in _BRANCHES)
    if ones != others:
        raise BadModel(
            f"{node}: its branches return {_shown(ones)} and {_shown(others)}; results of different"
            " types or shapes are not supported"
        )
    return ones


def _if(node: Node, into: Expansion) -> tuple[Value, ...] | None:
    """Emit the one branch that runs, where the condition is known."""
    condition = node.operand(0)
    if condition.known is None:
        return None
    return into.inline(node.regions[_BRANCHES[0] if condition.known.all() else _BRANCHES[1]])


def _lower_if(at: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add both branches, which copy their results to the same variables."""
    targets = [at.variable(value) for value in op.results]
    branches = []
    for key in _BRANCHES:
        region = op.regions[key]
        inside = at.inside(key)
        inside.add(region.operations)
        used = [v for v, o in zip(region.outputs, op.outputs, strict=True) if o is not None]
        for value, target in zip(used, targets, strict=True):
            copy_to(inside.builder, inside.tensor(value), target, f"{key}/result")
        branches.append(inside.builder.sequence)
    predicate = at.tensor(op.operand(0))
    then, otherwise = branches
    at.builder.sequence.add(If(predicate, then, otherwise, op.name, debug=at.builder.debug))
    return tuple(targets)


def _loop_types(node: Node) -> list[Type]:
    """Return the types of a loop's results: those of its initial values, which rounds keep.

    Raises
    ------
    BadModel
        When the body changes a type or shape, or collects results of its rounds.
    """
    body, initial = node.regions["body"], [node.operand(i) for i in range(2, len(node.inputs))]
    carried = body.outputs[1 : 1 + len(initial)]
    if len(body.outputs) > 1 + len(initial):
        raise BadModel(f"{node} collects results of its rounds (scan outputs): not supported yet")
    _check_condition(node, body.outputs[0])
    before, inside, after = _types(initial), _types(body.inputs[2:]), _types(carried)
    if not before == inside == after:
        raise BadModel(
            f"{node}: a round takes {_shown(before)} and returns {_shown(after)}; a change of type"
            " or shape is not supported"
        )
    return before


def _loop(node: Node, _: Expansion) -> tuple[Value, ...] | None:
    """Return the initial values where it is known that no round runs."""
    n_rounds, condition = node.optional(0), node.optional(1)
    is_skipped = n_rounds is not None and n_rounds.known is not None and n_rounds.known.item() <= 0
    if condition is not None and condition.known is not None and not condition.known.all():
        is_skipped = True
    return node.operands[-(len(node.inputs) - 2) :] if is_skipped else None


def _lower_loop(at: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add a loop over variables that hold the carried values.

    What a round returns is copied aside before it is copied to the variables, since a round may
    return what another variable held.
    """
    body = op.regions["body"]
    counter, condition, *states = (at.variable(value) for value in body.inputs)
    start = [at.tensor(op.operand(2 + index)) for index in range(len(states))]
    first = op.optional(1) or Constant("true", (), "bool", np.asarray(True))
    start = [at.tensor(_number(body.inputs[0], 0)), at.tensor(first), *start]
    for source, target in zip(start, (counter, condition, *states), strict=True):
        copy_to(at.builder, source.reshape(*target.shape), target, "initial")
    inside = at.inside("body")
    inside.tensors.update(zip(body.inputs, (counter, condition, *states), strict=True))
    inside.add(body.operations)
    results = [row_major_copy(inside.builder, inside.tensor(v), "result") for v in body.outputs]
    one = inside.tensor(_number(body.inputs[0], 1))
    results.insert(0, binary(inside.builder, "add", counter, one, counter.shape))
    for source, target in zip(results, (counter, condition, *states), strict=True):
        copy_to(inside.builder, source.reshape(*target.shape), target, "carry")
    rounds = op.optional(0)
    if rounds is not None and rounds.known is not None and _runs_all_rounds(op, body):
        loop = Repeat(rounds.known.item(), inside.builder.sequence, op.name, debug=at.builder.debug)
        at.builder.sequence.add(loop)
        return tuple(states)
    decide = at.inside("condition")
    predicate = condition
    if rounds is not None:
        limit = decide.tensor(rounds).reshape(*counter.shape)
        is_due = binary(decide.builder, "less", counter, limit, counter.shape)
        is_due = is_due.reshape(*condition.shape)
        predicate = binary(decide.builder, "logical_and", is_due, condition, condition.shape)
    at.builder.sequence.add(
        RepeatWhile(
            decide.builder.sequence,
            predicate,
            inside.builder.sequence,
            name=op.name,
            debug=at.builder.debug,
        )
    )
    return tuple(states)


def _number(like: Value, number: int) -> Constant:
    """Return a whole number of a value's type and shape."""
    array = np.full(like.shape, number, like.dtype)
    return Constant(f"{like.name}/{number}", like.shape, like.dtype, array)


def _runs_all_rounds(op: Operation, body: Region) -> bool:
    """Return whether the condition of a loop is true in every round."""
    first, last = op.optional(1), body.outputs[0]
    is_true_at_first = first is None or (first.known is not None and bool(first.known.all()))
    is_kept = last is body.inputs[1] or (last.known is not None and bool(last.known.all()))
    return is_true_at_first and is_kept


#: A scan is unrolled; this many rounds at most.
_MOST_ROUNDS = 4096


@dataclass(frozen=True)
class _Scan:
    """The parts of a Scan node: state is carried from round to round, sequences are sliced.

    Parameters
    ----------
    states
        Initial values of what is carried.
    sequences
        What is sliced, with the axis and whether it runs backwards.
    results
        What rounds return besides their state, with the axis along which the results are joined and
        whether the first round's is the last.
    n_rounds
        Length of every sequence along its axis.
    """

    states: tuple[Value, ...]
    sequences: tuple[tuple[Value, int, bool], ...]
    results: tuple[tuple[Value, int, bool], ...]
    n_rounds: int

    @classmethod
    def of(cls, node: Node) -> _Scan:
        """Return the parts of a node.

        Raises
        ------
        BadModel
            When its version is 8, which has batches, or lengths or numbers of values disagree.
        """
        if node.version < 9:
            raise BadModel(f"{node}: Scan of opset 8 is not supported; export opset 9 or newer")
        body, count = node.regions["body"], node.attributes["num_scan_inputs"]
        n_states = len(node.inputs) - count
        if len(body.inputs) != len(node.inputs) or not 0 <= n_states <= len(body.outputs):
            raise BadModel(
                f"{node}: its body takes {len(body.inputs)} values and returns"
                f" {len(body.outputs)}; expected {len(node.inputs)} and at least {n_states}"
            )
        operands = tuple(node.operand(i) for i in range(len(node.inputs)))
        sequences = cls._along(node, "scan_input", operands[n_states:], 0)
        results = cls._along(node, "scan_output", body.outputs[n_states:], 1)
        lengths = {value.shape[axis] for value, axis, _ in sequences}
        if len(lengths) != 1 or max(lengths) > _MOST_ROUNDS:
            raise BadModel(
                f"{node}: its sequences have lengths {', '.join(map(str, sorted(lengths)))};"
                f" expected one length of at most {_MOST_ROUNDS}"
            )
        return cls(operands[:n_states], sequences, results, lengths.pop())

    @staticmethod
    def _along(
        node: Node, kind: str, values: Sequence[Value], new_axes: int
    ) -> tuple[tuple[Value, int, bool], ...]:
        """Return values with their axis and direction; results have an axis that rounds lack."""
        axes = node.attributes.get(f"{kind}_axes") or [0] * len(values)
        reverse = node.attributes.get(f"{kind}_directions") or [0] * len(values)
        if not len(axes) == len(reverse) == len(values):
            raise BadModel(
                f"{node}: {kind}_axes and {kind}_directions have {len(axes)} and {len(reverse)}"
                f" entries; expected {len(values)}"
            )
        found = []
        for value, axis, backwards in zip(values, axes, reverse, strict=True):
            rank = len(value.shape) + new_axes
            if not -rank <= axis < rank:
                raise BadModel(f"{node}: axis {axis} of {value.name!r} is outside its {rank} axes")
            found.append((value, axis % rank, bool(backwards)))
        return tuple(found)


def _scan_types(node: Node) -> list[Type]:
    """Return the types of a scan's results: its state, then the joined results of its rounds.

    Raises
    ------
    BadModel
        When the body changes the type or shape of a state, or takes other slices.
    """
    scan, body = _Scan.of(node), node.regions["body"]
    n_states = len(scan.states)
    slices = [
        ((*value.shape[:axis], *value.shape[axis + 1 :]), value.dtype)
        for value, axis, _ in scan.sequences
    ]
    before, after = _types(scan.states), _types(body.outputs[:n_states])
    if [*before, *slices] != _types(body.inputs) or before != after:
        raise BadModel(
            f"{node}: a round is given {_shown([*before, *slices])}, takes"
            f" {_shown(_types(body.inputs))} and returns {_shown(after)} as its state; a change of"
            " type or shape is not supported"
        )
    joined = [
        ((*value.shape[:axis], scan.n_rounds, *value.shape[axis:]), value.dtype)
        for value, axis, _ in scan.results
    ]
    return [*before, *joined]


def _lower_scan(at: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add the rounds one after the other, each on its slices, and join what they return."""
    scan, body = _Scan.of(op), op.regions["body"]
    states = [at.tensor(value) for value in scan.states]
    sequences = [at.tensor(value) for value, _, _ in scan.sequences]
    collected: list[list[tuple[int, Tensor]]] = [[] for _ in scan.results]
    for i in range(scan.n_rounds):
        slices = []
        for tensor, (value, axis, backwards) in zip(sequences, scan.sequences, strict=True):
            place = scan.n_rounds - 1 - i if backwards else i
            part = tensor.slice(axis, place, place + 1)
            slices.append(part.reshape(*value.shape[:axis], *value.shape[axis + 1 :]))
        inside = at.inside(f"round{i}")
        inside.tensors.update(zip(body.inputs, [*states, *slices], strict=True))
        inside.add(body.operations)
        at.builder.sequence.add(inside.builder.sequence)
        made = [inside.tensor(value) for value in body.outputs]
        states = made[: len(states)]
        for rounds, (_, _, backwards), tensor in zip(
            collected, scan.results, made[len(states) :], strict=True
        ):
            rounds.append((-i if backwards else i, tensor))
    joined = []
    for rounds, (value, axis, _) in zip(collected, scan.results, strict=True):
        shape = (*value.shape[:axis], 1, *value.shape[axis:])
        parts = [tensor.reshape(*shape) for _, tensor in sorted(rounds, key=lambda one: one[0])]
        joined.append(row_major_copy(at.builder, concat(parts, axis), "join"))
    everything = [*states, *joined]
    used = [tensor for tensor, o in zip(everything, op.outputs, strict=True) if o is not None]
    return tuple(used)


RECORDS = (
    Operator(name="If", decompose=_if, infer=_if_types, lower=_lower_if),
    Operator(name="Scan", infer=_scan_types, lower=_lower_scan),
    Operator(name="Loop", decompose=_loop, infer=_loop_types, lower=_lower_loop),
)
