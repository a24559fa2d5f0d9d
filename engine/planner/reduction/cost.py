"""Predicted cost of the stages of a reduction."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import (
    ReduceKind,
    ReduceSizes,
    reduce_cycles,
)
from tilescope.engine.intervals.runs import join_runs, split_by_owner, union_runs
from tilescope.engine.machine import Machine
from tilescope.engine.planner.exchange import exchange_cycles, exchange_cycles_of_tiles
from tilescope.engine.planner.reduction.pieces import StageVertices, joined

__all__ = [
    "Further",
    "RestOfStages",
    "StageCost",
    "ladder",
    "piece_sizes",
    "stage_cost",
    "tile_cycles",
]

Counts = NDArray[np.int64]

_INT64_MAX = np.iinfo(np.int64).max
#: Most stages after the first.
_MOST_FURTHER = 3
#: Shares of the reduced elements that the workers of a tile may take.
SECTIONS = (1, 2, 3, 6)
#: Fewest elements in the share of a worker.
FEWEST_PER_SECTION = 4


class StageCost(NamedTuple):
    """Cycles of the exchange and of the vertices; bytes received by, and mean work of, a tile."""

    exchange_cycles: int
    compute_cycles: int
    received_bytes: int
    mean_cycles: float


def piece_sizes(vertices: StageVertices) -> ReduceSizes:
    """Return the sizes of pieces as the cycle law takes them."""
    planes, columns, outer, inner = vertices.size.T
    is_single = columns == 1
    return ReduceSizes(
        np.where(is_single, 1, planes),
        np.where(is_single, planes, columns),
        outer,
        inner,
        np.full_like(planes, vertices.sections),
        np.where(is_single, vertices.stride[:, 0], vertices.stride[:, 1]),
        vertices.stride[:, 2],
        vertices.stride[:, 3],
    )


def tile_cycles(vertices: StageVertices, kind: ReduceKind, machine: Machine) -> int:
    """Return the cycles of the vertices of pieces on the busiest tile."""
    joined_vertices = joined(vertices)
    return int(
        np.bincount(
            joined_vertices.tile, reduce_cycles(kind, piece_sizes(joined_vertices), machine)
        ).max()
    )


def stage_cost(
    vertices: StageVertices,
    kind: ReduceKind,
    map_start: Counts,
    map_tile: NDArray[np.int32],
    machine: Machine,
) -> StageCost:
    """Return the cost of a stage on a variable with the given tile mapping.

    Parameters
    ----------
    vertices
        The stage.
    kind
        Operation and types.
    map_start : ndarray of int64
        Starts of the mapped intervals, ascending.
    map_tile : ndarray of int32
        Their tiles.
    machine
        Supplies the laws' figures.
    """
    joined_vertices = joined(vertices)
    cycles = reduce_cycles(kind, piece_sizes(joined_vertices), machine)
    by_tile = np.bincount(joined_vertices.tile, cycles)
    runs = union_runs(
        joined_vertices.start,
        joined_vertices.size,
        joined_vertices.stride,
        joined_vertices.tile.astype(np.int32),
        0,
        "A reduction",
    )
    owner, user, start, length = split_by_owner(
        *runs, map_start, map_tile.astype(np.int64), "A reduction"
    )
    mean = float(by_tile.sum()) / machine.n_tiles
    n = machine.n_tiles
    received = np.bincount(user, length, n).astype(np.int64) * kind.item_bytes
    # An element that several tiles receive is sent once.
    order = np.argsort(start, kind="stable")
    sender, _, n_sent = join_runs(owner[order], start[order], length[order])
    sent = np.bincount(sender, n_sent, n).astype(np.int64) * kind.item_bytes
    fragments = np.bincount(user, minlength=n)
    exchange = exchange_cycles_of_tiles(received, fragments, sent, machine)
    return StageCost(exchange, int(by_tile.max()), int(received.max()), mean)


class Further(NamedTuple):
    """A stage after the first: most partial results and outputs of a vertex, and its sections."""

    depth: int
    columns: int
    sections: int


def ladder(largest: int, grain: int = 1, growth: float = 1.25) -> list[int]:
    """Return growing multiples of a grain, up to the first that covers all."""
    rungs = [grain]
    while rungs[-1] < largest:
        rungs.append(max(rungs[-1] + grain, int(rungs[-1] * growth) // grain * grain))
    return rungs


@dataclass
class RestOfStages:
    """The cheapest stages that reduce blocks of equal size, each on the tiles it likes best.

    Parameters
    ----------
    kind, last
        Operation and types of the stages, and of the last one.
    n_tiles
        Tiles to use.
    grain
        Outputs that stay together.
    machine
        Supplies the laws' figures.
    """

    kind: ReduceKind
    last: ReduceKind
    n_tiles: int
    grain: int
    machine: Machine
    _known: dict[tuple[int, int, int, int], tuple[int, tuple[Further, ...]]] = field(
        default_factory=dict
    )

    def best(
        self, n_blocks: int, width: int, depth: int, n_stages: int = _MOST_FURTHER
    ) -> tuple[int, tuple[Further, ...]]:
        """Return the fewest predicted cycles, and the stages; none if the depth is 1."""
        if depth == 1:
            return 0, ()
        key = n_blocks, width, depth, n_stages
        if key not in self._known:
            self._known[key] = self._searched(*key)
        return self._known[key]

    @cached_property
    def least_cycles(self) -> int:
        """A lower bound of the cycles of a stage: sync, start of an exchange, start of workers."""
        fixed = self.machine.sync_cycles + self.machine.exchange_start_cycles
        return fixed + 17 * self.machine.n_worker_contexts

    def _searched(
        self, n_blocks: int, width: int, depth: int, n_stages: int
    ) -> tuple[int, tuple[Further, ...]]:
        cycles, columns, sections = self._stages(n_blocks, width, depth, [depth], self.last)[0]
        best: tuple[int, tuple[Further, ...]]
        best = cycles, (Further(depth, columns, sections),)
        if n_stages == 1 or cycles <= 2 * self.least_cycles:
            return best
        depths = [rung for rung in ladder(depth // 2, growth=1.5) if 3 <= rung < depth]
        result = self._stages(n_blocks, width, depth, depths, self.kind)
        for rung, (cycles, columns, sections) in zip(depths, result, strict=True):
            if cycles + self.least_cycles >= best[0]:
                continue
            chunks = n_blocks * -(-width // columns)
            later, stages = self.best(chunks, min(columns, width), -(-depth // rung), n_stages - 1)
            if cycles + later < best[0]:
                best = cycles + later, (Further(rung, columns, sections), *stages)
        return best

    def _stages(
        self, n_blocks: int, width: int, depth: int, depths: list[int], kind: ReduceKind
    ) -> list[tuple[int, int, int]]:
        """Return the cycles of stages of several depths, with the best columns and sections."""
        if not depths:
            return []
        choices = list(
            product(ladder(width, min(self.grain, width), 1.5), SECTIONS),
        )
        columns, sections = np.array(choices, np.int64).T
        depth_column = np.array(depths, np.int64)[:, None]
        n_pieces = n_blocks * -(-width // columns) * -(-depth // depth_column)
        on_tile = -(-n_pieces // self.n_tiles)
        used = np.minimum(n_pieces, self.n_tiles)
        columns_used = np.minimum(columns, width) + 0 * depth_column
        moved = on_tile * columns_used * depth_column * kind.item_bytes
        cycles = exchange_cycles(moved, 0 * moved, used, self.machine, on_tile * depth_column)
        unit_counts = np.ones_like(moved)

        def law(of: ReduceKind, depth: Counts, shares: Counts) -> Counts:
            sizes = ReduceSizes(
                unit_counts,
                columns_used,
                unit_counts,
                depth,
                shares,
                unit_counts,
                0 * unit_counts,
                width * unit_counts,
            )
            return reduce_cycles(of, sizes, self.machine)

        shares = sections * unit_counts
        split = law(self.kind, depth_column * unit_counts, shares) + law(kind, shares, unit_counts)
        whole_cycles = law(kind, depth_column * unit_counts, unit_counts)
        cycles = cycles + on_tile * np.where(shares > 1, split, whole_cycles)
        is_few = -(-columns_used // self.grain) < self.machine.n_worker_contexts
        is_allowed = (shares == 1) | is_few & (depth_column >= shares * FEWEST_PER_SECTION)
        cycles = np.where(is_allowed, cycles, _INT64_MAX)
        best = np.argmin(cycles, axis=1)
        return [(int(cycles[k, i]), int(columns[i]), int(sections[i])) for k, i in enumerate(best)]
