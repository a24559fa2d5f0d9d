"""The cached part of a compilation: the exchanges of all compute sets and the memory of all tiles.

Names, the program tree and the steps are rebuilt from the graph and the programs, which the caller
supplies anyway; so are the answers of the cycle laws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cache.transfers import Arrays, arrays_of, split, transfers_of
from tilescope.engine.compiler.exchange.exchanges import Around
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.compiler.executable.container import NotAnEntry
from tilescope.engine.compiler.executable.tile_memory import LiveBytes, LiveParts, Lives, Memory
from tilescope.engine.graph import GraphImage
from tilescope.engine.machine import Machine

__all__ = ["Compiled"]

_TOTALS = (
    "including_gaps",
    "excluding_gaps",
    "always_live",
    "code_end",
    "unconstrained",
)
_PARTS = tuple(field.name for field in dataclasses.fields(LiveParts))


@dataclass(frozen=True)
class Compiled:
    """The part of an executable that the cache stores.

    Parameters
    ----------
    around
        Exchanges around compute sets, by id.
    memory
        Memory of every tile.
    """

    around: Mapping[int, Around]
    memory: Memory

    def fits(self, graph: GraphImage, n_steps: int) -> bool:
        """Return whether it matches a program's numbers of variables and steps."""
        memory = self.memory
        n_variables, n_rows = memory.is_always_live.size, memory.live.totals.size
        return n_variables == len(graph.variables) and n_rows == max(n_steps, 1)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return facts as JSON types, and arrays by name."""
        facts, arrays = _from_around(self.around)
        memory = self.memory
        lives = [
            (key, *life) for key, intervals in sorted(memory.lives.items()) for life in intervals
        ]
        facts["n_steps"] = memory.live.totals.size
        facts["categories"] = list(memory.categories)
        facts["message_names"] = list(memory.message_names.items())
        facts["message_senders"] = list(memory.message_senders.items())
        arrays["categories"] = np.stack(list(memory.categories.values()))
        arrays["totals"] = np.stack([getattr(memory, name) for name in _TOTALS])
        arrays["lives"] = np.array(lives, np.int64).reshape(-1, 3)
        arrays["is_always_live"] = memory.is_always_live
        for name in _PARTS:
            arrays[f"parts.{name}"] = getattr(memory.parts, name)
        arrays["slow_batches"] = np.array(list(memory.slow_tiles), np.int64).reshape(-1, 2)
        slow = list(memory.slow_tiles.values())
        arrays["n_slow_tiles"] = np.array([tiles.size for tiles in slow], np.int64)
        arrays["slow_tiles"] = np.concatenate([np.zeros(0, np.int64), *slow])
        return facts, arrays

    @classmethod
    def from_arrays(cls, facts: Mapping[str, Any], arrays: Arrays, machine: Machine) -> Compiled:
        """Rebuild the entry that `to_arrays` flattened.

        Raises
        ------
        NotAnEntry
            When a part is missing, or the entry is for a machine of another size.
        """
        try:
            if arrays["totals"].shape[1] != machine.n_tiles:
                raise NotAnEntry("it has a different number of tiles")
            return cls(_to_around(facts, arrays, machine), _to_memory(facts, arrays))
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise NotAnEntry(f"a part is missing or malformed: {error}") from None


def _from_around(around: Mapping[int, Around]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Flatten the exchanges: one row per exchange, ordered by compute set and side."""
    rows = [
        (compute_set_id, side, transfer)
        for compute_set_id, both in sorted(around.items())
        for side, transfer in enumerate((both.before, both.after))
        if transfer is not None
    ]
    facts, arrays = arrays_of([transfer for _, _, transfer in rows])
    arrays["compute_sets"] = np.array(sorted(around), np.int64)
    arrays["transfers"] = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
    return facts, arrays


def _to_around(facts: Mapping[str, Any], arrays: Arrays, machine: Machine) -> dict[int, Around]:
    sides: dict[int, list[Transfer | None]] = {
        key: [None, None] for key in arrays["compute_sets"].tolist()
    }
    step_ids = arrays["transfers"].tolist()
    for step_id, transfer in zip(step_ids, transfers_of(facts, arrays, machine), strict=True):
        compute_set_id, side = step_id
        sides[compute_set_id][side] = transfer
    return {key: Around(*both) for key, both in sides.items()}


def _to_memory(facts: Mapping[str, Any], arrays: Arrays) -> Memory:
    parts = LiveParts(**{name: arrays[f"parts.{name}"] for name in _PARTS})
    is_always_live = arrays["is_always_live"]
    lives: dict[int, Lives] = {}
    for key, start, end in arrays["lives"].tolist():
        lives[key] = (*lives.get(key, ()), (start, end))
    return Memory(
        categories=dict(zip(facts["categories"], arrays["categories"], strict=True)),
        **dict(zip(_TOTALS, arrays["totals"], strict=True)),
        live=LiveBytes.of(parts, facts["n_steps"]),
        parts=parts,
        lives=lives,
        message_names=dict(facts["message_names"]),
        message_senders=dict(facts["message_senders"]),
        is_always_live=is_always_live,
        slow_tiles={
            (step_id, batch_index): tiles
            for (step_id, batch_index), tiles in zip(
                arrays["slow_batches"].tolist(),
                split(arrays["slow_tiles"], arrays["n_slow_tiles"]),
                strict=True,
            )
        },
    )
