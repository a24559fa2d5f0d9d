"""Recorded steps of a training: what a program reports of them, and their rows in a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan

from tilescope.reports import ReportWriter
from tilescope.reports.schema import notice, training_overflow, training_step

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
    overflows
        Values that were beyond half, by pass; those of 0 are not written.
    """

    step: int
    epoch: int
    loss: float
    rate: float
    has_run: bool
    overflows: Mapping[str, int] = field(default_factory=dict)


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
        self._n_steps = 0

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
        self._writer.add(
            training_overflow,
            [
                {"training_step_id": number, "training_pass": kind, "n_values": n_values}
                for number, (record, _) in enumerate(steps, self._n_steps)
                for kind, n_values in record.overflows.items()
                if n_values
            ],
        )
        self._n_steps += len(steps)
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
