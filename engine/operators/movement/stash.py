"""Stashes of a pipeline: what a stage keeps of several micro-batches for a later stage.

One micro-batch after the other, they change nothing; a program that runs stages of several
micro-batches at a time keeps them in rings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Node, Operation, Operator, Purpose
from tilescope.engine.library.popops.elementwise.operations import fills_variable
from tilescope.engine.library.popops.slicing.ring import (
    create_ring,
    create_slots,
    next_slot,
    read_ring,
    write_ring,
)
from tilescope.engine.lower import Lowering

__all__ = ["RECORDS", "RESTORE", "SLOT", "STASH"]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]


def _lower_slot(lowering: Lowering, op: Operation) -> Tensor:
    """Add counters, and go on to the next slot."""
    slots = create_slots(lowering.builder, "slots")
    slots.variable.purpose = str(Purpose.STASH)
    next_slot(lowering.builder, slots, op.attributes["n_slots"])
    return slots


def _stash_type(node: Node) -> list[Type]:
    x = node.operand(0)
    return [((node.attributes["n_slots"], *x.shape), x.dtype)]


def _stash_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    x, slot = arrays
    out = np.zeros((node.attributes["n_slots"], *x.shape), x.dtype)
    out[int(slot[0])] = x
    return [out]


def _lower_stash(lowering: Lowering, op: Operation) -> Tensor:
    value, slot = op.operand(0), lowering.tensor(op.operand(1))
    x = lowering.tensor(value)
    if not fills_variable(lowering.builder, x):
        x = lowering.copied(value)
    ring = create_ring(lowering.builder, x, op.attributes["n_slots"], "stash")
    ring.variable.purpose = str(Purpose.STASH)
    write_ring(lowering.builder, ring, x, slot)
    return ring


def _restore_array(_: Node, arrays: Sequence[Array]) -> list[Array]:
    ring, slot = arrays
    return [ring[int(slot[0])]]


def _lower_restore(lowering: Lowering, op: Operation) -> Tensor:
    ring, slot = (lowering.tensor(value) for value in op.operands)
    return read_ring(lowering.builder, ring, slot, "out")


#: The slot of the present micro-batch, of as many as the attribute ``n_slots`` says; on the device,
#: a counter on every tile.
SLOT = Operator(
    name="stash_slot",
    domain=ENGINE_DOMAIN,
    infer=lambda _: [((1,), "int32")],
    evaluate=lambda *_: [np.zeros(1, np.int32)],
    lower=_lower_slot,
)
#: The values of the last micro-batches; the operands are that of the present one, and its slot.
STASH = Operator(
    name="stash",
    domain=ENGINE_DOMAIN,
    infer=_stash_type,
    evaluate=_stash_array,
    lower=_lower_stash,
)
#: The value of a micro-batch from a stash; the operands are this, and the slot.
RESTORE = Operator(
    name="restore",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape[1:], node.operand(0).dtype)],
    evaluate=_restore_array,
    lower=_lower_restore,
)

RECORDS = (SLOT, STASH, RESTORE)
