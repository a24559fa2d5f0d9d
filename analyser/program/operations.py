"""Operations: what the calls that made a program cost, by debug context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.call_tree import Call, CallTree, call_tree
from tilescope.analyser.program.contexts import contexts
from tilescope.analyser.program.stages import stages_of_steps
from tilescope.analyser.program.training import has_training, place_of
from tilescope.analyser.time.data_dependent import is_measured, measured
from tilescope.analyser.time.execution import PHASES, costs, execution, steps
from tilescope.analyser.time.selection import (
    ALL,
    Selection,
    selected_costs,
    selected_cycles,
    selected_step_cycles,
)
from tilescope.analyser.validation import require, require_below
from tilescope.reports import figures, schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "CALL_LAYERS",
    "LAYERS",
    "KindTotal",
    "Layer",
    "Operation",
    "OperationStep",
    "Operations",
    "inside",
    "listed_layer",
    "numbers_of_steps",
    "operation_names",
    "operation_steps",
    "operations",
    "programs_of",
    "steps_of",
]

#: What is listed: the model's nodes, the library calls that they became, or their steps.
Layer: TypeAlias = Literal["library", "model", "step"]
#: The layers, those of an author first.
LAYERS: tuple[Layer, ...] = ("library", "model", "step")
#: The layers of calls, the outermost first.
CALL_LAYERS: tuple[Layer, ...] = ("model", "library")


@dataclass(frozen=True)
class Operation:
    """A call and all that came of it, what it called in turn included.

    Attributes
    ----------
    operation
        Kind of the call, such as ``poplin.convolution``; of a step that of its program.
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
        Its variables that live always, and those and message buffers that do not, over all tiles;
        of a step those that it reads or writes.
    code_bytes
        Control and exchange code of its programs over all tiles; vertex code is shared.
    n_steps
        Steps that it became.
    step_id
        The step, in the layer of steps.
    training_pass
        What it belongs to in a training step; None outside training.
    origin
        Name of the forward operation that it is, or is part of, the gradient of; None for others.
    dtype
        Type that a node of the model computes in: that of its first result in floating point, else
        of such an operand. None for library calls and steps, and for nodes without any.
    ipu_id
        The IPU that its steps run on; None where several take part, and without steps.
    stage
        The stage of a pipeline that its steps are work of, such as ``backward 0``; None where
        that is none or several.
    """

    debug_context_id: int
    """Who asked for it; of a step -1 where it has none."""
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
    step_id: int | None = None
    training_pass: str | None = None
    origin: str | None = None
    dtype: str | None = None
    ipu_id: int | None = None
    stage: str | None = None

    @property
    def number(self) -> int:
        """Its identity in its layer, in program order."""
        return self.debug_context_id if self.step_id is None else self.step_id


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
    are those of all layers. ``only_pass`` is the pass of a training step to which the list is
    limited; None for all.
    """

    layer: Layer
    operations: tuple[Operation, ...]
    total_cycles: int
    n_runs: int
    calls: CallTree | None = None
    only_pass: str | None = None

    @property
    def has_ipus(self) -> bool:
        """Whether they run on different IPUs."""
        return len({operation.ipu_id for operation in self.operations} - {None}) > 1

    @property
    def has_stages(self) -> bool:
        """Whether any is work of a stage of a pipeline."""
        return any(operation.stage for operation in self.operations)

    def of_stage(self, name: str) -> Operations:
        """Return those of one stage of a pipeline, such as ``backward 0``."""
        kept = tuple(item for item in self.operations if item.stage == name)
        return replace(self, operations=kept)

    @property
    def has_training(self) -> bool:
        """Whether any belongs to a pass of a training step."""
        return any(operation.training_pass for operation in self.operations)

    def of_pass(self, name: str) -> Operations:
        """Return those of one pass of a training step; of an empty name those of none."""
        kept = tuple(item for item in self.operations if (item.training_pass or "") == name)
        return replace(self, operations=kept, only_pass=name)

    @property
    def cycles(self) -> int:
        """Time in operations, cycles."""
        return sum(operation.cycles for operation in self.operations)

    @property
    def code_bytes(self) -> int:
        """Control and exchange code of operations over all tiles."""
        return sum(operation.code_bytes for operation in self.operations)

    @property
    def flops(self) -> int:
        """Useful floating-point operations."""
        return sum(operation.flops for operation in self.operations)

    @property
    def by_key(self) -> dict[str, Operation]:
        """Operations by what identifies them in this report, the longest first.

        The key is the name; of several of one name, ``name#2`` and so on in program order.
        """
        ordered = sorted(self.operations, key=lambda operation: operation.number)
        n_of_key: dict[str, int] = {}
        keys: dict[int, str] = {}
        for operation in ordered:
            number = n_of_key[operation.name] = n_of_key.get(operation.name, 0) + 1
            key = operation.name if number == 1 else f"{operation.name}#{number}"
            keys[operation.number] = key
        return {keys[operation.number]: operation for operation in self.operations}

    @property
    def kinds(self) -> tuple[KindTotal, ...]:
        """The same by kind, the longest first."""
        by_kind: dict[str, list[Operation]] = {}
        for operation in self.operations:
            by_kind.setdefault(operation.operation, []).append(operation)
        totals = [
            KindTotal(
                kind,
                len(group),
                sum(item.cycles for item in group),
                sum(item.flops for item in group),
            )
            for kind, group in by_kind.items()
        ]
        return tuple(sorted(totals, key=lambda total: (-total.cycles, total.operation)))


