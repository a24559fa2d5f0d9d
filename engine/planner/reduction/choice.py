"""The stages of a plan of a reduction: the choice as counts, and the pieces that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import ReduceKind
from tilescope.engine.machine import Machine, tile_rows
from tilescope.engine.planner.reduction.further_stages import (
    further_pieces,
    last_pieces,
    second_pass,
)
from tilescope.engine.planner.reduction.pieces import StageVertices
from tilescope.engine.planner.reduction.rules import Further
from tilescope.engine.planner.reduction.source import ReduceShape

__all__ = [
    "PlannedPieces",
    "StageChoice",
    "early_first",
    "last_kind",
    "pieces_of",
    "planned_pieces",
    "stage_kinds",
]

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class StageChoice:
    """The stages of a plan: the first one in place, or on a grid.

    Parameters
    ----------
    level
        Of `ReduceShape.local_pieces` for a stage in place; 0 for a grid.
    parts, rows
        Of a grid.
    sections
        Shares of what a tile reduces, for its workers.
    further
        The other stages.
    is_ordered
        Whether a grid takes the tiles in order.
    """

    level: int
    parts: int
    rows: int
    sections: int
    further: tuple[Further, ...]
    is_ordered: bool = False

    def split(self) -> dict[str, int]:
        """Return the counts as a plan states them."""
        first = (
            {"level": self.level} if self.level else {"outputs": self.parts, "reduced": self.rows}
        )
        counts = {**first, "workers": self.sections}
        if self.is_ordered:
            counts["tiles in order"] = 1
        for i, stage in enumerate(self.further):
            names = (f"partials {i}", f"columns {i}", f"workers {i}")
            counts |= dict(zip(names, (stage.depth, stage.columns, stage.sections), strict=True))
        return counts

    @classmethod
    def of_split(cls, split: Mapping[str, int]) -> StageChoice:
        """Return the choice that `split` described."""
        n = sum(name.startswith("partials") for name in split)
        further = tuple(
            Further(split[f"partials {i}"], split[f"columns {i}"], split[f"workers {i}"])
            for i in range(n)
        )
        return cls(
            split.get("level", 0),
            split.get("outputs", 0),
            split.get("reduced", 0),
            split["workers"],
            further,
            "tiles in order" in split,
        )

    @property
    def family(self) -> str:
        """The kind of the first stage."""
        return "in place" if self.level else "grid"


@dataclass(frozen=True)
class PlannedPieces:
    """A stage with its pieces.

    Parameters
    ----------
    pieces
        The vertices.
    kind
        Operation and types.
    is_last
        Whether it gives the results.
    """

    pieces: StageVertices
    kind: ReduceKind
    is_last: bool


def stage_kinds(shape: ReduceShape) -> tuple[ReduceKind, ReduceKind]:
    """Return the operation and types of the first stage, and of further ones that are not last."""
    first = ReduceKind(shape.operation, shape.dtype, shape.partial, shape.item_bytes)
    later = "sum" if shape.operation == "square_sum" else shape.operation
    return first, ReduceKind(later, shape.partial, shape.partial, shape.partial_bytes)


def last_kind(shape: ReduceShape, kind: ReduceKind) -> ReduceKind:
    """Return the kind of a stage that gives the results."""
    return replace(kind, result=shape.result, is_update=shape.is_update)


def early_first(tiles: tuple[int, ...], machine: Machine) -> Counts:
    """Return tiles in the order in which an exchange reaches them, IPU by IPU."""
    ids = np.array(tiles, np.int64)
    rows = tile_rows(machine.tiles_per_ipu, machine.exchange_rows)[ids % machine.tiles_per_ipu]
    return ids[np.lexsort((ids, rows, ids // machine.tiles_per_ipu))]


def planned_pieces(
    shape: ReduceShape, split: Mapping[str, int], tiles: tuple[int, ...], machine: Machine
) -> list[PlannedPieces]:
    """Return the stages of a plan with their pieces.

    Parameters
    ----------
    shape
        The reduction.
    split
        Of the plan.
    tiles
        The tiles to use.
    machine
        Supplies the width of vectors, and the places of tiles.
    """
    return pieces_of(shape, StageChoice.of_split(split), early_first(tiles, machine), machine)


def pieces_of(
    shape: ReduceShape, choice: StageChoice, ids: Counts, machine: Machine
) -> list[PlannedPieces]:
    """Return the stages of a choice with their pieces."""
    first, later = stage_kinds(shape)
    if choice.level:
        local_vertices = shape.local_pieces(choice.level, choice.sections)
    else:
        grid = choice.parts, choice.rows
        local_vertices = shape.spread_pieces(
            grid, choice.sections, ids, machine, is_ordered=choice.is_ordered
        )
    stages_ = [(local_vertices, first)]
    if choice.sections > 1:
        stages_.append((second_pass(local_vertices), later))
    for i, stage in enumerate(choice.further):
        blocks, mapping = stages_[-1][0].blocks, stages_[-1][0].mapping()
        if i == len(choice.further) - 1:
            local_vertices = last_pieces(blocks, stage.columns, stage.sections, np.sort(ids))
        else:
            owner = np.repeat(mapping[1], np.diff(np.append(mapping[0], blocks.n_elements)))
            local_vertices = further_pieces(
                blocks, stage.depth, stage.columns, stage.sections, owner, ids
            )
        stages_.append((local_vertices, later))
        if stage.sections > 1:
            stages_.append((second_pass(local_vertices), later))
    return [
        PlannedPieces(
            local_vertices,
            last_kind(shape, kind) if i == len(stages_) - 1 else kind,
            i == len(stages_) - 1,
        )
        for i, (local_vertices, kind) in enumerate(stages_)
    ]
