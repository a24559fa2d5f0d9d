"""Ledger of cycles: what every tile did in every cycle of the runs, and what that cost.

All tile-cycles of the machine are divided into a few kinds without remainder; the denominator is
that of the parallel efficiency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.advice.time_insights import InsightKind, gains
from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.operations import operation_names, operations
from tilescope.analyser.program.stages import pipeline
from tilescope.analyser.summary.stage_figures import ipu_times, stage_figures
from tilescope.analyser.time.execution import (
    PHASES,
    costs,
    execution,
    joins,
    steps,
    track_rows,
)
from tilescope.analyser.time.figures import step_busy_cycles
from tilescope.analyser.time.selection import Selection, selected_cycles
from tilescope.reports.schema import vocabulary

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "LEDGER_KINDS",
    "Ledger",
    "LedgerCause",
    "LedgerEntry",
    "LedgerKind",
    "LedgerPart",
    "ledger",
    "ledger_parts",
]

#: A key of `LEDGER_KINDS`: a phase, or a part of the time that its steps take.
LedgerKind: TypeAlias = str


@dataclass(frozen=True)
class _Kind:
    """A kind of use of tile-cycles; ``insight`` is the kind of insight that bounds its gain."""

    label: str
    meaning: str
    insight: InsightKind | None = None


#: Parts of compute and sync steps that are listed apart, by the phase that they follow.
_PARTS: dict[str, dict[LedgerKind, _Kind]] = {
    "compute": {
        "imbalance": _Kind(
            "Imbalance", "a tile has no work left while the busiest tile computes", "imbalance"
        ),
        "control": _Kind(
            "Compute set overhead", "a compute set takes longer than its busiest tile"
        ),
    },
    "sync": {
        "waiting": _Kind(
            "Waiting for other IPUs",
            "an IPU waits in a sync for a later one, or has finished and others have not",
            "waiting",
        ),
        "io": _Kind("Waiting for I/O tiles", "compute tiles wait for an overlapped copy"),
    },
}
_PHASE_OF_INSIGHT: dict[InsightKind, str] = {
    "exchange_bound": "exchange",
    "sync_bound": "sync",
    "overlap": "stream_copy",
}


def _kinds() -> dict[LedgerKind, _Kind]:
    """Return the phases, with their parts behind them."""
    insights = {phase: insight for insight, phase in _PHASE_OF_INSIGHT.items()}
    kinds: dict[LedgerKind, _Kind] = {}
    for name, phase in vocabulary.PHASES.items():
        kinds[name] = _Kind(phase.label, phase.meaning, insights.get(name))
        kinds |= _PARTS.get(name, {})
    return kinds | {"compute": _Kind("Useful compute", "a tile runs vertices")}


#: What tile-cycles are spent on, in the order of the waterfall.
LEDGER_KINDS = _kinds()


@dataclass(frozen=True)
class LedgerCause:
    """What spends tile-cycles of a kind.

    Attributes
    ----------
    subject
        The operation; without one, the step; for ``waiting``, the IPU that is waited for.
    step_id
        The step with the most of it; None for time in no step.
    is_operation
        Whether the subject names a library call.
    """

    subject: str
    tile_cycles: int
    step_id: int | None
    is_operation: bool


@dataclass(frozen=True)
class LedgerEntry:
    """Tile-cycles of one kind.

    Attributes
    ----------
    tile_cycles
        Over all tiles of the machine, as `LEDGER_KINDS` describes them.
    share
        Of all tile-cycles, 0 to 1.
    gain_cycles
        The most that the critical path can become shorter by it, in the runs together; None
        where the report decides no bound. Gains overlap and do not add up.
    causes
        Those that spend most, the largest first.
    n_causes
        How many there are.
    """

    kind: LedgerKind
    tile_cycles: int
    share: float
    gain_cycles: int | None
    causes: tuple[LedgerCause, ...]
    n_causes: int

    @property
    def label(self) -> str:
        """Name for people."""
        return LEDGER_KINDS[self.kind].label

    @property
    def meaning(self) -> str:
        """Ends the sentence "Tile-cycles in which …"."""
        return LEDGER_KINDS[self.kind].meaning


@dataclass(frozen=True)
class Ledger:
    """All tile-cycles of the recorded runs; without a run, of one execution of each step.

    Attributes
    ----------
    total_cycles
        Time of the runs on their slowest IPUs, the metric ``cycles.total``.
    total_tile_cycles
        The same times all tiles of the machine: the sum of the entries.
    entries
        One per kind, in the order of `LEDGER_KINDS`; those without tile-cycles are left out.
    """

    total_cycles: int
    total_tile_cycles: int
    n_runs: int
    n_tiles: int
    entries: tuple[LedgerEntry, ...]

    @property
    def cycles_per_run(self) -> dict[LedgerKind, float]:
        """Tile-cycles by kind over tiles and runs; they add up to the mean time of a run."""
        parts = self.n_tiles * max(self.n_runs, 1)
        return {entry.kind: entry.tile_cycles / parts for entry in self.entries}


@dataclass(frozen=True)
class LedgerPart:
    """The tile-cycles of an IPU, or those of its work for one stage of a pipeline.

    Attributes
    ----------
    stage
        Such as ``backward 0``; None for all that the IPU does.
    tile_cycles
        By kind, in the order of `LEDGER_KINDS`; those of `waiting` are what the IPU itself waits.
    """

    ipu_id: int
    stage: str | None
    tile_cycles: dict[LedgerKind, int]

    @property
    def label(self) -> str:
        """Name for people."""
        return f"IPU {self.ipu_id}" if self.stage is None else self.stage.capitalize()

    @property
    def total(self) -> int:
        """All of its tile-cycles."""
        return sum(self.tile_cycles.values())


@cached
def ledger_parts(report: Report, run_id: int | None = None) -> tuple[LedgerPart, ...]:
    """Return the ledger by IPU, every IPU followed by its stages; nothing on one IPU or no run.

    The parts of all IPUs add up to the ledger, kind by kind.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    times = ipu_times(report, run_id)
    if len(times) < 2:
        return ()
    n_tiles, found = target(report).tiles_per_ipu, pipeline(report)
    figures = stage_figures(report, run_id)
    spent = _spent(report, run_id)
    answer = []
    for ipu in times:
        sums = {kind: int(spent[kind][ipu.ipu_id].sum()) for kind in spent}
        sums["waiting"] = ipu.waiting_cycles * n_tiles
        sums["other"] += ipu.total_cycles * n_tiles - sum(sums.values())
        answer.append(_part(ipu.ipu_id, None, sums))
        for place, stage in enumerate(figures.stages if figures is not None else ()):
            if stage.ipu_id == ipu.ipu_id and found is not None:
                share = found.share[:, place]
                of_stage = {kind: round(float(spent[kind][ipu.ipu_id] @ share)) for kind in spent}
                answer.append(_part(ipu.ipu_id, stage.stage.name, of_stage))
    return tuple(answer)


