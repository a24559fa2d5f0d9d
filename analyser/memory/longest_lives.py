"""The variables that live longest without being live always, in steps and in cycles of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.memory.liveness import liveness_step_ids
from tilescope.analyser.memory.variable_list import VariableFilter, VariableRow, list_variables
from tilescope.analyser.time.execution import execution

if TYPE_CHECKING:
    from tilescope.analyser.machine.target import Source
    from tilescope.reports import Report

__all__ = ["LongestLives", "VariableLife", "longest_lives"]


@dataclass(frozen=True)
class VariableLife:
    """How long a variable lives.

    Attributes
    ----------
    variable
        With its lives, in liveness steps.
    share
        Its steps as a share of all liveness steps, 0 to 1.
    cycles
        Critical cycles of a run in the steps of its lives, the mean over recorded runs; None
        without a run.
    """

    variable: VariableRow
    share: float
    cycles: int | None

    @property
    def byte_steps(self) -> int:
        """Memory by time: its bytes times the steps of its lives."""
        return self.variable.bytes * self.variable.n_steps


@dataclass(frozen=True)
class LongestLives:
    """Variables that live at some steps but not at all, those at most steps first."""

    n_steps: int
    rows: tuple[VariableLife, ...]


def longest_lives(report: Report, source: Source = "all", text: str = "") -> LongestLives:
    """Return variables by the number of steps at which they live, the larger of equal ones first.

    What is always live is left out: weights and constants live for as long as the program.

    Parameters
    ----------
    report
        The report.
    source
        Tiles that must hold a part; sizes are those there.
    text
        Words of the name in any order.

    Raises
    ------
    BadQuestion
        When the IPU or tile does not exist.
    """
    step_ids = liveness_step_ids(report)
    listed = list_variables(report, VariableFilter(text=text, source=source), "lifetime")
    rows = [row for row in listed.rows if row.n_steps and not row.is_always_live]
    rows.sort(key=lambda row: (-row.n_steps, -row.bytes, row.variable_id))
    ran = execution(report)
    below = None
    if ran.n_runs:
        # A step that the program reaches in several places counts in all of them together.
        uses = np.bincount(step_ids, minlength=len(ran.step_cycles))
        cycles = ran.step_cycles / np.maximum(uses, 1)
        below = np.append(0.0, np.cumsum(cycles[step_ids])) / ran.n_runs
    n_steps = len(step_ids)
    return LongestLives(
        n_steps,
        tuple(
            VariableLife(
                row,
                row.n_steps / n_steps,
                None
                if below is None
                else round(sum(float(below[end] - below[start]) for start, end in row.lives)),
            )
            for row in rows
        ),
    )