@dataclass(frozen=True)
class OperationStep:
    """A step of an operation.

    ``cycles`` are on the critical path over all recorded runs, of one execution when none was
    recorded; ``n_executions`` are on the IPU where it ran most often, 0 without a run. ``flops``
    are those of the same executions on all IPUs, ``code_bytes`` its control and exchange code over
    all tiles.
    """

    step_id: int
    program_id: int
    kind: str
    name: str
    phase: str
    cycles: int
    n_executions: int
    flops: int = 0
    code_bytes: int = 0


@cached
def operations(report: Report, layer: Layer = "library", selection: Selection = ALL) -> Operations:
    """Return what each call of a layer costs; a call inside another counts as part of it.

    Raises
    ------
    BadQuestion
        When the IPU or the run of the selection does not exist.
    """
    if layer == "step":
        return _step_operations(report, selection)
    every = contexts(report)
    owner = _owners(report, layer)
    listed = [number for number, owns in owner.items() if number == owns]
    row_of = {number: row for row, number in enumerate(listed)}
    of_step, code = _programs(report, {number: row_of[owns] for number, owns in owner.items()})
    time = _step_time(report, selection)
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
    tree, places = call_tree(report), _places(report, of_step, n_rows)
    operations_ = [
        Operation(
            number,
            every[number].name,
            every[number].operation,
            cycles,
            compute,
            flops,
            figures.parallel_efficiency(busy, taken_cycles, machine.tiles_per_ipu),
            int(memory[row, 1]),
            int(memory[row, 0]),
            code.get(row, 0),
            n_steps,
            None,
            *_training(report, number),
            _float_type(tree.call(number)),
            *places[row],
        )
        for row, (number, (cycles, compute, flops, busy, taken_cycles, n_steps)) in enumerate(
            zip(listed, columns, strict=True)
        )
    ]
    operations_.sort(key=lambda operation: (-operation.cycles, operation.debug_context_id))
    n_runs = execution(report, selection.run_id).n_runs
    return Operations(layer, tuple(operations_), selected_cycles(report, selection), n_runs, tree)


def _float_type(call: Call) -> str | None:
    """Return the first floating-point type of a call's results, else of its operands."""
    types = (operand[1] for operand in (*call.outputs, *call.inputs))
    return next((t for t in types if isinstance(t, str) and t.startswith("float")), None)


