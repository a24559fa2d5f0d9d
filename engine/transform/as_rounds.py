"""Loops and scans with a known number of rounds, in the form that has gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, IrBuilder, Node, Region, Value
from tilescope.engine.operators.control.control import is_endless, reachable
from tilescope.engine.operators.control.rounds import ROUNDS
from tilescope.engine.operators.movement.layout import TRANSPOSE
from tilescope.engine.operators.movement.slicing import part

__all__ = ["LOOPS", "as_rounds"]

#: Keys of the operators that become rounds.
LOOPS = ("Loop", "Scan")


def as_rounds(builder: IrBuilder, node: Node, outputs: Sequence[str]) -> tuple[Value | None, ...]:
    """Add a loop or scan as rounds, which also return the states before every round.

    Parameters
    ----------
    builder
        Takes the operations.
    node
        A Loop or a Scan, whose body has the form of training.
    outputs
        Names of the results.

    Raises
    ------
    BadModel
        When the number of rounds is not known.
    """
    expansion = Expansion(builder, node, next(filter(None, outputs), node.name))
    return (_loop if node.operator.key == "Loop" else _scan)(builder, node, expansion)


def _loop(builder: IrBuilder, node: Node, expansion: Expansion) -> tuple[Value | None, ...]:
    body, rounds = node.regions["body"], reachable(node.optional(0))
    if rounds is None or rounds.known is None or not is_endless(node.optional(1), body):
        raise BadModel(
            f"{node} lies between a parameter and the loss, and data decide how many rounds it has:"
            " a loop that is trained needs a number of rounds that is known, and no condition that"
            " ends it; keep the parameters before it and in it from being trained"
        )
    n_rounds, states = int(rounds.known.item()), node.inputs[2:]
    number, condition = body.inputs[:2]
    true = expansion.constant(np.ones(condition.shape, bool), "true")
    numbers = np.arange(n_rounds, dtype=number.dtype).reshape(n_rounds, *number.shape)
    slices = [(number, expansion.constant(numbers, "rounds"))]
    results = _added(
        builder, node, body, states, slices, body.inputs[2:], body.outputs[1:], {condition: true}
    )
    count = expansion.constant(np.array(n_rounds), "number")
    n_visible = len(body.outputs) - 1
    return (*results[:n_visible], count)[: max(len(results[:n_visible]), node.n_outputs)]


def _scan(builder: IrBuilder, node: Node, expansion: Expansion) -> tuple[Value | None, ...]:
    body, count = node.regions["body"], node.attributes["num_scan_inputs"]
    n_states = len(node.inputs) - count
    slices, n_results = [], len(body.outputs) - n_states
    axes = node.attributes.get("scan_input_axes") or [0] * count
    backwards = node.attributes.get("scan_input_directions") or [0] * count
    pairs = zip(node.operands[n_states:], body.inputs[n_states:], axes, backwards, strict=True)
    for value, given, stated, is_backwards in pairs:
        axis = stated % len(value.shape)
        order = (axis, *(d for d in range(len(value.shape)) if d != axis))
        slices.append((given, _turned(expansion, _ordered(expansion, value, order), is_backwards)))
    states = body.inputs[:n_states]
    results = _added(
        builder, node, body, node.operands[:n_states], slices, states, body.outputs, {}
    )
    axes = node.attributes.get("scan_output_axes") or [0] * n_results
    backwards = node.attributes.get("scan_output_directions") or [0] * n_results
    collected = []
    for value, stated, is_backwards in zip(
        results[n_states : n_states + n_results], axes, backwards, strict=True
    ):
        rank = len(value.shape)
        places = [*range(1, rank)]
        places.insert(stated % rank, 0)
        collected.append(
            _ordered(expansion, _turned(expansion, value, is_backwards), tuple(places))
        )
    return (*results[:n_states], *collected)


def _turned(expansion: Expansion, value: Value, is_backwards: int) -> Value:
    """Emit a sequence from its last entry to its first, if it runs backwards."""
    if not is_backwards:
        return value
    rest = value.shape[1:]
    starts, stops = (value.shape[0] - 1, *[0] * len(rest)), (-1, *rest)
    return part(expansion, value, starts, stops, (-1, *[1] * len(rest)))


def _ordered(expansion: Expansion, value: Value, order: tuple[int, ...]) -> Value:
    if order == tuple(range(len(order))):
        return value
    return expansion.emit(TRANSPOSE, value, order=order)


def _added(  # what a loop is made of
    builder: IrBuilder,
    node: Node,
    body: Region,
    initial: Sequence[Value | None],
    slices: Sequence[tuple[Value, Value]],
    states: Sequence[Value],
    outputs: Sequence[Value],
    known: dict[Value, Value],
) -> tuple[Value, ...]:
    """Add rounds; their results are those of the body, and the states before every round.

    Parameters
    ----------
    initial
        The first states.
    slices
        What the body takes of sequences, and these, with the rounds first.
    states, outputs
        What the body takes and returns: its states, then its results.
    known
        Other inputs of the body.
    """
    inside = IrBuilder(body.name)
    before = [Value(f"{state.name}/before", state.shape, state.dtype) for state in states]
    entries = [Value(f"{given.name}/entry", given.shape, given.dtype) for given, _ in slices]
    here = dict(known) | dict(zip(states, before, strict=True))
    here |= dict(zip([given for given, _ in slices], entries, strict=True))
    inside.copy(body.operations, here)
    returned = [here.get(value, value) for value in outputs]
    region = inside.region([*before, *entries], [*returned, *before])
    rounds = Node(
        operator=ROUNDS,
        name=node.name,
        source=node.source,
        inputs=(*initial, *(sequence for _, sequence in slices)),
        attributes={
            "n_states": len(states),
            "n_rounds": slices[0][1].shape[0],
            "is_reversed": False,
        },
        n_outputs=len(region.outputs),
        regions={"body": region},
        hints=node.hints,
        origin=node.origin,
        training_pass=node.training_pass,
    )
    names = [f"{node.name}/{value.name}" for value in region.outputs]
    results = IrBuilder.add(builder, rounds, names)
    return tuple(value for value in results if value is not None)
