"""Vertices that look rows of a sparse table up, and add to them, in buckets of single values.

Laws: instructions of graphcore/poplibs sdk-release-3.4, lib/popsparse/codelets/asm:
SparseDenseMultiSliceElementWise.S; its estimators return 0. Every row of the tile's part is
compared with all look-ups, which the workers share. Rows that are found are counted while the
program runs. Assumptions: workers find equally many; 20 instructions around the loops; an update
reads, multiplies, adds and writes a value in 3 instructions more than a look-up copies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, worker_share
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["LOOK_UP", "UPDATE"]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popsparse/codelets/asm"
#: What a vertex counts, in one number: values, rows that are found, and rows of the part.
_FOUND, _ROWS = 1 << 24, 1 << 44
#: Instructions: around the loops, of a row, of a row and a look-up.
_AROUND, _PER_ROW, _PER_PAIR = 20, 10, 5
#: Instructions of a row that is found, and of a value, by bytes of an element.
_PER_FOUND, _PER_VALUE = {2: 7, 4: 4}, {2: 10, 4: 5}
#: Instructions of a value that an update has more.
_UPDATED = 3


def _kernel(*, is_update: bool) -> Any:
    @jit
    def walk(values, places, lookups, slices, part, first_row, width, scale):  # type: ignore[no-untyped-def]
        place, slot, rows, found, copied = 0, 0, 0, 0, 0
        while place < places.size and places[place] != 0:
            is_own = places[place] == part + 1
            n_rows = int(places[place + 1])
            place += 2
            if is_own:
                rows += n_rows
            for _ in range(n_rows):
                row, n_values = int(places[place]) + first_row, int(places[place + 1])
                place += 2
                if is_own:
                    for k in range(lookups.size):
                        if lookups[k] != row:
                            continue
                        found += 1
                        copied += n_values
                        for v in range(n_values):
                            to = k * width + int(places[place + v])
                            if is_update:
                                values[slot + v] += scale * slices[to]
                            else:
                                slices[to] = values[slot + v]
                place += n_values
                slot += n_values
        return rows * _ROWS + found * _FOUND + copied

    if is_update:

        @jit
        def update(values, places, lookups, slices, scale, part, first_row, width):  # type: ignore[no-untyped-def]
            return walk(values, places, lookups, slices, part, first_row, width, scale[0])

        return update

    @jit
    def look_up(values, places, lookups, slices, part, first_row, width):  # type: ignore[no-untyped-def]
        return walk(values, places, lookups, slices, part, first_row, width, 1)

    return look_up


def _codelet(name: str, *, is_update: bool) -> Codelet:
    def law(batch: Batch, machine: Machine) -> Counts:
        counts, item = batch.counts, batch.item_bytes["values"]
        rows, found, values = counts // _ROWS, counts % _ROWS // _FOUND, counts % _FOUND
        pairs = rows * worker_share(batch.size["lookups"][:, 0], machine)
        worker = _AROUND + rows * _PER_ROW + pairs * _PER_PAIR
        worker = worker + worker_share(found, machine) * _PER_FOUND[item]
        per_value = _PER_VALUE[item] + _UPDATED * is_update
        worker = worker + worker_share(values, machine) * per_value
        return np.asarray(machine.n_worker_contexts * worker)

    def flops(batch: Batch) -> Counts:
        return np.asarray(2 * is_update * (batch.counts % _FOUND))

    scale = (Field("scale", "in", dtype="float32"),) if is_update else ()
    return Codelet(
        f"popsparse::SparseDenseMulti{name}ElementWise",
        (
            Field("values", "inout" if is_update else "in"),
            Field("places", "in", dtype="uint16"),
            Field("lookups", "in", dtype="int32"),
            Field("slices", "in" if is_update else "inout", dtype_of="values"),
            *scale,
        ),
        _kernel(is_update=is_update),
        law,
        code_bytes=360,
        source=_SOURCE,
        scalars=(Scalar("part"), Scalar("first_row"), Scalar("width")),
        flops=flops,
        is_data_dependent=True,
    )


#: Copies the values of rows to slices, which keep what they hold elsewhere.
LOOK_UP = _codelet("Slice", is_update=False)
#: Adds slices, times a scale, to the values of rows.
UPDATE = _codelet("UpdateAdd", is_update=True)
