"""The parts of variables on tiles, by libpva's names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pva.explained import Explained
from pva.lazy import LazyList
from pva.variable import (
    BriefVariable,
    EquivalenceClass,
    LoweredVariable,
    StepInterval,
    Variable,
)
from tilescope.analyser.memory.lowered_variables import (
    tile_variables,
    variable_columns,
    variable_positions,
)
from tilescope.analyser.memory.variable_parts import parts

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["LoweredVariables", "lowered_variables"]

#: Parts whose columns become Python numbers at once.
_PARTS_AT_A_TIME = 1 << 14


class LoweredVariables(Explained):
    """The parts of variables on tiles."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def forTile(self, tile_id: int) -> LazyList[LoweredVariable]:
        """Return the parts on a tile by address."""
        return lowered_variables(self._opened, tile_variables(self._opened, tile_id).part_id)

    @cached_property
    def allBriefVars(self) -> LazyList[BriefVariable]:
        """All parts in order of their tiles; empty if the report holds none."""
        every = parts(self._opened)
        classes = [
            EquivalenceClass(number, (StepInterval(start, end),))
            for number, (start, end) in enumerate(every.class_steps.tolist())
        ]

        def make(index: int) -> BriefVariable:
            tile_id, size = int(every.tile_id[index]), int(every.bytes[index])
            return BriefVariable(index, size, tile_id, classes[int(every.class_id[index])])

        def walk() -> Iterator[BriefVariable]:
            for first in range(0, len(every), _PARTS_AT_A_TIME):
                rows = slice(first, first + _PARTS_AT_A_TIME)
                columns = (every.bytes, every.tile_id, every.class_id)
                values = zip(*(column[rows].tolist() for column in columns), strict=True)
                for number, (size, tile_id, class_id) in enumerate(values, start=first):
                    yield BriefVariable(number, size, tile_id, classes[class_id])

        return LazyList(len(every), make, is_kept=False, walk=walk)


def lowered_variables(opened: Opened, part_ids: NDArray[np.int64]) -> LazyList[LoweredVariable]:
    """Return some parts of variables, int64 of shape (n_parts,), in the order given."""
    every, known = parts(opened), variable_columns(opened)
    positions = variable_positions(opened, every.variable_id[part_ids].astype(np.int64))

    def make(index: int) -> LoweredVariable:
        part_id, position = int(part_ids[index]), int(positions[index])
        name, size = str(known["name"][position]), int(every.bytes[part_id])
        return LoweredVariable(
            part_id,
            name,
            size,
            int(every.offset[part_id]),
            int(every.tile_id[part_id]),
            bool(known["is_always_live"][position]),
            Variable(name, size),
        )

    return LazyList(len(part_ids), make, is_kept=False)
