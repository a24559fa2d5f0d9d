"""Exchanges as arrays, for the files that keep them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.compiler.executable.container import NotAnEntry
from tilescope.engine.compiler.executable.messages import Messages
from tilescope.engine.compiler.executable.step_cost import IPU_COLUMNS, TILE_COLUMNS, StepCost
from tilescope.engine.machine import Machine

__all__ = ["Arrays", "arrays_of", "split", "transfers_of"]

Arrays = Mapping[str, NDArray[Any]]

_MESSAGES = tuple(field.name for field in dataclasses.fields(Messages))


def arrays_of(transfers: Sequence[Transfer]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return facts as JSON types, and arrays by name: those of all exchanges concatenated."""
    arrays: dict[str, NDArray[Any]] = {
        "variables": np.array([v for t in transfers for v in t.variables], np.int64),
        "n_variables": np.array([len(t.variables) for t in transfers], np.int64),
    }
    by_tile = [[getattr(t.cost, name) for name in TILE_COLUMNS] for t in transfers]
    by_ipu = [[getattr(t.cost, name) for name in IPU_COLUMNS] for t in transfers]
    arrays |= _from_columns("tile_costs", list(chain.from_iterable(by_tile)))
    arrays |= _from_columns("ipu_costs", list(chain.from_iterable(by_ipu)))
    arrays |= _from_columns("code_bytes", [t.code_bytes for t in transfers])
    arrays["n_messages"] = np.array([t.messages.tile.size for t in transfers], np.int64)
    for name in _MESSAGES:
        columns = [getattr(t.messages, name) for t in transfers]
        arrays[f"messages.{name}"] = np.concatenate([np.zeros(0, np.int64), *columns])
    return {"sync_zones": [t.cost.sync_zone for t in transfers]}, arrays


def transfers_of(facts: Mapping[str, Any], arrays: Arrays, machine: Machine) -> list[Transfer]:
    """Rebuild the exchanges that `arrays_of` flattened.

    Raises
    ------
    NotAnEntry
        When they are for a machine of another size.
    """
    by_transfer = split(arrays["variables"], arrays["n_variables"])
    messages = [split(arrays[f"messages.{name}"], arrays["n_messages"]) for name in _MESSAGES]
    by_tile = _to_columns("tile_costs", machine.n_tiles, arrays)
    by_ipu = _to_columns("ipu_costs", machine.n_ipus, arrays)
    n_tile, n_ipu = len(TILE_COLUMNS), len(IPU_COLUMNS)
    code_bytes = _to_columns("code_bytes", machine.n_tiles, arrays)
    transfers = []
    for i, sync_zone in enumerate(facts["sync_zones"]):
        columns = {
            **dict(zip(TILE_COLUMNS, by_tile[i * n_tile : (i + 1) * n_tile], strict=True)),
            **dict(zip(IPU_COLUMNS, by_ipu[i * n_ipu : (i + 1) * n_ipu], strict=True)),
        }
        transfers.append(
            Transfer(
                StepCost(**columns, sync_zone=sync_zone),
                tuple(by_transfer[i].tolist()),
                Messages.of(*(column[i] for column in messages)),
                code_bytes[i],
            )
        )
    return transfers


def _from_columns(name: str, columns: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Flatten columns: concatenated ids and values, and the number of ids per column."""
    return {
        f"{name}.n": np.array([column.ids.size for column in columns], np.int64),
        f"{name}.ids": np.concatenate([np.zeros(0, np.int64), *(c.ids for c in columns)]),
        f"{name}.values": np.concatenate([np.zeros(0, np.int64), *(c.values for c in columns)]),
    }


def _to_columns(name: str, size: int, arrays: Arrays) -> list[Column]:
    """Rebuild the columns that `_from_columns` flattened.

    Raises
    ------
    NotAnEntry
        When an id is out of range for the machine.
    """
    counts = arrays[f"{name}.n"]
    ids, values = arrays[f"{name}.ids"], arrays[f"{name}.values"]
    if ids.size and not 0 <= ids.min() <= ids.max() < size:
        raise NotAnEntry("it has a different number of tiles")
    pairs = zip(split(ids, counts), split(values, counts), strict=True)
    return [Column.at(size, of, value) if of.size else Column.zeros(size) for of, value in pairs]


def split(values: NDArray[Any], counts: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Return values split into consecutive parts of the given sizes."""
    return np.split(values, np.cumsum(counts)[:-1]) if counts.size else []
