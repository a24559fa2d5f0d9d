"""What no compilation could make fit: found in the operator graph, before anything is lowered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

from tilescope.engine.errors import OutOfTileMemory
from tilescope.engine.graph.unchecked_graph import REPORTED_BYTES
from tilescope.engine.ir import Model, Operation, Value
from tilescope.engine.ir.model import walk
from tilescope.engine.machine import Machine
from tilescope.engine.number.dtype import dtype_of

__all__ = ["NOTHING_BEYOND", "REPORTED", "Excess", "check_capacity", "control_code_bytes"]

#: Primitives that write every element of their results, and so take a compute set and memory of
#: their own. What others return may be a view.
_RANDOM = ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_COMPUTING = frozenset(
    ("binary", "unary", "non_linearity", "matmul", "convolution", "select", "softmax", "OneHot")
).union(_RANDOM)


@dataclass(frozen=True)
class Excess:
    """How large a model that cannot fit may be and still be compiled, for the report of it.

    Parameters
    ----------
    n_bytes
        Bytes of a single value, or of all weights.
    n_steps
        Least steps of a program whose control code alone does not fit.
    """

    n_bytes: int
    n_steps: int


#: Compiled for a report. Assumption: ten seconds are bearable, a millisecond for every operation.
REPORTED = Excess(n_bytes=REPORTED_BYTES, n_steps=10_100)
#: For those who want no report.
NOTHING_BEYOND = Excess(0, 0)


def check_capacity(model: Model, machine: Machine, excess: Excess) -> None:
    """Refuse a model that does not fit however it is compiled.

    Parameters
    ----------
    model
        Of primitives.
    machine
        The machine to compile for.
    excess
        What is let pass although it does not fit.

    Raises
    ------
    OutOfTileMemory
        When a single value exceeds all tiles together, or the control code of all steps the
        memory of a tile that holds code.
    """
    _check_values(model, machine, excess.n_bytes)
    needed, n_steps = control_code_bytes(model, machine)
    if needed <= machine.non_interleaved_bytes or n_steps <= excess.n_steps:
        return
    raise OutOfTileMemory(
        f"Model {model.name!r} takes {n_steps:,} steps or more, one for every operation, input and"
        f" output, and their control code at least {needed:,} bytes on every tile: a tile of"
        f" {machine.name} holds code in its first {machine.non_interleaved_bytes:,} bytes only;"
        " split the model, join its inputs, or write repeated operations as a Loop"
    )


def control_code_bytes(model: Model, machine: Machine) -> tuple[int, int]:
    """Return lower bounds of the bytes of code on the fullest tile, and of the steps it is for.

    Every operation that computes is one step at least, as is every copy from and to the host, and
    every tile has the control code of all steps of its IPU. Repeated operations share vertices and
    exchange code, but not their steps.

    Parameters
    ----------
    model
        Of primitives; what its regions compute is left out.
    machine
        The machine to compile for.
    """
    by_ipu = Counter(
        _ipu_of(operation, model)
        for operation in model.operations
        if operation.operator.name in _COMPUTING
        and all(prod(value.shape) for value in (*operation.operands, *operation.results))
    )
    of_all = by_ipu.pop(None, 0)
    n_steps = of_all + max(by_ipu.values(), default=0)
    if model.data is None:
        copied = [*model.inputs, *(value for _, value in model.outputs)]
        n_steps += sum(value.known is None for value in copied)
    fixed = machine.stack_bytes + machine.control_code_bytes
    return fixed + n_steps * machine.control_code_bytes_per_step, n_steps


def _ipu_of(operation: Operation, model: Model) -> int | None:
    """Return what an operation is on, as far as it says so: an IPU, or that of its stage."""
    placement = operation.placement
    if placement.ipu is None and model.is_pipelined:
        return placement.stage
    return placement.ipu


def _check_values(model: Model, machine: Machine, most_bytes: int) -> None:
    """Refuse a value of more bytes than all tiles have, and than are compiled for a report.

    Raises
    ------
    OutOfTileMemory
        When one is too large.
    """
    room_bytes = machine.capacity_bytes
    results = (
        value
        for operation in walk(model.operations)
        if operation.operator.name in _COMPUTING
        for value in operation.results
    )
    for value in (*model.inputs, *results):
        if _bytes(value) > max(room_bytes, most_bytes):
            raise OutOfTileMemory(
                f"Value {value.name!r} of shape {value.shape} takes {_bytes(value):,} bytes:"
                f" {machine.name} has {room_bytes:,} on all {machine.n_tiles:,} tiles; split it,"
                " or make it smaller"
            )


def _bytes(value: Value) -> int:
    """Return what a value takes on the device."""
    return prod(value.shape) * dtype_of(value.dtype).n_bytes
