"""Plans of the search for labels: classes, beams and ranks of candidates split over tiles.

There is no search: every stage takes as many tiles as it has work for.
Source: graphcore/poplibs sdk-release-3.4, lib/popnn/CTCInferencePlan.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["BeamShape", "CtcBeamPlan", "SortStage", "plan_beams"]

Counts = NDArray[np.int64]

#: From so many classes on, candidates are sorted in two stages. Source: the same
_TWO_STAGES = 20


@dataclass(frozen=True)
class BeamShape:
    """Sizes of a search for labels.

    Parameters
    ----------
    n_batch, n_steps, n_classes
        Sequences, steps of the longest one, and classes with that of no label.
    width
        Beams.
    item_bytes, partial_bytes
        Bytes of a probability, and of a partial result.
    """

    n_batch: int
    n_steps: int
    n_classes: int
    width: int
    item_bytes: int
    partial_bytes: int

    @property
    def n_candidates(self) -> int:
        """Candidates of a step: every beam, and every class behind every beam."""
        return self.width * self.n_classes


@dataclass(frozen=True)
class SortStage:
    """A stage that leaves the most probable candidates of every group.

    Parameters
    ----------
    n_candidates
        Candidates before the stage.
    groups
        Groups, which are sorted apart.
    groups_per_tile
        Groups of a tile; 1 unless there are more groups than tiles.
    ranks, reductions
        Parts of a group's candidates, whose ranks are counted, and of its results.
    """

    n_candidates: int
    groups: int
    groups_per_tile: int
    ranks: int
    reductions: int

    @property
    def group_edges(self) -> Counts:
        """Starts of the groups' candidates, and the end: ndarray of int64."""
        return _edges(self.n_candidates, self.groups)

    def rank_edges(self, group: int) -> Counts:
        """Return the starts of a group's parts, and the end, from its first candidate."""
        size = int(np.diff(self.group_edges)[group])
        width = -(-int(self.group_edges[1]) // self.ranks)
        return np.minimum(np.arange(self.ranks + 1, dtype=np.int64) * width, size)

    @property
    def tiles_per_group(self) -> int:
        """Tiles that parts of a group take."""
        return max(self.ranks, self.reductions)

    def part(self, group: Counts, number: Counts) -> Counts:
        """Return the tiles of parts, from the first one of the sequence."""
        return np.asarray(self.tiles_per_group * group // self.groups_per_tile + number)


@dataclass(frozen=True)
class CtcBeamPlan:
    """How the search is split over tiles.

    A part of the sequences has `parts` tiles, each with a copy of the beams.

    Parameters
    ----------
    shape
        What the plan is for.
    batch, classes, beams
        Parts of the sequences, of the classes behind beams, and of the beams.
    vertices_per_class
        Vertices that a class has on its tile.
    stages
        How candidates are sorted.
    """

    shape: BeamShape
    batch: int
    classes: int
    beams: int
    vertices_per_class: int
    stages: tuple[SortStage, ...]

    @property
    def parts(self) -> int:
        """Tiles of a part of the sequences."""
        first = self.stages[0]
        n_sort = -(-first.tiles_per_group * first.groups // first.groups_per_tile)
        return max(self.classes, self.beams, n_sort)

    @property
    def n_tiles(self) -> int:
        """Number of tiles."""
        return self.batch * self.parts

    @property
    def batch_part(self) -> Counts:
        """Part of every sequence: ndarray of int64, shape (n_batch,)."""
        return _part(self.shape.n_batch, self.batch)

    @property
    def class_part(self) -> Counts:
        """Part of every class that is not the blank: ndarray of int64, shape (n_classes - 1,)."""
        return _part(self.shape.n_classes - 1, self.classes)

    @property
    def beam_part(self) -> Counts:
        """Part of every beam: ndarray of int64, shape (width,)."""
        return _part(self.shape.width, self.beams)

    def result_part(self, stage: SortStage) -> Counts:
        """Return the tile of every result of a stage: ndarray of int64, shape (groups · width,)."""
        width = self.shape.width
        group, rank = np.divmod(np.arange(stage.groups * width), width)
        return stage.part(group, _part(width, stage.reductions)[rank])

    def detail(self) -> dict[str, int]:
        """Return what a debug context states."""
        return {
            "batch": self.batch,
            "classes": self.classes,
            "beams": self.beams,
            "sortStages": len(self.stages),
            "tilesPerSequence": self.parts,
        }


def _edges(size: int, n_parts: int) -> Counts:
    width = -(-size // n_parts)
    return np.minimum(np.arange(n_parts + 1, dtype=np.int64) * width, size)


def _part(size: int, n_parts: int) -> Counts:
    return np.arange(size) // -(-size // n_parts)


def _most_parts(size: int, n_tiles: int) -> int:
    """Return how many parts of equal size there are, none of them empty."""
    return -(-size // -(-size // n_tiles))


def plan_beams(shape: BeamShape, n_tiles: int, n_workers: int) -> CtcBeamPlan:
    """Return the plan of a search.

    Parameters
    ----------
    shape
        Sizes.
    n_tiles, n_workers
        Tiles that it may take, and worker contexts of a tile.
    """
    batch = _most_parts(shape.n_batch, n_tiles)
    per_sequence = n_tiles // batch
    stages, before = [], shape.n_candidates
    for n_groups in _groups(shape):
        per_group = max(1, per_sequence // n_groups)
        size = -(-before // n_groups)
        ranked = max(n_workers, -(-size // per_group))
        stages.append(
            SortStage(
                before,
                n_groups,
                -(-n_groups // per_sequence),
                -(-size // ranked),
                _most_parts(shape.width, per_group),
            )
        )
        before = shape.width * n_groups
    return CtcBeamPlan(
        shape,
        batch,
        _most_parts(shape.n_classes - 1, per_sequence),
        _most_parts(shape.width, per_sequence),
        min(shape.width, n_workers - 1),
        tuple(stages),
    )


def _groups(shape: BeamShape) -> tuple[int, ...]:
    """Return the groups of every stage: about as many as a group has classes, then one.

    The last group of a stage has no fewer candidates than there are beams.
    """
    if shape.n_classes < _TWO_STAGES:
        return (1,)
    groups = isqrt(shape.n_classes)
    while _edges(shape.n_candidates, groups)[-2] > shape.n_candidates - shape.width:
        groups -= 1
    return (groups, 1)
