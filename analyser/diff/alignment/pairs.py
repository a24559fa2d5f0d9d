"""Two reports' things with a key, side by side: what one side lacks is None."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Pair",
    "SizeChange",
    "by_change",
    "matching_rows",
    "paired_rows",
    "pairs",
    "size_changes",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Pair(Generic[T]):
    """A thing on the sides that have it."""

    key: str
    baseline: T | None
    candidate: T | None

    @property
    def known(self) -> T:
        """The thing on the first side that has it."""
        known_side = self.candidate if self.baseline is None else self.baseline
        assert known_side is not None
        return known_side


@dataclass(frozen=True)
class SizeChange:
    """A number on both sides; ``delta`` is candidate minus baseline, a missing side counts 0."""

    key: str
    baseline: int | None
    candidate: int | None

    @property
    def delta(self) -> int:
        """Candidate minus baseline."""
        return (self.candidate or 0) - (self.baseline or 0)


def pairs(baseline: Mapping[str, T], candidate: Mapping[str, T]) -> tuple[Pair[T], ...]:
    """Return all keys of two mappings with both values, the order of the baseline first."""
    return tuple(
        Pair(key, baseline.get(key), candidate.get(key))
        for key in dict.fromkeys((*baseline, *candidate))
    )


def size_changes(
    baseline: Mapping[str, int], candidate: Mapping[str, int]
) -> tuple[SizeChange, ...]:
    """Return all keys of two mappings with both numbers, the largest change first."""
    changes = [
        SizeChange(pair.key, pair.baseline, pair.candidate) for pair in pairs(baseline, candidate)
    ]
    return tuple(sorted(changes, key=lambda change: -abs(change.delta)))


def matching_rows(
    baseline: Report,
    candidate: Report,
    list_rows: Callable[[Report, str], Sequence[T]],
    text: str,
) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
    """Return all rows of both sides, and those of either that match a text.

    Parameters
    ----------
    baseline, candidate
        The reports.
    list_rows
        Rows of a report that match a text, all of them for an empty one.
    text
        What is searched for.
    """
    before, after = list_rows(baseline, ""), list_rows(candidate, "")
    if not text.strip():
        return before, after, (*before, *after)
    return before, after, (*list_rows(baseline, text), *list_rows(candidate, text))


class _Named(Protocol):
    """A row with a name."""

    @property
    def name(self) -> str:
        """Name of what the row is about."""


NamedT = TypeVar("NamedT", bound=_Named)


def paired_rows(
    baseline: Sequence[NamedT],
    candidate: Sequence[NamedT],
    matching: Sequence[NamedT],
    *,
    number: Callable[[NamedT], int],
    partners: Mapping[int, int],
    fallback: Callable[[NamedT], Hashable] = lambda _: None,
) -> list[Pair[NamedT]]:
    """Return the rows of two sides that match on one of them, paired by name; those of one, too.

    Parameters
    ----------
    baseline, candidate
        All rows of both sides.
    matching
        Rows of either side that match.
    number
        Identity of a row on its side.
    partners
        The candidate's number for that of the baseline, where both have the row.
    fallback
        What a row without a partner must share with another to be the same; None to share nothing.
    """
    rest = {number(row): row for row in candidate}
    left = {fallback(row): row for row in candidate if fallback(row) is not None}
    matching_keys = set(matching)
    used: set[int] = set()
    results = []
    for row in baseline:
        partner = rest.get(partners[number(row)]) if number(row) in partners else None
        if partner is None and fallback(row) is not None:
            partner = left.get(fallback(row))
        if partner is not None:
            used.add(number(partner))
        if row in matching_keys or partner in matching_keys:
            results.append(Pair(row.name, row, partner))
    results += [
        Pair(row.name, None, row)
        for row in candidate
        if number(row) not in used and row in matching_keys
    ]
    return results


def by_change(results: Sequence[Pair[T]], size: Callable[[T], int]) -> tuple[Pair[T], ...]:
    """Return pairs by the size of their change, largest first; a missing side counts 0."""

    def change(pair: Pair[T]) -> int:
        before, after = (size(row) if row else 0 for row in (pair.baseline, pair.candidate))
        return abs(after - before)

    return tuple(sorted(results, key=lambda pair: -change(pair)))
