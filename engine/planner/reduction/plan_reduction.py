"""Plans of reductions: the stages with the fewest predicted cycles.

The first stage reads the tensor: in place, where every tile reduces what lies on it, or on a grid
of parts of the outputs times parts of what is reduced. Further stages reduce partial results of
several tiles. In any stage, the workers of a tile may share what is reduced; a second pass on the
tile then combines their results.
Source: graphcore/poplibs sdk-release-3.4, lib/popops/reduction/Reduction.cpp and ReductionPlan.cpp
(stages), ReductionConnection.cpp (the second pass). The library chooses by thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from tilescope.engine.planner.reduction.cost import (
    FEWEST_PER_SECTION,
    SECTIONS,
    RestOfStages,
    stage_cost,
    tile_cycles,
)
from tilescope.engine.planner.reduction.further_stages import second_pass
from tilescope.engine.planner.reduction.grid import grid_cycles, grids_of
from tilescope.engine.planner.reduction.pieces import StageVertices, cut_box, fewest_shared
from tilescope.engine.planner.reduction.source import ReduceShape

__all__ = ["plan_reduce"]

Counts = NDArray[np.int64]

#: Grids whose cost is computed with the tensor's tile mapping.
_MOST_LOOKED_AT = 4


def plan_reduce(name: str, shape: ReduceShape, tiles: tuple[int, ...], machine: Machine) -> Plan:
    """Return the plan with the fewest predicted cycles.

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
    later = stage_kinds(shape)[1]
    rest = RestOfStages(later, last_kind(shape, later), ids.size, shape.grain(machine), machine)
    choices = [*_in_place(shape, rest, ids, machine), *_on_grids(shape, rest, ids, machine)]
    plans = [_costed(name, shape, choice, ids, machine) for choice in choices]
    limit = AVAILABLE_MEMORY_PROPORTION * machine.allocatable_bytes
    fitting = [plan for plan in plans if plan.temporary_bytes <= limit]
    bound = "cycles" if fitting else "least_memory"
    order = sorted(fitting, key=lambda plan: plan.predicted_cycles) or sorted(
        plans, key=lambda plan: plan.temporary_bytes
    )
    best, *runners_up = order
    if bound == "cycles" and min(plans, key=lambda plan: plan.predicted_cycles) is not best:
        bound = "temporary_memory"
    elif bound == "cycles" and best.n_tiles * 2 < ids.size:
        bound = "idle_tiles"
    runner_up: dict[str, int | str] = {}
    if runners_up:
        second = runners_up[0]
        runner_up = {"family": second.family, **second.split, "cycles": second.predicted_cycles}
    return replace(best, bound=bound, runner_up=runner_up)


def _in_place(
    shape: ReduceShape, rest: RestOfStages, ids: Counts, machine: Machine
) -> Iterator[StageChoice]:
    """Yield the choices with a first stage where the tensor lies."""
    if not np.isin(shape.owners[1], ids).all():
        return
    for level in shape.levels():
        vertices = shape.local_pieces(level, 1)
        blocks = vertices.blocks
        if blocks.n_elements * 2 > shape.n_outputs * shape.n_reduced and not blocks.is_final:
            continue
        further = rest.best(blocks.start.size, int(blocks.width[0]), int(blocks.depth.max()))[1]
        # As the library does, rows are shared only where a tile has fewer than workers.
        vectors = -(-vertices.n_outputs // shape.grain(machine))
        is_few = np.bincount(vertices.tile, vectors).max() < machine.n_worker_contexts
        fewest = vertices.fewest_shared if is_few else 0
        yield min(
            (
                StageChoice(level, 0, 0, sections, further)
                for sections in SECTIONS
                if sections == 1 or fewest >= sections * FEWEST_PER_SECTION
            ),
            key=lambda choice: _vertex_cycles(shape, vertices, choice.sections, machine),
        )


def _vertex_cycles(
    shape: ReduceShape, vertices: StageVertices, sections: int, machine: Machine
) -> int:
    """Return the cycles of a first stage, and of its second pass, on the busiest tile."""
    stages = [(replace(vertices, sections=sections), stage_kinds(shape)[0])]
    if sections > 1:
        wide = replace(vertices.blocks, depth=vertices.blocks.depth * sections)
        stages.append((second_pass(replace(stages[0][0], blocks=wide)), stage_kinds(shape)[1]))
    return sum(tile_cycles(*stage, machine) for stage in stages)


def _on_grids(
    shape: ReduceShape, rest: RestOfStages, ids: Counts, machine: Machine
) -> Iterator[StageChoice]:
    """Yield the most promising grids, as if every tile received all that it reads."""
    grids = grids_of(shape, ids.size, machine)
    cycles = grid_cycles(shape, grids, ids.size, machine)
    later = np.where(grids[1] > 1, rest.least_cycles, 0)
    choices: list[tuple[int, StageChoice]] = []
    visited: set[tuple[int, int]] = set()
    for i in np.argsort(cycles + later, kind="stable").tolist():
        if (
            len(choices) >= _MOST_LOOKED_AT
            and cycles[i] + later[i] >= choices[_MOST_LOOKED_AT - 1][0]
        ):
            break
        parts, rows, sections, width = (int(column[i]) for column in grids)
        if (parts, rows) in visited:  # with another number of sections, which takes less
            continue
        visited.add((parts, rows))
        _, size = cut_box([n for n, _ in shape.reduced], rows, shape.reduced_grain(machine))
        if sections > 1 and fewest_shared(size) < sections * FEWEST_PER_SECTION:
            visited.remove((parts, rows))
            continue
        after, further = rest.best(parts, width, rows)
        choices.append((int(cycles[i]) + after, StageChoice(0, parts, rows, sections, further)))
        choices.sort(key=lambda entry: entry[0])
    for _, choice in choices[:_MOST_LOOKED_AT]:
        yield choice
        yield replace(choice, is_ordered=True)


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
