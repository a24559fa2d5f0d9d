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


def piece_sizes(pieces: StageVertices) -> ReduceSizes:
    """Return the sizes of pieces as the cycle law takes them."""
    planes, columns, outer, inner = pieces.size.T
    is_single = columns == 1
    return ReduceSizes(
        np.where(is_single, 1, planes),
        np.where(is_single, planes, columns),
        outer,
        inner,
        np.full_like(planes, pieces.sections),
        np.where(is_single, pieces.stride[:, 0], pieces.stride[:, 1]),
        pieces.stride[:, 2],
        pieces.stride[:, 3],
    )


def tile_cycles(pieces: StageVertices, kind: ReduceKind, machine: Machine) -> int:
    """Return the cycles of the vertices of pieces on the busiest tile."""
    made = joined(pieces)
    return int(np.bincount(made.tile, reduce_cycles(kind, piece_sizes(made), machine)).max())


def stage_cost(
    pieces: StageVertices,
    kind: ReduceKind,
    map_start: Counts,
    map_tile: NDArray[np.int32],
    machine: Machine,
) -> StageCost:
    """Return the cost of a stage on a variable with the given tile mapping.

    Parameters
    ----------
    pieces
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
    made = joined(pieces)
    cycles = reduce_cycles(kind, piece_sizes(made), machine)
    by_tile = np.bincount(made.tile, cycles)
    runs = union_runs(
        made.start, made.size, made.stride, made.tile.astype(np.int32), 0, "A reduction"
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


def ladder(most: int, grain: int = 1, growth: float = 1.25) -> list[int]:
    """Return growing multiples of a grain, up to the first that covers all."""
    found = [grain]
    while found[-1] < most:
        found.append(max(found[-1] + grain, int(found[-1] * growth) // grain * grain))
    return found


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
        depths = [each for each in ladder(depth // 2, growth=1.5) if 3 <= each < depth]
        found = self._stages(n_blocks, width, depth, depths, self.kind)
        for each, (cycles, columns, sections) in zip(depths, found, strict=True):
            if cycles + self.least_cycles >= best[0]:
                continue
            chunks = n_blocks * -(-width // columns)
            later, stages = self.best(chunks, min(columns, width), -(-depth // each), n_stages - 1)
            if cycles + later < best[0]:
                best = cycles + later, (Further(each, columns, sections), *stages)
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
        each = np.array(depths, np.int64)[:, None]
        n_pieces = n_blocks * -(-width // columns) * -(-depth // each)
        on_tile = -(-n_pieces // self.n_tiles)
        used = np.minimum(n_pieces, self.n_tiles)
        columns_used = np.minimum(columns, width) + 0 * each
        moved = on_tile * columns_used * each * kind.item_bytes
        cycles = exchange_cycles(moved, 0 * moved, used, self.machine, on_tile * each)
        ones = np.ones_like(moved)

        def law(of: ReduceKind, depth: Counts, shares: Counts) -> Counts:
            sizes = ReduceSizes(
                ones, columns_used, ones, depth, shares, ones, 0 * ones, width * ones
            )
            return reduce_cycles(of, sizes, self.machine)

        shares = sections * ones
        split = law(self.kind, each * ones, shares) + law(kind, shares, ones)
        whole = law(kind, each * ones, ones)
        cycles = cycles + on_tile * np.where(shares > 1, split, whole)
        is_few = -(-columns_used // self.grain) < self.machine.n_worker_contexts
        is_allowed = (shares == 1) | is_few & (each >= shares * FEWEST_PER_SECTION)
        cycles = np.where(is_allowed, cycles, _INT64_MAX)
        best = np.argmin(cycles, axis=1)
        return [(int(cycles[k, i]), int(columns[i]), int(sections[i])) for k, i in enumerate(best)]
