"""How the library stages a reduction: thresholds, not a search.

Every tile first reduces what lies on it. Partial results of several tiles are reduced on the tiles
of the outputs at once, or, if there are many, on all tiles first. On a tile, the workers share the
outputs; where there are fewer than half as many outputs as workers, they may share the partial
results too, and a second pass combines theirs.
Source: graphcore/poplibs sdk-release-3.4, lib/popops/reduction: ReductionPlan.cpp
(calculateNextStep, calculateSplit), ReductionStages.cpp (intermediateToOutput, findGrainSizeForOp),
ReductionConnection.cpp (opsPerCycle, splitTwoStageReductionsBetweenWorkers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilescope.engine.codelets.popops.reduction.reduce_law import ReduceKind
from tilescope.engine.machine import Machine
from tilescope.engine.planner.reduction.pieces import Blocks, StageVertices

__all__ = [
    "Further",
    "between",
    "further_stages",
    "grain_of",
    "is_enough",
    "outputs_per_tile",
    "shared_sections",
]

#: More partial results than this for an output, on average, are reduced on all tiles first; a
#: piece of such a stage has no fewer elements.
_FEW_PARTIALS = 64
#: Vectors of outputs of a tile of the last stage, at least.
_FEWEST_VECTORS = 4
#: Cycles around a vertex and per pass, as the library estimates them to share work.
_OVERHEAD = 30
#: Cycles of a share, and rows of it, at least.
_FEWEST_CYCLES, _FEWEST_ROWS = 4, 2
_BYTES = {"float16": 2, "float32": 4}
#: Stages between the first and the last, at most; each leaves the root of its partial results.
_MOST_STAGES = 3


@dataclass(frozen=True)
class Further:
    """A stage that reduces partial results.

    Parameters
    ----------
    depth
        Most partial results of a vertex.
    columns
        Most outputs of a vertex; of the last stage, outputs of a tile.
    sections
        Shares of the partial results of a vertex, for the workers.
    """

    depth: int
    columns: int
    sections: int


def grain_of(kind: ReduceKind, machine: Machine) -> int:
    """Return the outputs that a worker takes at a time: two vectors of a sum, one otherwise."""
    return kind.vector(machine) * (2 if kind.family == "add" else 1)


def outputs_per_tile(n_outputs: int, vector: int, n_tiles: int) -> int:
    """Return the outputs of a tile of the last stage."""
    vectors = -(-n_outputs // vector)
    return max(_FEWEST_VECTORS, -(-vectors // n_tiles)) * vector


def is_enough(n_sources: int, n_holders: int, n_partials: int, n_outputs: int, m: Machine) -> bool:
    """Whether partial results are few enough for the last stage.

    Parameters
    ----------
    n_sources
        Most partial results of an output.
    n_holders
        Tiles that hold partial results.
    n_partials, n_outputs
        Number of partial results and of outputs.
    m
        The machine.
    """
    is_spread = n_holders > m.tiles_per_ipu * 3 // 4
    if is_spread and n_sources < 2 * math.sqrt(m.tiles_per_ipu):
        return True
    return n_partials <= n_outputs * _FEW_PARTIALS


def between(blocks: Blocks, n_outputs: int, grain: int, n_tiles: int) -> tuple[int, int]:
    """Return partial results and outputs of a vertex of a stage on all tiles."""
    total = blocks.n_elements
    average = max(1, math.isqrt(total // n_outputs))
    least = max(grain, int(blocks.width.min()) // grain // average * grain)
    share = -(-n_outputs // n_tiles)
    columns = max(least, -(-share // grain) * grain)
    columns = min(columns, int(blocks.width.max()))
    depth = int(blocks.depth.max())
    in_region = depth * columns
    n_parts = max(1, in_region // max(1, total // n_tiles))
    if in_region // n_parts < _FEW_PARTIALS:
        n_parts = max(1, in_region // _FEW_PARTIALS)
    if depth // n_parts < _FEWEST_ROWS:
        n_parts = max(1, depth // _FEWEST_ROWS)
    return max(_FEWEST_ROWS, -(-depth // n_parts)), columns


def shared_sections(width: int, n_on_tile: int, rows: int, kind: ReduceKind, m: Machine) -> int:
    """Return the shares of what a tile reduces, for its workers.

    Parameters
    ----------
    width
        Outputs of a piece.
    n_on_tile
        Pieces on a tile.
    rows
        Partial results, or elements, per output.
    kind
        The operation.
    m
        Supplies the workers.
    """
    workers = m.n_worker_contexts
    n_reductions = max(n_on_tile, min(workers, n_on_tile * max(1, width // grain_of(kind, m))))
    n_sections = workers // n_reductions
    if n_sections < 2:
        return 1
    outputs = max(1, width * n_on_tile // n_reductions)
    cycles = -(-outputs * rows // _per_cycle(outputs, kind, m))
    if cycles <= 2 * _OVERHEAD:
        return 1
    most = min(rows // _FEWEST_ROWS, (cycles + _OVERHEAD) // _FEWEST_CYCLES)
    return max(1, min(n_sections, most - 1))


def _per_cycle(outputs: int, kind: ReduceKind, machine: Machine) -> int:
    """Return the elements of a cycle, by the type of the result and the number of outputs."""
    item_bytes = _BYTES.get(kind.result)
    width = machine.data_path_bytes // item_bytes if item_bytes else 1
    width *= 2 if kind.family == "add" and item_bytes else 1
    if outputs < width and width % outputs == 0:
        return width
    return math.gcd(outputs, width)


def further_stages(
    first: StageVertices,
    n_outputs: int,
    kind: ReduceKind,
    last: ReduceKind,
    m: Machine,
    n: int,
    is_tight: bool = False,
) -> tuple[Further, ...]:
    """Return the stages after the first.

    Parameters
    ----------
    first
        The pieces of the first stage.
    n_outputs
        Outputs of the reduction.
    kind, last
        Operation and types of the stages, and of the last one.
    m
        The machine.
    n
        Tiles to use.
    is_tight
        Whether to reduce partial results on all tiles first, however few.
    """
    blocks = first.blocks
    if blocks.is_final:
        return ()
    stages: list[Further] = []
    holders = int(np.unique(first.tile).size)
    n_sections = first.sections
    # A second pass on every tile combines what its workers share.
    blocks = Blocks.packed(blocks.width, blocks.depth // n_sections, blocks.out)
    while not blocks.is_final and len(stages) < _MOST_STAGES:
        sources = int(blocks.depth.max())
        is_few = is_enough(sources, holders, blocks.n_elements, n_outputs, m)
        if is_few and not (is_tight and not stages):
            break
        depth, columns = between(blocks, n_outputs, grain_of(kind, m), n)
        if depth >= sources:
            break
        chunks = -(-blocks.width // columns)
        rows = -(-blocks.depth // depth)
        n_pieces = int((chunks * rows).sum())
        on_tile = -(-n_pieces // n)
        stages.append(Further(depth, columns, shared_sections(columns, on_tile, depth, kind, m)))
        holders = min(n_pieces, n)
        blocks = Blocks.packed(blocks.width, rows, blocks.out)
    if not blocks.is_final:
        per_tile = outputs_per_tile(n_outputs, kind.vector(m), n)
        width = min(int(blocks.width.max()), per_tile)
        depth = int(blocks.depth.max())
        on_tile = max(1, per_tile // width)
        stages.append(Further(depth, per_tile, shared_sections(width, on_tile, depth, last, m)))
    return tuple(stages)
