"""One tile in full: its place, its memory and parts of variables, its vertices and its cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.floor_plan import floor_plan
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target, tile_range
from tilescope.analyser.memory.liveness import curve, peak_step
from tilescope.analyser.memory.lowered_variables import TileVariables, tile_variables
from tilescope.analyser.memory.tile_memory import MemoryRow, memory_table
from tilescope.analyser.program.compute_sets import codelets
from tilescope.analyser.time.data_dependent import is_measured
from tilescope.analyser.time.execution import (
    PHASES,
    costs,
    execution,
    ipu_cycles,
    steps,
    totals,
    track_rows,
)
from tilescope.analyser.time.figures import has_memory, missing_bytes
from tilescope.analyser.time.selection import selected_costs
from tilescope.analyser.validation import require_below
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tilescope.reports import Report

__all__ = ["TileFacts", "TilePeak", "TileStep", "TileVertices", "busy_cycles", "tile_facts"]


@dataclass(frozen=True)
class TilePeak:
    """The liveness step at which a tile holds most, bytes that do not live always."""

    step: int
    kind: str
    name: str
    not_always_live_bytes: int


@dataclass(frozen=True)
class TileVertices:
    """A codelet on a tile: its vertices over all compute sets, and its code, once."""

    vertex_type: str
    kind: str
    n_vertices: int
    n_compute_sets: int
    code_bytes: int


@dataclass(frozen=True)
class TileStep:
    """A step in which a tile is busy, over the recorded runs; one execution without a run.

    ``cycles`` are those that the tile is busy, ``n_executions`` how often the step ran.
    """

    step_id: int
    kind: str
    name: str
    n_executions: int
    cycles: int


@dataclass(frozen=True)
class TileFacts:
    """Everything about one tile.

    Attributes
    ----------
    physical_id, row, column
        Its place on the floor plan; None where that is not known.
    memory
        PopVision's nested rows; empty without memory.
    missing_bytes
        What it lacks to fit.
    peak
        None without liveness.
    vertices
        Codelets, those with most vertices first.
    run_cycles
        Time of the runs on its IPU, cycles.
    busy_cycles
        Cycles in which it is busy, by phase.
    steps
        Steps in which it is busy, the longest first.
    """

    tile_id: int
    ipu_id: int
    physical_id: int | None
    row: int | None
    column: int | None
    capacity_bytes: int
    memory: tuple[MemoryRow, ...]
    missing_bytes: int
    peak: TilePeak | None
    variables: TileVariables
    vertices: tuple[TileVertices, ...]
    n_runs: int
    run_cycles: int
    busy_cycles: dict[str, int]
    steps: tuple[TileStep, ...]


def tile_facts(report: Report, tile: int, run_id: int | None = None) -> TileFacts:
    """Return everything about a tile, over all recorded runs or one.

    Raises
    ------
    BadQuestion
        When the tile or the run does not exist.
    """
    tile = tile_range(report, ("tile", tile)).start
    machine = target(report)
    ipu_id = tile // machine.tiles_per_ipu
    physical_id, row, column = _place(report, tile)
    is_held = has_memory(report)
    busy = _steps(report, tile, run_id)
    by_phase = dict.fromkeys(PHASES, 0)
    for step in busy:
        by_phase[PHASES[steps(report).phase[step.step_id]]] += step.cycles
    return TileFacts(
        tile,
        ipu_id,
        physical_id,
        row,
        column,
        machine.capacity_bytes,
        memory_table(report, [tile]).rows if is_held else (),
        int(missing_bytes(report)[tile]) if is_held else 0,
        _peak(report, tile),
        tile_variables(report, tile),
        _vertices(report, tile),
        execution(report, run_id).n_runs,
        int(ipu_cycles(report, run_id)[ipu_id]),
        by_phase,
        busy,
    )


def _place(report: Report, tile: int) -> tuple[int | None, int | None, int | None]:
    """Return physical id, row and column of a tile; None where the floor plan is not known."""
    try:
        plan = floor_plan(report)
    except BadQuestion:
        return None, None, None
    return int(plan.physical_id[tile]), int(plan.row[tile]), int(plan.column[tile])


def busy_cycles(report: Report, step_ids: Iterable[int]) -> NDArray[np.int64]:
    """Return for how long some steps keep every tile busy, over all recorded runs.

    Of one execution of each step when no run was recorded.

    Parameters
    ----------
    report
        The report.
    step_ids
        Different steps.

    Returns
    -------
    ndarray of int64, shape (n_tiles,), cycles
    """
    machine, column = target(report), costs(report).column
    answer = np.zeros((machine.n_ipus, machine.tiles_per_ipu), dtype=np.int64)
    is_chosen = np.zeros(len(steps(report)), dtype=np.bool_)
    is_chosen[list(step_ids)] = True
    by_data = is_measured(report) & bool(execution(report).n_runs)
    rows, times = selected_costs(report)
    is_own = (is_chosen & ~by_data)[column["step_id"][rows]] & (times > 0)
    for row, count in zip(rows[is_own].tolist(), times[is_own].tolist(), strict=True):
        busy = pattern(report, "cycles.pattern", int(column["pattern_id"][row]))
        answer[column["ipu_id"][row]] += count * busy
    if (is_chosen & by_data).any():
        for ipu_id in range(machine.n_ipus):
            step_id, count, pattern_id = _executed(report, ipu_id, None)
            is_own = (is_chosen & by_data)[step_id]
            ids, which = np.unique(pattern_id[is_own], return_inverse=True)
            sums = np.bincount(which, weights=count[is_own], minlength=len(ids))
            for compute_set_id, times_run in zip(
                ids.tolist(), sums.astype(np.int64).tolist(), strict=True
            ):
                answer[ipu_id] += times_run * pattern(report, "cycles.pattern", compute_set_id)
    return answer.reshape(-1)


def _peak(report: Report, tile: int) -> TilePeak | None:
    """Return when a tile holds most."""
    step = peak_step(report, ("tile", tile))
    if step is None:
        return None
    live = curve(report, ("tile", tile))
    return TilePeak(step, live.kind[step], live.name[step], int(live.not_always_live_bytes[step]))


def _vertices(report: Report, tile: int) -> tuple[TileVertices, ...]:
    """Return the codelets on a tile."""
    type_ids, pattern_ids = report.columns(
        schema.compute_set_vertex, "vertex_type_id", "vertices_pattern_id"
    )
    known = codelets(report)
    rows = [known[type_id] for type_id in type_ids]
    patterns = report.array("vertices.pattern")
    pattern_id = np.array(pattern_ids, dtype=np.int64)
    require_below(report, pattern_id, patterns.shape[0], "pattern of vertices")
    counts = patterns.column(tile)[pattern_id] if rows else pattern_id
    vertices: dict[str, TileVertices] = {}
    for codelet, number in zip(rows, counts.tolist(), strict=True):
        if number:
            before = vertices.get(codelet.name)
            n_vertices, n_sets = (before.n_vertices, before.n_compute_sets) if before else (0, 0)
            vertices[codelet.name] = TileVertices(
                codelet.name, codelet.kind, n_vertices + number, n_sets + 1, codelet.code_bytes
            )
    return tuple(sorted(vertices.values(), key=lambda row: (-row.n_vertices, row.vertex_type)))


def _steps(report: Report, tile: int, run_id: int | None) -> tuple[TileStep, ...]:
    """Return the steps in which a tile is busy."""
    ipu_id, here = divmod(tile, target(report).tiles_per_ipu)
    step_id, count, pattern_id = _executed(report, ipu_id, run_id)
    busy = report.array("cycles.pattern").column(here).astype(np.int64)
    require_below(report, pattern_id, len(busy), "pattern of cycles")
    every = steps(report)
    require_below(report, step_id, len(every), "step")
    cycles, executions = (np.zeros(len(every), dtype=np.int64) for _ in range(2))
    np.add.at(cycles, step_id, busy[pattern_id] * count)
    np.add.at(executions, step_id, count)
    order = np.lexsort((np.arange(len(every)), -cycles))
    n_runs = execution(report, run_id).n_runs
    return tuple(
        TileStep(
            step,
            every.kind[step],
            every.name[step],
            int(executions[step]) if n_runs else 0,
            int(cycles[step]),
        )
        for step in order[: int(np.count_nonzero(cycles))].tolist()
    )


def _executed(
    report: Report, ipu_id: int, run_id: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return step, number and pattern of the executions on an IPU; one of each without a run."""
    if not execution(report, run_id).n_runs:
        column = costs(report).column
        rows = np.flatnonzero(column["ipu_id"] == ipu_id)
        return column["step_id"][rows], np.ones(len(rows), np.int64), column["pattern_id"][rows]
    summed = totals(report) if run_id is None else ()
    n_rows: dict[tuple[int, int], int] = {}
    for row in track_rows(report)[sum(part.n_rows for part in summed) :]:
        if row.ipu_id == ipu_id and run_id in {None, row.run_id}:
            n_rows[row.place] = n_rows.get(row.place, 0) + 1
    parts = [
        np.stack([part.step_id, part.n_executions, part.pattern_id])[:, part.ipu_id == ipu_id]
        for part in summed
    ]
    parts += [
        np.stack(
            [
                report.array(f"trace.{name}").read(*place).astype(np.int64)
                for name in ("step_id", "count", "pattern_id")
            ]
        )
        * np.array([[1], [n], [1]])
        for place, n in n_rows.items()
    ]
    step_id, count, pattern_id = np.concatenate([np.zeros((3, 0), np.int64), *parts], axis=1)
    return step_id, count, pattern_id
