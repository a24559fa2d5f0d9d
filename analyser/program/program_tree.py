"""The tree of programs: its nodes, their children, what is around and inside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.validation import require, require_known
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import PROGRAM_KINDS, phase_of

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "ProgramNode",
    "all_programs",
    "ancestors",
    "child_ids",
    "inside_ids",
    "n_programs",
    "program",
]

#: A tree deeper than this is not one that a compiler makes.
_MAX_DEPTH = 10_000


@dataclass(frozen=True)
class ProgramNode:
    """A program of the tree.

    ``phase`` groups kinds as pages colour them: one of ``vocabulary.PHASES``, or ``control`` for
    programs that only contain others.
    """

    program_id: int
    parent_id: int | None
    position: int
    root_kind: str
    root_index: int
    kind: str
    name: str
    n_children: int
    repeat_count: int
    n_tiles: int
    code_bytes: int
    step_id: int | None
    compute_set_id: int | None
    debug_context_id: int | None
    pipeline_part: str | None = None
    pipeline_stages: str | None = None

    @property
    def label(self) -> str:
        """PopVision's label, ``Kind (name)``; the kind alone for a nameless program."""
        return f"{self.kind} ({self.name})" if self.name else self.kind

    @property
    def phase(self) -> str:
        """What it counts as in time; ``control`` for programs that hold others."""
        return phase_of(self.kind)


def program(report: Report, program_id: int) -> ProgramNode:
    """Return one program, from all of them: quick for scripts that ask for many.

    Raises
    ------
    BadQuestion
        When the program does not exist.
    """
    every = all_programs(report)
    if program_id not in every:
        raise _no_such(report, program_id)
    return every[program_id]


def n_programs(report: Report) -> int:
    """Return how many programs the tree has."""
    return len(_tree(report)[0])


def child_ids(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the ids of the children of every program that has some, in order."""
    return _tree(report)[1]


def inside_ids(report: Report, program_id: int) -> list[int]:
    """Return the ids of a program and of all programs in it."""
    below, inside = child_ids(report), [program_id]
    for item in inside:
        inside += below.get(item, ())
    return inside


def ancestors(report: Report, program_id: int) -> tuple[int, ...]:
    """Return the programs around one, from the root to its parent.

    Raises
    ------
    BadQuestion
        When the program does not exist.
    DamagedReport
        When the parent of a program does not exist.
    """
    parents = _tree(report)[0]
    if program_id not in parents:
        raise _no_such(report, program_id)
    chain: list[int] = []
    parent = parents[program_id]
    while parent is not None and len(chain) < _MAX_DEPTH:
        require(report, parent in parents, f"program {parent} does not exist")
        chain.append(parent)
        parent = parents[parent]
    return tuple(reversed(chain))


@cached
def all_programs(report: Report) -> dict[int, ProgramNode]:
    """Return every program by id, parents before their children; for scripts that walk them all."""
    kinds = report.column(schema.program, "kind")
    require_known(report, kinds, PROGRAM_KINDS, "{} is not a kind of program")
    rows = report.rows(schema.program, *ProgramNode.__dataclass_fields__)
    return {row[0]: ProgramNode(*row) for row in rows}


@cached
def _tree(report: Report) -> tuple[dict[int, int | None], dict[int, tuple[int, ...]]]:
    """Return the parent of every program, and the ids of the children of those that have some."""
    rows = report.rows(schema.program, "program_id", "parent_id", "position")
    rows.sort(key=lambda row: row[2])
    parents = {program_id: parent_id for program_id, parent_id, _ in rows}
    below: dict[int, list[int]] = {}
    for program_id, parent_id, _ in rows:
        if parent_id is not None:
            below.setdefault(parent_id, []).append(program_id)
    return parents, {parent: tuple(ids) for parent, ids in below.items()}


def _no_such(report: Report, program_id: int) -> BadQuestion:
    """Return the error for an unknown program."""
    number = n_programs(report)
    if not number:
        return BadQuestion("this report has no programs; it was written without a graph profile")
    return BadQuestion(f"program {program_id} does not exist; this report has {number} programs")
