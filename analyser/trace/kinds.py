"""Kinds of slices in a trace: their stable numbers, names and letters.

The numbers stand in the binary answers of the web app, so they are only ever added to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["GROUP", "IDLE_LABEL", "KINDS", "RUN", "SliceKind", "classify"]


@dataclass(frozen=True)
class SliceKind:
    """One kind: ``name`` is stable, ``label`` for people, ``letter`` where colour is not enough."""

    number: int
    name: str
    label: str
    letter: str


KINDS: tuple[SliceKind, ...] = tuple(
    SliceKind(number, name, label, letter)
    for number, (name, label, letter) in enumerate(
        (
            ("compute", "Compute", "C"),
            ("exchange", "Internal exchange", "E"),
            ("global_exchange", "Global exchange", "G"),
            ("sync", "Sync", "S"),
            ("external_sync", "External sync", "X"),
            ("stream_begin", "Stream copy begin", "B"),
            ("stream_copy", "Stream copy", "T"),
            ("stream_end", "Stream copy end", "N"),
            ("other", "Other", "O"),
            ("group", "Group of steps", "–"),
            ("run", "Run", "R"),
        )
    )
)
_NUMBER = {kind.name: kind.number for kind in KINDS}
GROUP = _NUMBER["group"]
RUN = _NUMBER["run"]
IDLE_LABEL = "Idle"

_BY_PROGRAM = {
    "OnTileExecute": "compute",
    "DoExchange": "exchange",
    "GlobalExchange": "global_exchange",
    "Sync": "sync",
    "StreamCopyBegin": "stream_begin",
    "StreamCopyMid": "stream_copy",
    "StreamCopyEnd": "stream_end",
}


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
        (_NUMBER[_BY_PROGRAM.get(program, "other")] for program in programs),
        dtype=np.uint8,
        count=len(programs),
    )
    for step_id in external_sync_steps:
        if numbers[step_id] == _NUMBER["sync"]:
            numbers[step_id] = _NUMBER["external_sync"]
    return numbers
