"""The memory of a generated report: variables, lifetimes, addresses, categories per tile."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tests.generated_report.program import ProgramPlan

from tilescope.reports.schema import memory_category, variable
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["write_memory"]

#: Approximate bytes per tile.
_CODE_BYTES = {
    "controlCode": 5_000,
    "copyDescriptor": 700,
    "hostExchangeCode": 900,
    "hostExchangePacketHeader": 64,
    "internalExchangeCode": 24_000,
    "stack": 3_264,
    "vertexCode": 11_000,
    "vertexFieldData": 9_000,
    "vertexInstanceState": 14_000,
    "instrumentationResults": 400,
}
#: Categories that are code, or lie below it; the others are data.
_EXECUTED = ("controlCode", "hostExchangeCode", "internalExchangeCode", "stack", "vertexCode")
_ALWAYS_LIVE_BYTES = 150_000
_SLOT_BYTES = 250_000
_ACTIVATION, _MESSAGE, _WEIGHT, _CONSTANT = range(4)
_KIND_NAMES = ("variable", "message", "variable", "constant")
#: Operations of a layer by what they read besides the operation before them; "" is what enters it.
_READS = {"attention/softmax": ("attention/bias",), "residual": ("",)}
_FLOW_BYTES = 65_536


@dataclass
class _Variables:
    """Columns of all variables; all ndarrays of shape (n_variables,)."""

    kind: np.ndarray
    operation: np.ndarray
    first_tile: np.ndarray
    n_tiles: np.ndarray
    tile_bytes: np.ndarray
    start: np.ndarray
    end: np.ndarray
    slot: np.ndarray

    @property
    def is_always_live(self) -> np.ndarray:
        return self.kind >= _WEIGHT


@dataclass
class _Parts:
    """Columns of all parts on tiles, by tile; all ndarrays of shape (n_parts,)."""

    tile: np.ndarray
    variable: np.ndarray
    n_bytes: np.ndarray
    offset: np.ndarray


def write_memory(
    writer: ReportWriter,
    plan: ProgramPlan,
    n_variables: int,
    distinct_patterns: int,
    random: np.random.Generator,
) -> None:
    """Write consistent variables, parts, lifetimes, liveness and categories."""
    n_tiles = plan.n_tiles
    code = _code(n_tiles, plan.n_ipus, random)
    variables, slot_start = _choose(plan, n_tiles, n_variables, distinct_patterns, random)
    parts = _place(variables, np.sum(list(code.values()), axis=0), slot_start)
    _write_variables(writer, plan, variables, parts)
    _write_flows(writer, plan, variables)
    _write_parts(writer, variables, parts, n_tiles)
    peak = _write_liveness(writer, plan, variables, parts, n_tiles)
    _write_categories(writer, variables, parts, code, peak)


def _code(n_tiles: int, n_ipus: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    expected = dict(_CODE_BYTES)
    if n_ipus > 1:
        expected |= {"globalExchangeCode": 3_000, "globalExchangePacketHeader": 128}
    return {
        name: 4 * random.integers(n_bytes // 5, n_bytes // 4 + 1, n_tiles)
        for name, n_bytes in expected.items()
    }


def _choose(
    plan: ProgramPlan,
    n_tiles: int,
    n_variables: int,
    distinct_patterns: int,
    random: np.random.Generator,
) -> tuple[_Variables, np.ndarray]:
    """Choose kinds, tiles, lifetimes and sizes; also return the start of every slot, bytes."""
    n = n_variables
    kind = random.choice(4, n, p=[0.5, 0.2, 0.25, 0.05])
    operation = np.sort(random.integers(0, len(plan.operations), n))
    width = random.choice([1.0, 0.5, 0.25, 0.05], n, p=[0.2, 0.3, 0.3, 0.2])
    count = np.clip((width * min(n_tiles, 1_472)).astype(np.int64), 1, None)
    first_tile = random.integers(0, n_tiles - count + 1)
    # Lifetimes start and end at a limited number of steps, so that many steps share a pattern.
    n_cuts = min(distinct_patterns - 1, plan.n_steps - 1)
    inner = random.choice(np.arange(1, plan.n_steps), n_cuts, replace=False)
    cuts = np.concatenate([[0], np.sort(inner), [plan.n_steps]])
    first_step = np.array([operation.first_step for operation in plan.operations])
    begin = np.searchsorted(cuts, first_step[operation], side="right") - 1
    lasting = 1 + random.geometric(0.35, n) * np.where(random.random(n) < 0.05, 20, 1)
    finish = np.minimum(begin + np.where(kind == _MESSAGE, 1, lasting), len(cuts) - 1)
    always = kind >= _WEIGHT
    start = np.where(always, 0, cuts[begin])
    end = np.where(always, plan.n_steps, cuts[finish])
    slot, slot_bytes = _slots(kind, start, end, random)
    share = _ALWAYS_LIVE_BYTES * n_tiles / max(1, int(count[always].sum()))
    filled = 0.6 + 0.4 * random.random(n)
    size = np.where(always, share * (0.5 + random.random(n)), slot_bytes[slot] * filled)
    tile_bytes = np.maximum(4, size.astype(np.int64) // 4 * 4)
    chosen = _Variables(kind, operation, first_tile, count, tile_bytes, start, end, slot)
    return chosen, np.concatenate([[0], np.cumsum(slot_bytes)])


def _slots(
    kind: np.ndarray, start: np.ndarray, end: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Assign every temporary variable a memory slot that is free during its lifetime.

    Slots have four sizes for variables and four for messages. Return the slot of every variable
    and the size of every slot in bytes.
    """
    group = 4 * (kind == _MESSAGE) + random.choice(4, len(kind), p=[0.4, 0.3, 0.2, 0.1])
    slot = np.zeros(len(kind), np.int64)
    free: list[list[tuple[int, int]]] = [[] for _ in range(8)]  # (free from step, slot)
    group_of_slot: list[int] = []
    passing = np.flatnonzero(kind < _WEIGHT)
    for index in passing[np.argsort(start[passing], kind="stable")].tolist():
        waiting = free[group[index]]
        if waiting and waiting[0][0] <= start[index]:
            _, number = heapq.heappop(waiting)
        else:
            number = len(group_of_slot)
            group_of_slot.append(int(group[index]))
        slot[index] = number
        heapq.heappush(waiting, (int(end[index]), number))
    weight = 2.0 ** (np.array(group_of_slot or [0]) % 4)
    return slot, np.maximum(8, (_SLOT_BYTES * weight / weight.sum()).astype(np.int64) // 8 * 8)


def _place(variables: _Variables, code_bytes: np.ndarray, slot_start: np.ndarray) -> _Parts:
    """Return the parts with their addresses: code, always-live variables, slots."""
    owner = np.repeat(np.arange(len(variables.kind)), variables.n_tiles)
    first = np.cumsum(variables.n_tiles) - variables.n_tiles
    tile = variables.first_tile[owner] + np.arange(len(owner)) - first[owner]
    order = np.lexsort((owner, ~variables.is_always_live[owner], tile))
    owner, tile = owner[order], tile[order]
    is_last = tile == (variables.first_tile + variables.n_tiles - 1)[owner]
    n_bytes = variables.tile_bytes[owner]
    n_bytes = np.where(is_last, np.maximum(4, n_bytes // 8 * 4), n_bytes)  # the last one is shorter
    stays = variables.is_always_live[owner]
    running = np.cumsum(np.where(stays, n_bytes, 0))
    before = running - np.where(stays, n_bytes, 0)
    begins = np.searchsorted(tile, np.arange(len(code_bytes)))
    base = before[np.minimum(begins, len(before) - 1)]
    offset_of_staying = before - base[tile] + code_bytes[tile]
    top = int(np.max(np.where(stays, offset_of_staying + n_bytes, 0), initial=0))
    top = max(top, int(code_bytes.max())) + 7 & ~7
    offset = np.where(stays, offset_of_staying, top + slot_start[variables.slot[owner]])
    return _Parts(tile, owner, n_bytes, offset)


def _write_variables(
    writer: ReportWriter, plan: ProgramPlan, variables: _Variables, parts: _Parts
) -> None:
    n = len(variables.kind)
    total = np.bincount(parts.variable, parts.n_bytes, n).astype(np.int64)
    largest = np.zeros(n, np.int64)
    np.maximum.at(largest, parts.variable, parts.n_bytes)
    words = ("activation", "message", "weights", "constant")
    kinds = variables.kind.tolist()
    operations = [plan.operations[i].name for i in variables.operation.tolist()]
    n_contexts = np.cumsum([_opens_layer(plan, i) + 1 for i in range(len(plan.operations))]) - 1
    writer.add_columns(
        variable,
        {
            "name": [f"{operations[i]}/{words[k]}.{i}" for i, k in enumerate(kinds)],
            "dtype": "float32",
            "shape": [f"[{count}]" for count in (total // 4).tolist()],
            "n_elements": total // 4,
            "bytes": total,
            "category": [_KIND_NAMES[k] for k in kinds],
            "is_always_live": variables.is_always_live,
            "n_tiles": variables.n_tiles,
            "max_tile_bytes": largest,
            "mapping_digest": [f"{i:032x}" for i in range(len(kinds))],
            "content_digest": [
                f"{i:032x}" if k == _CONSTANT else None for i, k in enumerate(kinds)
            ],
            "debug_context_id": n_contexts[variables.operation],
        },
    )
    first_of = np.array([operation.first_step for operation in plan.operations])
    # A variable is accessed by the first step of its operation.
    leaves = np.array(plan.leaves)[np.minimum(first_of[variables.operation], plan.n_steps - 1)]
    order = np.lexsort((np.arange(n), leaves))
    writer.append("program_variable.program_id", leaves[order])
    writer.append("program_variable.variable_id", order)


def _write_flows(writer: ReportWriter, plan: ProgramPlan, variables: _Variables) -> None:
    """Write which step reads what another computed, in and between operations."""
    computes = ("OnTileExecute", "StreamCopyMid")
    last: dict[str, int] = {}
    rows: list[tuple[int, int, int]] = []
    before, entering = "", ""
    for number, operation in enumerate(plan.operations):
        ids = range(operation.first_step, operation.first_step + len(operation.steps))
        local = [step for step in ids if plan.kinds[step] in computes]
        if not local:
            continue
        last[operation.name] = local[-1]
        entering = before if _opens_layer(plan, number) else entering
        short = operation.name.removeprefix(f"{operation.layer}/")
        extra = (
            f"{operation.layer}/{read}" if read else entering for read in _READS.get(short, ())
        )
        sources = {last[name] for name in (before, *extra) if name in last}
        flows = {(step, local[0]) for step in sources} | set(pairwise(local))
        rows += [(target, number, source) for source, target in flows]
        before = operation.name
    actual = np.array(sorted(rows), np.int64).reshape(-1, 3)
    passing = np.flatnonzero(variables.kind == _ACTIVATION)
    named = passing if len(passing) else np.arange(len(variables.kind))
    index = np.searchsorted(variables.operation[named], actual[:, 1])
    writer.append_columns(
        "dataflow",
        {
            "target_step_id": actual[:, 0],
            "variable_id": named[np.minimum(index, len(named) - 1)],
            "source_step_id": actual[:, 2],
            "bytes": np.full(len(actual), _FLOW_BYTES),
        },
    )


def _opens_layer(plan: ProgramPlan, index: int) -> int:
    layer = plan.operations[index].layer
    return int(bool(layer) and plan.operations[index - 1].layer != layer)


def _write_parts(writer: ReportWriter, variables: _Variables, parts: _Parts, n_tiles: int) -> None:
    passing = np.flatnonzero(~variables.is_always_live)
    passing = passing[np.argsort(variables.start[passing], kind="stable")]
    writer.append("lifetime.variable_id", passing)
    writer.append("lifetime.start_step", variables.start[passing])
    writer.append("lifetime.end_step", variables.end[passing])
    writer.append("lowered.tile_start", np.searchsorted(parts.tile, np.arange(n_tiles + 1)))
    writer.append("lowered.variable_id", parts.variable)
    writer.append("lowered.offset", parts.offset)
    writer.append("lowered.bytes", parts.n_bytes)
    writer.append("lowered.start_step", variables.start[parts.variable])
    writer.append("lowered.end_step", variables.end[parts.variable])


def _write_liveness(
    writer: ReportWriter,
    plan: ProgramPlan,
    variables: _Variables,
    parts: _Parts,
    n_tiles: int,
) -> np.ndarray:
    """Write the liveness steps and patterns; return the peak temporary bytes of every tile."""
    passing = ~variables.is_always_live[parts.variable]
    owner, tile, n_bytes = parts.variable[passing], parts.tile[passing], parts.n_bytes[passing]
    cuts = np.unique(np.concatenate([[0], variables.start, variables.end, [plan.n_steps]]))
    change = np.zeros((len(cuts), n_tiles), np.int64)
    np.add.at(change, (np.searchsorted(cuts, variables.start[owner]), tile), n_bytes)
    np.subtract.at(change, (np.searchsorted(cuts, variables.end[owner]), tile), n_bytes)
    live = np.cumsum(change, axis=0)[:-1]
    ids = np.array([writer.pattern("liveness.pattern", row) for row in live])
    n_each = np.diff(cuts)
    steps = np.arange(plan.n_steps)
    writer.append_columns(
        "liveness",
        {
            "step_id": steps,
            "program_id": plan.leaves,
            "not_always_live_bytes": np.repeat(live.sum(axis=1), n_each),
            "max_tile_id": np.repeat(live.argmax(axis=1), n_each),
            "max_tile_bytes": np.repeat(live.max(axis=1), n_each),
            "pattern_id": np.repeat(ids, n_each),
        },
    )
    peak: np.ndarray = live.max(axis=0)
    return peak


def _write_categories(
    writer: ReportWriter,
    variables: _Variables,
    parts: _Parts,
    code: dict[str, np.ndarray],
    peak: np.ndarray,
) -> None:
    n_tiles = len(peak)
    used = _used_addresses(variables, parts, n_tiles)
    rows, non_interleaved, interleaved = [], [], []
    for category in MEMORY_CATEGORIES:
        name = category.name
        n_bytes = used.get(name, code.get(name, np.zeros(n_tiles, np.int64)))
        high = n_bytes // 2 if name in ("variable", "constant") else np.zeros_like(n_bytes)
        non_interleaved.append(n_bytes - high)
        interleaved.append(high)
        rows.append(
            {
                "name": name,
                "label": category.label,
                "is_overlapped": category.is_overlapped,
                "total_bytes": n_bytes.sum(),
                "max_tile_bytes": n_bytes.max(),
            }
        )
    writer.add(memory_category, rows)
    writer.append("memory.non_interleaved", np.array(non_interleaved))
    writer.append("memory.interleaved", np.array(interleaved))
    writer.append("memory.overflowed", np.zeros((len(rows), n_tiles), np.int64))
    stays = variables.is_always_live[parts.variable]
    code_bytes = np.sum(list(code.values()), axis=0)
    always = np.bincount(parts.tile[stays], parts.n_bytes[stays], n_tiles).astype(np.int64)
    code_end = sum((code[name] for name in _EXECUTED), np.zeros(n_tiles, np.int64))
    extent = code_bytes.copy()
    np.maximum.at(extent, parts.tile, parts.offset + parts.n_bytes)
    total = np.sum(non_interleaved, axis=0) + np.sum(interleaved, axis=0)
    writer.append("memory.tile", np.stack([extent, total, always + code_bytes, peak, code_end]))


def _used_addresses(variables: _Variables, parts: _Parts, n_tiles: int) -> dict[str, np.ndarray]:
    """Return, by category, the bytes of a tile's memory that are in use at any time."""
    stays = variables.is_always_live[parts.variable]
    kind = variables.kind[parts.variable]
    used = {name: np.zeros(n_tiles, np.int64) for name in _KIND_NAMES}
    for number, name in enumerate(_KIND_NAMES):
        chosen = np.flatnonzero((kind == number) & stays)
        used[name] += np.bincount(parts.tile[chosen], parts.n_bytes[chosen], n_tiles).astype(
            np.int64
        )
        chosen = np.flatnonzero((kind == number) & ~stays)
        if not len(chosen):
            continue
        slot, tile = variables.slot[parts.variable[chosen]], parts.tile[chosen]
        order = np.lexsort((slot, tile))
        slot, tile, n_bytes = slot[order], tile[order], parts.n_bytes[chosen][order]
        is_new = (np.diff(slot, prepend=-1) != 0) | (np.diff(tile, prepend=-1) != 0)
        begins = np.flatnonzero(is_new)
        largest = np.maximum.reduceat(n_bytes, begins)
        used[name] += np.bincount(tile[begins], largest, n_tiles).astype(np.int64)
    return used