def _step_operations(report: Report, selection: Selection) -> Operations:
    """Return every step as an operation."""
    every, time, machine = steps(report), _step_time(report, selection), target(report)
    rows, _ = selected_costs(report, selection)
    n_steps = len(every)
    context, code = np.full(n_steps, -1, np.int64), np.zeros(n_steps, np.int64)
    columns = ("step_id", "debug_context_id", "code_bytes")
    for step_id, context_id, size in report.rows(schema.program, *columns):
        if step_id is None:
            continue
        require(report, 0 <= step_id < n_steps, f"step {step_id} does not exist")
        context[step_id] = -1 if context_id is None else context_id
        code[step_id] = size
    memory, places = _used_bytes(report), _places(report, np.arange(n_steps), n_steps)
    operations_ = [
        Operation(
            int(context[step_id]),
            every.name[step_id],
            every.kind[step_id],
            int(time.cycles[step_id]),
            int(time.compute[step_id]),
            int(time.flops[step_id]),
            figures.parallel_efficiency(
                int(time.busy[step_id]), int(time.taken[step_id]), machine.tiles_per_ipu
            ),
            int(memory[step_id, 1]),
            int(memory[step_id, 0]),
            int(code[step_id]),
            1,
            step_id,
            *_training(report, int(context[step_id])),
            None,
            *places[step_id],
        )
        for step_id in np.unique(costs(report).column["step_id"][rows]).tolist()
    ]
    operations_.sort(key=lambda operation: (-operation.cycles, operation.number))
    n_runs = execution(report, selection.run_id).n_runs
    return Operations(
        "step", tuple(operations_), selected_cycles(report, selection), n_runs, call_tree(report)
    )


def _places(
    report: Report, of_step: NDArray[np.int64], n_rows: int
) -> list[tuple[int | None, str | None]]:
    """Return the IPU and the stage of every row of steps; None where that is none or several.

    Parameters
    ----------
    report
        The report.
    of_step : ndarray of int64, shape (n_steps,)
        Row of every step, -1 for none.
    n_rows
        Number of rows.
    """
    ran, column = execution(report), costs(report).column
    takes_part = ran.executions > 0
    if not ran.n_runs:
        takes_part = np.zeros(takes_part.shape, np.bool_)
        is_work = column["cycles"] > 0
        takes_part[column["ipu_id"][is_work], column["step_id"][is_work]] = True
    ipus: list[set[int]] = [set() for _ in range(n_rows)]
    stages: list[set[str | None]] = [set() for _ in range(n_rows)]
    for ipu_id, step in zip(*(axis.tolist() for axis in takes_part.nonzero()), strict=True):
        if of_step[step] >= 0:
            ipus[of_step[step]].add(ipu_id)
    for row, stage in zip(of_step.tolist(), stages_of_steps(report), strict=True):
        if row >= 0:
            stages[row].add(None if stage is None else stage.name)

    return [
        (next(iter(on)) if len(on) == 1 else None, next(iter(of)) if len(of) == 1 else None)
        for on, of in zip(ipus, stages, strict=True)
    ]


def _training(report: Report, context_id: int) -> tuple[str | None, str | None]:
    """Return pass and forward operation of a debug context; None outside training."""
    place = place_of(report, context_id) if has_training(report) else None
    if place is None:
        return None, None
    return place.training_pass, None if place.origin is None else place.origin.name


