"""Predicted cost of the stages of a reduction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import (
    ReduceKind,
    ReduceSizes,
    reduce_work,
)
from tilescope.engine.graph.vertex.law import worker_share
from tilescope.engine.intervals.runs import join_runs, split_by_owner, union_runs
from tilescope.engine.machine import Machine
from tilescope.engine.planner.exchange import exchange_cycles_of_tiles
from tilescope.engine.planner.reduction.pieces import StageVertices, joined

__all__ = ["StageCost", "piece_sizes", "stage_cost"]

Counts = NDArray[np.int64]


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
    work = reduce_work(kind, piece_sizes(joined_vertices), machine)
    longest = np.zeros(machine.n_tiles, np.int64)
    np.maximum.at(longest, joined_vertices.tile, work.longest)
    total = np.bincount(joined_vertices.tile, work.total, machine.n_tiles).astype(np.int64)
    by_tile = machine.n_worker_contexts * np.maximum(longest, worker_share(total, machine))
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
