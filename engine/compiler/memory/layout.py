"""The memory layout of every tile: code, state, variables by liveness, addresses, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.compiler.executable.tile_memory import LiveBytes, LiveParts, Memory
from tilescope.engine.compiler.kernels.placement import first_fit, nothing_asked
from tilescope.engine.compiler.memory.constraints import PartIndex, constraints_of
from tilescope.engine.compiler.memory.liveness import LiveRanges
from tilescope.engine.compiler.memory.placed_parts import parts_of
from tilescope.engine.graph import GraphImage
from tilescope.engine.graph.vertex.compute_set import INTERVAL_BYTES
from tilescope.engine.machine import Machine

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


def _always_live_code(
    graph: GraphImage, steps: Sequence[Step], machine: Machine, is_instrumented: bool
) -> dict[str, NDArray[np.int64]]:
    """Return the bytes per tile of everything that is not a variable."""
    n_tiles = machine.n_tiles
    code = {name: np.zeros(n_tiles, np.int64) for name in _CODE}
    code["stack"] += machine.stack_bytes
    code["controlCode"] += machine.control_code_bytes
    code["controlCode"] += machine.control_code_bytes_per_step * len(steps)
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
    result = parts_of(graph, steps, liveness, n_tiles)
    variable, tile, n_bytes, start = result.variable, result.tile, result.n_bytes, result.start
    key = variable * n_tiles + tile
    always = np.zeros(variable.size, dtype=np.bool_)
    in_graph = variable < len(graph.variables)
    always[in_graph] = liveness.is_always_live[variable[in_graph]]
    # Always-live parts first, so that they stay contiguous below the others.
    order = np.lexsort((variable, start, ~always, tile))
    variable, tile, n_bytes = variable[order], tile[order], n_bytes[order]
    always = always[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    constraints = constraints_of(steps, PartIndex(key, rank, result.message_ids, n_tiles))
    tile_start = np.searchsorted(tile, np.arange(n_tiles + 1))
    code_bytes = sum(code.values(), np.zeros(n_tiles, np.int64))
    base = _align(code_bytes)
    lifetimes = result.lifetimes(variable)
    part_constraints = constraints.asked(variable.size)
    offset, highest = first_fit(
        tile_start, _align(n_bytes), lifetimes, base, part_constraints, machine
    )
    parts = LiveParts.of(tile_start, variable, n_bytes, offset, lifetimes)
    live = LiveBytes.of(parts, liveness.is_always_live, n_steps)
    categories = _categories(graph, code, live, liveness.is_always_live)
    fixed_bytes = np.bincount(tile[always], n_bytes[always], n_tiles).astype(np.int64)
    always_live = code_bytes + fixed_bytes
    unconstrained = highest
    if (highest > machine.allocatable_bytes).any() and constraints.batch:
        free = nothing_asked(variable.size)
        unconstrained = first_fit(tile_start, _align(n_bytes), lifetimes, base, free, machine)[1]
    return Memory(
        categories=categories,
        including_gaps=np.maximum(highest, base),
        excluding_gaps=always_live + live.peak,
        always_live=always_live,
        live=live,
        parts=parts,
        lives=result.lives,
        message_names=result.names,
        message_senders=result.senders,
        code_end=_code_end(code),
        unconstrained=np.maximum(unconstrained, base),
        slow_tiles=constraints.unmet(tile, offset, n_bytes, machine),
        is_always_live=liveness.is_always_live,
    )


def _categories(
    graph: GraphImage,
    code: Mapping[str, NDArray[np.int64]],
    live: LiveBytes,
    is_always_live: NDArray[np.bool_],
) -> dict[str, NDArray[np.int64]]:
    """Return bytes by category, region and tile; other parts count at the tile's peak."""
    machine, parts = graph.machine, live.parts
    n_tiles, variable, tile = machine.n_tiles, parts.variable_id, parts.tile
    result: dict[str, NDArray[np.int64]] = {}
    address = np.zeros(n_tiles, np.int64)
    none = np.zeros((3, n_tiles), np.int64)
    for name, by_tile in code.items():
        if not by_tile.any():
            result[name] = none
            continue
        result[name] = _by_region(address, by_tile, machine)
        address = address + by_tile
    is_constant = np.array([v.category == "constant" for v in graph.variables], dtype=np.bool_)
    in_graph = variable < len(graph.variables)
    constant = np.zeros(variable.size, dtype=np.bool_)
    constant[in_graph] = is_constant[variable[in_graph]]
    always = np.zeros(variable.size, dtype=np.bool_)
    always[in_graph] = is_always_live[variable[in_graph]]
    worst = live.peak_step[tile]
    at_peak = (parts.start_step <= worst) & (worst < parts.end_step) & ~always
    names = ("constant", "variable", "message")
    category = np.full(variable.size, -1, np.int8)
    category[at_peak & ~in_graph] = 2
    category[(always & ~constant) | (at_peak & in_graph)] = 1
    category[constant] = 0
    counted = np.flatnonzero(category >= 0)  # the others are not live at the peak
    bin_index = category[counted].astype(np.int64) * n_tiles + tile[counted]
    split = _by_region(parts.offset[counted], parts.n_bytes[counted], machine)
    sums = np.zeros((3, 3, n_tiles), np.int64)
    for region in np.flatnonzero(split.any(axis=1)):
        sums[:, region] = np.bincount(bin_index, split[region], 3 * n_tiles).reshape(3, n_tiles)
    result |= zip(names, sums, strict=True)
    return result