def _part(ipu_id: int, stage: str | None, sums: dict[LedgerKind, int]) -> LedgerPart:
    """Return a part with its kinds in their order, those without tile-cycles left out."""
    kept = {kind: sums[kind] for kind in LEDGER_KINDS if sums.get(kind)}
    return LedgerPart(ipu_id, stage, kept)


@cached
def ledger(report: Report, run_id: int | None = None, n_causes: int = 5) -> Ledger:
    """Return what the tile-cycles of all recorded runs, or of one, were spent on.

    Parameters
    ----------
    report
        The report.
    run_id
        One recorded run; all by default.
    n_causes
        Causes listed per kind.

    Returns
    -------
    Ledger
        Its entries add up to all tile-cycles.

    Raises
    ------
    BadQuestion
        When the run does not exist.

    Notes
    -----
    The time is that of the compute track. A tile reserved for I/O runs no vertices and counts as
    any other tile without work.
    """
    machine, n_runs = target(report), execution(report, run_id).n_runs
    total = selected_cycles(report, Selection(run_id=run_id))
    tile_cycles = total * machine.n_tiles
    spent = {kind: values.sum(axis=0) for kind, values in _spent(report, run_id).items()}
    waits, late_steps = _waits(report, run_id)
    rest = tile_cycles - sum(int(cycles.sum()) for cycles in spent.values()) - int(waits.sum())
    gain_at_most = gains(report, run_id)
    entries = []
    for kind, facts in LEDGER_KINDS.items():
        if kind == "waiting":
            late = _late_ipus(waits, late_steps)
        else:
            late = _operations(report, spent[kind], rest if kind == "other" else 0)
        size = sum(cause.tile_cycles for cause in late)
        if size:
            gain = gain_at_most[facts.insight] if facts.insight is not None else None
            share = size / tile_cycles
            entries.append(LedgerEntry(kind, size, share, gain, tuple(late[:n_causes]), len(late)))
    return Ledger(total, tile_cycles, n_runs, machine.n_tiles, tuple(entries))


