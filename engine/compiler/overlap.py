"""The rule of an Overlap: its sides run concurrently, so they share no tiles and no results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import GraphImage

__all__ = ["check_overlap", "nodes_of", "steps_of"]


def steps_of(node: Node) -> Iterator[Step]:
    """Yield the steps below a node, including those in functions."""
    for child in nodes_of(node):
        if child.step is not None:
            yield child.step


def check_overlap(node: Node, graph: GraphImage) -> None:
    """Check the lowered sides of an Overlap, I/O first.

    Raises
    ------
    BadGraph
        When a side uses a tile of the other side or a variable that the other side writes, or the
        compute side copies from or to the host.
    """
    io, compute = node.children
    where = f"Overlap {node.name!r}"
    for step in steps_of(compute):
        if step.access is not None:
            raise BadGraph(
                f"{where}: the copy {step.name!r} is on its compute side; copies from or to the"
                " host or a remote buffer belong on its I/O side"
            )
    _check_tiles(where, "I/O", io, graph.io_tiles, graph)
    _check_tiles(where, "compute", compute, graph.compute_tiles, graph)
    io_reads, io_writes = _accesses(io)
    compute_reads, compute_writes = _accesses(compute)
    shared = (io_writes & (compute_reads | compute_writes)) | (compute_writes & io_reads)
    if shared:
        name = graph.variables[min(shared)].name
        raise BadGraph(
            f"{where}: variable {name!r} is written on one side and used on the other, which run"
            " at the same time; copy it before or after them"
        )


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node and all its descendants."""
    yield node
    if node.function is not None:
        yield from nodes_of(node.function)
    for child in node.children:
        yield from nodes_of(child)


def _check_tiles(
    where: str, side: str, node: Node, allowed: NDArray[np.int32], graph: GraphImage
) -> None:
    """Raise BadGraph where a step of one side uses a tile of the other."""
    is_allowed = np.zeros(graph.machine.n_tiles, dtype=np.bool_)
    is_allowed[allowed] = True
    for step in steps_of(node):
        step_tiles = np.flatnonzero(_uses_tile(step) & ~is_allowed)
        if step_tiles.size:
            per_ipu = graph.machine.tiles_per_ipu
            raise BadGraph(
                f"{where}: {step.kind} {step.name!r} on its {side} side uses tile"
                f" {int(step_tiles[0])};"
                f" I/O tiles are {per_ipu - graph.n_io_tiles} to {per_ipu - 1} of each IPU, all"
                " others compute"
            )


def _uses_tile(step: Step) -> NDArray[np.bool_]:
    """Return whether each tile computes, sends or receives in a step."""
    cost = step.cost
    uses = np.zeros(cost.tile_cycles.size, np.bool_)
    for column in (cost.tile_cycles, cost.sent_bytes, cost.received_bytes):
        uses[column.ids] = True
    if step.compute_set is not None:
        for batch in step.compute_set.batches:
            uses[batch.tile] = True
    return uses


def _accesses(node: Node) -> tuple[set[int], set[int]]:
    """Return the variables that a side reads, and those that it writes."""
    reads: set[int] = set()
    writes: set[int] = set()
    for child in nodes_of(node):
        if child.control is not None:
            reads |= {variable.variable_id for variable in child.control.variables}
        if child.step is not None:
            reads |= set(child.step.reads)
            writes |= {*child.step.writes, *child.step.overwrites}
    return reads, writes