def _used_bytes(report: Report) -> NDArray[np.int64]:
    """Return bytes of the variables that steps use: come and go, always live; (n_steps, 2)."""
    ids, sizes, always = (
        np.array(values, dtype=np.int64)
        for values in report.columns(schema.variable, "variable_id", "bytes", "is_always_live")
    )
    program = report.array("program_variable.program_id").read().astype(np.int64)
    variable = report.array("program_variable.variable_id").read().astype(np.int64)
    position = np.searchsorted(ids, variable)
    is_known = bool((position < len(ids)).all()) and bool((ids[position] == variable).all())
    require(report, is_known, "a program uses a variable that does not exist")
    every = steps(report)
    answer = np.zeros((len(every), 2), np.int64)
    order = np.argsort(every.program_id, kind="stable")
    ordered = every.program_id[order]
    step = np.minimum(np.searchsorted(ordered, program), max(len(ordered) - 1, 0))
    is_step = ordered[step] == program if len(ordered) else np.zeros(len(program), np.bool_)
    np.add.at(answer, (order[step[is_step]], always[position[is_step]]), sizes[position[is_step]])
    return answer


def operation_names(report: Report) -> tuple[str, ...]:
    """Return for every step the name of the library call it is of; without one its own."""
    every = contexts(report)
    owner = _owners(report, "library")
    of_step, _ = _programs(report, owner)
    return tuple(
        every[context].name if context >= 0 else name
        for context, name in zip(of_step.tolist(), steps(report).name, strict=True)
    )


def numbers_of_steps(report: Report, layer: Layer) -> NDArray[np.int64]:
    """Return the number of the operation that every step belongs to, -1 for none.

    Returns
    -------
    ndarray of int64, shape (n_steps,)
        What `Operation.number` is.
    """
    if layer == "step":
        return np.arange(len(steps(report)))
    return _programs(report, _owners(report, layer))[0]


def listed_layer(requested: Layer, has_any: Callable[[Layer], bool]) -> Layer:
    """Return a layer, or the first that has operations if it has none.

    Parameters
    ----------
    requested
        The layer.
    has_any
        Whether a layer has operations.
    """
    layers = (requested, *(layer for layer in LAYERS if layer != requested))
    return next((layer for layer in layers if has_any(layer)), requested)


def inside(report: Report, context_id: int) -> frozenset[int]:
    """Return a debug context and all in it, by id."""
    within, context_ids = _contexts_within(report), [context_id]
    for inside_id in context_ids:
        context_ids += within.get(inside_id, ())
    return frozenset(context_ids)


@cached
def _programs_by_context(report: Report) -> dict[int, list[int]]:
    """Return the programs of every debug context, in order of their ids."""
    program_ids: dict[int, list[int]] = {}
    for context_id, program_id in report.rows(schema.program, "debug_context_id", "program_id"):
        if context_id is not None:
            program_ids.setdefault(context_id, []).append(program_id)
    return program_ids


