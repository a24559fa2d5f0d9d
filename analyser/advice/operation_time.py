"""Why an operation takes its time: ideal beside actual cycles, slowest tiles, what would help."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.advice.ledger import LEDGER_KINDS, LedgerKind
from tilescope.analyser.advice.time_insights import (
    InsightKind,
    advice_on,
    compute_cycles,
    least_exchange_cycles,
    time_insights,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.operations import Layer, Operation, operations, steps_of
from tilescope.analyser.program.plan_explanation import plans_of
from tilescope.analyser.program.plans import Plan
from tilescope.analyser.quantities import format_percent
from tilescope.analyser.summary.tile import busy_cycles
from tilescope.analyser.time.execution import PHASES, execution, joins, steps
from tilescope.analyser.time.selection import selected_cycles, selected_step_cycles
from tilescope.reports import figures
from tilescope.reports.schema.vocabulary import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.reports import Report

__all__ = [
    "OperationTime",
    "SlowTile",
    "TimePart",
    "find_operation",
    "operation_time",
    "operation_verdict",
]

#: Slowest tiles that are listed, and names near an unknown one.
_N_TILES, _N_NAMES = 5, 5
#: A share of the operation's time below which a part is not worth advice.
_WORTH_SAYING = 0.05
_ADVICE: dict[LedgerKind, InsightKind] = {
    "imbalance": "imbalance",
    "exchange": "exchange_bound",
    "sync": "sync_bound",
}


@dataclass(frozen=True)
class TimePart:
    """A part of an operation's time on the critical path, cycles.

    Attributes
    ----------
    kind
        A key of `LEDGER_KINDS`.
    ideal_cycles
        Compute: its work spread evenly over all tiles of the IPU, at the rate of its codelets;
        imbalance and overhead: 0; exchange: its bytes at full bandwidth, received by all tiles
        evenly; sync: one; of everything else nothing is assumed, it counts with what it takes.
    """

    kind: LedgerKind
    ideal_cycles: int
    actual_cycles: int

    @property
    def label(self) -> str:
        """Name for people."""
        return LEDGER_KINDS[self.kind].label

    @property
    def excess_cycles(self) -> int:
        """What it takes beyond its ideal, cycles."""
        return self.actual_cycles - self.ideal_cycles


@dataclass(frozen=True)
class SlowTile:
    """A tile that computes for long, ``times_mean`` as long as the mean tile of its IPU."""

    tile_id: int
    cycles: int
    times_mean: float


@dataclass(frozen=True)
class OperationTime:
    """Why an operation takes its time, over all recorded runs; of one execution without a run.

    Attributes
    ----------
    parts
        In the order of `LEDGER_KINDS`; their actual cycles add up to those of the operation.
    bound
        The phase with most cycles; empty without any.
    n_tiles
        Tiles of an IPU.
    slowest_tiles
        Those that compute longest, the longest first.
    slowest_step_id
        The compute step with most imbalance, None without any.
    plan
        The longest of its plans with its runner-up, None without.
    advice
        What would help, the largest excess first.
    """

    operation: Operation
    total_cycles: int
    n_runs: int
    parts: tuple[TimePart, ...]
    bound: str
    n_tiles: int
    n_busy_tiles: int
    slowest_tiles: tuple[SlowTile, ...]
    slowest_step_id: int | None
    plan: Plan | None
    advice: tuple[str, ...]

    @property
    def ideal_cycles(self) -> int:
        """Sum of the parts' ideals, cycles."""
        return sum(part.ideal_cycles for part in self.parts)

    @property
    def actual_cycles(self) -> int:
        """What it takes, cycles."""
        return sum(part.actual_cycles for part in self.parts)


def find_operation(report: Report, name: str, layer: Layer = "library") -> Operation:
    """Return an operation by its key or name, of a layer or else of another.

    Raises
    ------
    BadQuestion
        When no layer has it.
    """
    layers: list[Layer] = [
        layer,
        *(other_layer for other_layer in get_args(Layer) if other_layer != layer),
    ]
    names: list[str] = []
    for candidate_layer in layers:
        listed = operations(report, candidate_layer).by_key
        if name in listed:
            return listed[name]
        names += [key for key in listed if key not in names]
    lowered = name.lower()[:200]
    near = [known for known in names if lowered and lowered in known.lower()] or (
        difflib.get_close_matches(name[:200], names, _N_NAMES, 0.3)
    )
    listing = ", ".join(repr(known[:200]) for known in near[:_N_NAMES])
    hint = f"; the nearest names are {listing}" if near else ""
    raise BadQuestion(f"unknown operation {name[:200]!r}; this report has {len(names):,}{hint}")


