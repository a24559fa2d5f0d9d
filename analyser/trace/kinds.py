"""Kinds of slices in a trace: which kind the slice of every step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.reports.schema.vocabulary import PROGRAM_KINDS, SLICE_KINDS, SliceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["GROUP", "IDLE_LABEL", "KINDS", "RUN", "SliceKind", "classify", "kind_numbers"]

#: All kinds in order of their number.
KINDS: tuple[SliceKind, ...] = tuple(SLICE_KINDS.values())
GROUP = SLICE_KINDS["group"].number
RUN = SLICE_KINDS["run"].number
IDLE_LABEL = "Idle"


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


def kind_numbers(names: Collection[str]) -> list[int]:
    """Return the numbers of kinds of steps.

    Raises
    ------
    BadQuestion
        For a name that is not one.
    """
    known = {kind.name: kind.number for kind in KINDS if kind.number < GROUP}
    for name in names:
        if name not in known:
            raise BadQuestion(f"unknown kind '{name[:40]}'; use {', '.join(known)}")
    return [known[name] for name in names]
