"""Reduction of partial sums: in one stage, or in two or three if that is faster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.poplin.reduce_partials import reduce_partials_cycles
from tilescope.engine.graph import Stage
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.planner.phase import Phase
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import ConvolutionShape
from tilescope.engine.tiling.channel_layout import output_layout
from tilescope.engine.tiling.division import largest_shares

__all__ = ["Shares", "left_after_stages", "library_stages", "reduction_cycles", "result_shares"]

Counts = NDArray[np.int64]

#: Most stages before the last.
_MOST_EARLIER = 2
_LAST, _LAST_EXCHANGE = Phase(Stage.REDUCE), Phase(Stage.REDUCE, is_exchange=True)
#: Fewest partial sums for which Poplar's library uses two and three stages.
_TWO_STAGES, _THREE_STAGES = 16, 125  # Source: lib/poplin/ConvReducePlan.cpp, getNumReduceStages


@cache
def library_stages(n_partials: int) -> tuple[int, ...]:
    """Return the partial sums that Poplar's library has left after every stage but the last.

    Parameters
    ----------
    n_partials
        Partial sums of every result.

    Notes
    -----
    Every stage leaves one of the two integers around the root's power: the one with fewer messages
    to a tile over all stages, the larger one in a tie.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvReducePlan.cpp.
    """
    n_stages = 1 + (n_partials >= _TWO_STAGES) + (n_partials >= _THREE_STAGES)
    return _fewest_messages(n_partials, n_stages)[1]


def _fewest_messages(n_partials: int, n_stages: int) -> tuple[float, tuple[int, ...]]:
    """Return the messages to a tile over all stages, and the partial sums left by earlier ones."""
    if n_stages == 1:
        return n_partials, ()
    below = int(n_partials ** ((n_stages - 1) / n_stages))
    options_ = []
    for left in (below + 1, below):
        messages, later = _fewest_messages(left, n_stages - 1)
        options_.append((messages + n_partials / left, (left, *later)))
    return min(options_, key=lambda option: option[0])


def left_after_stages(plan: Plan) -> tuple[int, ...]:
    """Return the partial sums per result left after every stage of a reduction.

    Parameters
    ----------
    plan
        The plan; its stages say whether the reduction has several.
    """
    return (*(library_stages(plan.n_partials) if plan.n_reduce_stages else ()), 1)


def reduction_cycles(splits: Splits, tiles_used: Counts, machine: Machine) -> dict[Phase, Counts]:
    """Return the cycles to exchange and to add partial sums, by phase.

    Stages before the last are included if any of the splits has them.

    Parameters
    ----------
    splits
        The splits.
    tiles_used : ndarray of int64, shape (n,)
        Tiles of every split.
    machine
        The machine.
    """
    shape, sums = splits.shape, _Sums.of(splits, tiles_used)
    n_partials = sums.n_partials
    exchange, reduce = _stage(
        sums, n_partials, n_partials, shape.result_bytes, machine, holds_own=True
    )
    is_reduced = n_partials > 1
    by_phase = {
        _LAST_EXCHANGE: np.where(is_reduced, exchange, 0),
        _LAST: np.where(is_reduced, reduce, 0),
    }
    at_once = by_phase[_LAST_EXCHANGE] + by_phase[_LAST]
    # A stage costs at least a sync and a vertex start: this bound rules out most splits.
    none, types = np.zeros(1, np.int64), (shape.partial_bytes, shape.result_bytes)
    start_cycles = int(reduce_partials_cycles(none + 1, none, *types, machine)[0])
    fixed_cycles = machine.sync_cycles + machine.latest_start_cycles + start_cycles
    many = np.flatnonzero((n_partials >= _TWO_STAGES) & (at_once > 2 * fixed_cycles))
    if many.size == 0:
        return by_phase
    different, which = np.unique(n_partials[many], return_inverse=True)
    table = [(*library_stages(n), 0)[:_MOST_EARLIER] for n in different.tolist()]
    left = np.array(table, np.int64)[which.reshape(-1)]
    staged = _staged(sums.keep(many), left, machine)
    is_quicker = np.sum(list(staged.values()), axis=0) < at_once[many]
    quicker_cycles = many[is_quicker]
    cycles_by_phase: dict[Phase, Counts] = {}
    for phase, cycles in staged.items():
        cycles_by_phase[phase] = by_phase.get(phase, np.zeros_like(tiles_used))
        cycles_by_phase[phase][quicker_cycles] = cycles[is_quicker]
    return {
        phase: cycles
        for phase, cycles in cycles_by_phase.items()
        if phase in by_phase or cycles.any()
    }


@dataclass(frozen=True)
class _Sums:
    """The partial sums of every split, and the channel groups of a part's outputs.

    Parameters
    ----------
    shape, grain
        The operation, and the outputs of a channel group.
    n_partials, tiles_used, n_grains, run : ndarray of int64, shape (n,)
        Partial sums of an output; tiles; channel groups of a part; contiguous channel groups.
    """

    shape: ConvolutionShape
    grain: int
    n_partials: Counts
    tiles_used: Counts
    n_grains: Counts
    run: Counts

    @classmethod
    def of(cls, splits: Splits, tiles_used: Counts) -> _Sums:
        """Return the partial sums of splits."""
        grain = splits.grouping.groups * splits.grouping.outputs
        n_grains = splits.batch().n_elements("out") // grain
        n_partials = splits.n_partials
        run = output_layout(splits.shape, splits.grouping).run_of(splits.counts, splits.most)
        return cls(splits.shape, grain, n_partials, tiles_used, n_grains, run)

    def keep(self, chosen: Counts) -> _Sums:
        """Return those of the chosen splits, by indices."""
        arrays = (self.n_partials, self.tiles_used, self.n_grains, self.run)
        return _Sums(self.shape, self.grain, *(array[chosen] for array in arrays))


def _staged(sums: _Sums, left: Counts, machine: Machine) -> dict[Phase, Counts]:
    """Return the cycles of stages by the partial sums they leave; 0 left means no such stage."""
    shape, n_partials = sums.shape, sums.n_partials
    by_phase: dict[Phase, Counts] = {}
    before = n_partials
    for k in range(_MOST_EARLIER):
        is_there = left[:, k] > 0
        sections = np.where(is_there, left[:, k], 1)
        # Initially, a section has as many tiles as partial sums; fewer tiles have larger shares.
        few, many = n_partials // sections, -(-n_partials // sections)
        cases = ((few, few), (many, many)) if k == 0 else ((-(-before // sections), few),)
        options_ = [
            _stage(sums, depth, sharers, shape.partial_bytes, machine, holds_own=k == 0)
            for depth, sharers in cases
        ]
        for is_exchange, cycles in zip((True, False), zip(*options_, strict=True), strict=True):
            phase = Phase(Stage.REDUCE_STAGE, k, is_exchange)
            by_phase[phase] = np.where(is_there, np.max(cycles, axis=0), 0)
        before = np.where(is_there, sections, before)
    last = _stage(sums, before, n_partials, shape.result_bytes, machine, holds_own=False)
    return {**by_phase, _LAST_EXCHANGE: last[0], _LAST: last[1]}


def _stage(
    sums: _Sums,
    depth: Counts,
    sharers: Counts,
    out_bytes: int,
    machine: Machine,
    *,
    holds_own: bool,
) -> tuple[Counts, Counts]:
    """Return the cycles of the exchange and of the vertices of a stage.

    Tiles share the results in whole channel groups; before the first stage a tile already holds one
    partial sum of its own share.
    """
    partial_bytes = sums.shape.partial_bytes
    shares, cycles = _shares(sums, depth, sharers, out_bytes, machine)
    outputs = shares.rows * shares.columns
    fragments = depth - holds_own
    moved = np.where(depth > 1, outputs * fragments * partial_bytes, 0)
    exchanged = exchange_cycles(moved, np.zeros_like(moved), sums.tiles_used, machine, fragments)
    return exchanged, cycles


@dataclass(frozen=True)
class Shares:
    """Layout of the outputs on the tile with the largest share.

    Parameters
    ----------
    rows, columns : ndarray of int64, shape (n,)
        Evenly spaced rows, and contiguous outputs of a row.
    torn : ndarray of int64, shape (n,)
        Further chunks beyond the first, one vertex per chunk.
    """

    rows: Counts
    columns: Counts
    torn: Counts


def _shares(
    sums: _Sums, depth: Counts, sharers: Counts, out_bytes: int, machine: Machine
) -> tuple[Shares, Counts]:
    """Return how tiles share the sums, and the cycles to add them."""
    grain = sums.grain
    largest = largest_shares(sums.n_grains, sums.run, sharers)

    def law(grains: Counts) -> Counts:
        return reduce_partials_cycles(
            depth, grains * grain, sums.shape.partial_bytes, out_bytes, machine
        )

    in_chunks = law(largest.even) + largest.torn * law(np.zeros_like(largest.even))
    in_runs = law(largest.rows * largest.columns)
    is_whole = in_runs <= in_chunks
    shares = Shares(
        np.where(is_whole, largest.rows, 1),
        np.where(is_whole, largest.columns, largest.even) * grain,
        np.where(is_whole, 0, largest.torn),
    )
    return shares, np.minimum(in_chunks, in_runs)


def result_shares(splits: Splits, machine: Machine) -> Shares:
    """Return the layout of the results on the tile with the largest share.

    Parameters
    ----------
    splits
        The splits.
    machine
        The machine.
    """
    sums = _Sums.of(splits, splits.tiles_used)
    n_partials = sums.n_partials
    return _shares(sums, n_partials, n_partials, splits.shape.result_bytes, machine)[0]
