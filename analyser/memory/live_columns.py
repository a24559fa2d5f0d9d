"""Variables that are live but not always at several steps, with a column for every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.memory.liveness import always_live_variables, step_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.machine.target import Source
    from tilescope.reports import Report

__all__ = ["AlwaysLiveRow", "LiveRow", "always_live_rows", "live_columns"]


@dataclass(frozen=True)
class LiveRow:
    """A variable that is live at one of several steps.

    Attributes
    ----------
    bytes
        Its size at every step on the tiles in question; None where it is not live.
    start_step, end_step
        Its lifetime around the first of them in liveness steps, half-open.
    """

    variable_id: int
    name: str
    category: str
    dtype: str
    shape: tuple[int, ...]
    start_step: int
    end_step: int
    bytes: tuple[int | None, ...]

    @property
    def max_bytes(self) -> int:
        """Its largest size at one of the steps."""
        return max((size for size in self.bytes if size is not None), default=0)


@dataclass(frozen=True)
class AlwaysLiveRow:
    """What is live at every step: a variable, or code or state with a negative ``number``.

    ``number`` is the id of a variable; no two rows have the same.
    """

    number: int
    name: str
    category: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


def always_live_rows(report: Report, source: Source = "all") -> tuple[AlwaysLiveRow, ...]:
    """Return what is always live, the largest first.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    variables = always_live_variables(report, source)
    columns = (
        variables.variable_id.tolist(),
        variables.name,
        variables.category,
        variables.dtype,
        variables.shape,
    )
    return tuple(
        AlwaysLiveRow(number if number >= 0 else -1 - index, name, category, dtype, shape, size)
        for index, (number, name, category, dtype, shape, size) in enumerate(
            zip(*columns, variables.bytes.tolist(), strict=True)
        )
    )


def live_columns(
    report: Report, steps: Sequence[int | None], source: Source = "all"
) -> tuple[LiveRow, ...]:
    """Return what is live but not always at some steps, the largest variables first.

    Parameters
    ----------
    report
        The report.
    steps
        Liveness steps; None for one that the report does not have.
    source
        All tiles, an IPU or a tile.

    Raises
    ------
    BadQuestion
        When a step, IPU or tile does not exist.
    """
    rows: dict[int, LiveRow] = {}
    for index, step in enumerate(steps):
        if step is None:
            continue
        live = step_variables(report, step, source)
        for row, (number, size) in enumerate(
            zip(live.variable_id.tolist(), live.bytes.tolist(), strict=True)
        ):
            known = rows.get(number)
            sizes = known.bytes if known else (None,) * len(steps)
            rows[number] = LiveRow(
                number,
                live.name[row],
                live.category[row],
                live.dtype[row],
                live.shape[row],
                known.start_step if known else int(live.start_step[row]),
                known.end_step if known else int(live.end_step[row]),
                (*sizes[:index], size, *sizes[index + 1 :]),
            )
    return tuple(sorted(rows.values(), key=lambda row: (-row.max_bytes, row.variable_id)))
