"""Grids of the first stage of a reduction: parts of the outputs times rows of what is reduced."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import ReduceSizes, reduce_cycles
from tilescope.engine.machine import Machine
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.planner.reduction.choice import stage_kinds
from tilescope.engine.planner.reduction.cost import FEWEST_PER_SECTION, SECTIONS, ladder
from tilescope.engine.planner.reduction.pieces import n_cut
from tilescope.engine.planner.reduction.source import ReduceShape

__all__ = ["grid_cycles", "grids_of"]

Counts = NDArray[np.int64]

#: Ratio of the counts of parts to consider, and most grains of a worker.
_GROWTH, _MOST_GRAINS = 1.15, 8
#: Largest number of vertices of the first stage, per tile.
_MOST_PER_TILE = 64


def grids_of(shape: ReduceShape, n_tiles: int, machine: Machine) -> tuple[Counts, ...]:
    """Return parts, rows, sections and outputs of a part of the grids to consider."""
    kept_sizes, reduced = ([size for size, _ in atoms] for atoms in (shape.kept, shape.reduced))
    grain, reduced_grain = shape.grain(machine), shape.reduced_grain(machine)

    def counts(sizes: list[int], grain: int) -> list[int]:
        largest_count = n_cut(sizes, n_tiles, grain)
        outer = n_cut([*sizes[:-1], 1], n_tiles)
        # Parts in which every worker has as many grains.
        even = grain * machine.n_worker_contexts
        steps = {outer * -(-sizes[-1] // (even * n)) for n in range(1, _MOST_GRAINS + 1)}
        steps |= {*ladder(min(largest_count, n_tiles), growth=_GROWTH), outer}
        steps |= {outer * n for n in ladder(n_tiles // outer or 1, growth=_GROWTH)}
        return sorted({n_cut(sizes, n, grain) for n in steps})

    columns = []
    for parts in counts(kept_sizes, grain):
        for rows in counts(reduced, reduced_grain):
            if parts * rows > n_tiles * _MOST_PER_TILE and (parts, rows) != (
                n_cut(kept_sizes, 1, grain),
                n_cut(reduced, 1, reduced_grain),
            ):
                continue
            width = -(-shape.n_outputs // parts)
            is_few = -(-width // grain) < machine.n_worker_contexts
            share = shape.n_reduced // rows if is_few else 0
            columns += [
                (parts, rows, sections, width)
                for sections in SECTIONS
                if sections == 1 or share >= sections * FEWEST_PER_SECTION
            ]
    return tuple(np.array(columns, np.int64).T)


def grid_cycles(
    shape: ReduceShape, grids: tuple[Counts, ...], n_tiles: int, machine: Machine
) -> Counts:
    """Return the cycles of the first stage of grids in which all data is received."""
    parts, rows, sections, _ = grids
    first, later = stage_kinds(shape)
    planes, columns = _largest(shape.kept, parts, shape.grain(machine))
    outer, inner = _largest(shape.reduced, rows, shape.reduced_grain(machine))
    unit_counts = np.ones_like(parts)
    on_tile = -(-parts * rows // n_tiles)
    elements = planes * columns * outer * inner
    run = np.where(shape.kept[-1][1] == 1, columns, np.where(shape.reduced[-1][1] == 1, inner, 1))
    moved = on_tile * elements * shape.item_bytes
    cycles = exchange_cycles(
        moved, 0 * moved, np.minimum(parts * rows, n_tiles), machine, on_tile * elements // run
    )
    strides = (shape.kept[-1][1], shape.reduced[-2][1], shape.reduced[-1][1])
    sizes = ReduceSizes(
        planes, columns, outer, inner, sections, *(unit_counts * stride for stride in strides)
    )
    cycles = cycles + on_tile * reduce_cycles(first, sizes, machine)
    width = planes * columns
    again = ReduceSizes(
        unit_counts, width, unit_counts, sections, unit_counts, unit_counts, 0 * unit_counts, width
    )
    return cycles + on_tile * np.where(sections > 1, reduce_cycles(later, again, machine), 0)


def _largest(
    atoms: tuple[tuple[int, int], ...], parts: Counts, grain: int
) -> tuple[Counts, Counts]:
    """Return the extents of the largest part along the last two dimensions, as `cut_box`."""
    must = int(np.prod([size for size, _ in atoms[:-2]]))
    (outer, _), (last, _) = atoms[-2:]
    left = np.maximum(parts // must, 1)
    is_inner = left >= outer
    grains = -(-last // grain)
    of_last = np.minimum(np.maximum(left // outer, 1), grains)
    return (
        np.where(is_inner, 1, -(-outer // left)),
        np.where(is_inner, np.minimum(-(-grains // of_last) * grain, last), last),
    )
