"""Kinds of slices in a trace: which kind the slice of every step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.reports.schema.vocabulary import PROGRAM_KINDS, SLICE_KINDS, SliceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["GROUP", "KINDS", "RUN", "classify"]

#: All kinds in order of their number.
KINDS: tuple[SliceKind, ...] = tuple(SLICE_KINDS.values())
GROUP = SLICE_KINDS["group"].number
RUN = SLICE_KINDS["run"].number


def classify(programs: Sequence[str], external_sync_steps: Collection[int]) -> np.ndarray:
    """Return the kind number of every step.

    Parameters
    ----------
    programs
        Kind of program of each step, such as ``OnTileExecute``.
    external_sync_steps
        Steps whose sync spans IPUs.

    Returns
    -------
    ndarray of uint8, shape (n_steps,)
        Index into ``KINDS``.
    """
    numbers = np.fromiter(
        (SLICE_KINDS[PROGRAM_KINDS[program].slice].number for program in programs),
        dtype=np.uint8,
        count=len(programs),
    )
    for step_id in external_sync_steps:
        if numbers[step_id] == SLICE_KINDS["sync"].number:
            numbers[step_id] = SLICE_KINDS["external_sync"].number
    return numbers
