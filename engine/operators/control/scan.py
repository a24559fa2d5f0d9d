"""Scan: a body over the slices of sequences, which carries states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor, concat
from tilescope.engine.ir import Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise.operations import row_major_copy
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.control.control import shown_types, types_of
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along, joined

__all__ = ["RECORDS"]

Type = tuple[tuple[int, ...], str]

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
            When lengths or numbers of values disagree.
        """
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
        axes_ = []
        for value, axis, backwards in zip(values, axes, reverse, strict=True):
            rank = len(value.shape) + new_axes
            if not -rank <= axis < rank:
                raise BadModel(f"{node}: axis {axis} of {value.name!r} is outside its {rank} axes")
            axes_.append((value, axis % rank, bool(backwards)))
        return tuple(axes_)


#: From this version on, operands have no batch.
_UNBATCHED = 9


def _with_batch(node: Node, expansion: Expansion) -> tuple[Value, ...] | None:
    """Emit the scans of opset 8, one of every element of a batch, which the first axis is.

    Raises
    ------
    BadModel
        When sequences have lengths of their own, or disagree.
    """
    if node.version >= _UNBATCHED:
        return None
    body, count = node.regions["body"], node.attributes["num_scan_inputs"]
    operands = [node.operand(i) for i in range(1, len(node.inputs))]
    n_states = len(operands) - count
    backwards = node.attributes.get("directions") or (0,) * count
    shapes = {value.shape[:2] for value in operands[n_states:]}
    if node.optional(0) is not None or len(shapes) != 1 or len(backwards) != count:
        raise BadModel(
            f"{node}: expected sequences of one batch and length, with a direction each, and no"
            " sequence_lens; Scan of opset 9 has none"
        )
    n_batch, n_rounds = shapes.pop()
    every: list[list[Value]] = []
    for b in range(n_batch):
        states = [_entry(expansion, value, b) for value in operands[:n_states]]
        slices_ = [_entry(expansion, value, b) for value in operands[n_states:]]
        rounds: list[Sequence[Value]] = []
        for i in range(n_rounds):
            slices = [
                _entry(expansion, value, n_rounds - 1 - i if reverse else i)
                for value, reverse in zip(slices_, backwards, strict=True)
            ]
            results = expansion.inline(body, *states, *slices)
            states = list(results[:n_states])
            rounds.append(results[n_states:])
        every.append(
            [*states, *(_stacked(expansion, values) for values in zip(*rounds, strict=True))]
        )
    return tuple(_stacked(expansion, values) for values in zip(*every, strict=True))


def _entry(expansion: Expansion, x: Value, index: int) -> Value:
    """Emit an entry along the first axis."""
    return reshape(expansion, along(expansion, x, 0, index, index + 1), x.shape[1:])


def _stacked(expansion: Expansion, values: Sequence[Value]) -> Value:
    """Emit values along a new first axis."""
    return joined(expansion, [reshape(expansion, value, (1, *value.shape)) for value in values], 0)


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
    before, after = types_of(scan.states), types_of(body.outputs[:n_states])
    if [*before, *slices] != types_of(body.inputs) or before != after:
        raise BadModel(
            f"{node}: a round is given {shown_types([*before, *slices])}, takes"
            f" {shown_types(types_of(body.inputs))} and returns {shown_types(after)} as its state;"
            " a change of type or shape is not supported"
        )
    joined = [
        ((*value.shape[:axis], scan.n_rounds, *value.shape[axis:]), value.dtype)
        for value, axis, _ in scan.results
    ]
    return [*before, *joined]


def _lower_scan(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add the rounds one after the other, each on its slices, and join what they return."""
    scan, body = _Scan.of(op), op.regions["body"]
    states = [lowering.tensor(value) for value in scan.states]
    sequences = [lowering.tensor(value) for value, _, _ in scan.sequences]
    collected: list[list[tuple[int, Tensor]]] = [[] for _ in scan.results]
    for i in range(scan.n_rounds):
        slices = []
        for tensor, (value, axis, backwards) in zip(sequences, scan.sequences, strict=True):
            entry_index = scan.n_rounds - 1 - i if backwards else i
            part = tensor.slice(axis, entry_index, entry_index + 1)
            slices.append(part.reshape(*value.shape[:axis], *value.shape[axis + 1 :]))
        inside = lowering.inside(f"round{i}")
        inside.tensors.update(zip(body.inputs, [*states, *slices], strict=True))
        inside.add(body.operations, body.outputs)
        lowering.builder.sequence.add(inside.builder.sequence)
        results = [inside.tensor(value) for value in body.outputs]
        states = results[: len(states)]
        for rounds, (_, _, backwards), tensor in zip(
            collected, scan.results, results[len(states) :], strict=True
        ):
            rounds.append((-i if backwards else i, tensor))
    joined = []
    for rounds, (value, axis, _) in zip(collected, scan.results, strict=True):
        shape = (*value.shape[:axis], 1, *value.shape[axis:])
        parts = [tensor.reshape(*shape) for _, tensor in sorted(rounds, key=lambda pair: pair[0])]
        joined.append(row_major_copy(lowering.builder, concat(parts, axis), "join"))
    everything = [*states, *joined]
    used = [tensor for tensor, o in zip(everything, op.outputs, strict=True) if o is not None]
    return tuple(used)


RECORDS = (Operator(name="Scan", decompose=_with_batch, infer=_scan_types, lower=_lower_scan),)
