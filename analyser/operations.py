"""Operations: what the calls that made a program cost, by debug context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from tilescope.analyser.cache import cached
from tilescope.analyser.call_tree import CallTree, call_tree
from tilescope.analyser.contexts import contexts
from tilescope.analyser.data_dependent import is_measured, measured
from tilescope.analyser.execution import PHASES, costs, execution, steps
from tilescope.analyser.machine import target
from tilescope.analyser.validation import require, require_below
from tilescope.reports import figures, schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "KindTotal",
    "Layer",
    "Operation",
    "OperationStep",
    "Operations",
    "inside",
    "operation_steps",
    "operations",
    "programs_of",
    "steps_of",
]

#: Whose calls are listed: the model's nodes, or the library calls that they became.
Layer: TypeAlias = Literal["library", "onnx"]


@dataclass(frozen=True)
class Operation:
    """A call and all that came of it, what it called in turn included.

    Attributes
    ----------
    operation
        Kind of the call, such as ``poplin.convolution``.
    cycles
        Time in its steps on the critical path, over all recorded runs; of one execution of each
        step when no run was recorded, cycles.
    compute_cycles
        Its compute cycles.
    flops
        Useful floating-point operations in the same executions, on all IPUs.
    utilisation
        Busy tile cycles over what all tiles of the IPUs that take part had in its steps, 0 to 1;
        None without steps.
    always_live_bytes, temporary_bytes
        Its variables that live always, and those and message buffers that do not, over all tiles.
    code_bytes
        Control and exchange code of its programs over all tiles; vertex code is shared.
    n_steps
        Steps that it became.
    """

    debug_context_id: int
    name: str
    operation: str
    cycles: int
    compute_cycles: int
    flops: int
    utilisation: float | None
    always_live_bytes: int
    temporary_bytes: int
    code_bytes: int
    n_steps: int


@dataclass(frozen=True)
class KindTotal:
    """All operations of one kind, cycles."""

    operation: str
    n_operations: int
    cycles: int
    flops: int


@dataclass(frozen=True)
class Operations:
    """The operations of a layer, those that take longest first.

    ``total_cycles`` is of the whole program, so that what is in no operation is the difference;
    ``n_runs`` is 0 where cycles are those of one execution of each step. ``calls``
    are those of all layers.
    """

    layer: Layer
    operations: tuple[Operation, ...]
    total_cycles: int
    n_runs: int
    calls: CallTree | None = None

    @property
    def cycles(self) -> int:
        """Time in operations, cycles."""
        return sum(operation.cycles for operation in self.operations)

    @property
    def by_key(self) -> dict[str, Operation]:
        """Operations by what identifies them in this report, the longest first.

        The key is the name; of several of one name, ``name#2`` and so on in program order.
        """
        ordered = sorted(self.operations, key=lambda operation: operation.debug_context_id)
        seen: dict[str, int] = {}
        keys: dict[int, str] = {}
        for operation in ordered:
            number = seen[operation.name] = seen.get(operation.name, 0) + 1
            key = operation.name if number == 1 else f"{operation.name}#{number}"
            keys[operation.debug_context_id] = key
        return {keys[operation.debug_context_id]: operation for operation in self.operations}

    @property
    def kinds(self) -> tuple[KindTotal, ...]:
        """The same by kind, the longest first."""
        found: dict[str, list[Operation]] = {}
        for operation in self.operations:
            found.setdefault(operation.operation, []).append(operation)
        totals = [
            KindTotal(
                kind, len(group), sum(one.cycles for one in group), sum(one.flops for one in group)
            )
            for kind, group in found.items()
        ]
        return tuple(sorted(totals, key=lambda total: (-total.cycles, total.operation)))


@dataclass(frozen=True)
class OperationStep:
    """A step of an operation.

    ``cycles`` are on the critical path over all recorded runs, of one execution when none was
    recorded; ``n_executions`` are on the IPU where it ran most often, 0 without a run.
    """

    step_id: int
    program_id: int
    kind: str
    name: str
    phase: str
    cycles: int
    n_executions: int


@cached
def operations(report: Report, layer: Layer = "library") -> Operations:
    """Return what each call of a layer costs; a call inside another counts as part of it."""
    every = contexts(report)
    owner = _owners(report, layer)
    listed = [number for number, owns in owner.items() if number == owns]
    row_of = {number: row for row, number in enumerate(listed)}
    of_step, code = _programs(report, {number: row_of[owns] for number, owns in owner.items()})
    ran = execution(report)
    time = _step_time(report)
    n_rows, machine = len(listed), target(report)

    def summed(values: NDArray[np.int64]) -> list[int]:
        answer = np.zeros(n_rows, np.int64)
        np.add.at(answer, of_step[of_step >= 0], values[of_step >= 0])
        return [int(item) for item in answer]

    columns = zip(
        *(
            summed(values)
            for values in (time.cycles, time.compute, time.flops, time.busy, time.taken)
        ),
        summed(np.ones(len(of_step), np.int64)),
        strict=True,
    )
    memory = _variables(report, {number: row_of[owns] for number, owns in owner.items()}, n_rows)
    found = [
        Operation(
            number,
            every[number].name,
            every[number].operation,
            cycles,
            compute,
            flops,
            figures.parallel_efficiency(busy, taken, machine.tiles_per_ipu),
            int(memory[row, 1]),
            int(memory[row, 0]),
            code.get(row, 0),
            n_steps,
        )
        for row, (number, (cycles, compute, flops, busy, taken, n_steps)) in enumerate(
            zip(listed, columns, strict=True)
        )
    ]
    found.sort(key=lambda operation: (-operation.cycles, operation.debug_context_id))
    total = ran.total_cycles if ran.n_runs else int(time.cycles.sum())
    return Operations(layer, tuple(found), total, ran.n_runs, call_tree(report))


def inside(report: Report, context_id: int) -> frozenset[int]:
    """Return a debug context and all in it, by id."""
    within, found = _contexts_within(report), [context_id]
    for one in found:
        found += within.get(one, ())
    return frozenset(found)


@cached
def _programs_by_context(report: Report) -> dict[int, list[int]]:
    """Return the programs of every debug context, in order of their ids."""
    table = schema.program
    rows = report.fetch(
        select(table.c.debug_context_id, table.c.program_id)
        .where(table.c.debug_context_id.is_not(None))
        .order_by(table.c.program_id)
    )
    found: dict[int, list[int]] = {}
    for context_id, program_id in rows:
        found.setdefault(context_id, []).append(program_id)
    return found


@cached
def _contexts_within(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the debug contexts that stand directly in each."""
    found: dict[int, list[int]] = {}
    for context in contexts(report).values():
        if context.parent_id is not None:
            found.setdefault(context.parent_id, []).append(context.debug_context_id)
    return {parent: tuple(children) for parent, children in found.items()}


