"""Rows of arrays that hold a value per tile, read in blocks: scripts ask for neighbours."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["PatternTotals", "pattern", "pattern_totals"]

#: Rows read at once, the rows of a chunk.
_BLOCK_ROWS = 256
#: So many columns are read one by one; more are cut out of whole blocks.
_FEW_COLUMNS = 16
#: Memory that the blocks of one array may take, bytes.
_KEPT_BYTES = 48 << 20


@cached
def _blocks(_report: Report, _name: str) -> OrderedDict[int, NDArray[np.int64]]:
    """Return where the last blocks of an array are kept, by number."""
    return OrderedDict()


def pattern(report: Report, name: str, row: int) -> NDArray[np.int64]:
    """Return a row of an array per tile, read-only, int64 of shape (n_columns,).

    Raises
    ------
    BadQuestion
        When the row does not exist.
    """
    number, row_in_block = divmod(row, _BLOCK_ROWS)
    blocks = _blocks(report, name)
    block = blocks.get(number)
    if block is None:
        first = number * _BLOCK_ROWS
        block = report.array(name).read(max(first, 0), first + _BLOCK_ROWS).astype(np.int64)
        block.flags.writeable = False
        blocks[number] = block
        while len(blocks) > max(1, _KEPT_BYTES // max(block.nbytes, 1)):
            blocks.popitem(last=False)
    if row < 0 or row_in_block >= len(block):
        n_rows = report.array(name).shape[0]
        raise BadQuestion(f"pattern {row} does not exist; this report has {n_rows} of them")
    values: NDArray[np.int64] = block[row_in_block]
    return values


@dataclass(frozen=True, eq=False)
class PatternTotals:
    """Rows of an array per tile over some of its columns.

    Attributes
    ----------
    sums, largest : ndarray of int64, shape (n_rows,)
        Sum and largest value of every row.
    n_used : ndarray of int64, shape (n_rows,)
        Columns with a value other than 0.
    """

    sums: NDArray[np.int64]
    largest: NDArray[np.int64]
    n_used: NDArray[np.int64]


@cached
def pattern_totals(report: Report, name: str, columns: tuple[int, ...] = ()) -> PatternTotals:
    """Return every row of an array per tile over some columns, all of them if none is given."""
    packed = report.array(name)
    n_rows = packed.shape[0]
    totals = PatternTotals(*(np.zeros(n_rows, dtype=np.int64) for _ in range(3)))

    def add(rows: slice, values: NDArray[np.int64]) -> None:
        totals.sums[rows] += values.sum(axis=1)
        totals.n_used[rows] += np.count_nonzero(values, axis=1)
        largest = values.max(axis=1, initial=0)
        np.maximum(totals.largest[rows], largest, out=totals.largest[rows])

    if 0 < len(columns) <= _FEW_COLUMNS:
        for column in columns:
            add(slice(None), packed.column(column).astype(np.int64)[:, None])
        return totals
    picked = np.array(columns, dtype=np.intp) if columns else slice(None)
    for first in range(0, n_rows, _BLOCK_ROWS):
        rows = slice(first, min(first + _BLOCK_ROWS, n_rows))
        add(rows, packed.read(rows.start, rows.stop).astype(np.int64)[:, picked])
    return totals
