"""Writes the compilation part of a report from an executable."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.compiler.executable.step_cost import IPU_COLUMNS, StepCost
from tilescope.engine.compiler.memory.overflow import describe_overflow
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.machine.description import machine_names
from tilescope.engine.options import EngineOptions
from tilescope.engine.recorder.contexts import ContextTable
from tilescope.engine.recorder.dataflow import write_dataflow
from tilescope.engine.recorder.debug_info import DEBUG_INFO, debug_info
from tilescope.engine.recorder.graph import write_compute_sets, write_variables
from tilescope.engine.recorder.plans import StageTable, write_plans
from tilescope.engine.recorder.programs import write_programs
from tilescope.reports import ReportWriter
from tilescope.reports.schema import (
    memory_category,
    notice,
    step,
    target,
)
from tilescope.reports.schema.vocabulary import (
    MEMORY_CATEGORIES,
    MEMORY_CATEGORY,
    MEMORY_ROWS,
    REGIONS,
    SYNC_ZONES,
)

__all__ = ["write_compilation"]

#: Number of steps whose costs are written at once: a few megabytes on 64 IPUs.
_STEPS_AT_A_TIME = 256


def write_compilation(
    writer: ReportWriter, executable: Executable, options: EngineOptions
) -> NDArray[np.int32]:
    """Write everything known after compilation.

    Returns
    -------
    ndarray of int32, shape (n_steps * n_ipus,)
        The row of ``cycles.pattern`` of each step on each IPU.
    """
    contexts = ContextTable(writer, executable.nodes)
    _write_target(writer, executable)
    write_variables(writer, executable, contexts)
    write_compute_sets(writer, executable, contexts)
    write_programs(writer, executable, contexts)
    stages = write_plans(writer, executable, contexts)
    rows = contexts.flush()
    if options.writes_debug_info:
        writer.attach(DEBUG_INFO, debug_info(rows))
    patterns = _write_steps(writer, executable, stages)
    if options.writes_graph_profile:
        write_dataflow(writer, executable)
        _write_memory(writer, executable)
        _write_parts(writer, executable)
    _write_notices(writer, executable)
    return patterns


def _write_target(writer: ReportWriter, executable: Executable) -> None:
    machine = executable.machine
    writer.add(
        target,
        [
            {
                "target_id": 1,
                "name": machine.name,
                "target_type": "IPUModel",
                "architecture": machine.architecture,
                "parameter_set": machine.parameter_set,
                "n_ipus": machine.n_ipus,
                "n_replicas": machine.n_replicas,
                "tiles_per_ipu": machine.tiles_per_ipu,
                "bytes_per_tile": machine.bytes_per_tile,
                "non_interleaved_bytes": machine.non_interleaved_bytes,
                "interleaved_bytes": machine.interleaved_bytes,
                "n_worker_contexts": machine.n_worker_contexts,
                "clock_hz": machine.clock_hz,
                "exchange_bytes_per_cycle": machine.exchange_bytes_per_cycle,
                "host_bytes_per_cycle": machine.host_bytes_per_cycle,
                "sync_cycles": machine.sync_cycles,
                "preset_tiles_per_ipu": _preset_tiles(machine),
            }
        ],
    )


def _preset_tiles(machine: Machine) -> int | None:
    """Return the tiles of an IPU of the preset that a machine is; None for one from a file."""
    if machine.name not in machine_names():
        return None
    preset = load_machine(machine.name, parameter_set=machine.parameter_set)
    figures = ("bytes_per_tile", "clock_hz", "exchange_bytes_per_cycle", "sync_cycles")
    is_preset = all(getattr(preset, name) == getattr(machine, name) for name in figures)
    return preset.tiles_per_ipu if is_preset else None


def _write_steps(
    writer: ReportWriter, executable: Executable, stages: StageTable
) -> NDArray[np.int32]:
    n_ipus = executable.machine.n_ipus
    writer.add(
        step,
        (
            {
                "step_id": item.step_id,
                "program_id": item.program_id,
                "kind": item.kind,
                "name": item.name,
                "compute_set_id": None
                if item.compute_set is None
                else item.compute_set.compute_set_id,
                "is_data_dependent": item.is_data_dependent,
                "plan_stage_id": stages.stage_of_step.get(item.step_id),
                "plan_part": stages.part_of_step.get(item.step_id),
            }
            for item in executable.steps
        ),
    )
    patterns = np.zeros(len(executable.steps) * n_ipus, np.int32)
    nothing = np.zeros(executable.machine.tiles_per_ipu, np.int64)
    patterns[:] = writer.pattern("cycles.pattern", nothing)
    # Steps of equal cost share the column.
    known: dict[Column, NDArray[np.int32]] = {}
    for item in executable.steps:
        row = slice(item.step_id * n_ipus, (item.step_id + 1) * n_ipus)
        tile_cycles = item.cost.tile_cycles
        if tile_cycles in known:
            patterns[row] = known[tile_cycles]
            continue
        for ipu_id in np.flatnonzero(tile_cycles.group_counts(n_ipus)).tolist():
            pattern = writer.pattern("cycles.pattern", tile_cycles.group(ipu_id, n_ipus))
            patterns[item.step_id * n_ipus + ipu_id] = pattern
        known[tile_cycles] = patterns[row]
    _write_costs(writer, executable, patterns)
    return patterns


def _write_costs(writer: ReportWriter, executable: Executable, patterns: NDArray[np.int32]) -> None:
    """Write the cost of every step on every IPU, in batches of steps."""
    n_ipus, n_steps = executable.machine.n_ipus, len(executable.steps)
    known: dict[StepCost, dict[str, NDArray[np.int64]]] = {}
    for first in range(0, n_steps, _STEPS_AT_A_TIME):
        costs = [item.cost for item in executable.steps[first : first + _STEPS_AT_A_TIME]]
        known = {cost: known.get(cost) or _by_ipu(cost, n_ipus) for cost in dict.fromkeys(costs)}
        columns = {
            name: np.concatenate([known[cost][name] for cost in costs]) for name in known[costs[0]]
        }
        ids = np.arange(first, first + len(costs))
        writer.append_columns(
            "cost",
            {
                "step_id": np.repeat(ids, n_ipus),
                "ipu_id": np.tile(np.arange(n_ipus), len(costs)),
                "sync_zone": np.repeat([SYNC_ZONES[cost.sync_zone] for cost in costs], n_ipus),
                "pattern_id": patterns[first * n_ipus : (first + len(costs)) * n_ipus],
                **columns,
            },
        )


def _by_ipu(cost: StepCost, n_ipus: int) -> dict[str, NDArray[np.int64]]:
    """Return the cost of a step on each IPU, by column: ndarray of int64, shape (n_ipus,)."""
    return {
        "n_active_tiles": cost.tile_cycles.group_counts(n_ipus),
        "max_tile_cycles": cost.tile_cycles.group_maxima(n_ipus),
        "total_tile_cycles": cost.tile_cycles.group_sums(n_ipus),
        "max_sent_bytes": cost.sent_bytes.group_maxima(n_ipus),
        "max_received_bytes": cost.received_bytes.group_maxima(n_ipus),
        "total_sent_bytes": cost.sent_bytes.group_sums(n_ipus),
        "total_received_bytes": cost.received_bytes.group_sums(n_ipus),
        "total_paired_bytes": cost.paired_bytes.group_sums(n_ipus),
        "n_fragments": cost.fragments.group_maxima(n_ipus),
        **{name: getattr(cost, name).dense() for name in IPU_COLUMNS},
    }


def _write_memory(writer: ReportWriter, executable: Executable) -> None:
    memory = executable.memory
    unknown = set(memory.categories) - set(MEMORY_CATEGORY)
    if unknown:
        raise KeyError(f"unknown memory categories: {', '.join(sorted(unknown))}")
    categories = [known for known in MEMORY_CATEGORIES if known.name in memory.categories]
    rows = []
    for i, category in enumerate(categories):
        by_tile = memory.categories[category.name].sum(axis=0)
        rows.append(
            {
                "memory_category_id": i,
                "name": category.name,
                "label": category.label,
                "is_overlapped": category.is_overlapped,
                "total_bytes": int(by_tile.sum()),
                "max_tile_bytes": int(by_tile.max()),
            }
        )
    writer.add(memory_category, rows)
    for i, region in enumerate(REGIONS):
        writer.append(
            region.array, np.stack([memory.categories[category.name][i] for category in categories])
        )
    totals: dict[str, NDArray[np.int64]] = {
        "including_gaps": memory.including_gaps,
        "excluding_gaps": memory.excluding_gaps,
        "always_live": memory.always_live,
        "not_always_live_peak": memory.not_always_live_peak,
        "code_end": memory.code_end,
    }
    writer.append("memory.tile", np.stack([totals[name] for name in MEMORY_ROWS]))
    _write_liveness(writer, executable)


def _write_liveness(writer: ReportWriter, executable: Executable) -> None:
    """Write the not-always-live bytes by step; adjacent steps with equal bytes share a pattern."""
    live = executable.memory.live
    n_steps = len(executable.steps)
    fullest, fullest_bytes, patterns = (np.zeros(n_steps, np.int64) for _ in range(3))
    for first, stop, by_tile in live.spans():
        fullest[first:stop] = by_tile.argmax()
        fullest_bytes[first:stop] = by_tile.max()
        patterns[first:stop] = writer.pattern("liveness.pattern", by_tile)
    writer.append_columns(
        "liveness",
        {
            "step_id": [item.step_id for item in executable.steps],
            "program_id": [item.program_id for item in executable.steps],
            "not_always_live_bytes": live.totals[:n_steps],
            "max_tile_id": fullest,
            "max_tile_bytes": fullest_bytes,
            "pattern_id": patterns,
        },
    )


def _write_parts(writer: ReportWriter, executable: Executable) -> None:
    parts = executable.memory.parts.rows()
    writer.append("lowered.tile_start", parts.tile_start)
    writer.append("lowered.variable_id", parts.variable_id)
    writer.append("lowered.offset", parts.offset)
    writer.append("lowered.bytes", parts.n_bytes)
    writer.append("lowered.start_step", parts.start_step)
    writer.append("lowered.end_step", parts.end_step)
    lifetimes = sorted(
        (start, end, variable_id)
        for variable_id, lives in executable.memory.lives.items()
        for start, end in lives
    )
    columns = np.array(lifetimes, dtype=np.int64).reshape(-1, 3)
    writer.append("lifetime.variable_id", columns[:, 2])
    writer.append("lifetime.start_step", columns[:, 0])
    writer.append("lifetime.end_step", columns[:, 1])


def _write_notices(writer: ReportWriter, executable: Executable) -> None:
    rows = [asdict(text) for text in executable.notices]
    if executable.overfull_tiles.size:
        rows.append(
            {
                "severity": "error",
                "code": "out_of_tile_memory",
                "message": describe_overflow(executable),
            }
        )
    writer.add(notice, rows)
