"""Parts of variables and message buffers to place on tiles, with their lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.compact import compact
from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.compiler.executable.messages import Messages
from tilescope.engine.compiler.executable.tile_memory import Lives
from tilescope.engine.compiler.memory.liveness import LiveRanges
from tilescope.engine.graph import GraphImage, Variable
from tilescope.engine.intervals.distinct import distinct

__all__ = ["Block", "PlacedParts", "parts_of"]

Ids = NDArray[np.int64]


class Block(NamedTuple):
    """The parts of one variable or message buffer.

    Parameters
    ----------
    tile, n_bytes : ndarray of integers, shape (n,)
        Tiles, ascending, and sizes.
    """

    tile: NDArray[Any]
    n_bytes: NDArray[Any]


@dataclass(frozen=True)
class PlacedParts:
    """Parts of variables and message buffers, by owner.

    Parameters
    ----------
    owner_id : ndarray of int64, shape (n_owners,)
        Variables and message buffers, ascending.
    blocks
        Their parts.
    lives
        By variable or message buffer that is not always live.
    names, senders, message_ids
        Of message buffers: name and sending variable by number, and number by step and variable.
    n_steps
        Number of steps.
    """

    owner_id: Ids
    blocks: list[Block]
    lives: dict[int, Lives]
    names: dict[int, str]
    senders: dict[int, int]
    message_ids: dict[tuple[int, int], int]
    n_steps: int

    def lives_by_owner(self) -> tuple[Ids, Ids, Ids]:
        """Return the lives of the owners; always-live ones span all steps.

        Returns
        -------
        first : ndarray of int64, shape (n_owners + 1,)
            First life of each owner.
        start, end : ndarray of int64, shape (n_lives,)
            Half-open ranges of steps.
        """
        lives = [self.lives.get(i, ((0, self.n_steps),)) for i in self.owner_id.tolist()]
        first = np.cumsum([0, *(len(intervals) for intervals in lives)])
        steps = np.array([*chain.from_iterable(lives)], np.int64).reshape(-1, 2)
        return first.astype(np.int64), steps[:, 0].copy(), steps[:, 1].copy()


def parts_of(
    graph: GraphImage, steps: Sequence[Step], liveness: LiveRanges, n_tiles: int
) -> PlacedParts:
    """Return the parts of all variables in use, and of all message buffers.

    A compute set that runs at several places has the same message buffers at all of them.
    """
    lives: dict[int, Lives] = dict(liveness.ranges)
    owners: list[int] = []
    blocks: list[Block] = []
    for variable in graph.variables:
        number = variable.variable_id
        if liveness.is_always_live[number] or number in lives:
            by_tile = _bytes_by_tile(variable, n_tiles)
            tiles = np.flatnonzero(by_tile)
            if tiles.size:
                owners.append(number)
                blocks.append(Block(compact(tiles), compact(by_tile[tiles])))
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
                senders[number] = variable_id
                names[number] = f"{step.name}/message/{graph.variables[variable_id].name}"
                owners.append(number)
                blocks.append(_of_variable(messages, variable_id, len(variables)))
        for number, variable_id in zip(known[id(messages)], variables, strict=True):
            message_ids[step.step_id, variable_id] = number
            lives[number] = (*lives.get(number, ()), life)
    owner_id = np.array(owners, np.int64)
    return PlacedParts(owner_id, blocks, lives, names, senders, message_ids, len(steps))


def _of_variable(messages: Messages, variable_id: int, n_variables: int) -> Block:
    """Return the buffers for a variable's elements."""
    if n_variables == 1:
        return Block(messages.tile, messages.n_bytes)
    chosen = messages.variable_id == variable_id
    return Block(messages.tile[chosen], messages.n_bytes[chosen])


def _bytes_by_tile(variable: Variable, n_tiles: int) -> Ids:
    lengths = variable.map_end - variable.map_start
    elements = np.bincount(variable.map_tile, lengths, n_tiles).astype(np.int64)
    return elements * variable.dtype.n_bytes
