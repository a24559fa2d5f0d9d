"""The memory layout of every tile: code, state, variables by liveness, addresses, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.channels import POPLAR
from tilescope.engine.compiler.compact import compact
from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.compiler.executable.tile_memory import LiveBytes, LiveParts, Memory
from tilescope.engine.compiler.kernels.live import live_at
from tilescope.engine.compiler.kernels.placement import Asked, first_fit, nothing_asked
from tilescope.engine.compiler.memory.by_tile import by_tile
from tilescope.engine.compiler.memory.constraints import PartIndex, constraints_of
from tilescope.engine.compiler.memory.liveness import LiveRanges
from tilescope.engine.compiler.memory.placed_parts import parts_of
from tilescope.engine.graph import GraphImage
from tilescope.engine.graph.vertex.compute_set import INTERVAL_BYTES
from tilescope.engine.machine import Machine
from tilescope.tracepoints import traced

__all__ = ["ALIGNMENT_BYTES", "lay_out"]

#: Alignment of variable parts, bytes.
ALIGNMENT_BYTES = 8

#: By address: executed code comes first, since only the lower region is executable.
_CODE = (
    "stack",
    "controlCode",
    "controlId",
    "vertexCode",
    "internalExchangeCode",
    "hostExchangeCode",
    "globalExchangeCode",
    "vertexInstanceState",
    "vertexFieldData",
    "copyDescriptor",
    "hostExchangePacketHeader",
    "globalExchangePacketHeader",
    "instrumentationResults",
    "vectorListDescriptor",
    "controlTable",
)
#: Of these, what is executed, or needed to execute it.
_EXECUTED = _CODE[: _CODE.index("globalExchangeCode") + 1]


def _align(n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _steps_by_ipu(steps: Sequence[Step], machine: Machine) -> NDArray[np.int64]:
    """Return the steps that every IPU takes part in: ndarray of int64, shape (n_ipus,).

    The tiles of an IPU have no code for what others do without them.
    """
    by_ipu = np.zeros(machine.n_ipus, np.int64)
    for step in steps:
        ipus = step.cost.cycles.ids
        if step.cost.sync_zone == "external" or not ipus.size:
            by_ipu += 1
        else:
            by_ipu[ipus] += 1
    return by_ipu


def _always_live_code(
    graph: GraphImage, steps: Sequence[Step], machine: Machine, is_instrumented: bool
) -> dict[str, NDArray[np.int64]]:
    """Return the bytes per tile of everything that is not a variable."""
    n_tiles = machine.n_tiles
    code = {name: np.zeros(n_tiles, np.int64) for name in _CODE}
    code["stack"] += machine.stack_bytes
    code["controlCode"] += machine.control_code_bytes
    n_steps = np.repeat(_steps_by_ipu(steps, machine), machine.tiles_per_ipu)
    code["controlCode"] += machine.control_code_bytes_per_step * n_steps
    code["controlId"] += 4
    uses: dict[str, tuple[int, NDArray[np.bool_]]] = {}
    for compute_set in graph.compute_sets:
        for batch in compute_set.batches:
            codelet = batch.codelet
            _, on_tile = uses.setdefault(
                codelet.name, (codelet.code_bytes, np.zeros(n_tiles, dtype=np.bool_))
            )
            per_tile = np.bincount(batch.tile, minlength=n_tiles)
            on_tile |= per_tile > 0
            code["vertexInstanceState"] += per_tile * codelet.state_bytes
            for regions in batch.lists:
                tiles = regions.by_region(batch.tile)
                intervals = np.bincount(tiles, minlength=n_tiles)
                code["vertexInstanceState"] += INTERVAL_BYTES * intervals
    for code_bytes, on_tile in uses.values():
        code["vertexCode"] += np.where(on_tile, code_bytes, 0)
    for step in steps:
        if step.code_bytes is not None:
            name = "globalExchangeCode" if step.kind == "GlobalExchange" else "internalExchangeCode"
            code[name][step.code_bytes.ids] += step.code_bytes.values
        if step.kind == "StreamCopyMid" and step.access is not None:
            # One of the two is empty: data moves in one direction.
            tiles = np.concatenate([step.cost.sent_bytes.ids, step.cost.received_bytes.ids])
            code["hostExchangeCode"][tiles] += machine.host_exchange_code_bytes
            code["hostExchangePacketHeader"][tiles] += machine.packet_header_bytes
        if is_instrumented and step.kind == "OnTileExecute":
            active = step.cost.tile_cycles.ids
            code["instrumentationResults"][active] += machine.instrumentation_bytes_per_step
    if not machine.compiles_code:
        for name in _EXECUTED:
            code[name][:] = 0
    return code


def _code_end(code: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one past the last address of executable code: ndarray of int64, (n_tiles,)."""
    return sum((code[name] for name in _EXECUTED[1:]), code[_EXECUTED[0]].copy())


def _by_region(
    offset: NDArray[np.int64], n_bytes: NDArray[np.int64], machine: Machine
) -> NDArray[np.int64]:
    """Split address ranges by region: ndarray of int64, shape (3, n)."""
    end = offset + n_bytes
    split = np.zeros((3, end.size), np.int64)
    split[0] = n_bytes
    if end.max(initial=0) <= machine.non_interleaved_bytes:
        return split
    edges = (0, machine.non_interleaved_bytes, machine.allocatable_bytes, np.iinfo(np.int64).max)
    for region, (low, high) in zip(split, pairwise(edges), strict=True):
        np.maximum(np.minimum(end, high) - np.maximum(offset, low), 0, out=region)
    return split


