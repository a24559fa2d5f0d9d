"""Programs that belong together: those of the same debug context in a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.contexts import LEVELS, DebugContext, contexts, enclosing
from tilescope.analyser.program.program_tree import all_programs, program

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Associated", "associated_programs"]


@dataclass(frozen=True)
class Associated:
    """The programs of a debug context; ``context`` is None for a program without one."""

    context: DebugContext | None
    program_ids: tuple[int, ...]


def associated_programs(report: Report, program_id: int, layer: str) -> Associated:
    """Return the programs of the context of a layer that a program belongs to, in program order.

    The context is the innermost one of that layer around the program; all programs in it belong
    together.

    Parameters
    ----------
    report
        The report.
    program_id
        The program.
    layer
        One of `LEVELS`.

    Raises
    ------
    BadQuestion
        When the program or the layer does not exist.
    """
    if layer not in LEVELS:
        raise BadQuestion(f"unknown layer {layer[:40]!r}; expected one of {', '.join(LEVELS)}")
    around = enclosing(report, program(report, program_id).debug_context_id)
    context = next((item for item in around if item.level == layer), None)
    if context is None:
        return Associated(None, ())
    return Associated(context, _inside(report).get(context.debug_context_id, ()))


@cached
def _inside(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the programs in every context, those of contexts in it included."""
    every = contexts(report)
    inside_ids: dict[int, list[int]] = {}
    for number, program_ in all_programs(report).items():
        context_id = program_.debug_context_id
        while context_id is not None and context_id in every:
            inside_ids.setdefault(context_id, []).append(number)
            context_id = every[context_id].parent_id
    return {context_id: tuple(numbers) for context_id, numbers in inside_ids.items()}
