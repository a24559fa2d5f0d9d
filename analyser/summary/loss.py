"""The loss curve of a training: the steps that its program reported."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.detail import keep_extremes
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["LossCurve", "TrainingStep", "format_loss", "json_number", "loss_curve", "text_curve"]

#: Heights of a character of a text curve.
_BARS = "▁▂▃▄▅▆▇█"
#: The same in a text curve where the loss is not finite.
_NOT_FINITE = "×"


@dataclass(frozen=True)
class TrainingStep:
    """A step of a training; ``loss`` may be infinite or not a number."""

    step: int
    epoch: int
    loss: float
    rate: float
    run_id: int | None


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The steps of a training, in the order in which they were reported.

    Attributes
    ----------
    step, epoch : ndarray of int64, shape (n_steps,)
        Numbers, as the program counts.
    loss, rate : ndarray of float64, shape (n_steps,)
        Loss, which may be infinite or not a number, and learning rate.
    run_id : ndarray of int64, shape (n_steps,)
        The recorded run of the step, -1 for none.
    """

    step: NDArray[np.int64]
    epoch: NDArray[np.int64]
    loss: NDArray[np.float64]
    rate: NDArray[np.float64]
    run_id: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.step)

    def as_json(self) -> dict[str, list[object]]:
        """Return all steps as columns of JSON types; losses that are not finite as text."""
        return {
            "step": self.step.tolist(),
            "epoch": self.epoch.tolist(),
            "loss": [json_number(loss) for loss in self.loss.tolist()],
            "rate": self.rate.tolist(),
            "run_id": [None if run_id < 0 else run_id for run_id in self.run_id.tolist()],
        }

    def at(self, position: int) -> TrainingStep:
        """Return a step by its position."""
        run_id = int(self.run_id[position])
        return TrainingStep(
            int(self.step[position]),
            int(self.epoch[position]),
            float(self.loss[position]),
            float(self.rate[position]),
            None if run_id < 0 else run_id,
        )

    @property
    def first(self) -> TrainingStep | None:
        """The first step; None without any."""
        return self.at(0) if len(self) else None

    @property
    def last(self) -> TrainingStep | None:
        """The last step; None without any."""
        return self.at(-1) if len(self) else None

    @property
    def least(self) -> TrainingStep | None:
        """The first step of the least finite loss; None without any."""
        finite = np.flatnonzero(np.isfinite(self.loss))
        return self.at(int(finite[self.loss[finite].argmin()])) if len(finite) else None

    @property
    def n_not_finite(self) -> int:
        """Number of steps whose loss is infinite or not a number."""
        return int(np.count_nonzero(~np.isfinite(self.loss)))

    @property
    def n_recorded(self) -> int:
        """Number of steps whose run is in the report."""
        return int(np.count_nonzero(self.run_id >= 0))

    @property
    def recorded_ranges(self) -> list[tuple[int, int]]:
        """Half-open ranges of the numbers of the steps whose runs are in the report, ascending."""
        steps = np.unique(self.step[self.run_id >= 0])
        parts = np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1)
        return [(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]

    @property
    def n_epochs(self) -> int:
        """Number of distinct epochs."""
        return len(np.unique(self.epoch))

    @property
    def epoch_starts(self) -> NDArray[np.int64]:
        """Positions where an epoch begins, the first included."""
        if not len(self):
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.diff(self.epoch, prepend=self.epoch[0] - 1)).astype(np.int64)

    @property
    def axis(self) -> NDArray[np.int64]:
        """Places along an axis: the numbers of the steps where these ascend, else positions."""
        if len(self) and (np.diff(self.step) > 0).all():
            return self.step
        return np.arange(len(self), dtype=np.int64)

    def thinned(
        self, n_groups: int, start: int | None = None, end: int | None = None
    ) -> NDArray[np.int64]:
        """Return positions that show a range as a chart of some columns can: peaks are kept.

        Parameters
        ----------
        n_groups
            Columns of the chart.
        start, end
            Range of the axis; the steps beside it are included, so that lines reach its ends.
        """
        axis = self.axis
        first = 0 if start is None else max(int(np.searchsorted(axis, start)) - 1, 0)
        stop = len(axis) if end is None else int(np.searchsorted(axis, end, side="right")) + 1
        loss = self.loss[first:stop]
        finite = np.flatnonzero(np.isfinite(loss))
        others = np.flatnonzero(~np.isfinite(loss))
        if len(others) > n_groups:
            others = others[np.linspace(0, len(others) - 1, n_groups).astype(np.int64)]
        kept = finite[keep_extremes(loss[finite], n_groups)] if len(finite) else finite
        return np.unique(np.concatenate([kept, others])).astype(np.int64) + first


@cached
def loss_curve(report: Report) -> LossCurve:
    """Return the loss curve of a report; without steps outside training."""
    names = ("step", "epoch", "loss", "rate", "run_id")
    step, epoch, loss, rate, run_id = report.columns(schema.training_step, *names)
    curve = LossCurve(
        np.array(step, np.int64),
        np.array(epoch, np.int64),
        np.array([np.nan if value is None else value for value in loss], np.float64),
        np.array(rate, np.float64),
        np.array([-1 if value is None else value for value in run_id], np.int64),
    )
    for array in (curve.step, curve.epoch, curve.loss, curve.rate, curve.run_id):
        array.flags.writeable = False
    return curve


def text_curve(curve: LossCurve, width: int = 60) -> str:
    """Return the loss as a line of text: the mean of every part, and × where one is not finite."""
    if not len(curve):
        return ""
    parts = np.array_split(curve.loss, min(width, len(curve)))
    with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs, huge losses
        means = np.array([part.mean() for part in parts])
    is_finite = np.isfinite(means)
    if not is_finite.any():
        return _NOT_FINITE * len(means)
    low, high = means[is_finite].min(), means[is_finite].max()
    span = high - low
    return "".join(
        _BARS[round(float((mean - low) / span) * (len(_BARS) - 1)) if span > 0 else 0]
        if finite
        else _NOT_FINITE
        for mean, finite in zip(means.tolist(), is_finite.tolist(), strict=True)
    )


def format_loss(loss: float) -> str:
    """Return a loss for people."""
    if math.isnan(loss):
        return "not a number"
    if math.isinf(loss):
        return "infinite" if loss > 0 else "infinite, negative"
    return f"{loss:.6g}"


def json_number(value: float) -> float | str:
    """Return a number for JSON, which has neither NaN nor infinities: these as text."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
