"""Calls of a program as a tree, described so that those of two reports can be aligned.

A call is a debug context: a node of the model, or a library call. Its description leaves names
apart, because a renamed model is the same program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tilescope.analyser.cache import cached
from tilescope.analyser.program.contexts import DebugContext, contexts
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Call", "CallTree", "call_tree", "relative_name"]

#: After all programs.
_NO_PROGRAM = 1 << 62
#: Arguments of library calls that hold shapes of operands.
_SHAPES = frozenset({"input", "weights", "a", "b", "shape", "shapes", "output"})
#: A name that exporters give by counting, such as Conv_12.
_GENERIC = re.compile(r"[A-Za-z.]+[_.]?\d+(_\d+)*\Z")


@dataclass(frozen=True, eq=False)
class Call:
    """A debug context with its arguments apart.

    Attributes
    ----------
    name, own_name
        Name relative to the enclosing call; the same, or None for one that was given by counting.
    operation
        Layer and type.
    attributes, shapes
        Arguments other than operands, and types and shapes of operands, as comparable text.
    inputs, outputs
        Operands of a node of the model: name, type, shape, and of inputs whether constant.
    """

    context: DebugContext
    name: str
    own_name: str | None
    operation: tuple[str, str]
    attributes: str
    shapes: str
    arguments: Mapping[str, Any]
    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[Any, ...], ...]

    @property
    def weights(self) -> str | None:
        """Digest of constant operands; None without any."""
        return self.context.weights_digest


class CallTree:
    """The calls of one report, in program order.

    Parameters
    ----------
    every
        Debug contexts by id, parents before what is inside them.
    first
        The first program of contexts, where they have one. A context is numbered when something
        first mentions it, which may be a variable, so that ids are not in program order.
    """

    def __init__(
        self, every: Mapping[int, DebugContext], first: Mapping[int, int] | None = None
    ) -> None:
        self.contexts = every
        #: Pairs with the calls of other trees, as `diff.alignment.calls` found them.
        self.aligned: WeakKeyDictionary[CallTree, dict[int, int]] = WeakKeyDictionary()
        self._children: dict[int | None, list[int]] = {}
        for number, context in every.items():
            self._children.setdefault(context.parent_id, []).append(number)
        if first:
            for inside in self._children.values():
                inside.sort(key=lambda number: (first.get(number, _NO_PROGRAM), number))

    def children(self, context_id: int | None) -> Sequence[int]:
        """Return the calls directly inside a call; None for the outermost."""
        return self._children.get(context_id, ())

    def call(self, context_id: int) -> Call:
        """Return the description of a call."""
        context = self.contexts[context_id]
        outer = None if context.parent_id is None else self.contexts[context.parent_id].name
        return _describe(context, relative_name(context.name, outer))

    def text(self, context_id: int) -> tuple[object, ...]:
        """Return all that is said of a call, names included, except where it stands."""
        context = self.contexts[context_id]
        outer = None if context.parent_id is None else self.contexts[context.parent_id].name
        return (
            context.layer,
            context.operation,
            relative_name(context.name, outer),
            context.detail,
            context.weights_digest,
        )

    @cached_property
    def root_of(self) -> dict[int, int]:
        """The outermost call around every call, by id."""
        roots: dict[int, int] = {}
        for number, context in self.contexts.items():
            roots[number] = number if context.parent_id is None else roots[context.parent_id]
        return roots


@cached
def call_tree(report: Report) -> CallTree:
    """Return the calls of a report."""
    every = contexts(report)
    return CallTree(every, _first_programs(report, every))


def _first_programs(report: Report, every: Mapping[int, DebugContext]) -> dict[int, int]:
    """Return the first program of every context, that of contexts inside included."""
    first: dict[int, int] = {}
    for program_id, context_id in report.rows(schema.program, "program_id", "debug_context_id"):
        around = context_id
        while around in every and program_id < first.get(around, _NO_PROGRAM):
            first[around] = program_id
            around = every[around].parent_id
    return first


def relative_name(name: str, outer: str | None) -> str:
    """Return a name without that of the call it is in."""
    if not outer or not name.startswith(outer):
        return name
    n = len(outer)
    return name[n + 1 :] if name[n : n + 1] == "/" else name


def _describe(context: DebugContext, name: str) -> Call:
    """Return a call; arguments that the engine did not write are kept as text."""
    try:
        detail = json.loads(context.detail)
    except ValueError:
        detail = None
    operation = (context.level, context.operation)
    own_name = None if _GENERIC.match(name) else name
    if not isinstance(detail, dict):
        return Call(context, name, own_name, operation, context.detail, "", {}, (), ())
    if context.level == "model":
        arguments = detail.get("attributes")
        arguments = arguments if isinstance(arguments, dict) else {}
        inputs, outputs = (_operands(detail.get(key)) for key in ("inputs", "outputs"))
        shapes = _text([[operand[1:] for operand in side] for side in (inputs, outputs)])
        return Call(
            context, name, own_name, operation, _text(arguments), shapes, arguments, inputs, outputs
        )
    of_operands = {key: value for key, value in detail.items() if key in _SHAPES}
    rest = {key: value for key, value in detail.items() if key not in _SHAPES}
    return Call(context, name, own_name, operation, _text(rest), _text(of_operands), detail, (), ())


def _operands(rows: object) -> tuple[tuple[Any, ...], ...]:
    """Return operands as tuples; rows of another form are left out."""
    if not isinstance(rows, list):
        return ()
    return tuple(
        tuple(row)
        for row in rows
        if isinstance(row, list) and len(row) >= 3 and isinstance(row[0], str)
    )


def _text(value: object) -> str:
    """Return a value as text that is equal for equal values; the engine sorts keys."""
    return repr(value)
