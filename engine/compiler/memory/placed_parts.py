"""Parts of variables and message buffers to place on tiles, with their lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.compiler.executable.tile_memory import Lives
from tilescope.engine.compiler.kernels.placement import Lifetimes
from tilescope.engine.compiler.memory.liveness import LiveRanges
from tilescope.engine.graph import GraphImage, Variable
from tilescope.engine.intervals.distinct import distinct

__all__ = ["PlacedParts", "parts_of"]

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class PlacedParts:
    """Parts of variables and message buffers, sorted by owner and then by tile.

    Parameters
    ----------
    variable, tile, n_bytes : ndarray of int64, shape (n_parts,)
        Owner, tile and size of every part.
    lives
        By variable or message buffer that is not always live.
    names, senders, message_ids
        Of message buffers: name and sending variable by number, and number by step and variable.
    n_steps
        Number of steps.
    """

    variable: Ids
    tile: Ids
    n_bytes: Ids
    lives: dict[int, Lives]
    names: dict[int, str]
    senders: dict[int, int]
    message_ids: dict[tuple[int, int], int]
    n_steps: int

    @property
    def start(self) -> Ids:
        """First step of every part: ndarray of int64, shape (n_parts,)."""
        first = np.zeros(int(self.variable.max(initial=-1)) + 1, np.int64)
        for owner, lives in self.lives.items():
            if owner < first.size:
                first[owner] = lives[0][0]
        return first[self.variable]

    def lifetimes(self, variable: Ids) -> Lifetimes:
        """Return the lives of parts with the given owners; always-live parts span all steps."""
        n_parts = np.bincount(variable)
        owners = np.flatnonzero(n_parts)
        index = np.cumsum(n_parts > 0) - 1
        lives = [self.lives.get(i, ((0, self.n_steps),)) for i in owners.tolist()]
        first = np.cumsum([0, *(len(intervals) for intervals in lives)])
        steps = np.array([*chain.from_iterable(lives)], np.int64).reshape(-1, 2)
        return Lifetimes(index[variable], first.astype(np.int64), *steps.T.copy())


def parts_of(
    graph: GraphImage, steps: Sequence[Step], liveness: LiveRanges, n_tiles: int
) -> PlacedParts:
    """Return the parts of all variables in use, and of all message buffers.

    A compute set that runs at several places has the same message buffers at all of them.
    """
    lives: dict[int, Lives] = dict(liveness.ranges)
    owners: list[int] = []
    tile: list[Ids] = [np.zeros(0, np.int64)]
    n_bytes: list[Ids] = [np.zeros(0, np.int64)]
    for variable in graph.variables:
        number = variable.variable_id
        if liveness.is_always_live[number] or number in lives:
            by_tile = _bytes_by_tile(variable, n_tiles)
            tiles = np.flatnonzero(by_tile)
            owners.append(number)
            tile.append(tiles)
            n_bytes.append(by_tile[tiles])
    names: dict[int, str] = {}
    senders: dict[int, int] = {}
    message_ids: dict[tuple[int, int], int] = {}
    known: dict[int, list[int]] = {}
    for step in steps:
        messages = step.messages
        if messages is None:
            continue
        # An exchange fills its buffers for the compute phase after it; a compute phase fills
        # buffers for the exchange after it, with a sync in between.
        last = step.step_id + (3 if step.kind == "OnTileExecute" else 2)
        life = (step.step_id, min(last, len(steps)))
        variables = distinct(messages.variable_id).tolist()
        if id(messages) not in known:
            first = len(graph.variables) + len(names)
            known[id(messages)] = [*range(first, first + len(variables))]
            for number, variable_id in zip(known[id(messages)], variables, strict=True):
                mine = messages.variable_id == variable_id
                senders[number] = variable_id
                names[number] = f"{step.name}/message/{graph.variables[variable_id].name}"
                owners.append(number)
                tile.append(messages.tile[mine])
                n_bytes.append(messages.n_bytes[mine])
        for number, variable_id in zip(known[id(messages)], variables, strict=True):
            message_ids[step.step_id, variable_id] = number
            lives[number] = (*lives.get(number, ()), life)
    sizes = [column.size for column in tile[1:]]
    variable_ids = np.repeat(np.array(owners, dtype=np.int64), sizes)
    return PlacedParts(
        variable_ids,
        np.concatenate(tile),
        np.concatenate(n_bytes),
        lives,
        names,
        senders,
        message_ids,
        len(steps),
    )


def _bytes_by_tile(variable: Variable, n_tiles: int) -> Ids:
    lengths = variable.map_end - variable.map_start
    elements = np.bincount(variable.map_tile, lengths, n_tiles).astype(np.int64)
    return elements * variable.dtype.n_bytes
