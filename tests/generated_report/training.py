"""Steps of a training: a loss that falls, and is not finite twice."""

from __future__ import annotations

import numpy as np

from tilescope.reports import ReportWriter
from tilescope.reports.schema import training_step

__all__ = ["STEPS_OF_EPOCH", "write_training"]

#: Steps of an epoch.
STEPS_OF_EPOCH = 5_000


def write_training(writer: ReportWriter, n_steps: int, n_runs: int) -> None:
    """Write steps; the first of them have the recorded runs."""
    step = np.arange(n_steps)
    loss: list[float | None] = (0.3 + 4 * np.exp(-step / max(1, n_steps / 5))).tolist()
    if n_steps > 2:
        loss[n_steps // 3], loss[n_steps // 2] = None, float("inf")
    writer.add_columns(
        training_step,
        {
            "step": step,
            "epoch": step // STEPS_OF_EPOCH,
            "loss": loss,
            "rate": (0.1 * 0.5 ** (step // STEPS_OF_EPOCH)).tolist(),
            "run_id": [number if number < n_runs else None for number in range(n_steps)],
        },
    )
