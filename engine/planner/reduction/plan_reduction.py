"""Plans of reductions: the stages that the library's thresholds give.

The first stage reads the tensor where it lies, if a tile holds several elements of an output;
otherwise on a grid of parts of the outputs times parts of what is reduced. Further stages reduce
partial results of several tiles. In any stage, the workers of a tile may share what is reduced; a
second pass on the tile then combines their results.
Source: graphcore/poplibs sdk-release-3.4, lib/popops/reduction/Reduction.cpp and ReductionPlan.cpp
(stages), ReductionConnection.cpp (the second pass).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Stage
from tilescope.engine.machine import Machine
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.plan import Plan, PlannedStage
from tilescope.engine.planner.reduction.choice import (
    StageChoice,
    early_first,
    last_kind,
    pieces_of,
    stage_kinds,
)
from tilescope.engine.planner.reduction.cost import stage_cost
from tilescope.engine.planner.reduction.pieces import Blocks, StageVertices
from tilescope.engine.planner.reduction.rules import (
    between,
    further_stages,
    grain_of,
    is_enough,
    outputs_per_tile,
    shared_sections,
)
from tilescope.engine.planner.reduction.source import ReduceShape

__all__ = ["plan_reduce"]

Counts = NDArray[np.int64]

#: Share of the elements that lie on the tiles of their vertices, for a stage in place.
_MOST_LOCAL = 0.9


def plan_reduce(name: str, shape: ReduceShape, tiles: tuple[int, ...], machine: Machine) -> Plan:
    """Return the plan by the library's thresholds.

    Where it does not fit in a tile's share, partial results are reduced on all tiles first.

    Parameters
    ----------
    name
        Debug name of the operation.
    shape
        The reduction.
    tiles
        The tiles to use.
    machine
        Supplies the laws' figures.
    """
    ids = early_first(tiles, machine)
    limit = AVAILABLE_MEMORY_PROPORTION * machine.allocatable_bytes
    first_plan = _costed(name, shape, _by_rules(shape, ids, machine), ids, machine)
    if first_plan.temporary_bytes <= limit:
        return first_plan
    plan = _costed(name, shape, _by_rules(shape, ids, machine, is_tight=True), ids, machine)
    best = min(first_plan, plan, key=lambda plan: plan.temporary_bytes)
    return replace(
        best, bound="temporary_memory" if best.temporary_bytes <= limit else "least_memory"
    )


def _by_rules(
    shape: ReduceShape, ids: Counts, machine: Machine, *, is_tight: bool = False
) -> StageChoice:
    """Return the stages; with `is_tight`, several stages between tiles where there may be one."""
    later = stage_kinds(shape)[1]
    last = last_kind(shape, later)
    level = _local_level(shape, ids)
    if level:
        vertices = shape.local_pieces(level, 1)
        sections = _sections_in_place(vertices, shape, machine)
        choice = StageChoice(level, 0, 0, sections, ())
        vertices = shape.local_pieces(level, sections)
    else:
        choice = _on_grid(shape, ids, machine, is_tight=is_tight)
        grid = choice.parts, choice.rows
        vertices = shape.spread_pieces(
            grid, choice.sections, ids, machine, is_ordered=choice.is_ordered
        )
    further = further_stages(vertices, shape.n_outputs, later, last, machine, ids.size, is_tight)
    return replace(choice, further=further)


def _local_level(shape: ReduceShape, ids: Counts) -> int:
    """Return the level of a stage in place with the fewest partial results; 0 if none reduces."""
    if not np.isin(shape.owners[1], ids).all():
        return 0
    best = (shape.n_outputs * shape.n_reduced // 2 + 1, 0)
    for level in shape.levels():
        vertices = shape.local_pieces(level, 1)
        blocks = vertices.blocks
        n_partials = shape.n_outputs if blocks.is_final else blocks.n_elements
        is_better = n_partials < best[0] or (blocks.is_final and not best[1])
        if is_better and _is_local(shape, vertices, level):
            best = (n_partials, level)
    return best[1]


def _is_local(shape: ReduceShape, vertices: StageVertices, level: int) -> bool:
    """Return whether nearly all that vertices read lies on their tiles.

    The first row of a piece may begin on another tile, and the last one end on another. Where the
    first row ends there, or the last one begins there, all rows of the piece count.
    """
    size, spans = vertices.size, (vertices.size - 1) * vertices.stride
    run, inner = (2, [1, 3]) if shape.reduces_in_row(level) else (3, [1])
    in_row, to_last, n_rows = spans[:, inner].sum(axis=1), spans[:, run], size[:, run]
    n_crossing = 0
    for distance, rows in ((0, 1), (in_row, n_rows), (to_last, n_rows), (in_row + to_last, 1)):
        is_away = shape.tile_of(vertices.start + distance) != vertices.tile
        n_crossing += int((is_away * rows).sum())
    n_elements = shape.n_outputs * shape.n_reduced
    return n_crossing * shape.row_elements(level) <= (1 - _MOST_LOCAL) * n_elements


def _sections_in_place(vertices: StageVertices, shape: ReduceShape, machine: Machine) -> int:
    """Return the shares of a stage in place, for the workers."""
    outer, inner = int(vertices.size[:, 2].max()), int(vertices.size[:, 3].max())
    width = int(vertices.size[:, 1].max())
    if outer > 1 and inner > 1 and width > 1:
        return 1  # the workers share the outputs: what is reduced lies in two dimensions
    kind = stage_kinds(shape)[0]
    on_tile = int(np.bincount(vertices.tile).max())
    return min(
        shared_sections(width, on_tile, outer * inner, kind, machine),
        max(1, vertices.fewest_shared // 2),
    )


def _on_grid(shape: ReduceShape, ids: Counts, machine: Machine, *, is_tight: bool) -> StageChoice:
    """Return the first stage where no tile has several elements of an output."""
    kind = stage_kinds(shape)[0]
    total = shape.n_outputs * shape.n_reduced
    holders = np.unique(shape.owners[1]).size
    sources = min(shape.n_reduced, holders)
    if not is_tight and is_enough(sources, holders, total, shape.n_outputs, machine):
        columns = outputs_per_tile(shape.n_outputs, kind.vector(machine), ids.size)
        depth = shape.n_reduced
    else:
        whole = np.array([shape.n_outputs]), np.array([shape.n_reduced]), np.zeros(1, np.int64)
        depth, columns = between(
            Blocks.packed(*whole), shape.n_outputs, grain_of(kind, machine), ids.size
        )
    parts, rows = -(-shape.n_outputs // columns), -(-shape.n_reduced // depth)
    on_tile = -(-parts * rows // ids.size)
    sections = shared_sections(columns, on_tile, depth, kind, machine)
    return StageChoice(0, parts, rows, sections, (), is_ordered=rows == 1)


def _costed(
    name: str, shape: ReduceShape, choice: StageChoice, ids: Counts, machine: Machine
) -> Plan:
    """Return the plan of a choice, with the cost of its pieces."""
    stages, map_start, map_tile = [], *shape.owners
    temporary_bytes, balance = 0, 0.0
    for i, stage in enumerate(pieces_of(shape, choice, ids, machine)):
        vertices = stage.pieces
        cost = stage_cost(vertices, stage.kind, map_start, map_tile, machine)
        held = np.bincount(vertices.tile, vertices.n_outputs).max() * vertices.sections
        temporary = cost.received_bytes + int(held) * shape.partial_bytes * (not stage.is_last)
        temporary_bytes = max(temporary_bytes, temporary)
        if i == 0:
            balance, n_tiles = cost.mean_cycles / cost.compute_cycles, np.unique(vertices.tile).size
        label = (Stage.REDUCE, 0) if stage.is_last else (Stage.REDUCE_STAGE, i)
        exchange = cost.exchange_cycles or None
        stages.append(PlannedStage(*label, exchange, cost.compute_cycles))
        map_start, map_tile = vertices.mapping()
    return Plan(
        name=name,
        operation="reduce",
        family=choice.family,
        grouping={"outputs": shape.grain(machine)},
        split=choice.split(),
        swaps_operands=False,
        n_tiles=n_tiles,
        stages=tuple(stages),
        temporary_bytes=temporary_bytes,
        tile_balance=balance,
        bound="cycles",
        runner_up={},
    )
