"""Memory by what it is needed for: weights, gradients, optimiser state, activations, code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import Source, tile_range
from tilescope.analyser.memory.liveness import (
    lifetimes,
    liveness_step_ids,
    not_always_live_bytes,
)
from tilescope.analyser.memory.lowered_variables import (
    lowered_parts,
    variable_columns,
    variable_positions,
)
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.program.training import passes_of_steps
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY, PURPOSES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "PurposeTotal",
    "Purposes",
    "backward_start",
    "has_purposes",
    "purpose_of_variables",
    "purpose_total",
    "purpose_totals",
    "purposes",
    "stored_activation_bytes",
]

#: Places of purposes in columns of numbers.
_NUMBER = {name: number for number, name in enumerate(PURPOSES)}
_OF_PARTS = ("variable_id", "bytes", "start_step", "end_step")
_BACKWARD = ("data gradient", "weight gradient", "recomputation")


@dataclass(frozen=True)
class Purposes:
    """Memory by purpose over the program.

    Attributes
    ----------
    source
        The tiles in question.
    always_bytes : ndarray of int64, shape (n_purposes,), bytes
        What is always live, by purpose in the order of `PURPOSES`.
    live_bytes : ndarray of int64, shape (n_purposes, n_steps), bytes
        What is live but not always, at each liveness step.
    """

    source: Source
    always_bytes: NDArray[np.int64]
    live_bytes: NDArray[np.int64]

    @property
    def n_steps(self) -> int:
        """Number of liveness steps."""
        return int(self.live_bytes.shape[1])


@dataclass(frozen=True)
class PurposeTotal:
    """What a purpose takes.

    Attributes
    ----------
    name
        A name in `PURPOSES`.
    always_bytes
        Always live.
    peak_bytes
        At the step at which most memory is live.
    most_bytes, most_step
        The most at any step, and the first such step; None without steps.
    stored_bytes
        When the backward pass begins: what the forward pass left for it; None outside training.
    """

    name: str
    label: str
    meaning: str
    always_bytes: int
    peak_bytes: int
    most_bytes: int
    most_step: int | None
    stored_bytes: int | None


def has_purposes(report: Report) -> bool:
    """Return whether a report says what variables are needed for."""
    return any(report.column(schema.variable, "purpose"))


@cached
def purpose_of_variables(report: Report) -> NDArray[np.int64]:
    """Return the purpose of every variable, a place in `PURPOSES`: int64, shape (n_variables,)."""
    rows = report.rows(schema.variable, "purpose", "category")
    names = (
        purpose or ("constant" if category == "constant" else "working")
        for purpose, category in rows
    )
    return np.array([_NUMBER[name] for name in names], np.int64)


@cached
def purposes(report: Report, source: Source = "all") -> Purposes:
    """Return memory by purpose at each step, on all tiles, one IPU or one tile.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    tiles, columns = tile_range(report, source), variable_columns(report)
    n_steps, of_variable = len(liveness_step_ids(report)), purpose_of_variables(report)
    if source == "all":
        rows = lifetimes(report)
        index = variable_positions(report, rows["variable_id"])
        n_bytes = np.array(columns["bytes"], np.int64)[index]
    else:
        rows = lowered_parts(report, tiles.start, tiles.stop, *_OF_PARTS)
        index = variable_positions(report, rows["variable_id"])
        n_bytes = rows["bytes"]
    is_always = np.array(columns["is_always_live"], np.bool_)
    goes = ~is_always[index]
    size, width = n_bytes[goes], n_steps + 1
    row = of_variable[index][goes] * width
    change = np.zeros(len(PURPOSES) * width, np.int64)
    np.add.at(change, row + rows["start_step"][goes], size)
    np.subtract.at(change, row + rows["end_step"][goes], size)
    live = change.reshape(len(PURPOSES), width)[:, :-1]
    always = np.zeros(len(PURPOSES), np.int64)
    if source == "all":
        kept, sizes = np.flatnonzero(is_always), np.array(columns["bytes"], np.int64)
        np.add.at(always, of_variable[kept], sizes[kept])
    else:
        np.add.at(always, of_variable[index][~goes], n_bytes[~goes])
    by_category = category_bytes(report)[:, tiles.start : tiles.stop].sum(axis=1)
    always[_NUMBER["code"]] += sum(
        int(by_category[row])
        for row, category in enumerate(categories(report))
        if not MEMORY_CATEGORY[category.name].is_variable
    )
    return Purposes(source, always, np.cumsum(live, axis=1))


@cached
def backward_start(report: Report) -> int | None:
    """Return the first liveness step of the backward pass; None outside training."""
    names = passes_of_steps(report)
    for place, step in enumerate(liveness_step_ids(report).tolist()):
        if names[step] in _BACKWARD:
            return place
    return None


@cached
def purpose_totals(report: Report, source: Source = "all") -> tuple[PurposeTotal, ...]:
    """Return what each purpose takes, in the order of `PURPOSES`.

    Empty where the report does not say what variables are needed for.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    if not has_purposes(report):
        return ()
    found = purposes(report, source)
    peak = int(not_always_live_bytes(report, source).argmax()) if found.n_steps else None
    backward = backward_start(report)
    totals = []
    for number, item in enumerate(PURPOSES.values()):
        always, live = int(found.always_bytes[number]), found.live_bytes[number]
        most = int(live.argmax()) if found.n_steps else None
        totals.append(
            PurposeTotal(
                item.name,
                item.label,
                item.meaning,
                always,
                always + (0 if peak is None else int(live[peak])),
                always + (0 if most is None else int(live[most])),
                most,
                None if backward is None else always + int(live[backward]),
            )
        )
    return tuple(totals)


def purpose_total(report: Report, name: str, source: Source = "all") -> PurposeTotal | None:
    """Return what one purpose takes; None where the report does not say.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    return next((item for item in purpose_totals(report, source) if item.name == name), None)


def stored_activation_bytes(report: Report, source: Source = "all") -> int | None:
    """Return the activations that are live when the backward pass begins, bytes.

    None outside training, and where the report does not say what variables are needed for.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    total = purpose_total(report, "activation", source)
    return None if total is None else total.stored_bytes
