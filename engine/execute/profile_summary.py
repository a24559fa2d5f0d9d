"""The profile summary as text, with the sections and terms of Poplar's own summary.

It describes the executable and the last run; the analyses of a report go much further.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Executable, Step
from tilescope.engine.execute.timeline import Timeline
from tilescope.reports.figures import tile_balance
from tilescope.reports.schema.vocabulary import (
    MEMORY_CATEGORIES,
    MEMORY_CATEGORY,
    PHASES,
    REGIONS,
    phase_of,
)

__all__ = ["profile_summary"]

_N_VARIABLES = 5
_BAR = 40


def profile_summary(
    executable: Executable,
    timelines: Sequence[Timeline] | None,
    *,
    show_execution_steps: bool = False,
    show_var_storage: bool = False,
    show_per_ipu_memory_usage: bool = False,
    show_optimizations: bool = False,
) -> str:
    """Return the summary.

    Parameters
    ----------
    executable
        Result of the compilation.
    timelines
        Of the last run, per IPU; None before the first run.
    show_execution_steps
        Whether to list every step that ran.
    show_var_storage
        Whether to list the largest live variables at each step.
    show_per_ipu_memory_usage
        Whether to repeat the memory section for every IPU.
    show_optimizations
        Whether to list the selected plans.
    """
    lines = [*_target(executable), "", *_graph(executable), "", *_memory(executable)]
    machine = executable.machine
    if show_per_ipu_memory_usage:
        for ipu in range(machine.n_ipus):
            first = ipu * machine.tiles_per_ipu
            tiles = slice(first, first + machine.tiles_per_ipu)
            lines += ["", f"  IPU {ipu}:", *_usage(executable, tiles, "    ")]
    if show_var_storage:
        lines += ["", *_var_storage(executable)]
    if show_optimizations:
        lines += ["", *_optimizations(executable)]
    lines += ["", *_execution(executable, timelines)]
    if show_execution_steps and timelines is not None:
        lines += ["", *_steps(executable, timelines)]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[tuple[str, str]], indent: str) -> list[str]:
    """Format rows of a label and a right-aligned value."""
    labels = max(len(label) for label, _ in rows) + 1
    values = max(len(value) for _, value in rows)
    return [f"{indent}{label + ':':<{labels}} {value:>{values}}" for label, value in rows]


def _target(executable: Executable) -> list[str]:
    machine = executable.machine
    n_replicas, megabytes = machine.n_replicas, machine.total_bytes / 2**20
    rows = [
        ("Number of IPUs", f"{machine.n_system_ipus:,}"),
        ("Tiles per IPU", f"{machine.tiles_per_ipu:,}"),
        ("Total Tiles", f"{machine.n_tiles * n_replicas:,}"),
        ("Memory Per-Tile", f"{machine.bytes_per_tile / 2**10:,.1f} kB"),
        ("Total Memory", f"{megabytes * n_replicas:,.1f} MB"),
        ("Clock Speed (approx)", f"{machine.clock_hz / 1e6:,.1f} MHz"),
        ("Number of Replicas", f"{n_replicas:,}"),
        ("IPUs per Replica", f"{machine.n_ipus:,}"),
        ("Tiles per Replica", f"{machine.n_tiles:,}"),
        ("Memory per Replica", f"{megabytes:,.1f} MB"),
    ]
    return ["Target:", *_table(rows, "  ")]


def _graph(executable: Executable) -> list[str]:
    uses = executable.vertex_uses
    rows = [
        ("Number of vertices", f"{sum(use.n_vertices for use in uses):,}"),
        ("Number of edges", f"{sum(use.n_edges for use in uses):,}"),
        ("Number of variables", f"{len(executable.graph.variables):,}"),
        ("Number of compute sets", f"{len({use.compute_set_id for use in uses}):,}"),
    ]
    return ["Graph:", *_table(rows, "  ")]


def _memory(executable: Executable) -> list[str]:
    every = slice(0, executable.machine.n_tiles)
    lines = ["Memory Usage:", "  Total for all IPUs:", *_usage(executable, every, "    ")]
    lines += ["", *_vertex_data(executable), "", *_by_tile(executable)]
    return lines


def _usage(executable: Executable, tiles: slice, indent: str) -> list[str]:
    memory = executable.memory
    regions = sum(category[:, tiles].sum(axis=1) for category in memory.categories.values())
    region_rows = [
        (region.label, f"{int(n_bytes):,} B")
        for region, n_bytes in zip(REGIONS, np.asarray(regions).tolist(), strict=True)
    ]
    by_type = {category.summary_row: 0 for category in MEMORY_CATEGORIES}
    for name, by_region in memory.categories.items():
        by_type[MEMORY_CATEGORY[name].summary_row] += int(by_region[:, tiles].sum())
    type_rows = [(label, f"{n_bytes:,} B") for label, n_bytes in by_type.items()]
    return [
        f"{indent}Including Gaps: {int(memory.including_gaps[tiles].sum()):,} B",
        f"{indent}Excluding Gaps:",
        f"{indent}  By Memory Region:",
        *_table(region_rows, f"{indent}    "),
        f"{indent}  Total: {int(memory.excluding_gaps[tiles].sum()):,} B",
        f"{indent}  By Data Type:",
        *_table(type_rows, f"{indent}    "),
    ]


def _vertex_data(executable: Executable) -> list[str]:
    by_type: dict[str, int] = {}
    for use in executable.vertex_uses:
        by_type[use.codelet_name] = by_type.get(use.codelet_name, 0) + use.state_bytes
    lines = ["  Vertex Data:", f"    Internal vertex state: {sum(by_type.values()):,} B"]
    if by_type:
        largest = sorted(by_type.items(), key=lambda item: (-item[1], item[0]))
        rows = [(name, f"{n_bytes:,} B") for name, n_bytes in largest]
        lines += ["    By Type:", *_table(rows, "      ")]
    return lines


def _by_tile(executable: Executable) -> list[str]:
    """Return the histogram of tiles by memory use, and the fullest tile."""
    memory = executable.memory
    kilobytes, counts = np.unique(memory.excluding_gaps // 1024, return_counts=True)
    lines = [
        "  By Tile (Excluding Gaps):",
        f"    {'Range (KB)':>12} {'Histogram (Excluding Gaps)':<{_BAR}} Count (tiles)",
    ]
    for low, count in zip(kilobytes.tolist(), counts.tolist(), strict=True):
        bar = "*" * max(1, round(_BAR * count / int(counts.max())))
        lines.append(f"    {f'{low:,} - {low + 1:,}':>12} {bar:<{_BAR}} {count:>13,}")
    lines.append("")
    for label, of_tile in (
        ("Including", memory.including_gaps),
        ("Excluding", memory.excluding_gaps),
    ):
        fullest = int(of_tile.argmax())
        n_bytes = int(of_tile[fullest])
        lines.append(
            f"    Maximum ({label} Gaps): {n_bytes:,} ({n_bytes / 1024:,.1f} K) on tile {fullest}"
        )
    lines.append(f"    {executable.overfull_tiles.size:,} tile(s) out of memory")
    return lines


def _var_storage(executable: Executable) -> list[str]:
    memory = executable.memory
    parts = memory.parts
    n_variables = len(executable.graph.variables)
    always = sum(
        variable.n_bytes
        for variable, is_always_live in zip(
            executable.graph.variables, memory.is_always_live.tolist(), strict=True
        )
        if is_always_live
    )
    lines = [
        "Live Variables:",
        f"  Always-live: {int(memory.always_live.sum()):,} B, {always:,} B of it in variables",
    ]
    n_all = n_variables + len(memory.message_names)
    sizes = np.bincount(parts.variable_id, parts.n_bytes, n_all)
    for step in executable.steps:
        alive = [
            (int(sizes[variable]), variable)
            for variable, lives in memory.lives.items()
            if any(start <= step.step_id < end for start, end in lives)
        ]
        total = int(memory.live.totals[step.step_id])
        lines.append(f"  Step {step.step_id} {step.kind} {step.name}: {total:,} B")
        for n_bytes, variable in sorted(alive, key=lambda item: (-item[0], item[1]))[:_N_VARIABLES]:
            lines.append(f"    {n_bytes:>15,} B  {_variable_name(executable, variable)}")
        if len(alive) > _N_VARIABLES:
            lines.append(f"    and {len(alive) - _N_VARIABLES:,} more")
    return lines


def _variable_name(executable: Executable, variable: int) -> str:
    variables = executable.graph.variables
    if variable < len(variables):
        return variables[variable].name
    return executable.memory.message_names[variable]


def _optimizations(executable: Executable) -> list[str]:
    lines = ["Optimizations:"]
    for plan in executable.plans:
        split = ", ".join(f"{name} {parts}" for name, parts in plan.split.items())
        lines.append(
            f"  {plan.name}: {plan.family}, {split}; {plan.n_tiles:,} tiles,"
            f" {plan.predicted_cycles:,} cycles predicted"
        )
    return lines if executable.plans else [*lines, "  No operations were planned"]


def _cycles_of(timeline: Timeline, entry: int) -> int:
    return int(timeline.end[entry] - timeline.start[entry]) * int(timeline.count[entry])


def _phase(step: Step) -> str:
    """Return the summary row that a step's cycles count towards."""
    return PHASES[phase_of(step.kind)].summary_row