@cached
def _step_of_program(report: Report) -> dict[int, int]:
    """Return the step of every program that is one."""
    table = schema.program
    statement = select(table.c.program_id, table.c.step_id).where(table.c.step_id.is_not(None))
    return dict(report.fetch(statement))


def programs_of(report: Report, context_id: int) -> tuple[int, ...]:
    """Return the programs of a debug context and those in it, in order of their ids."""
    own = _programs_by_context(report)
    return tuple(sorted(one for part in inside(report, context_id) for one in own.get(part, ())))


def steps_of(report: Report, context_id: int | None) -> tuple[int, ...]:
    """Return the steps that a debug context and those in it became, in program order."""
    if context_id is None:
        return ()
    of_program = _step_of_program(report)
    programs = programs_of(report, context_id)
    found = sorted(of_program[program] for program in programs if program in of_program)
    require_below(report, np.array(found, np.int64), len(steps(report)), "step")
    return tuple(found)


def operation_steps(report: Report, context_id: int) -> tuple[OperationStep, ...]:
    """Return the steps that an operation became, in program order, with what they cost."""
    every, ran = steps(report), execution(report)
    cycles = _step_time(report).cycles
    return tuple(
        OperationStep(
            step_id,
            int(every.program_id[step_id]),
            every.kind[step_id],
            every.name[step_id],
            PHASES[every.phase[step_id]],
            int(cycles[step_id]),
            int(ran.executions[:, step_id].max(initial=0)),
        )
        for step_id in steps_of(report, context_id)
    )


