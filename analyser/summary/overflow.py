"""Overflow of a training in half: values beyond it, by pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.validation import require
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Overflow", "overflows"]


@dataclass(frozen=True)
class Overflow:
    """Values of one pass that were infinite or no numbers in half.

    Parameters
    ----------
    training_pass
        The pass.
    n_values, n_steps
        Values of all steps, and steps that had any.
    first_step
        The first of these, as the program counts.
    """

    training_pass: str
    n_values: int
    n_steps: int
    first_step: int


@cached
def overflows(report: Report) -> tuple[Overflow, ...]:
    """Return the overflow of a report by pass; none where it was not counted or there was none.

    Raises
    ------
    DamagedReport
        A row has an unknown pass or a step that the report does not have.
    """
    (step_of,) = report.columns(schema.training_step, "step")
    rows = report.rows(schema.training_overflow, "training_step_id", "training_pass", "n_values")
    by_pass: dict[str, list[tuple[int, int]]] = {name: [] for name in TRAINING_PASSES}
    for number, name, n_values in rows:
        require(report, 0 <= number < len(step_of), f"training_overflow has no step {number}")
        require(report, name in by_pass, f"training_overflow has an unknown pass {name!r}")
        by_pass[name].append((number, n_values))
    return tuple(
        Overflow(
            name,
            sum(n_values for _, n_values in counts),
            len({number for number, _ in counts}),
            step_of[min(number for number, _ in counts)],
        )
        for name, counts in by_pass.items()
        if counts
    )
