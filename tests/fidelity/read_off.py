"""Figures read off an executable."""

from __future__ import annotations

from collections.abc import Iterable

from tilescope.engine.compiler.executable.executable import Executable, Step
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute.timeline import timeline_of
from tilescope.reports import figures

__all__ = [
    "compute_cycles",
    "kind_cycles",
    "parallel_efficiency",
    "steps_of",
    "tile_balance",
    "total_cycles",
]


def steps_of(executable: Executable, kind: str, name: str = "") -> list[Step]:
    """Return the steps of a kind whose name contains `name`, in order.

    Raises
    ------
    BadGraph
        When no step matches: a figure must not be read from nothing.
    """
    results = [s for s in executable.steps if s.kind == kind and name in s.name]
    if not results:
        raise BadGraph(f"The program has no step {kind} with {name!r} in its name")
    return results


def _sum(steps: Iterable[Step]) -> int:
    return int(sum(step.cost.cycles.max() for step in steps))


def kind_cycles(executable: Executable, kind: str, name: str = "") -> int:
    """Return the cycles of all steps of a kind whose name contains `name`."""
    return _sum(steps_of(executable, kind, name))


def compute_cycles(executable: Executable, name: str = "") -> int:
    """Return the cycles of the compute steps whose name contains `name`."""
    return kind_cycles(executable, "OnTileExecute", name)


def total_cycles(executable: Executable) -> int:
    """Return the cycles of one run of the first control program."""
    return timeline_of(executable.roots[0], executable.machine)[0].n_cycles


def parallel_efficiency(executable: Executable) -> float:
    """Return the percentage of tile time spent on compute or exchange."""
    kinds = ("OnTileExecute", "DoExchange")
    busy = sum(int(s.cost.tile_cycles.sum()) for kind in kinds for s in steps_of(executable, kind))
    share = figures.parallel_efficiency(busy, total_cycles(executable), executable.machine.n_tiles)
    return 100 * (share or 0.0)


def tile_balance(executable: Executable) -> float:
    """Return mean over maximum of tiles' cycles in compute steps, weighted by the maximum, %."""
    steps = steps_of(executable, "OnTileExecute")
    busy = sum(int(s.cost.tile_cycles.sum()) for s in steps)
    busiest = sum(s.cost.tile_cycles.max() for s in steps)
    return 100 * (figures.tile_balance(busy, busiest, executable.machine.n_tiles) or 0.0)