def operation_time(report: Report, operation: Operation) -> OperationTime:
    """Return why an operation of the report takes its time."""
    step_ids = _steps(report, operation)
    parts = _parts(report, step_ids)
    phases = _by_phase(report, step_ids)
    bound = max(phases, key=lambda phase: phases[phase]) if phases else ""
    compute = [step for step in step_ids if PHASES[steps(report).phase[step]] == "compute"]
    n_tiles = target(report).tiles_per_ipu
    busy = busy_cycles(report, compute)
    n_busy = int(np.count_nonzero(busy))
    mean, busiest = compute_cycles(report)
    lost = (busiest - mean)[compute]
    plans = plans_of(report, operation.debug_context_id)
    plan = plans[0] if plans else None
    return OperationTime(
        operation,
        selected_cycles(report),
        execution(report).n_runs,
        parts,
        bound,
        n_tiles,
        n_busy,
        _slowest(busy, n_tiles),
        compute[int(lost.argmax())] if len(lost) and lost.max() > 0 else None,
        plan,
        _advice(report, operation, step_ids, parts, plan, n_busy < target(report).n_tiles // 2),
    )


def operation_verdict(result: OperationTime) -> str:
    """Return in one sentence why an operation takes its time."""
    name, actual, ideal = result.operation.name, result.actual_cycles, result.ideal_cycles
    if not actual:
        return f"{name} takes no time on the critical path."
    share = format_percent(100 * actual / result.total_cycles) if result.total_cycles else "all"
    takes = f"{name} takes {actual:,} cycles ({share} of the time)"
    worst = max(result.parts, key=lambda part: part.excess_cycles)
    if worst.excess_cycles < _WORTH_SAYING * actual:
        return f"{takes}, close to the {ideal:,} of its ideal: only less work makes it faster."
    times = f"{actual / ideal:,.1f} times" if ideal else "more than"
    of_excess = f"{worst.excess_cycles:,} of the {actual - ideal:,} cycles above it"
    why = f"{worst.label.lower()} is {of_excess}"
    if worst.kind == "imbalance" and result.slowest_tiles:
        tile = result.slowest_tiles[0]
        why += f", tile {tile.tile_id:,} computes {tile.times_mean:,.1f} times the mean"
    verdict = f"{takes}, {times} its ideal of {ideal:,}: {why}."
    if not result.total_cycles:
        return verdict
    share = format_percent(100 * (actual - ideal) / result.total_cycles)
    return f"{verdict} At most {share} of the time can be gained here."


def _steps(report: Report, operation: Operation) -> list[int]:
    """Return the steps of an operation in program order."""
    if operation.step_id is not None:
        return [operation.step_id]
    return list(steps_of(report, operation.debug_context_id))


def _by_phase(report: Report, step_ids: Sequence[int]) -> dict[str, int]:
    """Return the cycles of some steps by phase, those without any left out."""
    cycles, phase = selected_step_cycles(report), steps(report).phase
    sums: dict[str, int] = {}
    for step in step_ids:
        if cycles[step]:
            name = PHASES[phase[step]]
            sums[name] = sums.get(name, 0) + int(cycles[step])
    return sums


def _parts(report: Report, step_ids: Sequence[int]) -> tuple[TimePart, ...]:
    """Return the parts of the time of some steps; those without cycles are left out."""
    actual = _by_phase(report, step_ids)
    ideal = dict(actual)
    if "compute" in actual:
        mean, busiest = (
            round(float(row)) for row in compute_cycles(report)[:, step_ids].sum(axis=1)
        )
        full = actual["compute"]
        busiest = min(busiest, full)
        actual |= {"imbalance": max(busiest - mean, 0), "control": full - busiest}
        actual["compute"] = ideal["compute"] = full - actual["imbalance"] - actual["control"]
    if "exchange" in actual:
        least_exchange = least_exchange_cycles(report, step_ids) - actual.get("global_exchange", 0)
        ideal["exchange"] = min(least_exchange, actual["exchange"])
    if "sync" in actual:
        cycles, waits = selected_step_cycles(report), joins(report)
        syncs = [
            int(cycles[step])
            for step in step_ids
            if PHASES[steps(report).phase[step]] == "sync" and cycles[step] and not waits[step]
        ]
        actual["io"] = ideal["io"] = actual["sync"] - sum(syncs)
        actual["sync"] = sum(syncs)
        ideal["sync"] = sum(syncs) // max(len(syncs), 1)
    return tuple(
        TimePart(kind, ideal.get(kind, 0), actual[kind])
        for kind in LEDGER_KINDS
        if actual.get(kind)
    )


def _slowest(busy: NDArray[np.int64], tiles_per_ipu: int) -> tuple[SlowTile, ...]:
    """Return the tiles that compute longest, those without work left out."""
    of_ipu = busy.reshape(-1, tiles_per_ipu).sum(axis=1)
    tiles = []
    for tile in np.argsort(-busy, kind="stable")[:_N_TILES].tolist():
        cycles = int(busy[tile])
        balance = figures.tile_balance(int(of_ipu[tile // tiles_per_ipu]), cycles, tiles_per_ipu)
        if balance:
            tiles.append(SlowTile(tile, cycles, 1 / balance))
    return tuple(tiles)


def _advice(
    report: Report,
    operation: Operation,
    step_ids: Sequence[int],
    parts: Sequence[TimePart],
    plan: Plan | None,
    has_idle_tiles: bool,
) -> tuple[str, ...]:
    """Return what would help, the largest excess first, then what the planner and insights say."""
    actual = sum(part.actual_cycles for part in parts)
    ordered = sorted(parts, key=lambda part: -part.excess_cycles)
    sentences = [
        advice_on(_ADVICE[part.kind], has_idle_tiles=has_idle_tiles, is_planned=plan is not None)
        for part in ordered
        if part.kind in _ADVICE and part.excess_cycles >= max(1, _WORTH_SAYING * actual)
    ]
    if plan is not None and BOUNDS[plan.bound].startswith("memory"):
        sentences.append(
            f"Give its plan more than {plan.available_memory_proportion:g} of a tile"
            " (availableMemoryProportion): a faster split needs more memory."
        )
    inside = set(step_ids)
    sentences += [
        f"{insight.text} {insight.advice}"
        for insight in time_insights(report).found
        if insight.kind == "copies"
        and insight.subject == operation.name
        and inside.issuperset(insight.step_ids)
    ]
    return tuple(dict.fromkeys(sentences))
