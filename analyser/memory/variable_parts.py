"""Parts of variables over all tiles: which live at the same steps, which a program uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.memory.lowered_variables import first_parts
from tilescope.analyser.program.program_tree import program

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Parts", "parts", "program_parts"]


@dataclass(frozen=True)
class Parts:
    """All parts of variables in order of tile, one entry a part; its number is its place.

    Attributes
    ----------
    variable_id, tile_id, start_step, end_step, class_id : ndarray of int32, shape (n_parts,)
        Steps are those of the liveness report, half-open; parts of a class live at the same steps.
    offset, bytes : ndarray of int64, shape (n_parts,), bytes
    class_steps : ndarray of int64, shape (n_classes, 2)
        First step and the first after, of every class.
    """

    variable_id: NDArray[np.int32]
    tile_id: NDArray[np.int32]
    offset: NDArray[np.int64]
    bytes: NDArray[np.int64]
    start_step: NDArray[np.int32]
    end_step: NDArray[np.int32]
    class_id: NDArray[np.int32]
    class_steps: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.variable_id)


@cached
def parts(report: Report) -> Parts:
    """Return all parts of variables.

    Raises
    ------
    DamagedReport
        When the parts are not in order of tile.
    """
    starts = first_parts(report)
    names = ("variable_id", "offset", "bytes", "start_step", "end_step")
    column = {name: report.array(f"lowered.{name}").read() for name in names}
    first, end = column["start_step"].astype(np.int64), column["end_step"].astype(np.int64)
    keys, class_id = np.unique((first << 32) | end, return_inverse=True)
    return Parts(
        tile_id=np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts)),
        class_id=class_id.reshape(-1).astype(np.int32),
        class_steps=np.stack([keys >> 32, keys & 0xFFFF_FFFF], axis=1),
        **column,
    )


@cached
def _by_variable(report: Report) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the variables of all parts, sorted, and the parts in that order."""
    variable_id = parts(report).variable_id
    order = np.argsort(variable_id, kind="stable")
    return variable_id[order], order


@cached
def _uses(report: Report) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the programs and the variables that each reads or writes, sorted by program."""
    program_id = report.array("program_variable.program_id").read()
    variable_id = report.array("program_variable.variable_id").read()
    return program_id, variable_id


def program_parts(report: Report, program_ids: Iterable[int]) -> NDArray[np.int64]:
    """Return the parts of variables that some programs read or write, each once, ascending.

    Of a variable that lives several times only the parts of the lives in which a program uses it.

    Returns
    -------
    ndarray of int64, shape (n,)
        Places in ``parts``.

    Raises
    ------
    BadQuestion
        When a program does not exist.
    """
    every = parts(report)
    users, used = _uses(report)
    sorted_ids, order = _by_variable(report)
    is_used = np.zeros(len(every), dtype=np.bool_)
    for program_id in program_ids:
        step = program(report, program_id).step_id
        first, stop = np.searchsorted(users, (program_id, program_id + 1)).tolist()
        for variable_id in used[first:stop].tolist():
            low, high = np.searchsorted(sorted_ids, (variable_id, variable_id + 1)).tolist()
            result = order[low:high]
            if step is not None:
                lives = (every.start_step[result] <= step) & (step < every.end_step[result])
                result = result[lives] if lives.any() else result
            is_used[result] = True
    return np.flatnonzero(is_used)
