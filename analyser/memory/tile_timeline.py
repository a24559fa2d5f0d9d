"""Memory of a tile over time: every part of a variable at its address, from birth to death."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.absence import absence
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.liveness import liveness_step_ids, peak_step
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["CODE", "Gap", "TileMap", "tile_map"]

#: Name and category of the block of code and state, which belongs to no variable.
CODE = "Code and state"


@dataclass(frozen=True)
class Gap:
    """Free bytes below something that lives at a step.

    ``below`` and ``above`` are the numbers of the blocks that end and begin there; ``below`` is
    None at address 0. What lies above keeps the gap from being free memory at the top.
    """

    offset_bytes: int
    bytes: int
    below: int | None
    above: int


@dataclass(frozen=True, eq=False)
class TileMap:
    """What lies at which address of a tile, at which liveness steps; one entry a block.

    Attributes
    ----------
    n_steps
        Liveness steps of the program.
    peak_step
        First step at which the tile holds most.
    capacity_bytes, non_interleaved_bytes
        Memory of the tile, and where its interleaved region begins.
    unplaced_bytes
        Code and state whose address the report does not tell; 0 if they are a block.
    variable_id : ndarray of int64, shape (n_blocks,)
        -1 for code and state.
    offset_bytes, bytes : ndarray of int64, shape (n_blocks,), bytes
    start_step, end_step : ndarray of int64, shape (n_blocks,)
        Half-open.
    is_always_live : ndarray of bool, shape (n_blocks,)
    name, category
        One entry a block; the category is a name of ``memory_category``, or `CODE`.
    """

    tile_id: int
    n_steps: int
    peak_step: int
    capacity_bytes: int
    non_interleaved_bytes: int
    unplaced_bytes: int
    variable_id: NDArray[np.int64]
    name: tuple[str, ...]
    category: tuple[str, ...]
    offset_bytes: NDArray[np.int64]
    bytes: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]
    is_always_live: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self.variable_id)

    def live_at(self, step: int) -> NDArray[np.int64]:
        """Return the numbers of the blocks that live at a step, int64, by address.

        Raises
        ------
        BadQuestion
            When the step does not exist.
        """
        if not 0 <= step < self.n_steps:
            raise BadQuestion(
                f"step {step} does not exist; this report has liveness steps 0 to"
                f" {self.n_steps - 1}"
            )
        live = np.flatnonzero((self.start_step <= step) & (step < self.end_step))
        order = np.argsort(self.offset_bytes[live], kind="stable")
        return live[order].astype(np.int64)

    def gaps_at(self, step: int) -> tuple[Gap, ...]:
        """Return the gaps between what lives at a step, by address.

        Raises
        ------
        BadQuestion
            When the step does not exist.
        """
        gaps: list[Gap] = []
        end, below = 0, None
        for block in self.live_at(step).tolist():
            offset = int(self.offset_bytes[block])
            if offset > end:
                gaps.append(Gap(end, offset - end, below, block))
            if offset + int(self.bytes[block]) >= end:
                end, below = offset + int(self.bytes[block]), block
        return tuple(gaps)

    @cached_property
    def heights(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Steps at which blocks are born or die, and the highest address in use from there on.

        Two ndarrays of int64 of equal length: ascending steps from 0, and bytes.
        """
        steps = np.unique(np.concatenate([[0], self.start_step, self.end_step]))
        steps = steps[steps < max(self.n_steps, 1)]
        top = np.zeros(len(steps), dtype=np.int64)
        ends = self.offset_bytes + self.bytes
        first, last = np.searchsorted(steps, self.start_step), np.searchsorted(steps, self.end_step)
        # The highest block comes last and overwrites the lower ones.
        for block in np.argsort(ends, kind="stable").tolist():
            top[first[block] : last[block]] = ends[block]
        return steps.astype(np.int64), top


@cached
def tile_map(report: Report, tile: int) -> TileMap:
    """Return the memory of a tile over time.

    Code and state lie below all variables; where the report's addresses contradict that, they
    have no block, and `TileMap.unplaced_bytes` says how much there is of them.

    Raises
    ------
    BadQuestion
        When the machine has no such tile, or the report holds no liveness.
    """
    parts, machine = tile_variables(report, tile), target(report)
    n_steps = len(liveness_step_ids(report))
    peak = peak_step(report, ("tile", tile))
    if peak is None:
        raise BadQuestion(absence(report, "liveness"))
    code_bytes = _code_bytes(report, tile)
    is_placed = 0 < code_bytes <= int(parts.offset_bytes.min(initial=machine.bytes_per_tile))

    def joined(first: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([np.array([first] * is_placed, dtype=np.int64), values])

    always = parts.is_always_live
    return TileMap(
        tile,
        n_steps,
        peak,
        machine.capacity_bytes,
        machine.non_interleaved_bytes,
        0 if is_placed else code_bytes,
        joined(-1, parts.variable_id),
        (CODE,) * is_placed + parts.name,
        (CODE,) * is_placed + parts.category,
        joined(0, parts.offset_bytes),
        joined(code_bytes, parts.bytes),
        joined(0, np.where(always, 0, parts.start_step)),
        joined(n_steps, np.where(always, n_steps, parts.end_step)),
        np.concatenate([np.ones(int(is_placed), np.bool_), always]),
    )


def _code_bytes(report: Report, tile: int) -> int:
    """Return the bytes of code and state on a tile."""
    by_category = category_bytes(report)[:, tile]
    rows = [
        row
        for row, category in enumerate(categories(report))
        if not MEMORY_CATEGORY[category.name].is_variable
    ]
    return int(by_category[rows].sum())
