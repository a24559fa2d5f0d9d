"""Programs that measure cycles on the machine, into variables that they can read back.

Source of names and structure: Poplar's cycleCount and cycleStamp; graphcore/poplibs,
lib/popsys/CycleCount.cpp and CycleStamp.cpp, which they replaced.
"""

from __future__ import annotations

from tilescope.engine.arguments import a_count, a_kind, a_switch, a_text
from tilescope.engine.codelets.cycle_counter import CYCLE_COUNT, CYCLE_STAMP
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ROOT, UINT32, ComputeSet, DebugContext, Graph, Tensor
from tilescope.engine.program import Execute, Sequence, Sync

__all__ = ["cycle_count", "cycle_stamp"]


def cycle_count(
    graph: Graph,
    sequence: Sequence,
    tile: int,
    *,
    external: bool = False,
    name: str = "cycleCount",
    debug: DebugContext = ROOT,
) -> Tensor:
    """Measure a sequence every time it runs, and return the variable of its cycles.

    Programs that read the counter are added to the sequence, in place: a sync and a stamp before
    its programs, and the difference after them. The figure is the time from the end of the stamp
    to the begin of the difference, as the trace has it for the IPU of the tile.

    Parameters
    ----------
    graph
        Graph of the sequence.
    sequence
        The programs to measure.
    tile
        Tile whose counter is read, and that holds the variable.
    external
        Whether the sync before is one of all IPUs.
    name, debug
        Name of the measurement, within its context's.

    Returns
    -------
    Tensor
        uint32, shape (2,): the lower word of the cycles, and the upper one.

    Raises
    ------
    BadGraph
        When an argument is of the wrong kind, or the tile does not exist.
    """
    before, start = _stamp(graph, sequence, tile, external, f"{name}/start", debug)
    out, compute_set = _reading(graph, tile, f"{name}/end", debug)
    fields = {"start": start, "out": out}
    graph.add_vertices(compute_set, CYCLE_COUNT, [tile], fields)
    sequence.children[:] = [
        *before,
        *sequence.children,
        Execute(compute_set, debug=debug),
    ]
    return out


def cycle_stamp(
    graph: Graph,
    sequence: Sequence,
    tile: int,
    *,
    external: bool = False,
    name: str = "cycleStamp",
    debug: DebugContext = ROOT,
) -> Tensor:
    """Append a sync and a reading of a tile's cycle counter, and return the variable of it.

    Counters go on from run to run; those of different IPUs count on their own.

    Parameters
    ----------
    graph
        Graph of the sequence.
    sequence
        Where the programs are appended.
    tile
        Tile whose counter is read, and that holds the variable.
    external
        Whether the sync is one of all IPUs.
    name, debug
        Name of the reading, within its context's.

    Returns
    -------
    Tensor
        uint32, shape (2,): the lower word of the counter, and the upper one.

    Raises
    ------
    BadGraph
        When an argument is of the wrong kind, or the tile does not exist.
    """
    programs, out = _stamp(graph, sequence, tile, external, name, debug)
    sequence.add(*programs)
    return out


def _stamp(
    graph: Graph, sequence: Sequence, tile: int, external: bool, name: str, debug: DebugContext
) -> tuple[list[Sync | Execute], Tensor]:
    """Return a sync and a reading, and the variable of the reading."""
    a_kind("The graph of a cycle count", graph, Graph, "a graph")
    a_kind("The programs of a cycle count", sequence, Sequence, "a program.Sequence")
    a_text("The name of a cycle count", name)
    where = f"The sync of {name!r}: external"
    a_switch(where, external)
    n_tiles = graph.machine.n_tiles
    if not 0 <= a_count(f"The tile of {name!r}", tile) < n_tiles:
        raise BadGraph(
            f"{name!r} is measured on tile {tile}, but the machine has tiles 0 to {n_tiles - 1}"
        )
    out, compute_set = _reading(graph, tile, name, debug)
    graph.add_vertices(compute_set, CYCLE_STAMP, [tile], {"out": out})
    sync = Sync(external, f"{name}/sync", debug=debug)
    return [sync, Execute(compute_set, debug=debug)], out


def _reading(graph: Graph, tile: int, name: str, debug: DebugContext) -> tuple[Tensor, ComputeSet]:
    """Return the variable of a reading on its tile, and a compute set."""
    out = graph.add_variable(UINT32, (2,), name, debug)
    graph.set_tile_mapping(out, [0], [tile])
    return out, graph.add_compute_set(name, debug)
