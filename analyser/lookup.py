"""Things of a report by a few words: operations, variables, steps and tiles."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from tilescope.analyser.machine import target
from tilescope.analyser.operations import operations
from tilescope.analyser.programs import all_programs
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.variable_list import list_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilescope.reports import Report

__all__ = ["Match", "look_up"]


@dataclass(frozen=True)
class Match:
    """A thing that was found; ``what`` names it as `analyser.places.place_of` takes it."""

    kind: str
    label: str
    detail: str
    what: str


def look_up(report: Report, text: str, limit: int = 8) -> tuple[Match, ...]:
    """Return what all words of a text name, at most ``limit`` of a kind, the largest first.

    A number names a tile and a step.
    """
    words = text.lower().split()
    if not words:
        return ()
    kinds = (
        _numbered(report, text.strip()),
        _operations(report, words),
        _variables(report, words),
        _steps(report, words),
    )
    return tuple(match for matches in kinds for match in islice(matches, limit))


def _has_all(words: Sequence[str], text: str) -> bool:
    lowered = text.lower()
    return all(word in lowered for word in words)


def _numbered(report: Report, text: str) -> Iterator[Match]:
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
    if kind != "tile":
        for node in all_programs(report).values():
            if node.step_id == number:
                yield Match("Step", f"Step {number:,}", node.label, f"step:{number}")


def _operations(report: Report, words: Sequence[str]) -> Iterator[Match]:
    seen = set()
    for layer in ("onnx", "library"):
        for key, found in operations(report, layer).by_key.items():
            if key not in seen and _has_all(words, f"{found.name} {found.operation}"):
                seen.add(key)
                detail = f"{found.operation}, {found.cycles:,} cycles"
                yield Match("Operation", found.name, detail, f"operation:{key}")


def _variables(report: Report, words: Sequence[str]) -> Iterator[Match]:
    seen = set()
    for row in list_variables(report).rows:
        if row.name not in seen and _has_all(words, row.name):
            seen.add(row.name)
            yield Match("Variable", row.name, format_bytes(row.bytes), f"variable:{row.name}")


def _steps(report: Report, words: Sequence[str]) -> Iterator[Match]:
    for node in all_programs(report).values():
        if node.step_id is not None and _has_all(words, node.label):
            detail = f"step {node.step_id:,}"
            yield Match("Step", node.label, detail, f"step:{node.step_id}")
