"""Lists whose entries are made when they are looked at, each only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from tilescope.reports import damage_behind, explain_damage

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["LazyList", "set_print_length"]

T = TypeVar("T")

_print_length = [10]


def set_print_length(n_entries: int) -> None:
    """Set how many entries the text of a list shows."""
    _print_length[0] = n_entries


class LazyList(Sequence[T], Generic[T]):
    """A list of known length whose entries come from a function of their index.

    Parameters
    ----------
    length
        Number of entries.
    make
        Returns the entry of an index.
    is_kept
        Whether an entry that was made stays in memory; False for millions of small entries.
    walk
        Makes all entries in order, quicker than one by one; None if there is no quicker way.
    """

    def __init__(
        self,
        length: int,
        make: Callable[[int], T],
        *,
        is_kept: bool = True,
        walk: Callable[[], Iterator[T]] | None = None,
    ) -> None:
        self._length = length
        self._make = make
        self._is_kept = is_kept
        self._walk = walk
        self._kept: dict[int, T] = {}
        self._opened: Opened | None = None

    def explain_by(self, opened: Opened) -> None:
        """Explain unexpected errors of entries by damage of this report."""
        self._opened = opened

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._entry(position) for position in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"index {index} is outside a list of {self._length}")
        return self._entry(position)

    def __iter__(self) -> Iterator[T]:
        if self._walk is None:
            return (self._entry(index) for index in range(self._length))
        return self._walk() if self._opened is None else self._explained_walk(self._opened)

    def _explained_walk(self, opened: Opened) -> Iterator[T]:
        assert self._walk is not None
        with explain_damage(opened):
            yield from self._walk()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LazyList | list):
            return NotImplemented
        return self is other or (
            len(self) == len(other)
            and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self._length, *islice(self, 3)))

    def __repr__(self) -> str:
        entries = ", ".join(repr(entry) for entry in self[: _print_length[0]])
        return f"[{entries}{', ...' if self._length > _print_length[0] else ''}]"

    def _entry(self, index: int) -> T:
        """Return an entry, the same one every time if entries are kept."""
        if index in self._kept:
            return self._kept[index]
        try:
            entry = self._make(index)
        except Exception as error:
            damage = None if self._opened is None else damage_behind(error, self._opened)
            if damage is not None:
                raise damage from error
            raise
        if self._is_kept:
            self._kept[index] = entry
        return entry
