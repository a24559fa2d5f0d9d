"""What one line says of a report, for lists of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import AnalyserError
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.tile_memory import fullest_tile
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.summary.metrics import METRICS
from tilescope.analyser.summary.provenance import model_name
from tilescope.analyser.time.execution import execution
from tilescope.reports import State, schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["ReportOverview", "report_overview", "why_no_run"]


@dataclass(frozen=True)
class ReportOverview:
    """The facts by which reports are told apart.

    Attributes
    ----------
    model
        Name of the model, else of the engine; empty if the report has neither.
    machine
        Name of the machine.
    cycles
        Of all recorded runs, None without a run.
    max_tile_bytes, fullest_tile_id
        What the fullest tile holds, gaps excluded, and its number; None without memory.
    n_tiles_over
        Tiles that do not fit, None without memory.
    """

    model: str
    machine: str
    n_ipus: int
    n_runs: int
    cycles: int | None
    max_tile_bytes: int | None
    fullest_tile_id: int | None
    n_tiles_over: int | None

    @property
    def machine_words(self) -> str:
        """The machine, and how many IPUs it has if several."""
        return f"{self.machine} × {self.n_ipus:,}" if self.n_ipus > 1 else self.machine

    def state_words(self, state: str) -> str:
        """Return the state of the report unless it is complete, and whether the program fits.

        Parameters
        ----------
        state
            A value of `State`, or why the file is not a report.
        """
        parts = [] if state == State.COMPLETE else [state]
        if self.n_tiles_over is not None:
            over = self.n_tiles_over
            does_not = f"{over:,} tile{'s do' if over > 1 else ' does'} not fit"
            parts.append(does_not if over else "fits")
        return ", ".join(parts) or state


@cached
def report_overview(report: Report) -> ReportOverview:
    """Return the line of a report; what it does not hold is None."""
    machine = target(report)
    values = {name: METRICS[name].compute(report) for name in _METRICS}
    cycles, max_tile_bytes, over = (
        int(value) if isinstance(value, int | float) else None
        for value in (values[name] for name in _METRICS)
    )
    try:
        fullest = fullest_tile(report).tile_id if max_tile_bytes is not None else None
    except AnalyserError:
        fullest = None
    n_runs = execution(report).n_runs
    return ReportOverview(
        model_name(report),
        machine.name,
        machine.n_ipus,
        n_runs,
        cycles if n_runs else None,
        max_tile_bytes,
        fullest,
        over,
    )


_METRICS = ("cycles.total", "memory.max_tile", "memory.tiles_over_capacity")


def why_no_run(report: Report) -> str:
    """Return why a report has no recorded run and what to do, in sentences; empty if it has one."""
    state = report.state
    line = report_overview(report) if report.n_rows(schema.target) else None
    if line is not None and line.n_runs:
        return ""
    if line is not None and line.n_tiles_over:
        n_tiles, capacity = target(report).n_tiles, format_bytes(target(report).capacity_bytes)
        return (
            f"The program did not fit, so that nothing ran: {line.n_tiles_over:,} of {n_tiles:,}"
            f" tiles need more than {capacity}. Insights lists what would make it fit."
        )
    if not state.is_complete:
        return f"No run is recorded: the report {state.clause}; {state.advice}."
    return (
        "Nothing ran, or the run was not recorded. Run the model with the option"
        " autoReport.outputExecutionProfile=true."
    )
