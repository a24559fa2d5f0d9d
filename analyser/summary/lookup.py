"""Things of a report by a few words: operations, variables, steps and tiles."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.variable_list import list_variables
from tilescope.analyser.program.operations import CALL_LAYERS, operations
from tilescope.analyser.program.program_tree import all_programs
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.search import search_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tilescope.reports import Report

__all__ = ["Match", "look_up"]


@dataclass(frozen=True)
class Match:
    """A thing that was found; ``what`` names it as `analyser.places.place_of` takes it."""

    kind: str
    label: str
    detail: str
    what: str


class _Things:
    """Things of a kind, the largest first, which one pass over their joined texts finds."""

    def __init__(self, matches: Iterable[tuple[str, Match]]) -> None:
        rows = [(text.lower().replace("\n", " "), match) for text, match in matches]
        self._texts = [text for text, _ in rows]
        self._matches = [match for _, match in rows]
        self._joined = "\n".join(self._texts)
        self._starts = [0, *accumulate(len(text) + 1 for text in self._texts)]

    def having(self, words: Sequence[str]) -> Iterator[Match]:
        """Yield those whose text holds all words."""
        rarest = max(words, key=len)
        start = self._joined.find(rarest)
        while start >= 0:
            row = bisect_right(self._starts, start) - 1
            if all(word in self._texts[row] for word in words):
                yield self._matches[row]
            start = self._joined.find(rarest, self._starts[row + 1])


@dataclass(frozen=True)
class _Index:
    """All things of a report."""

    kinds: tuple[_Things, ...]
    step_by_number: dict[int, Match]


def look_up(report: Report, text: str, limit: int = 8) -> tuple[Match, ...]:
    """Return what all words of a text name, at most ``limit`` of a kind, the largest first.

    A number names a tile and a step.
    """
    words = search_words(text)
    if not words:
        return ()
    index = _index(report)
    kinds = (
        _numbered(report, index, text.strip()),
        *(kind_index.having(words) for kind_index in index.kinds),
    )
    return tuple(match for matches in kinds for match in islice(matches, limit))


def _numbered(report: Report, index: _Index, text: str) -> Iterator[Match]:
    """Yield the tile and the step of a number, such as ``12``, ``tile 12`` or ``step 1,234``."""
    kind, _, digits = text.lower().rpartition(" ")
    digits = digits.replace(",", "")
    if kind not in {"", "tile", "step"} or not (digits.isascii() and digits.isdigit()):
        return
    number = int(digits[:10])
    machine = target(report)
    if kind != "step" and number < machine.n_tiles:
        ipu = f"IPU {number // machine.tiles_per_ipu}"
        yield Match("Tile", f"Tile {number:,}", ipu, f"tile:{number}")
    if kind != "tile" and number in index.step_by_number:
        yield index.step_by_number[number]


@cached
def _index(report: Report) -> _Index:
    """Return the index of a report, built once while it is open."""
    operation: dict[str, tuple[str, Match]] = {}
    for layer in CALL_LAYERS:
        for key, item in operations(report, layer).by_key.items():
            detail = f"{item.operation}, {item.cycles:,} cycles"
            match = Match("Operation", item.name, detail, f"operation:{key}")
            operation.setdefault(key, (f"{item.name} {item.operation}", match))
    variable: dict[str, tuple[str, Match]] = {}
    for row in list_variables(report).rows:
        match = Match("Variable", row.name, format_bytes(row.bytes), f"variable:{row.name}")
        variable.setdefault(row.name, (row.name, match))
    step: list[tuple[str, Match]] = []
    by_number: dict[int, Match] = {}
    for node in all_programs(report).values():
        if node.step_id is None:
            continue
        number, subject = f"{node.step_id:,}", f"step:{node.step_id}"
        step.append((node.label, Match("Step", node.label, f"step {number}", subject)))
        by_number.setdefault(node.step_id, Match("Step", f"Step {number}", node.label, subject))
    kinds = (_Things(operation.values()), _Things(variable.values()), _Things(step))
    return _Index(kinds, by_number)
