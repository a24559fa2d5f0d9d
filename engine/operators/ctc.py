"""Connectionist temporal classification: the loss of a sequence whose alignment is not known.

The classes of a label are joined by blanks, and a state is a place among them. Round by round, the
logarithm of the probability of all alignments that end in a state follows from those of the round
before. Source: A. Graves and others, Connectionist Temporal Classification, ICML 2006, section 4.1;
https://pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html for the reductions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, IrBuilder, Node, Value
from tilescope.engine.operators.control.rounds import ROUNDS
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.indexing.indexing import GATHER_ELEMENTS
from tilescope.engine.operators.movement.layout import BROADCAST, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.norm.softmax import LOG_SOFTMAX
from tilescope.engine.operators.reduction import reduced

__all__ = ["CtcOperands", "ctc_loss"]

#: The logarithm of no probability: far below all that occur, and finite.
_NONE = -1e30
#: A loss beyond it is that of a label which no alignment gives.
_IMPOSSIBLE = 1e29


@dataclass(frozen=True)
class CtcOperands:
    """What a loss is computed from.

    Parameters
    ----------
    scores
        Shape (steps, batch, classes): what softmax makes probabilities of.
    labels
        Integers, shape (batch, longest label); what is beyond the length of a label is not read.
    steps, lengths
        Integers, shape (batch,): steps of every sequence, and lengths of labels; all of them if
        None.
    blank
        The class of no label.
    takes_logs
        Whether the scores are logarithms of probabilities.
    of_impossible
        The loss where no alignment gives the label.
    """

    scores: Value
    labels: Value
    steps: Value | None = None
    lengths: Value | None = None
    blank: int = 0
    takes_logs: bool = False
    of_impossible: float = float("inf")


def ctc_loss(expansion: Expansion, given: CtcOperands, reduction: str) -> Value:
    """Emit the loss.

    Parameters
    ----------
    given
        What it is computed from.
    reduction
        ``mean``: of the losses by length of their labels; ``sum``; or ``none``, a loss by sequence,
        shape (batch,).

    Raises
    ------
    BadModel
        When shapes or types do not fit.
    """
    _check(expansion.node, given)
    n_steps, n_batch, _ = given.scores.shape
    logs = given.scores
    if not given.takes_logs:
        logs = expansion.emit(LOG_SOFTMAX, logs, axis=2)
    classes = _with_blanks(expansion, given)
    n_states = classes.shape[1]
    every = expansion.emit(
        BROADCAST, reshape(expansion, classes, (1, *classes.shape)), shape=(n_steps, *classes.shape)
    )
    emitted = expansion.emit(GATHER_ELEMENTS, logs, every, axis=2)
    jumps = _jumps(expansion, given, classes)
    start = np.full((n_batch, n_states), _NONE, np.float32)
    start[:, 0] = 0
    dtype = given.scores.dtype
    first = expansion.constant(start.astype(dtype), "start")
    last = _rounds(expansion, given, first, emitted, jumps)
    losses = _of_ends(expansion, given, last)
    if reduction == "none":
        return losses
    if reduction == "mean":
        length = _lengths(expansion, given)
        own = expansion.emit(CAST, length, dtype=dtype)
        losses = mapped(expansion, operand(0) / call("maximum", operand(1), 1.0), losses, own)
    scale = 1 / n_batch if reduction == "mean" else 1.0
    return reshape(expansion, reduced(expansion, "sum", losses, [0], scale), ())


def _check(node: Node, given: CtcOperands) -> None:
    """Refuse operands that do not fit.

    Raises
    ------
    BadModel
        Says what is expected.
    """
    scores, labels = given.scores, given.labels
    if len(scores.shape) != 3 or not scores.dtype.startswith("float"):
        raise BadModel(
            f"{node}: ctc takes scores of shape (steps, batch, classes), and {scores.name!r} is"
            f" {scores.dtype} {scores.shape}"
        )
    _, n_batch, n_classes = scores.shape
    if len(labels.shape) != 2 or labels.shape[0] != n_batch or not labels.shape[1]:
        raise BadModel(
            f"{node}: labels of shape {labels.shape} do not fit scores of shape {scores.shape}:"
            f" ctc takes labels of shape ({n_batch}, longest label)"
        )
    if not 0 <= given.blank < n_classes:
        raise BadModel(f"{node}: the blank is class {given.blank} of {n_classes}")
    for value in (labels, given.steps, given.lengths):
        if value is None:
            continue
        if np.dtype(value.dtype).kind not in "iu":
            raise BadModel(f"{node}: {value.name!r} is {value.dtype}: expected integers")
        if value is not labels and value.shape != (n_batch,):
            raise BadModel(f"{node}: {value.name!r} has shape {value.shape}: expected ({n_batch},)")


def _lengths(expansion: Expansion, given: CtcOperands) -> Value:
    if given.lengths is not None:
        return given.lengths
    n_batch, longest = given.labels.shape
    return expansion.constant(np.full(n_batch, longest, given.labels.dtype), "lengths")


def _with_blanks(expansion: Expansion, given: CtcOperands) -> Value:
    """Emit the classes of the states: a blank, then every class of the label with one after it."""
    labels = given.labels
    n_batch, longest = labels.shape
    blanks = expansion.constant(np.full((n_batch, longest, 1), given.blank, labels.dtype), "blanks")
    pairs = joined(expansion, [blanks, reshape(expansion, labels, (n_batch, longest, 1))], 2)
    rows = reshape(expansion, pairs, (n_batch, 2 * longest))
    end = expansion.constant(np.full((n_batch, 1), given.blank, labels.dtype), "blank")
    return joined(expansion, [rows, end], 1)


def _jumps(expansion: Expansion, given: CtcOperands, classes: Value) -> Value:
    """Emit what is added for coming from two states before: 0 between unlike classes, else none."""
    n_batch, n_states = classes.shape
    two = along(expansion, classes, 1, 0, n_states - 2)
    blanks = expansion.constant(np.full((n_batch, 2), given.blank, classes.dtype), "before")
    before = joined(expansion, [blanks, two], 1)
    unlike = binary(expansion, "not_equal", classes, before)
    is_class = binary(expansion, "not_equal", classes, scalar(expansion, given.blank, classes))
    may = binary(expansion, "logical_and", unlike, is_class)
    zero, none = (expansion.constant(np.asarray(x, given.scores.dtype), "jump") for x in (0, _NONE))
    return chosen(expansion, may, zero, none)


def _rounds(
    expansion: Expansion, given: CtcOperands, first: Value, emitted: Value, jumps: Value
) -> Value:
    """Emit the steps of the sequence; return the logarithms after the last one."""
    n_steps, n_batch, n_states = emitted.shape
    node, builder = expansion.node, expansion.builder
    inside = IrBuilder("body")
    here = Expansion(inside, node, f"{expansion.output}/step")
    state = Value("state", (n_batch, n_states), first.dtype)
    entry = Value("emitted", (n_batch, n_states), first.dtype)
    number = Value("step", (), "int64")
    by_one, by_two = (_moved(here, state, n) for n in (1, 2))
    by_two = mapped(here, operand(0) + operand(1), by_two, jumps)
    a, b, c = (operand(i) for i in range(3))
    largest = mapped(here, call("maximum", call("maximum", a, b), c), state, by_one, by_two)
    total = call("exp", a - operand(3)) + call("exp", b - operand(3)) + call("exp", c - operand(3))
    after = mapped(
        here,
        operand(3) + call("log", total) + operand(4),
        *(state, by_one, by_two, largest, entry),
    )
    if given.steps is not None:
        steps = here.emit(CAST, given.steps, dtype="int64")
        is_due = binary(here, "less", number, reshape(here, steps, (n_batch, 1)))
        after = chosen(here, is_due, after, state)
    # Rounds that have a gradient return the states before them, too.
    region = inside.region([state, entry, number], [after, state])
    numbers = expansion.constant(np.arange(n_steps), "steps")
    rounds = Node(
        operator=ROUNDS,
        name=node.name,
        source=node.source,
        inputs=(first, emitted, numbers),
        attributes={"n_states": 1, "n_rounds": n_steps, "is_reversed": False},
        n_outputs=2,
        regions={"body": region},
    )
    last, _ = builder.add(rounds, tuple(f"{expansion.output}/{n}" for n in ("ends", "alignments")))
    assert last is not None
    return last


def _moved(expansion: Expansion, state: Value, n: int) -> Value:
    """Emit the states moved by so many places, with none in front."""
    n_batch, n_states = state.shape
    none = expansion.constant(np.full((n_batch, n), _NONE, state.dtype), f"none{n}")
    return joined(expansion, [none, along(expansion, state, 1, 0, n_states - n)], 1)


def _of_ends(expansion: Expansion, given: CtcOperands, last: Value) -> Value:
    """Emit the losses: alignments end in the last class or in the blank after it."""
    n_batch = last.shape[0]
    length = _lengths(expansion, given)
    two, one, zero = (scalar(expansion, n, length) for n in (2, 1, 0))
    end = binary(expansion, "multiply", length, two)
    before = binary(expansion, "maximum", binary(expansion, "subtract", end, one), zero)
    ends = [
        reshape(
            expansion,
            expansion.emit(GATHER_ELEMENTS, last, reshape(expansion, place, (n_batch, 1)), axis=1),
            (n_batch,),
        )
        for place in (end, before)
    ]
    # An empty label has one end: the same place is not counted twice.
    is_empty = binary(expansion, "equal", length, zero)
    none = expansion.constant(np.asarray(_NONE, last.dtype), "none")
    ends[1] = chosen(expansion, is_empty, none, ends[1])
    a, b = operand(0), operand(1)
    largest = mapped(expansion, call("maximum", a, b), *ends)
    total = call("exp", a - operand(2)) + call("exp", b - operand(2))
    loss = mapped(expansion, -(operand(2) + call("log", total)), *ends, largest)
    beyond = call("select", given.of_impossible, a, call("greater", a, _IMPOSSIBLE))
    return mapped(expansion, beyond, loss)
