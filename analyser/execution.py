"""What ran: executions of every step, the critical path, and its cycles by phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from tilescope.analyser.cache import cached
from tilescope.analyser.machine import target
from tilescope.analyser.validation import require, require_below
from tilescope.reports import schema
from tilescope.reports.schema import vocabulary

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "MOST_CYCLES",
    "PHASES",
    "Costs",
    "Execution",
    "Steps",
    "costs",
    "execution",
    "steps",
    "taken_cycles",
]

#: Names of the phases, in the order pages show them.
PHASES = tuple(vocabulary.PHASES)

#: A hundred and forty-six years at a gigahertz; a report with more is not one of a run.
MOST_CYCLES = 1 << 62

_COST_COLUMNS = (
    "step_id",
    "ipu_id",
    "cycles",
    "n_active_tiles",
    "max_tile_cycles",
    "total_tile_cycles",
    "total_sent_bytes",
    "total_received_bytes",
    "host_in_bytes",
    "host_out_bytes",
    "remote_in_bytes",
    "remote_out_bytes",
    "link_in_bytes",
    "link_out_bytes",
    "flops",
    "pattern_id",
)


@dataclass(frozen=True)
class Steps:
    """The program flattened; all columns have one entry per step, in order of ``step_id``."""

    program_id: NDArray[np.int64]
    kind: tuple[str, ...]
    name: tuple[str, ...]
    phase: NDArray[np.int8]
    """Index into ``PHASES``."""
    is_data_dependent: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.kind)


@cached
def steps(report: Report) -> Steps:
    """Return the steps of a report in program order.

    Raises
    ------
    DamagedReport
        When a step is of a kind that the vocabulary does not have, or that is not a step.
    """
    table = schema.step
    columns = (table.c.program_id, table.c.kind, table.c.name, table.c.is_data_dependent)
    rows = report.fetch(select(*columns).order_by(table.c.step_id))
    program_id, kind, name, is_data_dependent = zip(*rows, strict=True) if rows else ((),) * 4
    phases: dict[str, int] = {}
    for name_of_kind in set(kind):
        known = vocabulary.PROGRAM_KINDS.get(name_of_kind)
        is_step = known is not None and known.is_step
        require(report, is_step, f"{name_of_kind[:40]!r} is not a kind of step")
        phases[name_of_kind] = PHASES.index(vocabulary.phase_of(name_of_kind))
    return Steps(
        np.array(program_id, dtype=np.int64),
        tuple(kind),
        tuple(name),
        np.array([phases[phase_kind] for phase_kind in kind], dtype=np.int8),
        np.array(is_data_dependent, dtype=np.bool_),
    )


@dataclass(frozen=True)
class Costs:
    """What one execution of a step costs on one IPU; a row per step and IPU that takes part.

    ``column`` maps the names of the table ``step_cost`` to int64 arrays of equal length.
    """

    column: dict[str, NDArray[np.int64]]

    def per_step(self, name: str, n_steps: int, *, largest: bool = False) -> NDArray[np.int64]:
        """Return a column summed over IPUs, or its largest, for every step."""
        answer = np.zeros(n_steps, dtype=np.int64)
        combine = np.maximum if largest else np.add
        combine.at(answer, self.column["step_id"], self.column[name])
        return answer


@cached
def costs(report: Report) -> Costs:
    """Return the costs of all steps."""
    table = schema.step_cost
    statement = select(*(table.c[name] for name in _COST_COLUMNS)).order_by(table.c.step_cost_id)
    rows = report.fetch(statement)
    values = np.array(rows, dtype=np.int64).reshape(-1, len(_COST_COLUMNS)).T
    n_patterns = report.array("cycles.pattern").shape[0]
    require_below(report, values[0], len(steps(report)), "step")
    require_below(report, values[1], target(report).n_ipus, "IPU")
    require_below(report, values[-1], n_patterns, "pattern of cycles")
    return Costs({name: np.ascontiguousarray(values[i]) for i, name in enumerate(_COST_COLUMNS)})


@dataclass(frozen=True)
class Execution:
    """The recorded runs.

    Attributes
    ----------
    run_cycles : ndarray of int64, shape (n_runs,), cycles
        Time of each run on its critical IPU, the one that took longest.
    critical_ipu : ndarray of int64, shape (n_runs,)
    executions : ndarray of int64, shape (n_ipus, n_steps)
        How many times each step ran, over all runs.
    step_cycles : ndarray of int64, shape (n_steps,), cycles
        Time spent in each step on the critical path, summed over runs.
    phase_cycles
        The same by phase, cycles; ``other`` includes time in no step, so they add up to the total.
    is_data_dependent
        Whether the cycles of a run may differ for other data.
    """

    run_cycles: NDArray[np.int64]
    critical_ipu: NDArray[np.int64]
    executions: NDArray[np.int64]
    step_cycles: NDArray[np.int64]
    phase_cycles: dict[str, int]
    is_data_dependent: bool

    @property
    def n_runs(self) -> int:
        """Number of recorded runs."""
        return len(self.run_cycles)

    @property
    def total_cycles(self) -> int:
        """Time of all runs on their critical IPUs, cycles."""
        return int(self.run_cycles.sum())


@cached
def execution(report: Report) -> Execution:
    """Return what ran, from the trace; all zero when no run was recorded."""
    machine, all_steps = target(report), steps(report)
    runs = report.fetch(
        select(schema.run.c.run_id, schema.run.c.is_data_dependent).order_by(schema.run.c.run_id)
    )
    index_of_run = {run_id: index for index, (run_id, _) in enumerate(runs)}
    rows = _tracks(report)
    for run_id, _, _, start, end, *_ in rows:
        require(report, run_id in index_of_run, f"run {run_id} has a trace but no row")
        require(report, 0 <= start <= end < MOST_CYCLES, f"run {run_id} ends before it begins")
    time = np.zeros((len(runs), machine.n_ipus), dtype=np.int64)
    for run_id, ipu_id, _, start, end, _, _ in rows:
        run = index_of_run[run_id]
        time[run, ipu_id] = max(time[run, ipu_id], end - start)
    critical_ipu = time.argmax(axis=1) if len(runs) else np.zeros(0, dtype=np.int64)

    executions = np.zeros((machine.n_ipus, len(all_steps)), dtype=np.int64)
    step_cycles = np.zeros(len(all_steps), dtype=np.int64)
    for run_id, ipu_id, track, _, _, first, n_entries in rows:
        run = index_of_run[run_id]
        is_critical = track == 0 and critical_ipu[run] == ipu_id
        counted, cycles = _read_trace(report, first, n_entries, len(all_steps), is_critical)
        executions[ipu_id] += counted
        step_cycles += cycles
    run_cycles = time.max(axis=1) if len(runs) else np.zeros(0, dtype=np.int64)
    for array in (run_cycles, executions, step_cycles):
        array.flags.writeable = False
    return Execution(
        run_cycles,
        critical_ipu.astype(np.int64),
        executions,
        step_cycles,
        _by_phase(all_steps, step_cycles, int(run_cycles.sum())),
        any(bool(flag) for _, flag in runs),
    )


def _tracks(report: Report) -> list[tuple[int, ...]]:
    """Return run, IPU, track, start, end, first entry and number of entries of every track."""
    names = ("run_id", "ipu_id", "track", "start_cycle", "end_cycle", "first_entry", "n_entries")
    table = schema.run_trace
    rows = report.fetch(select(*(table.c[name] for name in names)).order_by(table.c.run_trace_id))
    for _, ipu_id, *_ in rows:
        require(report, 0 <= ipu_id < target(report).n_ipus, f"IPU {ipu_id} does not exist")
    return [tuple(row) for row in rows]


@cached
def taken_cycles(report: Report) -> NDArray[np.int64]:
    """Return what every step took on each IPU in all recorded runs, with what it waited.

    Returns
    -------
    ndarray of int64, shape (n_ipus, n_steps), cycles
    """
    n_steps = len(steps(report))
    taken = np.zeros((target(report).n_ipus, n_steps), dtype=np.int64)
    for _, ipu_id, _, _, _, first, n_entries in _tracks(report):
        taken[ipu_id] += _read_trace(report, first, n_entries, n_steps, with_cycles=True)[1]
    taken.flags.writeable = False
    return taken


#: Trace entries read at a time; a part of this size takes some tens of megabytes.
_ENTRIES_AT_A_TIME = 1 << 20


def _read_trace(
    report: Report, first: int, n_entries: int, n_steps: int, with_cycles: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return executions and, if asked, cycles of every step in one run's trace on one track."""
    step_id, count = report.array("trace.step_id"), report.array("trace.count")
    starts, ends = report.array("trace.start_cycle"), report.array("trace.end_cycle")
    executions = np.zeros(n_steps, dtype=np.int64)
    cycles = np.zeros(n_steps, dtype=np.int64)
    end = first + n_entries
    require(report, 0 <= first <= end <= len(step_id), "a run's trace is not all there")
    for row in range(first, end, _ENTRIES_AT_A_TIME):
        stop = min(row + _ENTRIES_AT_A_TIME, end)
        ids, counts = step_id.read(row, stop), count.read(row, stop).astype(np.int64)
        require_below(report, ids, n_steps, "step")
        _add_at(executions, ids, counts)
        if with_cycles:
            began, ended = starts.read(row, stop), ends.read(row, stop)
            is_sound = began.min() >= 0 and bool((began <= ended).all())
            require(report, is_sound and counts.min() >= 0, "a step ends before it begins")
            took = ended - began
            total = float((took.astype(np.float64) * counts).sum())
            require(report, total < MOST_CYCLES, "its steps take longer than can be")
            _add_at(cycles, ids, took * counts)
    return executions, cycles


def _add_at(into: NDArray[np.int64], index: NDArray[np.int32], values: NDArray[np.int64]) -> None:
    """Add values at indices; exact below 2**53, where float sums of integers are exact."""
    if len(values) and int(np.abs(values).sum()) < 1 << 53:
        into += np.bincount(index, weights=values, minlength=len(into)).astype(np.int64)
    else:
        np.add.at(into, index, values)


def _by_phase(all_steps: Steps, step_cycles: NDArray[np.int64], total: int) -> dict[str, int]:
    """Return cycles of the critical path by phase; what no step accounts for is ``other``."""
    answer = {
        phase: int(step_cycles[all_steps.phase == index].sum())
        for index, phase in enumerate(PHASES)
    }
    answer["other"] += total - sum(answer.values())
    return answer
