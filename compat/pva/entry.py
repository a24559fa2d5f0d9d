"""Identity of what a report holds: two looks at one thing are equal and hash alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pva.explained import Explained

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["Entry"]


class Entry(Explained):
    """Something in a report, known by its numbers there."""

    def __init__(self, opened: Opened, *identity: int) -> None:
        self._opened = opened
        self._identity = identity

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Entry)
            and type(other) is type(self)
            and other._opened is self._opened
            and other._identity == self._identity
        )

    def __hash__(self) -> int:
        return hash((type(self), id(self._opened), self._identity))
