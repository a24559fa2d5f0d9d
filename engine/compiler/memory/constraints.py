"""Memory constraints of codelets, carried from their fields to parts of variables and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.compiler.kernels.placement import Asked, element_of
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Regions, VertexBatch
from tilescope.engine.intervals.distinct import distinct
from tilescope.engine.machine import Machine

__all__ = ["Constraints", "PartIndex", "constraints_of"]

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class PartIndex:
    """Finds the part of a variable or message buffer on a tile.

    Parameters
    ----------
    tiles, parts
        By variable or message buffer: the tiles of its parts, and their numbers, ndarrays of
        integers.
    message_ids
        Message buffer by step and variable.
    """

    tiles: Mapping[int, NDArray[Any]]
    parts: Mapping[int, Ids]
    message_ids: Mapping[tuple[int, int], int]
    n_tiles: int

    def find(self, variable_id: int) -> Ids:
        """Return the part on every tile, -1 where there is none: ndarray of int64, (n_tiles,)."""
        part = np.full(self.n_tiles, -1, np.int64)
        if variable_id in self.tiles:
            part[self.tiles[variable_id]] = self.parts[variable_id]
        return part


@dataclass(frozen=True)
class Constraints:
    """The constraints that batches place on parts.

    Parameters
    ----------
    batch : list of tuple
        Step, index within the compute set, and whether the codelet has a slow path.
    wide, wide_batch : ndarray of int64, shape (n,)
        Parts to be interleaved, and the index in `batch` of the batch that requires it.
    pair, pair_batch : ndarray of int64, shape (m, 2) and (m,)
        Parts to be kept apart, and the index in `batch` of the batch that requires it.
    """

    batch: list[tuple[int, int, bool]]
    wide: Ids
    wide_batch: Ids
    pair: Ids
    pair_batch: Ids

    def asked(self, n_parts: int) -> Asked:
        """Return the constraints of all batches on each part; hard ones take precedence."""
        soft = np.array([is_soft for _, _, is_soft in self.batch], dtype=np.bool_)
        region = np.zeros(n_parts, np.int8)
        is_soft = soft[self.wide_batch]
        region[self.wide[is_soft]] = 2
        region[self.wide[~is_soft]] = 1
        both = np.concatenate([self.pair, self.pair[:, ::-1]])
        # Of equal pairs the first counts: hard ones are sorted before soft ones.
        key = (both[:, 0] * n_parts + both[:, 1]) * 2 + np.tile(soft[self.pair_batch], 2)
        key = distinct(key)
        key = key[np.append(True, key[1:] // 2 != key[:-1] // 2)] if key.size else key
        first = np.searchsorted(key // 2 // n_parts, np.arange(n_parts + 1))
        return Asked(region, first, key // 2 % n_parts, (key % 2).astype(np.bool_))

    def unmet(
        self, tile_start: Ids, offset: NDArray[Any], n_bytes: NDArray[Any], machine: Machine
    ) -> dict[tuple[int, int], Ids]:
        """Return, by step and batch with a slow path, the tiles that must take it, ascending.

        Parameters
        ----------
        tile_start : ndarray of int64, shape (n_tiles + 1,)
            First part of each tile.
        offset, n_bytes : ndarray of integers, shape (n_parts,)
            Address and size of all parts.
        machine
            Regions and memory elements.
        """
        if not self.batch:
            return {}
        plain = machine.non_interleaved_bytes
        fails_wide = offset[self.wide].astype(np.int64) < plain
        begin = offset[self.pair].astype(np.int64)
        low = element_of(begin, machine)
        high = element_of(begin + n_bytes[self.pair] - 1, machine)
        fails_pair = (low <= high[:, ::-1]).all(axis=1)
        number = np.concatenate([self.wide_batch[fails_wide], self.pair_batch[fails_pair]])
        parts = np.concatenate([self.wide[fails_wide], self.pair[fails_pair, 0]])
        where = np.searchsorted(tile_start, parts, side="right") - 1
        pairs: dict[tuple[int, int], Ids] = {}
        for i in distinct(number).tolist():
            step_id, batch_index, is_soft = self.batch[i]
            if is_soft:
                pairs[step_id, batch_index] = distinct(where[number == i])
        return pairs


def _reach(regions: Regions) -> tuple[Ids, Ids]:
    """Return the lowest memory element of each region, and one past the highest."""
    size, stride = regions.shapes
    steps = (size - 1) * stride
    low = regions.start + np.minimum(steps, 0).sum(axis=1)
    return low, regions.start + np.maximum(steps, 0).sum(axis=1) + 1


def _local_and_remote(
    batch: VertexBatch, name: str, n_tiles: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the tiles whose vertices use local elements of a field, and those using remote ones.

    A tile with several intervals of the variable counts for both.
    """
    regions = batch.fields[name]
    variable = regions.variable
    # A tile's first interval gives the start of what it holds, its last interval the end.
    begin = np.full(n_tiles, variable.n_elements, np.int64)
    begin[variable.map_tile[::-1]] = variable.map_start[::-1]
    end = np.zeros(n_tiles, np.int64)
    end[variable.map_tile] = variable.map_end
    n_intervals = np.bincount(variable.map_tile, minlength=n_tiles)
    low, high = _reach(regions)
    tile = regions.by_region(batch.tile)
    is_local = (low < end[tile]) & (high > begin[tile])
    is_remote = (low < begin[tile]) | (high > end[tile]) | (n_intervals[tile] > 1)
    local, remote = np.zeros((2, n_tiles), np.bool_)
    local[tile[is_local]] = True
    remote[tile[is_remote]] = True
    return local, remote