def _busy(executable: Executable, timeline: Timeline, ipu: int, entry: int) -> NDArray[np.int64]:
    """Return the busy cycles of the IPU's tiles during one round of an entry."""
    step = executable.steps[int(timeline.step_id[entry])]
    measured = timeline.patterns.get(entry)
    if measured is not None:
        return measured
    return step.cost.tile_cycles.group(ipu, executable.machine.n_ipus)


def _execution(executable: Executable, timelines: Sequence[Timeline] | None) -> list[str]:
    if timelines is None:
        return ["Execution:", "  Nothing has run yet"]
    machine = executable.machine
    total = max(timeline.n_cycles for timeline in timelines)
    averages = dict.fromkeys((phase.summary_row for phase in PHASES.values()), 0.0)
    issued = 0.0
    by_set: dict[int, int] = {}
    for use in executable.vertex_uses:
        by_set[use.compute_set_id] = by_set.get(use.compute_set_id, 0) + use.total_cycles
    is_counted = True
    for ipu, timeline in enumerate(timelines):
        spent = 0
        for entry in range(timeline.step_id.size):
            step = executable.steps[int(timeline.step_id[entry])]
            cycles = _cycles_of(timeline, entry)
            spent += cycles
            phase = _phase(step)
            if phase == "compute":
                # The time a tile waits for the slowest one counts as part of the sync that follows.
                busy = float(_busy(executable, timeline, ipu, entry).mean())
                busy *= int(timeline.count[entry])
                averages["sync"] += cycles - busy
                averages["compute"] += busy
                is_counted &= not step.is_data_dependent
                if ipu == _first_ipu(step) and step.compute_set is not None:
                    issued += by_set[step.compute_set.compute_set_id] * int(timeline.count[entry])
            else:
                averages[phase] += cycles
        averages["sync"] += timeline.n_cycles - spent
    n = machine.n_ipus
    microseconds = total / machine.clock_hz * 1e6

    def average(value: float) -> str:
        return f"{value:,.1f} ({100 * value / max(total, 1):.1f}% of total cycles)"

    rows = [
        ("Total cycles", f"{total:,} (approx {microseconds:,.1f} microseconds)"),
        (
            "Tile average compute cycles (including idle threads)",
            average(averages["compute"] / n),
        ),
        (
            "Tile average compute cycles (excluding idle threads)",
            average(issued / machine.n_tiles) if is_counted else "unknown: data-dependent",
        ),
        ("Tile average IPU exchange cycles", average(averages["IPU exchange"] / n)),
        ("Tile average global exchange cycles", average(averages["global exchange"] / n)),
        ("Tile average host exchange cycles", average(averages["host exchange"] / n)),
        ("Tile average sync cycles", average(averages["sync"] / n)),
    ]
    beside = [timeline.io for timeline in timelines if timeline.io is not None]
    if beside:
        copied = sum(
            _cycles_of(line, entry)
            for line in beside
            for entry in range(line.step_id.size)
            if _phase(executable.steps[int(line.step_id[entry])]) == "host exchange"
        )
        rows.append(("Tile average overlapped host exchange cycles", average(copied / n)))
    rows += _traffic(executable, timelines)
    width = max(len(label) for label, _ in rows) + 1
    return ["Execution:", *(f"  {label + ':':<{width}} {value}" for label, value in rows)]


