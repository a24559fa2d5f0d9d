"""The out-of-memory message: which tiles, which step, which variables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.reports.figures import bytes_past, fits, missing_bytes

__all__ = ["describe_overflow"]

_N_TILES = 5
_N_VARIABLES = 5


def _name(executable: Executable, variable_id: int) -> str:
    variables = executable.graph.variables
    if variable_id < len(variables):
        return variables[variable_id].name
    return executable.memory.message_names[variable_id]


def _tile_fits(executable: Executable, tile: int, highest: int) -> bool:
    """Return whether a tile would fit with the given highest address."""
    machine, code_end = executable.machine, executable.memory.code_end[tile : tile + 1]
    capacity = np.array([highest], np.int64)
    return bool(
        fits(capacity, code_end, machine.allocatable_bytes, machine.non_interleaved_bytes).all()
    )


def _reasons(executable: Executable, tile: int) -> Iterator[str]:
    """Yield the reasons, besides the sum of its variables, why a tile is overfull."""
    memory, machine = executable.memory, executable.machine
    code_end = memory.code_end[tile : tile + 1]
    if bytes_past(code_end, machine.non_interleaved_bytes).any():
        yield (
            f"    its code takes {code_end[0]:,} bytes, but only the first"
            f" {machine.non_interleaved_bytes:,} are executable"
        )
    lost_bytes = int(memory.including_gaps[tile] - memory.unconstrained[tile])
    if lost_bytes <= 0:
        return
    parts = memory.parts
    here = slice(int(parts.tile_start[tile]), int(parts.tile_start[tile + 1]))
    ends = parts.offset[here] + parts.n_bytes[here]
    past = bytes_past(ends, machine.allocatable_bytes)
    names = [_name(executable, i) for i in parts.variable_id[here][past > 0].tolist()]
    would_fit = _tile_fits(executable, tile, int(memory.unconstrained[tile]))
    yield (
        f"    {lost_bytes:,} bytes of it are lost to interleaved operands and operands in different"
        f" memory elements: without them {'it would fit, in' if would_fit else 'it would take'}"
        f" {memory.unconstrained[tile]:,}; past the end lies {', '.join(names[:_N_VARIABLES])}"
        + (f" and {len(names) - _N_VARIABLES} more" if len(names) > _N_VARIABLES else "")
    )


def _step_at(executable: Executable, peak: int) -> str:
    """Return the step at which a tile's memory peaks; empty for a program without steps."""
    if not executable.steps:
        return ""
    step = executable.steps[peak]
    return f", peak at step {step.step_id} {step.kind} {step.name}"


def describe_overflow(executable: Executable) -> str:
    """Return one screen with the tiles that lack most, their worst step and largest variables."""
    memory, machine = executable.memory, executable.machine
    tiles = executable.overfull_tiles
    lacks = missing_bytes(
        memory.including_gaps[tiles],
        memory.code_end[tiles],
        machine.allocatable_bytes,
        machine.non_interleaved_bytes,
    )
    order = tiles[np.lexsort((-memory.excluding_gaps[tiles], -lacks))][:_N_TILES]
    past = bytes_past(memory.including_gaps[tiles], machine.allocatable_bytes)
    needs = (
        f"need more than their {machine.allocatable_bytes:,} bytes"
        if past.any()
        else f"need more than the {machine.non_interleaved_bytes:,} bytes that hold code"
    )
    lines = [
        f"Out of memory: {tiles.size} of {machine.n_tiles} tiles {needs}. Those that lack most:"
    ]
    rows = memory.parts.rows()
    for tile in order:
        peak = int(memory.live.peak_step[tile])
        lines.append(
            f"  tile {tile}: {memory.including_gaps[tile]:,} bytes{_step_at(executable, peak)}"
        )
        lines += _reasons(executable, int(tile))
        here = slice(int(rows.tile_start[tile]), int(rows.tile_start[tile + 1]))
        is_live = (rows.start_step[here] <= peak) & (peak < rows.end_step[here])
        ids, sizes = rows.variable_id[here][is_live], rows.n_bytes[here][is_live]
        largest = np.argsort(-sizes, kind="stable")[:_N_VARIABLES]
        lines += [f"    {sizes[i]:>12,} bytes  {_name(executable, int(ids[i]))}" for i in largest]
    lines.append("Use more IPUs or tiles, a smaller batch, or smaller types.")
    return "\n".join(lines)
