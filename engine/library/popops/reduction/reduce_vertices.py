"""The vertices of planned reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilescope.engine.codelets.popops.reduction.reduce import (
    REDUCE,
    REDUCE_UPDATE,
    SCALED_REDUCE,
    UNSCALED,
)
from tilescope.engine.graph import (
    ComputeSet,
    DType,
    Regions,
    Stage,
    Tensor,
    Variable,
)
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.builder import Builder
from tilescope.engine.planner.phase import stage_name
from tilescope.engine.planner.reduction.choice import PlannedPieces
from tilescope.engine.planner.reduction.pieces import joined

__all__ = ["PlannedReduction", "add_stages"]


@dataclass(frozen=True)
class PlannedReduction:
    """The stages of a reduction and its tensors.

    Parameters
    ----------
    stages
        The stages, in execution order.
    x
        What is reduced.
    partial
        Type of partial results.
    out
        The results: contiguous in the order in which the kept dimensions of `x` lie in memory.
    scale
        Of the results.
    label
        Begins the names of its variables.
    """

    stages: Sequence[PlannedPieces]
    x: Tensor
    partial: DType
    out: Tensor
    scale: float | Tensor
    label: str


def add_stages(build: Builder, reductions: Sequence[PlannedReduction]) -> None:
    """Add the vertices of reductions; stages of equal index are one compute set."""
    sources = [item.x.variable for item in reductions]
    n_stages = max(len(item.stages) for item in reductions)
    for i in range(n_stages):
        label = (Stage.REDUCE, 0) if i == n_stages - 1 else (Stage.REDUCE_STAGE, i)
        compute_set = build.compute_set(stage_name(*label), *label)
        for k, item in enumerate(reductions):
            if i < len(item.stages):
                sources[k] = _add_stage(build, compute_set, item, i, sources[k])


def _add_stage(
    build: Builder, compute_set: ComputeSet, item: PlannedReduction, i: int, source: Variable
) -> Variable:
    """Add the vertices of a stage, and return the variable of its results."""
    stage = item.stages[i]
    operands, kind = stage.pieces, stage.kind
    graph = build.graph
    if stage.is_last:
        out, offset = item.out.variable, item.out.offset
        flat = Tensor(out, 0, (((out.n_elements, 1),),))
        if not out.is_mapped:
            graph.set_tile_mapping(flat, *operands.mapping())
    else:
        name, n = stage_name(Stage.REDUCE_STAGE, i), operands.blocks.n_elements
        flat = graph.add_variable(item.partial, (n,), f"{item.label}{name}", build.debug)
        graph.set_tile_mapping(flat, *operands.mapping())
        out, offset = flat.variable, 0
    joined_operands = joined(operands)
    section = np.full(joined_operands.n_pieces, joined_operands.sections)
    unit_counts = np.ones_like(section)
    start = (
        joined_operands.blocks.out[joined_operands.block]
        - joined_operands.blocks.start[joined_operands.block]
        if stage.is_last
        else 0
    )
    fields = {
        "x": Regions(source, joined_operands.start, joined_operands.size, joined_operands.stride),
        "out": Regions(
            out,
            joined_operands.out + start + offset,
            np.stack([section, joined_operands.size[:, 0], joined_operands.size[:, 1]], axis=1),
            np.stack(
                [joined_operands.section_stride, joined_operands.plane_stride, unit_counts], axis=1
            ),
        ),
    }
    tiles = joined_operands.tile.astype(np.int32)
    scale = item.scale if stage.is_last else UNSCALED[kind.operation]
    if isinstance(scale, Tensor):
        codelet = SCALED_REDUCE[kind.operation, kind.is_update]
        fields["scale"] = blocks(scale.variable, scale.offset, [1], [1], joined_operands.n_pieces)
        build.vertices(compute_set, codelet, tiles, fields)
    else:
        codelet = (REDUCE_UPDATE if kind.is_update else REDUCE)[kind.operation]
        build.vertices(compute_set, codelet, tiles, fields, {"scale": scale})
    return out
