"""The memory layout of every tile: code, state, variables by liveness, addresses, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.constraints import PartIndex, constraints_of
from tilescope.engine.compiler.executable import Step
from tilescope.engine.compiler.kernels.placement import Parts, first_fit, nothing_asked
from tilescope.engine.compiler.liveness import LiveRanges
from tilescope.engine.compiler.tile_memory import LiveBytes, LiveParts, Memory
from tilescope.engine.graph import GraphImage, Variable
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


def _bytes_by_tile(variable: Variable, n_tiles: int) -> NDArray[np.int64]:
    lengths = variable.map_end - variable.map_start
    elements = np.bincount(variable.map_tile, lengths, n_tiles).astype(np.int64)
    return elements * variable.dtype.n_bytes


def _align(n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@dataclass
class _Parts:
    """Parts of variables and message buffers as columns, sorted by variable and then by tile.

    Parameters
    ----------
    columns
        Variable, tile, bytes, start and end of every part: ndarray of int64.
    lifetimes
        By variable or message buffer that is not always live.
    names, message_ids
        Of message buffers: name by number, and number by step and variable.
    """

    columns: list[NDArray[np.int64]]
    lifetimes: dict[int, tuple[int, int]]
    names: dict[int, str]
    message_ids: dict[tuple[int, int], int]


def _parts(graph: GraphImage, steps: Sequence[Step], liveness: LiveRanges, n_tiles: int) -> _Parts:
    """Return the parts of all variables in use, and of all message buffers."""
    lifetimes = liveness.ranges
    made = _Parts([], dict(lifetimes), {}, {})
    n_steps = len(steps)
    owners: list[tuple[int, int, int]] = []  # variable, start and end
    tile: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    n_bytes: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for variable in graph.variables:
        variable_id = variable.variable_id
        if liveness.is_always_live[variable_id] or variable_id in lifetimes:
            by_tile = _bytes_by_tile(variable, n_tiles)
            tiles = np.flatnonzero(by_tile)
            lifetime = lifetimes.get(variable_id, (0, n_steps))
            owners.append((variable_id, *lifetime))
            tile.append(tiles)
            n_bytes.append(by_tile[tiles])
    for step in steps:
        if step.messages is None:
            continue
        # An exchange fills its buffers for the compute phase after it; a compute phase fills
        # buffers for the exchange after it, with a sync in between.
        last = step.step_id + (3 if step.kind == "OnTileExecute" else 2)
        lifetime = (step.step_id, min(last, n_steps))
        messages = step.messages
        for variable_id in np.unique(messages.variable_id).tolist():
            number = len(graph.variables) + len(made.names)
            made.names[number] = f"{step.name}/message/{graph.variables[variable_id].name}"
            made.message_ids[step.step_id, variable_id] = number
            made.lifetimes[number] = lifetime
            mine = messages.variable_id == variable_id
            owners.append((number, *lifetime))
            tile.append(messages.tile[mine])
            n_bytes.append(messages.n_bytes[mine])
    sizes = [column.size for column in tile[1:]]
    variable, start, end = np.repeat(
        np.array(owners, dtype=np.int64).reshape(-1, 3), sizes, axis=0
    ).T.copy()
    made.columns = [variable, np.concatenate(tile), np.concatenate(n_bytes), start, end]
    return made


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
    return code


def _code_end(code: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one past the last address of executable code: ndarray of int64, (n_tiles,)."""
    executed = _CODE[: _CODE.index("globalExchangeCode") + 1]
    return sum((code[name] for name in executed[1:]), code[executed[0]].copy())


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
    made = _parts(graph, steps, liveness, n_tiles)
    variable, tile, n_bytes, start, end = made.columns
    key = variable * n_tiles + tile
    always = np.zeros(variable.size, dtype=np.bool_)
    in_graph = variable < len(graph.variables)
    always[in_graph] = liveness.is_always_live[variable[in_graph]]
    # Always-live parts first, so that they stay contiguous below the others.
    order = np.lexsort((variable, start, ~always, tile))
    variable, tile, n_bytes, start, end = (column[order] for column in made.columns)
    always = always[order]
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    constraints = constraints_of(steps, PartIndex(key, place, made.message_ids, n_tiles))
    tile_start = np.searchsorted(tile, np.arange(n_tiles + 1))
    code_bytes = sum(code.values(), np.zeros(n_tiles, np.int64))
    base = _align(code_bytes)
    placed = Parts(_align(n_bytes), start, end)
    asked = constraints.asked(variable.size)
    offset, highest = first_fit(tile_start, placed, base, asked, machine)
    parts = LiveParts(tile_start, variable, n_bytes, offset, start, end)
    live = LiveBytes.of(parts, liveness.is_always_live, n_steps)
    categories = _categories(graph, code, live, always, tile)
    fixed_bytes = np.bincount(tile[always], n_bytes[always], n_tiles).astype(np.int64)
    always_live = code_bytes + fixed_bytes
    unconstrained = highest
    if (highest > machine.allocatable_bytes).any() and constraints.batch:
        free = nothing_asked(variable.size)
        unconstrained = first_fit(tile_start, placed, base, free, machine)[1]
    return Memory(
        categories=categories,
        including_gaps=np.maximum(highest, base),
        excluding_gaps=always_live + live.peak,
        always_live=always_live,
        live=live,
        parts=parts,
        lifetimes=made.lifetimes,
        message_names=made.names,
        code_end=_code_end(code),
        unconstrained=np.maximum(unconstrained, base),
        slow_tiles=constraints.unmet(tile, offset, n_bytes, machine),
        is_always_live=liveness.is_always_live,
    )


def _categories(
    graph: GraphImage,
    code: Mapping[str, NDArray[np.int64]],
    live: LiveBytes,
    always: NDArray[np.bool_],
    tile: NDArray[np.int64],
) -> dict[str, NDArray[np.int64]]:
    """Return bytes by category, region and tile; other parts count at the tile's peak."""
    machine, parts = graph.machine, live.parts
    n_tiles, variable = machine.n_tiles, parts.variable_id
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
    worst = live.peak_step[tile]
    at_peak = (parts.start_step <= worst) & (worst < parts.end_step) & ~always
    # Three categories, plus the variables not live at the peak as the fourth.
    category = np.full(variable.size, 3)
    category[at_peak & ~in_graph] = 2
    category[(always & ~constant) | (at_peak & in_graph)] = 1
    category[constant] = 0
    place = category * n_tiles + tile
    split = _by_region(parts.offset, parts.n_bytes, machine)
    sums = np.zeros((4, 3, n_tiles), np.int64)
    for region in np.flatnonzero(split.any(axis=1)):
        sums[:, region] = np.bincount(place, split[region], 4 * n_tiles).reshape(4, n_tiles)
    result |= zip(("constant", "variable", "message"), sums[:3], strict=True)
    return result