@dataclass(frozen=True)
class _Time:
    """Of every step, over the recorded executions, or one each when none was recorded."""

    cycles: NDArray[np.int64]
    compute: NDArray[np.int64]
    flops: NDArray[np.int64]
    busy: NDArray[np.int64]
    taken: NDArray[np.int64]


@cached
def _step_time(report: Report) -> _Time:
    """Return the time of every step."""
    every, ran, cost = steps(report), execution(report), costs(report)
    n_steps = len(every)
    step_id, ipu_id = cost.column["step_id"], cost.column["ipu_id"]
    times = ran.executions[ipu_id, step_id] if ran.n_runs else np.ones(len(step_id), np.int64)

    def summed(values: NDArray[np.int64]) -> NDArray[np.int64]:
        answer = np.zeros(n_steps, np.int64)
        np.add.at(answer, step_id, values * times)
        return answer

    cycles = ran.step_cycles if ran.n_runs else cost.per_step("cycles", n_steps, largest=True)
    busy, taken = summed(cost.column["total_tile_cycles"]), summed(cost.column["cycles"])
    if ran.n_runs:
        # Where data decide, each execution counts with what it took.
        counted = is_measured(report)
        busy[counted] = taken[counted] = 0
        for executed in measured(report).values():
            np.add.at(busy, executed.step_id, executed.count * executed.total_tile_cycles)
            np.add.at(taken, executed.step_id, executed.count * executed.max_tile_cycles)
    return _Time(
        cycles,
        np.where(every.phase == PHASES.index("compute"), cycles, 0),
        summed(cost.column["flops"]),
        busy,
        taken,
    )


def _owners(report: Report, layer: Layer) -> dict[int, int]:
    """Return for every context in an operation of a layer the operation's, the outermost."""
    owner: dict[int, int] = {}
    for number, context in contexts(report).items():
        if context.parent_id in owner:
            owner[number] = owner[context.parent_id]
        elif context.layer == layer:
            owner[number] = number
    return owner


def _programs(report: Report, row_of: dict[int, int]) -> tuple[NDArray[np.int64], dict[int, int]]:
    """Return the operation's row of every step, -1 for none, and code bytes by row."""
    table = schema.program
    rows = report.fetch(select(table.c.step_id, table.c.debug_context_id, table.c.code_bytes))
    of_step = np.full(len(steps(report)), -1, np.int64)
    code: dict[int, int] = {}
    for step_id, context, code_bytes in rows:
        row = row_of.get(context)
        if row is None:
            continue
        code[row] = code.get(row, 0) + code_bytes
        if step_id is not None:
            require(report, 0 <= step_id < len(of_step), f"step {step_id} does not exist")
            of_step[step_id] = row
    return of_step, code


def _variables(report: Report, row_of: dict[int, int], n_rows: int) -> NDArray[np.int64]:
    """Return bytes of variables by operation: those that come and go, those that always live."""
    table = schema.variable
    answer = np.zeros((n_rows, 2), np.int64)
    rows = report.fetch(
        select(table.c.debug_context_id, table.c.bytes, table.c.is_always_live).where(
            table.c.debug_context_id.is_not(None)
        )
    )
    for context, n_bytes, is_always_live in rows:
        if context in row_of:
            answer[row_of[context], int(bool(is_always_live))] += n_bytes
    return answer
