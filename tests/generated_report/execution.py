"""The execution of a generated report: step costs, runs and their trace."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tests.generated_report.program import ProgramPlan

from tilescope.reports.schema import compute_set_vertex, run, wall_clock
from tilescope.reports.schema.vocabulary import SYNC_ZONES
from tilescope.reports.writing.trace import TraceTrack, TraceWriter
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["write_execution"]

_SYNC_CYCLES, _HOST_BYTES_PER_CYCLE, _EXCHANGE_BYTES_PER_CYCLE = 150, 16, 4
_STREAM_BYTES, _LINK_BYTES = 262_144, 65_536
_EXCHANGE_OVERHEAD_CYCLES, _BETWEEN_RUNS_CYCLES = 22, 1_000


@dataclass
class _Costs:
    """Per step and IPU: ndarrays of int64, shape (n_steps, n_ipus)."""

    pattern: np.ndarray
    cycles: np.ndarray


@dataclass
class _Entries:
    """The trace of one run on one IPU; all ndarrays of shape (n_steps,)."""

    start: np.ndarray
    end: np.ndarray
    period: np.ndarray
    count: np.ndarray


def write_execution(
    writer: ReportWriter,
    plan: ProgramPlan,
    shape: tuple[int, int],
    n_runs: int,
    distinct_patterns: int,
    random: np.random.Generator,
    *,
    has_distinct_runs: bool = False,
) -> None:
    """Write the step costs, then the runs; ``shape`` is IPUs and tiles per IPU."""
    patterns = _patterns(shape[1], distinct_patterns, random)
    ids = np.array([writer.pattern("cycles.pattern", row) for row in patterns])
    costs = _write_costs(writer, plan, patterns, ids, shape[0], random)
    writer.add(
        wall_clock, [{"event": "compile", "wall_start_us": 0, "wall_duration_us": 1_000_000}]
    )
    writer.commit("compiled")
    if n_runs:
        _write_runs(writer, plan, costs, n_runs, has_distinct_runs=has_distinct_runs)


def _patterns(n_tiles: int, n: int, random: np.random.Generator) -> np.ndarray:
    """Return busy cycles per tile, one row per pattern: row 0 idle, others partly busy."""
    busy = random.choice([1.0, 0.9, 0.5, 0.1], n, p=[0.5, 0.25, 0.15, 0.1])
    begin = (random.random(n) * (1 - busy) * n_tiles).astype(np.int64)
    end = begin + np.maximum(1, (busy * n_tiles).astype(np.int64))
    peak = np.exp(random.normal(6.5, 1.2, n)).astype(np.int64) + 20
    tiles = np.arange(n_tiles)
    inside = (tiles >= begin[:, None]) & (tiles < end[:, None])
    # Most tiles have the same load; some have the remainder of an uneven split.
    level = np.where(random.random((n, n_tiles)) < 0.9, 1.0, 0.7)
    values = np.where(inside, np.maximum(1, peak[:, None] * level), 0).astype(np.int64)
    values[0] = 0
    return values


def _write_costs(
    writer: ReportWriter,
    plan: ProgramPlan,
    patterns: np.ndarray,
    ids: np.ndarray,
    n_ipus: int,
    random: np.random.Generator,
) -> _Costs:
    kinds = np.array(plan.kinds)[:, None]
    shape = (plan.n_steps, n_ipus)
    compute = np.broadcast_to(kinds == "OnTileExecute", shape)
    exchange = np.broadcast_to(kinds == "DoExchange", shape)
    sync, link = kinds == "Sync", kinds == "GlobalExchange"
    host_in = (
        np.broadcast_to(kinds == "StreamCopyMid", shape)
        & (np.arange(plan.n_steps) < plan.n_steps // 2)[:, None]
    )
    host_out = np.broadcast_to(kinds == "StreamCopyMid", shape) & ~host_in
    # The first half of the patterns is for exchanges, the second for compute.
    half = len(patterns) // 2
    chosen = np.where(
        compute, random.integers(half, len(patterns), shape), random.integers(1, half, shape)
    )
    chosen = np.where(compute | exchange, chosen, 0)
    peak, total = patterns.max(axis=1)[chosen], patterns.sum(axis=1)[chosen]
    received = np.where(exchange, peak * _EXCHANGE_BYTES_PER_CYCLE, 0)
    moved = np.where(exchange, total * _EXCHANGE_BYTES_PER_CYCLE, 0)
    cycles = np.select(
        [compute, exchange, np.broadcast_to(sync, shape), np.broadcast_to(link, shape)],
        [
            peak,
            peak + _EXCHANGE_OVERHEAD_CYCLES,
            np.full(shape, _SYNC_CYCLES),
            np.full(shape, _LINK_BYTES // 8),
        ],
        np.where(host_in | host_out, _STREAM_BYTES // _HOST_BYTES_PER_CYCLE, 60),
    )
    flops = np.where(compute, total * 4, 0)
    is_external = (sync & np.full(shape, n_ipus > 1)) | link
    is_internal = compute | exchange | sync
    zone = np.where(
        is_external,
        SYNC_ZONES["external"],
        np.where(is_internal, SYNC_ZONES["internal"], SYNC_ZONES["none"]),
    )
    writer.append_columns(
        "cost",
        {
            "step_id": np.repeat(np.arange(plan.n_steps), n_ipus),
            "ipu_id": np.tile(np.arange(n_ipus), plan.n_steps),
            "cycles": cycles.ravel(),
            "n_active_tiles": (patterns > 0).sum(axis=1)[chosen].ravel(),
            "max_tile_cycles": peak.ravel(),
            "total_tile_cycles": total.ravel(),
            "max_sent_bytes": received.ravel(),
            "max_received_bytes": received.ravel(),
            "total_sent_bytes": moved.ravel(),
            "total_received_bytes": moved.ravel(),
            "total_paired_bytes": np.zeros(chosen.size, np.int64),
            "n_fragments": np.where(exchange, 1 + peak // 64, 0).ravel(),
            "host_in_bytes": np.where(host_in, _STREAM_BYTES, 0).ravel(),
            "host_out_bytes": np.where(host_out, _STREAM_BYTES, 0).ravel(),
            "remote_in_bytes": np.zeros(chosen.size, np.int64),
            "remote_out_bytes": np.zeros(chosen.size, np.int64),
            "link_in_bytes": np.where(np.broadcast_to(link, shape), _LINK_BYTES, 0).ravel(),
            "link_out_bytes": np.where(np.broadcast_to(link, shape), _LINK_BYTES, 0).ravel(),
            "sync_zone": zone.ravel(),
            "flops": flops.ravel(),
            "pattern_id": ids[chosen].ravel(),
        },
    )
    _write_vertices(writer, plan, peak, total, flops)
    return _Costs(ids[chosen], cycles)


def _write_vertices(
    writer: ReportWriter,
    plan: ProgramPlan,
    peak: np.ndarray,
    total: np.ndarray,
    flops: np.ndarray,
) -> None:
    """Write the codelets of every compute set, consistent with the cost of its step."""
    steps = np.flatnonzero(np.array(plan.kinds) == "OnTileExecute")
    writer.add_columns(
        compute_set_vertex,
        {
            "compute_set_id": np.arange(len(steps)),
            "vertex_type_id": np.array(plan.vertex_types)[steps],
            "n_vertices": plan.n_tiles,
            "n_tiles": plan.n_tiles,
            "max_cycles": peak[steps].max(axis=1),
            "total_cycles": total[steps].sum(axis=1),
            "flops": flops[steps].sum(axis=1),
            "state_bytes": 24 * plan.n_tiles,
            "vertices_pattern_id": writer.pattern("vertices.pattern", np.ones(plan.n_tiles, int)),
        },
    )


def _write_runs(
    writer: ReportWriter, plan: ProgramPlan, costs: _Costs, n_runs: int, *, has_distinct_runs: bool
) -> None:
    entries, run_cycles = _timeline(plan, costs.cycles)
    # Runs that are distinct wait once, every one longer than the one before.
    waits = np.arange(n_runs) if has_distinct_runs else np.zeros(n_runs, np.int64)
    spacing = run_cycles + int(waits[-1]) + _BETWEEN_RUNS_CYCLES
    starts = np.arange(n_runs)[:, None] * np.full(len(entries), spacing)
    trace = TraceWriter(writer)
    if has_distinct_runs:
        for number, wait in enumerate(waits.tolist()):
            tracks = _tracks(plan, costs, entries, run_cycles, wait)
            trace.add([number], starts[number : number + 1], [tracks])
    else:
        tracks = _tracks(plan, costs, entries, run_cycles, 0)
        trace.add(range(n_runs), starts, [tracks] * n_runs)
    for number in range(n_runs):
        begin = number * spacing
        writer.add(
            run,
            [
                {
                    "name": f"Engine::run #{number}",
                    "program_index": 0,
                    "start_cycle": begin,
                    "end_cycle": begin + run_cycles + int(waits[number]),
                    "is_data_dependent": has_distinct_runs,
                }
            ],
        )
        writer.add(
            wall_clock,
            [
                {
                    "event": "run",
                    "run_id": number,
                    "wall_start_us": 2_000_000 + number * 10_000,
                    "wall_duration_us": 9_000,
                }
            ],
        )
    writer.commit("run")


def _tracks(
    plan: ProgramPlan, costs: _Costs, entries: list[_Entries], run_cycles: int, wait_cycles: int
) -> list[TraceTrack]:
    """Return the tracks of a run, from cycle 0, whose last tenth waits for some cycles."""
    steps, late = np.arange(plan.n_steps), np.zeros(plan.n_steps, np.int64)
    late[-max(1, plan.n_steps // 10) :] = wait_cycles
    return [
        TraceTrack(
            ipu_id,
            0,
            run_cycles + wait_cycles,
            (
                steps,
                entry.start + late,
                entry.end + late,
                entry.period,
                entry.count,
                costs.pattern[:, ipu_id],
            ),
        )
        for ipu_id, entry in enumerate(entries)
    ]


def _timeline(plan: ProgramPlan, cycles: np.ndarray) -> tuple[list[_Entries], int]:
    """Return a run's trace per IPU, from cycle 0, and its duration over all IPUs."""
    n_steps, n_ipus = cycles.shape
    first, last = plan.loop
    in_loop = (np.arange(n_steps) >= first) & (np.arange(n_steps) < last)
    start = np.zeros_like(cycles)
    now = np.zeros(n_ipus, np.int64)
    body = cycles[first:last].sum(axis=0)
    # A step that waits for all IPUs starts a new section; so do the loop and the step after it.
    waits = np.flatnonzero(plan.is_external)
    bounds = np.unique(np.concatenate([[0, first, last, n_steps], waits])).tolist()
    is_wait = set(waits.tolist()) if n_ipus > 1 else set()
    for begin, end in pairwise(bounds):
        if begin in is_wait:
            now = np.full(n_ipus, now.max())
        part = cycles[begin:end]
        finished = np.cumsum(part, axis=0)
        start[begin:end] = now + finished - part
        now = now + (plan.repeat_count * body if (begin, end) == (first, last) else finished[-1])
    entries = [
        _Entries(
            start[:, ipu],
            start[:, ipu] + cycles[:, ipu],
            np.where(in_loop, body[ipu], 0),
            np.where(in_loop, plan.repeat_count, 1),
        )
        for ipu in range(n_ipus)
    ]
    return entries, int(now.max())
