"""Machines side by side: one row per figure, or two if the parameter sets differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilescope.engine.machine.description import Description, Figure
from tilescope.engine.machine.figures import FIGURES, PARAMETER_SETS, FigureSpec

__all__ = ["FigureRow", "figure_rows"]


@dataclass(frozen=True)
class FigureRow:
    """One figure of all compared machines.

    Parameters
    ----------
    in_set
        ``both``, ``hardware`` or ``ipu_model``; ``shown only`` if nothing uses it yet.
    figures
        In the order of the machines; None if a machine has no such figure.
    """

    spec: FigureSpec
    in_set: str
    figures: tuple[Figure | None, ...]


def figure_rows(machines: Sequence[Description]) -> list[FigureRow]:
    """Return all figures that any of the machines has, in the order of the catalogue."""
    rows = []
    for spec in FIGURES.values():
        by_set = {s: tuple(m.by_set[s].get(spec.name) for m in machines) for s in PARAMETER_SETS}
        hardware, model = by_set.values()
        if not any(hardware) and not any(model):
            continue
        if not spec.is_used:
            rows.append(FigureRow(spec, "shown only", hardware))
        elif hardware == model:
            rows.append(FigureRow(spec, "both", hardware))
        else:
            rows += [FigureRow(spec, name, figures) for name, figures in by_set.items()]
    return rows
