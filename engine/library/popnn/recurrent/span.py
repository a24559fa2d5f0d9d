"""Spans of the steps of a sequence: what holds a value for each of them, and loops over spans.

A layer that keeps states only every few steps computes the steps in between again, span by span.
Source of the idea: graphcore/poplibs sdk-release-3.4, lib/popnn/Rnn.cpp, whose weight updates
gather several steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilescope.engine.graph import Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.program import Repeat
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = ["Counters", "Span", "Stored", "advance", "each_span", "number"]


@dataclass(frozen=True)
class Span:
    """Steps of a sequence that follow each other.

    Parameters
    ----------
    n_steps
        Their number.
    first
        The first of them, int32, shape (1,); None for the first step of the sequence.
    """

    n_steps: int
    first: Tensor | None = None


@dataclass(frozen=True)
class Stored:
    """A value for every step of a span.

    Parameters
    ----------
    tensor
        Shape (steps, …), laid out so that the slice of a step lies on its tiles.
    first
        As that of the span.
    """

    tensor: Tensor
    first: Tensor | None = None


class Counters:
    """Positions of a loop's step: in the sequence, and in what holds a span only.

    Parameters
    ----------
    builder
        Target of the program before the loop.
    span
        The steps of the loop.
    stored
        What the loop reads and writes.
    is_descending
        Whether the loop begins with the last step.
    """

    def __init__(
        self, builder: Builder, span: Span, stored: Sequence[Stored], *, is_descending: bool
    ) -> None:
        firsts: dict[int | None, Tensor | None] = {None: None}
        firsts |= {id(held.first): held.first for held in stored if held.first is not None}
        self._index = {key: i for i, key in enumerate(firsts)}
        n = len(firsts)
        self._counter = number(builder, "counter", n)
        self._increment = _constant(builder, 1, "one", n)
        self._is_descending = is_descending
        begin = span.n_steps - 1 if is_descending else 0
        for i, first in enumerate(firsts.values()):
            _begin(builder, self._counter.slice(0, i, i + 1), span.first, first, begin)

    @property
    def step(self) -> Tensor:
        """The step, int32, shape (1,)."""
        return self._counter.slice(0, 0, 1)

    def of(self, held: Stored) -> Tensor:
        """Return the position of the step's value, int32, shape (1,)."""
        i = self._index[None if held.first is None else id(held.first)]
        return self._counter.slice(0, i, i + 1)

    def advance(self, builder: Builder) -> None:
        """Go to the next step."""
        kind = "subtract" if self._is_descending else "add"
        binary_in_place(builder, kind, self._counter, self._increment)


def each_span(
    builder: Builder,
    whole: Span,
    n_steps: int,
    build: Callable[[Builder, Span], None],
    *,
    is_descending: bool = False,
) -> None:
    """Add a program for spans of so many steps each, and one for a shorter span at the end.

    Parameters
    ----------
    builder
        Target of the program.
    whole
        What is divided.
    n_steps
        Steps of a span.
    build
        Adds the program of a span to a builder.
    is_descending
        Whether the last span comes first.
    """
    if n_steps >= whole.n_steps:
        build(builder, whole)
        return
    n_spans, n_rest = divmod(whole.n_steps, n_steps)
    first = number(builder, "firstStep")
    last = (n_spans if n_rest else n_spans - 1) * n_steps
    _begin(builder, first, whole.first, None, last if is_descending else 0)
    if is_descending and n_rest:
        build(builder, Span(n_rest, first))
        binary_in_place(builder, "subtract", first, _constant(builder, n_steps, "spanSteps"))
    body = ProgramSequence("span", debug=builder.debug)
    inside = replace(builder, sequence=body)
    build(inside, Span(n_steps, first))
    kind = "subtract" if is_descending else "add"
    binary_in_place(inside, kind, first, _constant(builder, n_steps, "spanSteps"))
    builder.sequence.add(Repeat(n_spans, body, "spans", debug=builder.debug))
    if n_rest and not is_descending:
        build(builder, Span(n_rest, first))


def advance(builder: Builder, counter: Tensor, *, is_descending: bool = False) -> None:
    """Add one to a number, or subtract one."""
    kind = "subtract" if is_descending else "add"
    binary_in_place(builder, kind, counter, _constant(builder, 1, "one"))


def number(builder: Builder, name: str, n: int = 1) -> Tensor:
    """Return a new variable of numbers, int32, shape (n,), on one tile."""
    tensor = builder.graph.add_variable("int32", (n,), name, builder.debug)
    builder.graph.set_tile_mapping(tensor, [0], builder.tiles.ids[:1])
    return tensor


def _constant(builder: Builder, value: int, name: str, n: int = 1) -> Tensor:
    """Return constant numbers, int32, shape (n,), on the same tile."""
    values = np.full(n, value, np.int32)
    constant = builder.graph.add_constant(values, name, debug=builder.debug)
    builder.graph.set_tile_mapping(constant, [0], builder.tiles.ids[:1])
    return constant


def _begin(
    builder: Builder, counter: Tensor, first: Tensor | None, origin: Tensor | None, offset: int
) -> None:
    """Set a counter to a first step and an offset, less the first step of what it counts in."""
    if first is origin:
        fill(builder, counter, offset)
        return
    if first is None:
        fill(builder, counter, offset)
    else:
        copy_to(builder, first, counter, "begin")
        if offset:
            binary_in_place(builder, "add", counter, _constant(builder, offset, "offset"))
    if origin is not None:
        binary_in_place(builder, "subtract", counter, origin)
