"""Recorded steps of a training: what a program reports of them, and their rows in a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan

from tilescope.reports import ReportWriter
from tilescope.reports.schema import notice, training_step

__all__ = ["StepRecord", "StepWriter"]


@dataclass(frozen=True)
class StepRecord:
    """One step of a training.

    Parameters
    ----------
    step, epoch
        Numbers, as the program counts.
    loss
        Its loss; may be infinite or not a number.
    rate
        Its learning rate.
    has_run
        Whether the run before it is the last that was recorded.
    """

    step: int
    epoch: int
    loss: float
    rate: float
    has_run: bool


class StepWriter:
    """Writes steps into a report, and a notice of the first loss that is not finite.

    Parameters
    ----------
    writer
        Writer of the report.
    """

    def __init__(self, writer: ReportWriter) -> None:
        self._writer = writer
        self._is_noted = False

    def write(self, steps: Sequence[tuple[StepRecord, int | None]]) -> None:
        """Add steps, each with the number of its run, in chronological order.

        Raises
        ------
        ReportNotWritable
            A write failed.
        """
        if not steps:
            return
        self._writer.add_columns(
            training_step,
            {
                "step": [record.step for record, _ in steps],
                "epoch": [record.epoch for record, _ in steps],
                # SQLite has no NaN.
                "loss": [None if isnan(record.loss) else record.loss for record, _ in steps],
                "rate": [record.rate for record, _ in steps],
                "run_id": [run_id for _, run_id in steps],
            },
        )
        if self._is_noted:
            return
        for record, _ in steps:
            if not isfinite(record.loss):
                value = "not a number" if isnan(record.loss) else "infinite"
                text = f"The loss is {value} in step {record.step:,}, the first of those recorded"
                row = {"severity": "warning", "code": "loss_not_finite", "message": text}
                self._writer.add(notice, [row])
                self._is_noted = True
                return