def _spent(report: Report, run_id: int | None) -> dict[LedgerKind, NDArray[np.int64]]:
    """Return tile-cycles by kind, IPU and step, (n_ipus, n_steps) each; without waits."""
    every, n_tiles = steps(report), target(report).tiles_per_ipu
    own_cycles = _own_cycles(report, run_id)
    phase = {name: every.phase == number for number, name in enumerate(PHASES)}
    busy, busiest = step_busy_cycles(report, run_id)
    # Within what the trace says: of a report that disagrees with itself, nothing is negative.
    busiest = np.minimum(busiest, own_cycles)
    useful = np.minimum(busy, busiest * n_tiles)
    waits_only = joins(report)
    tile_cycles = own_cycles * n_tiles

    def of(values: NDArray[np.int64], where: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.where(where, values, 0)

    compute = phase["compute"]
    return {name: of(tile_cycles, where) for name, where in phase.items()} | {
        "compute": of(useful, compute),
        "imbalance": of(busiest * n_tiles - useful, compute),
        "control": of((own_cycles - busiest) * n_tiles, compute),
        "sync": of(tile_cycles, phase["sync"] & ~waits_only),
        "io": of(tile_cycles, waits_only),
    }


def _own_cycles(report: Report, run_id: int | None) -> NDArray[np.int64]:
    """Return the time of each IPU in each step without waits, shape (n_ipus, n_steps), cycles."""
    ran = execution(report, run_id)
    if ran.n_runs:
        return ran.own_cycles
    column = costs(report).column
    answer = np.zeros(ran.own_cycles.shape, dtype=np.int64)
    answer[column["ipu_id"], column["step_id"]] = column["cycles"]
    return answer


def _waits(report: Report, run_id: int | None) -> tuple[NDArray[np.int64], list[int | None]]:
    """Return the tile-cycles that others wait for each IPU, shape (n_ipus,), and where most.

    They wait in external syncs, and at the end of a run for the last IPU.
    """
    machine, ran = target(report), execution(report, run_id)
    caused = ran.caused_cycles.sum(axis=1)
    where = [
        int(ran.caused_cycles[ipu].argmax()) if caused[ipu] else None
        for ipu in range(machine.n_ipus)
    ]
    if ran.n_runs:
        lengths: dict[int, NDArray[np.int64]] = {}
        for row in track_rows(report):
            if row.track == 0 and run_id in (None, row.run_id):
                of_run = lengths.setdefault(row.run_id, np.zeros(machine.n_ipus, np.int64))
                of_run[row.ipu_id] = row.n_cycles
        for of_run in lengths.values():
            caused[of_run.argmax()] += (of_run.max() - of_run).sum()
    else:
        own_cycles = _own_cycles(report, run_id)
        late = own_cycles.argmax(axis=0) if own_cycles.size else np.zeros(0, np.intp)
        np.add.at(caused, late, (own_cycles.max(axis=0, initial=0) - own_cycles).sum(axis=0))
    return caused * machine.tiles_per_ipu, where


def _late_ipus(waits: NDArray[np.int64], where: list[int | None]) -> list[LedgerCause]:
    """Return the IPUs that others wait for, the latest first."""
    order = [ipu for ipu in np.argsort(-waits, kind="stable").tolist() if waits[ipu]]
    return [LedgerCause(f"IPU {ipu}", int(waits[ipu]), where[ipu], False) for ipu in order]


def _operations(report: Report, spent: NDArray[np.int64], in_no_step: int) -> list[LedgerCause]:
    """Return the operations that spend tile-cycles, the largest first; time in no step as one."""
    every, names = steps(report), operation_names(report)
    known = _names_of_operations(report)
    gain_at_most: dict[str, int] = {}
    sums: dict[str, int] = {}
    for step in np.flatnonzero(spent).tolist():
        name = names[step] or every.kind[step]
        size = int(spent[step])
        sums[name] = sums.get(name, 0) + size
        if name not in gain_at_most or size > spent[gain_at_most[name]]:
            gain_at_most[name] = step
    causes = [
        LedgerCause(name, size, gain_at_most[name], name in known) for name, size in sums.items()
    ]
    if in_no_step:
        causes.append(LedgerCause("Time in no step", in_no_step, None, False))
    return sorted(causes, key=lambda cause: (-cause.tile_cycles, cause.subject))


@cached
def _names_of_operations(report: Report) -> frozenset[str]:
    """Return the names of the library calls."""
    return frozenset(operation.name for operation in operations(report).operations)
