"""The loss curve of a training for its chart, as JSON: thinned to what the chart can show."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from tilescope.analyser.summary.loss import LossCurve, format_loss, json_number, loss_curve
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Place = Annotated[int | None, Query(ge=0, le=2**53)]
#: Epochs that are marked; of more, evenly spaced ones.
_MOST_EPOCHS = 200


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/training``."""
    router = APIRouter(prefix="/training/{report_id}")

    @router.get("/loss")
    def show_loss(
        report_id: str,
        candidate: Annotated[str, Query(alias="with", max_length=80)] = "",
        columns: Annotated[int, Query(ge=1, le=4000)] = 800,
        start: _Place = None,
        end: _Place = None,
    ) -> dict[str, Any]:
        """Return the loss over a range of steps, of one report or of two; no side without steps."""
        view = {"report": report_id, "with": candidate}
        curves = library.ask(view, loss_curve)
        sides = [None if curve is None else _side(curve, columns, start, end) for curve in curves]
        return {"ok": True, "sides": sides}

    return router


def _side(curve: LossCurve, columns: int, start: int | None, end: int | None) -> dict[str, Any]:
    """Return the steps of a range; losses that are not finite as text."""
    axis = curve.axis
    positions = curve.thinned(columns, start, end)
    epochs = curve.epoch_starts
    if len(epochs) > _MOST_EPOCHS:
        epochs = epochs[:: -(-len(epochs) // _MOST_EPOCHS)]
    first, last, least = curve.first, curve.last, curve.least
    return {
        "n_steps": len(curve),
        "n_not_finite": curve.n_not_finite,
        "extent": [int(axis[0]), int(axis[-1])] if len(axis) else None,
        "place": axis[positions].tolist(),
        "step": curve.step[positions].tolist(),
        "epoch": curve.epoch[positions].tolist(),
        "loss": [json_number(loss) for loss in curve.loss[positions].tolist()],
        "rate": curve.rate[positions].tolist(),
        "run_id": [None if run < 0 else run for run in curve.run_id[positions].tolist()],
        "epochs": [[int(axis[at]), int(curve.epoch[at])] for at in epochs.tolist()],
        "words": ", ".join(
            f"{word} {format_loss(step.loss)} in step {step.step:,}"
            for word, step in (("first", first), ("last", last), ("least", least))
            if step is not None
        ),
    }
