"""Scripts as others write them against libpva: figures in several styles, by public names only.

None of them knows anything about TileScope; each returns figures by the names of program types.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pva

__all__ = [
    "PHASES",
    "by_all_tiles",
    "by_busiest_tile",
    "by_intervals",
    "by_ipu_cycles",
    "by_visitor",
    "peak_memory",
    "pipeline_cycles",
    "shares",
    "stage_cycles",
]

#: Type of a program to the phase that TileScope's summary counts it as.
PHASES = {
    "OnTileExecute": "compute",
    "DoExchange": "exchange",
    "GlobalExchange": "global_exchange",
    "Sync": "sync",
    "StreamCopyBegin": "stream_copy",
    "StreamCopyMid": "stream_copy",
    "StreamCopyEnd": "stream_copy",
}


def by_busiest_tile(report: pva.Report) -> dict[str, int]:
    """Add up the busiest tile of every step."""
    cycles: dict[str, int] = defaultdict(int)
    for step in report.execution.steps:
        cycles[step.program.type.name] += max(step.cyclesByTile)
    return dict(cycles)


def by_all_tiles(report: pva.Report) -> dict[str, int]:
    """Add up all tiles of every step."""
    cycles: dict[str, int] = defaultdict(int)
    for step in report.execution.steps:
        cycles[step.program.type.name] += sum(step.cyclesByTile)
    return dict(cycles)


def by_ipu_cycles(report: pva.Report, ipu_id: int = 0) -> dict[str, int]:
    """Add up the cycles of every step on an IPU, as the tutorial does."""
    cycles: dict[str, int] = defaultdict(int)
    for run in report.execution.runs:
        for step in run.steps:
            cycles[step.program.type.name] += step.ipus[ipu_id].cycles
    return dict(cycles)


def by_intervals(report: pva.Report, ipu_id: int = 0) -> dict[str, int]:
    """Add up when tiles that take part begin and end."""
    cycles: dict[str, int] = defaultdict(int)
    for step in report.execution.steps:
        active = step.ipus[ipu_id].activeCycles
        cycles[step.program.type.name] += active.cyclesTo.max - active.cyclesFrom.min
    return dict(cycles)


class _IntervalVisitor(pva.ProgramVisitor):
    """Collects intervals of a step by kind."""

    def __init__(self, active: Any, cycles: dict[str, int]) -> None:
        super().__init__()
        self._length = active.cyclesTo.max - active.cyclesFrom.max
        self._cycles = cycles

    def visitOnTileExecute(self, _: Any) -> None:  # noqa: N802
        self._cycles["OnTileExecute"] += self._length

    def visitDoExchange(self, _: Any) -> None:  # noqa: N802
        self._cycles["DoExchange"] += self._length

    def visitGlobalExchange(self, _: Any) -> None:  # noqa: N802
        self._cycles["GlobalExchange"] += self._length

    def visitSync(self, _: Any) -> None:  # noqa: N802
        self._cycles["Sync"] += self._length

    def visitStreamCopyBegin(self, _: Any) -> None:  # noqa: N802
        self._cycles["StreamCopyBegin"] += self._length

    def visitStreamCopyMid(self, _: Any) -> None:  # noqa: N802
        self._cycles["StreamCopyMid"] += self._length

    def visitStreamCopyEnd(self, _: Any) -> None:  # noqa: N802
        self._cycles["StreamCopyEnd"] += self._length


def by_visitor(report: pva.Report, ipu_id: int = 0) -> dict[str, int]:
    """Let a visitor add up intervals."""
    cycles: dict[str, int] = defaultdict(int)
    for step in report.execution.steps:
        step.program.accept(_IntervalVisitor(step.ipus[ipu_id].activeCycles, cycles))
    return dict(cycles)


def shares(cycles: dict[str, int]) -> dict[str, float]:
    """Return the share of every phase."""
    total = sum(cycles.values())
    answer: dict[str, float] = defaultdict(float)
    for kind, value in cycles.items():
        answer[PHASES[kind]] += value / total
    return dict(answer)


def peak_memory(report: pva.Report) -> int:
    """Return what is always live and the most that is not always live, over all tiles."""
    always = sum(tile.memory.alwaysLiveBytes for tile in report.compilation.tiles)
    steps = report.compilation.livenessProgramSteps
    return always + max((step.notAlwaysLiveMemory.bytes for step in steps), default=0)


def pipeline_cycles(report: pva.Report) -> list[int]:
    """Return the cycles of every IPU between the last two exchanges between IPUs."""
    exchanges = [
        step
        for step in report.execution.runs[0].steps
        if step.program.type == pva.Program.Type.GlobalExchange
        and sum(ipu.dataIn + ipu.dataOut for ipu in step.ipus) > 0
    ]
    begin, end = exchanges[-2:]
    return [
        last.activeCycles.cyclesTo.max - first.activeCycles.cyclesTo.max
        for first, last in zip(begin.ipus, end.ipus, strict=True)
    ]


def stage_cycles(report: pva.Report) -> list[int]:
    """Return what every IPU works between the last two exchanges between IPUs.

    It is the time between them, without the exchange and what is spent in external syncs.
    """
    steps = list(report.execution.runs[0].steps)
    positions = [
        index
        for index, step in enumerate(steps)
        if step.program.type == pva.Program.Type.GlobalExchange
    ]
    begin, end = positions[-2:]
    actual = pipeline_cycles(report)
    for step in steps[begin + 1 : end + 1]:
        if step.program.name == "External" or step is steps[end]:
            for ipu_id, ipu in enumerate(step.ipus):
                active = ipu.activeCycles
                actual[ipu_id] -= active.cyclesTo.max - active.cyclesFrom.max
    return actual