def _traffic(executable: Executable, timelines: Sequence[Timeline]) -> list[tuple[str, str]]:
    """Return the bytes moved between the IPUs and the host, streaming memory and each other."""
    rows = []
    for label, far_end in (
        ("Host exchange", "host"),
        ("Remote buffer exchange", "remote"),
        ("Global exchange", "link"),
    ):
        moved = {
            direction: sum(
                int(
                    getattr(executable.steps[step].cost, f"{far_end}_{direction}_bytes")[ipu]
                    * count
                )
                for ipu, timeline in enumerate(timelines)
                for track in (timeline, timeline.io)
                if track is not None
                for step, count in zip(track.step_id.tolist(), track.count.tolist(), strict=True)
            )
            for direction in ("in", "out")
        }
        rows.append((label, f"{moved['in']:,} B in, {moved['out']:,} B out"))
    return rows


def _first_ipu(step: Step) -> int:
    """Return the first IPU on which a step takes time."""
    busy = step.cost.cycles.ids
    return int(busy[0]) if busy.size else 0


def _steps(executable: Executable, timelines: Sequence[Timeline]) -> list[str]:
    """Return every entry of the trace with its cycles and number of busy tiles."""
    lines = ["Execution Steps:"]
    for ipu, timeline in enumerate(timelines):
        if len(timelines) > 1:
            lines.append(f"  IPU {ipu}:")
        lines += _entries(executable, timeline, ipu)
        if timeline.io is not None:
            lines.append("  Concurrently, on the I/O tiles:")
            lines += _entries(executable, timeline.io, ipu)
    return lines


def _entries(executable: Executable, timeline: Timeline, ipu: int) -> list[str]:
    """Return the lines of one track."""
    lines = []
    for entry in range(timeline.step_id.size):
        step = executable.steps[int(timeline.step_id[entry])]
        cycles = int(timeline.end[entry] - timeline.start[entry])
        rounds = int(timeline.count[entry])
        times = f", {rounds:,} times" if rounds > 1 else ""
        lines.append(
            f"    {int(timeline.start[entry]):>14,} {step.kind} {step.name}:"
            f" {cycles:,} cycles{times}"
        )
        busy = _busy(executable, timeline, ipu, entry)
        active = int((busy > 0).sum())
        if active and step.kind == "OnTileExecute":
            balance = tile_balance(int(busy.sum()), int(busy.max()), busy.size) or 0.0
            lines.append(
                f"{'':>19} {active:,} / {busy.size:,} active tiles,"
                f" tile balance {100 * balance:.1f}%"
            )
    return lines