@cached
def _contexts_within(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the debug contexts that stand directly in each."""
    context_ids: dict[int, list[int]] = {}
    for context in contexts(report).values():
        if context.parent_id is not None:
            context_ids.setdefault(context.parent_id, []).append(context.debug_context_id)
    return {parent: tuple(children) for parent, children in context_ids.items()}


@cached
def _step_of_program(report: Report) -> dict[int, int]:
    """Return the step of every program that is one."""
    rows = report.rows(schema.program, "program_id", "step_id")
    return {program_id: step_id for program_id, step_id in rows if step_id is not None}


@cached
def _step_code(report: Report) -> dict[int, int]:
    """Return the code of every step's program, bytes over all tiles."""
    rows = report.rows(schema.program, "step_id", "code_bytes")
    return {step_id: size for step_id, size in rows if step_id is not None}


def programs_of(report: Report, context_id: int) -> tuple[int, ...]:
    """Return the programs of a debug context and those in it, in order of their ids."""
    by_context = _programs_by_context(report)
    return tuple(
        sorted(
            program_id
            for part in inside(report, context_id)
            for program_id in by_context.get(part, ())
        )
    )


def steps_of(report: Report, context_id: int | None) -> tuple[int, ...]:
    """Return the steps that a debug context and those in it became, in program order."""
    if context_id is None:
        return ()
    of_program = _step_of_program(report)
    programs = programs_of(report, context_id)
    step_ids = sorted(of_program[program] for program in programs if program in of_program)
    require_below(report, np.array(step_ids, np.int64), len(steps(report)), "step")
    return tuple(step_ids)


def operation_steps(report: Report, operation: Operation) -> tuple[OperationStep, ...]:
    """Return the steps that an operation became, in program order, with what they cost."""
    every, ran = steps(report), execution(report)
    step_ids = () if operation.step_id is None else (operation.step_id,)
    time, code = _step_time(report, ALL), _step_code(report)
    return tuple(
        OperationStep(
            step_id,
            int(every.program_id[step_id]),
            every.kind[step_id],
            every.name[step_id],
            PHASES[every.phase[step_id]],
            int(time.cycles[step_id]),
            int(ran.executions[:, step_id].max(initial=0)),
            int(time.flops[step_id]),
            code.get(step_id, 0),
        )
        for step_id in step_ids or steps_of(report, operation.debug_context_id)
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
def _step_time(report: Report, selection: Selection) -> _Time:
    """Return the time of every step."""
    every, ran, cost = steps(report), execution(report, selection.run_id), costs(report)
    n_steps = len(every)
    rows, times = selected_costs(report, selection)
    step_id = cost.column["step_id"][rows]

    def summed(values: NDArray[np.int64]) -> NDArray[np.int64]:
        answer = np.zeros(n_steps, np.int64)
        np.add.at(answer, step_id, values[rows] * times)
        return answer

    cycles = selected_step_cycles(report, selection)
    busy, taken_cycles = summed(cost.column["total_tile_cycles"]), summed(cost.column["cycles"])
    if ran.n_runs:
        # Where data decide, each execution counts with what it took.
        counted = is_measured(report)
        busy[counted] = taken_cycles[counted] = 0
        for ipu_id, executed in measured(report, selection.run_id).items():
            if selection.ipu_id not in (None, ipu_id):
                continue
            np.add.at(busy, executed.step_id, executed.count * executed.total_tile_cycles)
            np.add.at(taken_cycles, executed.step_id, executed.count * executed.max_tile_cycles)
    return _Time(
        cycles,
        np.where(every.phase == PHASES.index("compute"), cycles, 0),
        summed(cost.column["flops"]),
        busy,
        taken_cycles,
    )


def _owners(report: Report, layer: Layer) -> dict[int, int]:
    """Return for every context in an operation of a layer the operation's, the outermost."""
    owner: dict[int, int] = {}
    for number, context in contexts(report).items():
        if context.parent_id in owner:
            owner[number] = owner[context.parent_id]
        elif context.level == layer:
            owner[number] = number
    return owner


def operation_of(report: Report, context_id: int | None) -> tuple[str, Layer] | None:
    """Return key and layer of the operation that a debug context belongs to, None for none."""
    for layer in reversed(CALL_LAYERS):
        number = _all_owners(report, layer).get(context_id) if context_id is not None else None
        if number is not None:
            return _keys(report, layer)[number], layer
    return None


@cached
def _all_owners(report: Report, layer: Layer) -> dict[int, int]:
    return _owners(report, layer)


@cached
def _keys(report: Report, layer: Layer) -> dict[int, str]:
    """Return the keys of a layer's operations by their number."""
    return {operation.number: key for key, operation in operations(report, layer).by_key.items()}


def _programs(report: Report, row_of: dict[int, int]) -> tuple[NDArray[np.int64], dict[int, int]]:
    """Return the operation's row of every step, -1 for none, and code bytes by row."""
    rows = report.rows(schema.program, "step_id", "debug_context_id", "code_bytes")
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
    answer = np.zeros((n_rows, 2), np.int64)
    columns = ("debug_context_id", "bytes", "is_always_live")
    for context, n_bytes, is_always_live in report.rows(schema.variable, *columns):
        if context in row_of:
            answer[row_of[context], int(is_always_live)] += n_bytes
    return answer
