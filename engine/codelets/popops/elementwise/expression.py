"""Expressions of elementwise functions: trees over operands and numbers, as ``popops::expr``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilescope.engine.arguments import a_count, a_text, shown
from tilescope.engine.codelets.popops.elementwise.binary_functions import BINARY_FUNCTIONS
from tilescope.engine.codelets.popops.elementwise.ternary import TERNARY_FUNCTIONS
from tilescope.engine.codelets.popops.elementwise.unary_functions import UNARY_FUNCTIONS
from tilescope.engine.errors import BadGraph

__all__ = ["MOST_OPERANDS", "Expression", "call", "operand", "parsed"]

#: Functions by their number of operands.
_FUNCTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    UNARY_FUNCTIONS,
    BINARY_FUNCTIONS,
    TERNARY_FUNCTIONS,
)
#: Names, and what is between them.
_TOKEN = re.compile(r"\w+|[(),]")
#: Operands of a map: fields of a vertex have names from ``a`` on.
MOST_OPERANDS = 8


@dataclass(frozen=True)
class Expression:
    """A function of other expressions, an operand, or a number; made by `call` and `operand`.

    Arithmetic operators combine expressions and numbers: ``operand(0) * 2 + 1``.

    Parameters
    ----------
    function
        Name of the function; empty for an operand or a number.
    parts
        Its operands.
    index
        Position of an operand in the list of tensors.
    value
        A number; None for an operand or a function.
    """

    function: str = ""
    parts: tuple[Expression, ...] = ()
    index: int = 0
    value: float | None = None

    def __add__(self, other: object) -> Expression:
        return call("add", self, other)

    def __radd__(self, other: object) -> Expression:
        return call("add", other, self)

    def __sub__(self, other: object) -> Expression:
        return call("subtract", self, other)

    def __rsub__(self, other: object) -> Expression:
        return call("subtract", other, self)

    def __mul__(self, other: object) -> Expression:
        return call("multiply", self, other)

    def __rmul__(self, other: object) -> Expression:
        return call("multiply", other, self)

    def __truediv__(self, other: object) -> Expression:
        return call("divide", self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return call("divide", other, self)

    def __neg__(self) -> Expression:
        return call("negate", self)

    def nodes(self) -> Iterator[Expression]:
        """Yield all expressions of the tree: parts before the function of them, left to right."""
        for part in self.parts:
            yield from part.nodes()
        yield self

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions in the order in which they run."""
        return tuple(node.function for node in self.nodes() if node.function)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers, left to right."""
        return tuple(node.value for node in self.nodes() if node.value is not None)

    @property
    def n_operands(self) -> int:
        """Number of tensors it takes: one more than the largest position."""
        return 1 + max((node.index for node in self.nodes() if node.is_operand), default=-1)

    @property
    def is_operand(self) -> bool:
        """Whether it stands for a tensor."""
        return not self.function and self.value is None

    def text(self) -> str:
        """Return the tree as calls, with ``_1`` for the first tensor and ``k1`` for a number."""
        return self._text(iter(range(1, len(self.numbers) + 1)))

    def _text(self, counter: Iterator[int]) -> str:
        if self.function:
            return f"{self.function}({','.join(part._text(counter) for part in self.parts)})"
        return f"_{self.index + 1}" if self.value is None else f"k{next(counter)}"


def operand(index: int) -> Expression:
    """Return the expression of a tensor by its position, from 0.

    Raises
    ------
    BadGraph
        If the position is not an integer from 0 to 7.
    """
    position = a_count("The position of an operand", index, 0)
    if position >= MOST_OPERANDS:
        raise BadGraph(
            f"The position of an operand is {position}: a map takes up to {MOST_OPERANDS} tensors;"
            " split the expression"
        )
    return Expression(index=position)


def call(function: str, *parts: object) -> Expression:
    """Return a function of expressions and numbers.

    Parameters
    ----------
    function
        A function of the elementwise library: of one operand, of two, ``select`` or ``clamp``.
    *parts
        Its operands.

    Raises
    ------
    BadGraph
        If the function is unknown, or an operand is neither an expression nor a number.
    """
    name = a_text("The function of an expression", function)
    n_parts = len(parts)
    if n_parts >= len(_FUNCTIONS) or name not in _FUNCTIONS[n_parts]:
        known = [i for i, functions in enumerate(_FUNCTIONS) if name in functions]
        allowed = (
            f"it takes {known[0]}" if known else "see the elementwise functions of the graph API"
        )
        raise BadGraph(f"Unknown function {name!r} of {n_parts} operands: {allowed}")
    return Expression(name, tuple(_expression(name, part) for part in parts))


def parsed(text: str) -> Expression:
    """Return the expression of a text that `Expression.text` returned; all its numbers are 0.

    Raises
    ------
    BadGraph
        If it is no such text.
    """
    tokens = _TOKEN.findall(text)
    expression, rest = _parsed(tokens, text)
    if rest or "".join(tokens) != text or expression.text() != text:
        raise BadGraph(f"{shown(text)} is no expression")
    return expression


def _parsed(tokens: list[str], text: str) -> tuple[Expression, list[str]]:
    """Return the expression that tokens begin with, and the rest."""
    if not tokens or not (tokens[0][0].isalpha() or tokens[0][0] == "_"):
        raise BadGraph(f"{shown(text)} is no expression")
    head, *rest = tokens
    if head[0] == "_" and head[1:].isdigit():
        return operand(int(head[1:]) - 1), rest
    if head[0] == "k" and head[1:].isdigit():
        return Expression(value=0.0), rest
    parts = []
    separator = "("
    while rest and rest[0] == separator:
        part, rest = _parsed(rest[1:], text)
        parts.append(part)
        separator = ","
    if not rest or rest[0] != ")":
        raise BadGraph(f"{shown(text)} is no expression")
    return call(head, *parts), rest[1:]


def _expression(function: str, part: object) -> Expression:
    """Return an operand of a function as an expression."""
    if isinstance(part, Expression):
        return part
    if isinstance(part, int | float | np.number):
        return Expression(value=float(part))
    raise BadGraph(
        f"An operand of {function!r} is {shown(part)}: expected an expression or a number; tensors"
        " are operand(0), operand(1) …"
    )
