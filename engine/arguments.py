"""What users hand to graphs, codelets and engines, checked: each of the kind it must be."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph

__all__ = ["a_count", "a_kind", "a_list", "a_switch", "a_text", "numbers", "shown", "whole_numbers"]

_SHOWN_LETTERS = 60


def shown(value: object) -> str:
    """Return a value as a message shows it: on one line, and not all of a long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 1] + "…"


def a_count(what: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number, at least `least` and at most `most` where they are given.

    Raises
    ------
    BadGraph
        When it is none, or less or more.
    """
    try:
        number = int(operator.index(value))
    except TypeError:
        raise BadGraph(f"{what} is {shown(value)}: give a whole number") from None
    if least is not None and number < least:
        raise BadGraph(f"{what} is {number}: it must be at least {least}")
    if most is not None and number > most:
        raise BadGraph(f"{what} is {number}: it can be {most} at most")
    return number


def a_text(what: str, value: Any) -> str:
    """Return a text.

    Raises
    ------
    BadGraph
        When it is none.
    """
    if not isinstance(value, str):
        raise BadGraph(f"{what} is {shown(value)}: expected a string")
    return value


def a_switch(what: str, value: Any) -> bool:
    """Return True or False.

    Raises
    ------
    BadGraph
        When it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise BadGraph(f"{what} is {shown(value)}: give True or False")
    return bool(value)


def a_kind(what: str, value: Any, kind: Any, wanted: str) -> Any:
    """Return a value of a class; `wanted` says what to give.

    Raises
    ------
    BadGraph
        When it is of another.
    """
    if not isinstance(value, kind):
        raise BadGraph(f"{what} is {shown(value)}: give {wanted}")
    return value


def a_list(what: str, values: Any, wanted: str) -> Sequence[Any]:
    """Return several values in order; `wanted` says what to give. A text is not several.

    Raises
    ------
    BadGraph
        When they are not several.
    """
    is_array = isinstance(values, np.ndarray) and values.ndim > 0
    if isinstance(values, str | bytes) or not (is_array or isinstance(values, Sequence)):
        raise BadGraph(f"{what} is {shown(values)}: give {wanted}")
    several: Sequence[Any] = values
    return several


def numbers(what: str, values: Any) -> NDArray[Any]:
    """Return values as an array.

    Raises
    ------
    BadGraph
        When they are of uneven lengths.
    """
    try:
        return np.asarray(values)
    except ValueError:
        raise BadGraph(f"{what} are of uneven lengths: give an array") from None


def whole_numbers(what: str, values: Any, kind: type[np.signedinteger[Any]] = np.int64) -> Any:
    """Return values as an array of whole numbers of a numpy type, of any shape.

    Raises
    ------
    BadGraph
        When one is no whole number, or beyond the type.
    """
    try:
        given: NDArray[Any] = np.asarray(values)
    except ValueError:
        raise BadGraph(f"{what} are of uneven lengths: give one whole number each") from None
    if given.dtype == kind:
        return given
    if given.size and given.dtype.kind not in "iu":
        is_whole = given.dtype.kind == "f" and bool((given == np.floor(given)).all())
        if not is_whole:
            odd = given.reshape(-1)[0] if given.dtype.kind != "f" else given[given % 1 != 0][0]
            raise BadGraph(f"{what} have {odd!s} among them: give whole numbers")
    if given.size:
        limits = np.iinfo(kind)
        low, high = given.min(), given.max()
        if low < limits.min or high > limits.max:
            beyond = low if low < limits.min else high
            raise BadGraph(f"{what} have {beyond!s} among them: that is beyond any machine")
    return given.astype(kind)
