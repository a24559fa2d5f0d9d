"""Loops that are unrolled.

Shapes in them change or depend on the number of the round, or a condition that is known decides how
many results of rounds there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.nodes.deciding import needs_rounds
from tilescope.engine.frontend.onnx.source.sequences import ValueSequence
from tilescope.engine.ir import Expansion, IrBuilder, Node, Region, Value
from tilescope.engine.operators.control.control import check_start, is_endless, reachable
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import joined

__all__ = ["Round", "is_unrolled", "unrolled"]

#: Rounds of a loop that is unrolled, at most.
_MOST_ROUNDS = 4096

#: Takes a round's number and the values that a body takes; returns what it returns.
Round = Callable[[int, Sequence[Value]], Sequence[Value]]


def is_unrolled(proto: onnx.NodeProto, inputs: Sequence[Value | None], body: Region | None) -> bool:
    """Return whether a node is a loop that only its rounds one by one can compute.

    Before the body is known, its number of rounds decides; after, whether it changes shapes, or
    returns results of its rounds without a largest number of them.
    """
    if proto.op_type != "Loop":
        return False
    if body is None:
        return needs_rounds(proto) or any(isinstance(item, ValueSequence) for item in inputs)
    states = inputs[2:]
    after = body.outputs[1 : 1 + len(states)]
    rounds, condition = [*inputs, None, None][:2]
    if len(body.outputs) > 1 + len(states) and reachable(rounds) is None:
        return not is_endless(condition, body)
    is_known = bool(inputs) and inputs[0] is not None and inputs[0].known is not None
    return is_known and any(
        before is not None and before.shape != value.shape
        for before, value in zip(states, after, strict=False)
    )


def unrolled(node: Node, builder: IrBuilder, run_round: Round) -> tuple[Value, ...]:
    """Add the rounds of a loop one after the other, and return its results.

    Parameters
    ----------
    node
        The loop, without its body.
    builder
        Where joins of the rounds' results go.
    run_round
        Adds a round.

    Raises
    ------
    BadModel
        When the number of rounds or a condition is not known, or there are too many rounds.
    """
    check_start(node)
    n_rounds = _known(node, node.optional(0), "the number of rounds", _MOST_ROUNDS + 1)
    goes_on = bool(_known(node, node.optional(1), "the condition", 1))
    states = [node.operand(i) for i in range(2, len(node.inputs))]
    collected: list[list[Value]] = [[] for _ in range(node.n_outputs - len(states))]
    number = 0
    while goes_on and number < n_rounds:
        if number == _MOST_ROUNDS:
            raise BadModel(f"{node}: more than {_MOST_ROUNDS:,} rounds, too many to unroll")
        index = builder.constant(np.array(number, np.int64), f"{node.name}/round")
        results = run_round(number, [index, builder.constant(np.array(goes_on), "true"), *states])
        goes_on = bool(_known(node, results[0], f"the condition after round {number}", 1))
        states = list(results[1 : 1 + len(states)])
        for rounds, value in zip(collected, results[1 + len(states) :], strict=True):
            rounds.append(value)
        number += 1
    if collected and not number:
        raise BadModel(f"{node} collects results of its rounds but has none: remove it")
    expansion = Expansion(builder, node, node.name)
    return (*states, *(_stacked(expansion, rounds) for rounds in collected))


def _known(node: Node, value: Value | None, subject: str, usual: int) -> int:
    """Return a number or a condition that a loop is unrolled by."""
    if value is None:
        return usual
    if value.known is None:
        raise BadModel(
            f"{node}: shapes depend on its rounds, and {subject} is not known at compile time:"
            " state the largest number of rounds, or give the inputs that decide with --set"
        )
    if value.known.size != 1:
        raise BadModel(f"{node}: {subject} has shape {value.shape}: expected one element")
    return int(value.known.reshape(()))


def _stacked(expansion: Expansion, rounds: Sequence[Value]) -> Value:
    """Emit the results of rounds along a new first axis."""
    return joined(expansion, [reshape(expansion, value, (1, *value.shape)) for value in rounds], 0)
