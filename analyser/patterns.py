"""Rows of arrays that hold a value per tile, read in blocks: scripts ask for neighbours."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["pattern"]

#: Rows read at once, the rows of a chunk.
_BLOCK_ROWS = 256
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
    number, place = divmod(row, _BLOCK_ROWS)
    blocks = _blocks(report, name)
    block = blocks.get(number)
    if block is None:
        first = number * _BLOCK_ROWS
        block = report.array(name).read(max(first, 0), first + _BLOCK_ROWS).astype(np.int64)
        block.flags.writeable = False
        blocks[number] = block
        while len(blocks) > max(1, _KEPT_BYTES // max(block.nbytes, 1)):
            blocks.popitem(last=False)
    if row < 0 or place >= len(block):
        n_rows = report.array(name).shape[0]
        raise BadQuestion(f"pattern {row} does not exist; this report has {n_rows} of them")
    values: NDArray[np.int64] = block[place]
    return values
