"""What of a compilation is kept: the exchanges of every compute set, and the memory of every tile.

Names, the program tree and the steps are made anew each time from the graph and the programs, which
are there anyway; so are the answers of cycle laws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cache.container import NotAnEntry
from tilescope.engine.compiler.executable import LiveParts, Memory, StepCost
from tilescope.engine.compiler.messages import Messages
from tilescope.engine.compiler.transfer import Around, Transfer
from tilescope.engine.graph import Graph
from tilescope.engine.machine import Machine

__all__ = ["Compiled"]

Arrays = Mapping[str, NDArray[Any]]

_MESSAGES = tuple(each.name for each in dataclasses.fields(Messages))
_TOTALS = (
    "including_gaps",
    "excluding_gaps",
    "always_live",
    "not_always_live_peak",
    "code_end",
    "unconstrained",
)
_COST = tuple(each.name for each in dataclasses.fields(StepCost) if each.name != "sync_zone")
_PARTS = tuple(each.name for each in dataclasses.fields(LiveParts))


@dataclass(frozen=True)
class Compiled:
    """What the cache keeps of an executable.

    Parameters
    ----------
    around
        Exchanges around compute sets, by id.
    memory
        Of every tile.
    is_always_live : ndarray of bool, shape (n_variables,)
        Of the graph's variables, those that copies add included.
    """

    around: Mapping[int, Around]
    memory: Memory
    is_always_live: NDArray[np.bool_]

    def mark(self, graph: Graph) -> None:
        """Set which variables live always, as the pass over the program would."""
        for variable, always in zip(graph.variables, self.is_always_live.tolist(), strict=True):
            variable.is_always_live = always

    def fits(self, graph: Graph, n_steps: int) -> bool:
        """Return whether it is of a program of so many variables and steps."""
        return self.is_always_live.size == len(graph.variables) and self.memory.live.shape[
            0
        ] == max(n_steps, 1)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return facts of JSON types, and arrays by name."""
        facts, arrays = _from_around(self.around)
        memory = self.memory
        lifetimes = [(key, *span) for key, span in sorted(memory.lifetimes.items())]
        facts["categories"] = list(memory.categories)
        facts["message_names"] = list(memory.message_names.items())
        arrays["categories"] = np.stack(list(memory.categories.values()))
        arrays["totals"] = np.stack([getattr(memory, name) for name in _TOTALS])
        arrays["live"] = memory.live
        arrays["lifetimes"] = np.array(lifetimes, np.int64).reshape(-1, 3)
        arrays["is_always_live"] = self.is_always_live
        for name in _PARTS:
            arrays[f"parts.{name}"] = getattr(memory.parts, name)
        arrays["slow_batches"] = np.array(list(memory.slow_tiles), np.int64).reshape(-1, 2)
        arrays["slow_tiles"] = _stacked(list(memory.slow_tiles.values())).astype(np.bool_)
        return facts, arrays

    @classmethod
    def from_arrays(cls, facts: Mapping[str, Any], arrays: Arrays, machine: Machine) -> Compiled:
        """Return what `to_arrays` took apart.

        Raises
        ------
        NotAnEntry
            When a part is missing, or of another machine's size.
        """
        try:
            if arrays["totals"].shape[1] != machine.n_tiles:
                raise NotAnEntry("it is of another number of tiles")
            return cls(
                _to_around(facts, arrays), _to_memory(facts, arrays), arrays["is_always_live"]
            )
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise NotAnEntry(f"a part is missing or of another form: {error}") from None


def _from_around(around: Mapping[int, Around]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Take the exchanges apart: a row for each, in order of compute set and side."""
    rows = [
        (compute_set_id, side, transfer)
        for compute_set_id, both in sorted(around.items())
        for side, transfer in enumerate((both.before, both.after))
        if transfer is not None
    ]
    transfers = [transfer for _, _, transfer in rows]
    arrays: dict[str, NDArray[Any]] = {
        "compute_sets": np.array(sorted(around), np.int64),
        "transfers": np.array([row[:2] for row in rows], np.int64).reshape(-1, 2),
        "variables": np.array([v for t in transfers for v in t.variables], np.int64),
        "n_variables": np.array([len(t.variables) for t in transfers], np.int64),
    }
    for name in _COST:
        arrays[f"cost.{name}"] = _stacked([getattr(t.cost, name) for t in transfers])
    arrays["code_bytes"] = _stacked([t.code_bytes for t in transfers])
    arrays["n_messages"] = np.array([t.messages.tile.size for t in transfers], np.int64)
    for name in _MESSAGES:
        columns = [getattr(t.messages, name) for t in transfers]
        arrays[f"messages.{name}"] = np.concatenate([np.zeros(0, np.int64), *columns])
    return {"sync_zones": [t.cost.sync_zone for t in transfers]}, arrays


def _stacked(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.stack(rows) if rows else np.zeros((0, 0), np.int64)


def _to_around(facts: Mapping[str, Any], arrays: Arrays) -> dict[int, Around]:
    sides: dict[int, list[Transfer | None]] = {
        key: [None, None] for key in arrays["compute_sets"].tolist()
    }
    by_transfer = _split(arrays["variables"], arrays["n_variables"])
    messages = [_split(arrays[f"messages.{name}"], arrays["n_messages"]) for name in _MESSAGES]
    for i, (compute_set_id, side) in enumerate(arrays["transfers"].tolist()):
        cost = StepCost(
            **{name: arrays[f"cost.{name}"][i] for name in _COST}, sync_zone=facts["sync_zones"][i]
        )
        sides[compute_set_id][side] = Transfer(
            cost,
            tuple(by_transfer[i].tolist()),
            Messages(*(column[i] for column in messages)),
            arrays["code_bytes"][i],
        )
    return {key: Around(*both) for key, both in sides.items()}


def _split(values: NDArray[Any], counts: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Return values cut into pieces of so many each."""
    return np.split(values, np.cumsum(counts)[:-1]) if counts.size else []


def _to_memory(facts: Mapping[str, Any], arrays: Arrays) -> Memory:
    return Memory(
        categories=dict(zip(facts["categories"], arrays["categories"], strict=True)),
        **dict(zip(_TOTALS, arrays["totals"], strict=True)),
        live=arrays["live"],
        parts=LiveParts(**{name: arrays[f"parts.{name}"] for name in _PARTS}),
        lifetimes={key: (start, end) for key, start, end in arrays["lifetimes"].tolist()},
        message_names=dict(facts["message_names"]),
        slow_tiles={
            (step_id, place): slow
            for (step_id, place), slow in zip(
                arrays["slow_batches"].tolist(), arrays["slow_tiles"], strict=True
            )
        },
    )
