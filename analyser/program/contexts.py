"""Debug contexts: who asked for a variable, a compute set or a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tilescope.analyser.cache import cached
from tilescope.analyser.validation import require
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import ENGINE_LAYERS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["LEVELS", "DebugContext", "Level", "contexts", "enclosing", "location"]


#: Layers of debug contexts: the model's nodes, the library calls that they became, what these are
#: made of.
Level: TypeAlias = Literal["model", "library", "poplar"]
#: The layers, the outermost first.
LEVELS: tuple[Level, ...] = ("model", "library", "poplar")


@dataclass(frozen=True)
class DebugContext:
    """Who asked; ``detail`` holds the call's arguments as JSON.

    ``layer`` is library, poplar, or the name of the model's front end, such as onnx, and
    ``weights_digest`` is of its constant operands, None without any. ``training_pass`` is what an
    operation belongs to in a training step, None outside training and for what is inside it;
    ``origin_id`` is the forward operation that a gradient belongs to.
    """

    debug_context_id: int
    parent_id: int | None
    layer: str
    name: str
    operation: str
    detail: str
    weights_digest: str | None = None
    training_pass: str | None = None
    origin_id: int | None = None

    @property
    def level(self) -> Level:
        """The layer, ``model`` for that of any front end."""
        return (
            "library"
            if self.layer == "library"
            else ("poplar" if self.layer in ENGINE_LAYERS else "model")
        )


@cached
def contexts(report: Report) -> dict[int, DebugContext]:
    """Return every debug context by id, parents before what is inside them.

    Raises
    ------
    DamagedReport
        When a context stands in a later one, or in an unknown one.
    """
    contexts_: dict[int, DebugContext] = {}
    for row in report.rows(schema.debug_context, *DebugContext.__dataclass_fields__):
        context = DebugContext(*row)
        is_there = context.parent_id is None or context.parent_id in contexts_
        require(report, is_there, f"debug context {context.parent_id} does not exist")
        contexts_[context.debug_context_id] = context
    return contexts_


def enclosing(report: Report, context_id: int | None) -> tuple[DebugContext, ...]:
    """Return a context and those around it, innermost first; nothing for an unknown one."""
    every = contexts(report)
    chain: list[DebugContext] = []
    while context_id is not None and context_id in every:
        chain.append(every[context_id])
        context_id = every[context_id].parent_id
    return tuple(chain)


@cached
def _locations(report: Report) -> dict[int, tuple[str, int]]:
    """Return the source file and line of every debug context that has one."""
    rows = report.rows(schema.debug_context, "debug_context_id", "file_name", "line_number")
    return {number: (name, line or 0) for number, name, line in rows if name is not None}


def location(report: Report, context_id: int) -> tuple[str, int] | None:
    """Return source file and line of a context, or of the closest around it; None if unknown."""
    known = _locations(report)
    enclosing_ids = (context.debug_context_id for context in enclosing(report, context_id))
    return next((known[number] for number in enclosing_ids if number in known), None)
