"""What to tell when a program does not fit: which tiles, which step, which variables."""

from __future__ import annotations

import numpy as np

from engine.compiler.executable import Executable

__all__ = ["describe_overflow"]

_N_TILES = 5
_N_VARIABLES = 5


def _name(executable: Executable, variable_id: int) -> str:
    variables = executable.graph.variables
    if variable_id < len(variables):
        return variables[variable_id].name
    return executable.memory.message_names[variable_id]


def describe_overflow(executable: Executable) -> str:
    """Return one screen that names the fullest tiles, their worst step and largest variables."""
    memory, machine = executable.memory, executable.machine
    tiles = executable.overfull_tiles
    order = tiles[np.argsort(-memory.including_gaps[tiles], kind="stable")][:_N_TILES]
    lines = [
        f"Out of memory: {tiles.size} of {machine.n_tiles} tiles need more than their"
        f" {machine.allocatable_bytes:,} bytes. The fullest:"
    ]
    parts = memory.parts
    for tile in order:
        step = executable.steps[int(memory.live[:, tile].argmax())]
        lines.append(
            f"  tile {tile}: {memory.including_gaps[tile]:,} bytes, most at step {step.step_id}"
            f" {step.kind} {step.name}"
        )
        here = slice(int(parts.tile_start[tile]), int(parts.tile_start[tile + 1]))
        is_live = (parts.start_step[here] <= step.step_id) & (step.step_id < parts.end_step[here])
        ids, sizes = parts.variable_id[here][is_live], parts.n_bytes[here][is_live]
        largest = np.argsort(-sizes, kind="stable")[:_N_VARIABLES]
        lines += [f"    {sizes[i]:>12,} bytes  {_name(executable, int(ids[i]))}" for i in largest]
    lines.append("Use more IPUs or tiles, a smaller batch, or smaller types.")
    return "\n".join(lines)
