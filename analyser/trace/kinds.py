"""Kinds of slices in a trace, by the names that questions give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.analyser.errors import BadQuestion
from tilescope.reports.bars.kinds import GROUP, KINDS

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["IDLE_LABEL", "kind_numbers"]

IDLE_LABEL = "Idle"


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