def _parts_of(step: Step, batch: VertexBatch, name: str, index: PartIndex) -> list[Ids]:
    """Return the parts that hold a field's elements on each tile, -1 for none.

    These are parts of its variable, of the buffer that an exchange fills, and of the buffer that an
    exchange empties.
    """
    field = batch.codelet.field(name)
    variable_id = batch.fields[name].variable.variable_id
    local, remote = _local_and_remote(batch, name, index.n_tiles)
    ids = [(variable_id, local)]
    for uses, step_id in ((field.is_read, step.arrival), (field.is_written, step.step_id)):
        if uses and step_id is not None and (step_id, variable_id) in index.message_ids:
            ids.append((index.message_ids[step_id, variable_id], remote))
    return [np.where(used, index.find(owner_id), -1) for owner_id, used in ids]


def _pairs(
    step: Step, batch: VertexBatch, ids_of_field: Mapping[str, list[Ids]], group: Sequence[str]
) -> Iterator[Ids]:
    """Yield the pairs of parts from a group of fields that must not share a memory element.

    Raises
    ------
    BadGraph
        When two fields lie in one part and the codelet has no slow path.
    """
    for first, second in combinations(group, 2):
        for a in ids_of_field[first]:
            for b in ids_of_field[second]:
                is_there = (a >= 0) & (b >= 0)
                if (a[is_there] == b[is_there]).any() and not batch.codelet.has_slow_path:
                    tile = int(np.flatnonzero(is_there & (a == b))[0])
                    raise BadGraph(
                        f"{batch.codelet.name} in {step.name!r}: fields {first!r} and {second!r}"
                        " must lie in different memory elements, but on tile"
                        f" {tile} both are on variable {batch.fields[first].variable.name!r}: put"
                        " them on two variables"
                    )
                yield np.stack([a[is_there], b[is_there]], axis=1)


def constraints_of(steps: Sequence[Step], index: PartIndex) -> Constraints:
    """Return the constraints that the codelets of all steps place on parts.

    Parameters
    ----------
    steps
        In program order, with their exchanges.
    index
        Finds parts.

    Raises
    ------
    BadGraph
        When two fields that must lie in different memory elements are on one variable on one tile.
    """
    asking: list[tuple[int, int, bool]] = []
    wide: list[tuple[Ids, int]] = []
    pairs: list[tuple[Ids, int]] = []
    for step in steps:
        if step.compute_set is None:
            continue
        for batch_index, batch in enumerate(step.compute_set.batches):
            codelet = batch.codelet
            if not codelet.asks_of_memory:
                continue
            number = len(asking)
            asking.append((step.step_id, batch_index, codelet.has_slow_path))
            in_groups = {name for group in codelet.apart for name in group}
            interleaved = [field.name for field in codelet.fields if field.interleaved]
            ids_of_field = {
                name: _parts_of(step, batch, name, index)
                for name in sorted(in_groups.union(interleaved))
            }
            wide += [
                (part[part >= 0], number) for name in interleaved for part in ids_of_field[name]
            ]
            for group in codelet.apart:
                pairs += [(pair, number) for pair in _pairs(step, batch, ids_of_field, group)]
    return Constraints(
        asking,
        np.concatenate([np.zeros(0, np.int64), *(part for part, _ in wide)]),
        np.repeat([number for _, number in wide], [part.size for part, _ in wide]).astype(np.int64),
        np.concatenate([np.zeros((0, 2), np.int64), *(pair for pair, _ in pairs)]),
        np.repeat([number for _, number in pairs], [len(pair) for pair, _ in pairs]).astype(
            np.int64
        ),
    )