@traced(POPLAR, "compile.layout")
def lay_out(
    graph: GraphImage, steps: Sequence[Step], liveness: LiveRanges, *, is_instrumented: bool
) -> Memory:
    """Place everything on the tiles and account for its bytes.

    Parameters
    ----------
    graph
        Variables and compute sets.
    steps
        In program order, with costs and message buffers.
    liveness
        The always-live variables, and the live ranges of the others.
    is_instrumented
        Whether cycle counters occupy tile memory.

    Raises
    ------
    BadGraph
        When two fields that must lie in different memory elements are on one variable.
    """
    machine = graph.machine
    n_tiles, n_steps = machine.n_tiles, max(len(steps), 1)
    code = _always_live_code(graph, steps, machine, is_instrumented)
    placed = parts_of(graph, steps, liveness, n_tiles)
    asks = any(
        batch.codelet.asks_of_memory
        for step in steps
        if step.compute_set is not None
        for batch in step.compute_set.batches
    )
    parts, numbers = by_tile(placed, liveness.is_always_live, n_tiles, is_numbered=asks)
    tiles = {owner: block.tile for owner, block in zip(numbers, placed.blocks, strict=False)}
    constraints = constraints_of(steps, PartIndex(tiles, numbers, placed.message_ids, n_tiles))
    code_bytes = sum(code.values(), np.zeros(n_tiles, np.int64))
    base = _align(code_bytes)
    asked = constraints.asked(parts.owner.size) if constraints.batch else None
    offset, highest = _addresses(parts, asked, base, machine)
    parts = replace(parts, narrow_offset=offset)
    live = LiveBytes.of(parts, n_steps)
    categories, always_live = _categories(graph, code, live)
    unconstrained = highest
    if (highest > machine.allocatable_bytes).any() and constraints.batch:
        unconstrained = _addresses(parts, None, base, machine)[1]
    return Memory(
        categories=categories,
        including_gaps=np.maximum(highest, base),
        excluding_gaps=always_live + live.peak,
        always_live=always_live,
        live=live,
        parts=parts,
        lives=placed.lives,
        message_names=placed.names,
        message_senders=placed.senders,
        code_end=_code_end(code),
        unconstrained=np.maximum(unconstrained, base),
        slow_tiles=constraints.unmet(parts.tile_start, offset, parts.narrow_bytes, machine),
        is_always_live=liveness.is_always_live,
    )


def _addresses(
    parts: LiveParts, asked: Asked | None, base: NDArray[np.int64], machine: Machine
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the address of every part, and one past the highest of every tile.

    Without constraints, parts may lie anywhere.
    """
    addresses: list[NDArray[Any]] = [np.zeros(0, np.int32)]
    highest = np.zeros_like(base)
    first = 0
    for tiles, here in parts.stretches():
        size = _align(here.n_bytes)
        constraints = (
            nothing_asked(size.size) if asked is None else asked.of_parts(first, first + size.size)
        )
        offset, highest[tiles] = first_fit(
            here.tile_start, size, here.lifetimes, base[tiles], constraints, machine
        )
        addresses.append(compact(offset))
        first += size.size
    return compact(np.concatenate(addresses)), highest


def _categories(
    graph: GraphImage, code: Mapping[str, NDArray[np.int64]], live: LiveBytes
) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Return bytes by category, region and tile, and the always-live bytes of every tile.

    Parts that are not always live count at the tile's peak.
    """
    machine, parts = graph.machine, live.parts
    n_tiles = machine.n_tiles
    result: dict[str, NDArray[np.int64]] = {}
    address = np.zeros(n_tiles, np.int64)
    none = np.zeros((3, n_tiles), np.int64)
    for name, by_tile_bytes in code.items():
        if not by_tile_bytes.any():
            result[name] = none
            continue
        result[name] = _by_region(address, by_tile_bytes, machine)
        address = address + by_tile_bytes
    names = ("constant", "variable", "message")
    is_constant = np.array([v.category == "constant" for v in graph.variables], dtype=np.bool_)
    in_graph = parts.owner_id < len(graph.variables)
    category_of_owner = np.full(parts.owner_id.size, 2, np.int8)
    category_of_owner[in_graph] = np.where(is_constant[parts.owner_id[in_graph]], 0, 1)
    sums = np.zeros((3, 3, n_tiles), np.int64)
    fixed_bytes = np.zeros(n_tiles, np.int64)
    for tiles, here in parts.stretches():
        n_here = here.tile_start.size - 1
        category = category_of_owner[here.owner]
        always = parts.is_always_live[here.owner]
        is_live = live_at(live.peak_step[tiles], here.tile_start, here.lifetimes)
        counted = np.flatnonzero(always | is_live | (category == 0))
        tile = here.tile[counted]
        n_bytes = here.n_bytes[counted]
        bin_index = category[counted].astype(np.int64) * n_here + tile
        split = _by_region(here.offset[counted], n_bytes, machine)
        for region in np.flatnonzero(split.any(axis=1)):
            by_bin = np.bincount(bin_index, split[region], 3 * n_here)
            sums[:, region, tiles] = by_bin.reshape(3, n_here)
        fixed = always[counted]
        fixed_bytes[tiles] = np.bincount(tile[fixed], n_bytes[fixed], n_here)
    result |= zip(names, sums, strict=True)
    return result, address + fixed_bytes
