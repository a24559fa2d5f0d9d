"""Lists whose entries are made when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

__all__ = ["LazyList", "set_print_length"]

T = TypeVar("T")

_print_length = [10]


def set_print_length(n_entries: int) -> None:
    """Set how many entries the text of a list shows."""
    _print_length[0] = n_entries


class LazyList(Sequence[T], Generic[T]):
    """A list of known length whose entries come from a function of their index."""

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._make(each) for each in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"index {index} is outside a list of {self._length}")
        return self._make(position)

    def __iter__(self) -> Iterator[T]:
        return (self._make(index) for index in range(self._length))

    def __repr__(self) -> str:
        shown = ", ".join(repr(each) for each in self[: _print_length[0]])
        return f"[{shown}{', ...' if self._length > _print_length[0] else ''}]"
