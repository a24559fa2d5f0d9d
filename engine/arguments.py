"""Type checks for the arguments that users pass to graphs, codelets and engines."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph

__all__ = [
    "a_count",
    "a_kind",
    "a_list",
    "a_number",
    "a_switch",
    "a_text",
    "numbers",
    "shown",
    "whole_numbers",
]

_SHOWN_LETTERS = 60


def shown(value: object) -> str:
    """Return a value for display in a message: on one line, truncated if long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 1] + "…"


def a_count(
    subject: str, value: Any, minimum: int | None = None, maximum: int | None = None
) -> int:
    """Return an integer between `least` and `most`, if given.

    Raises
    ------
    BadGraph
        If it is not an integer or is out of range.
    """
    try:
        number = int(operator.index(value))
    except TypeError:
        raise BadGraph(f"{subject} is {shown(value)}: expected an integer") from None
    if minimum is not None and number < minimum:
        raise BadGraph(f"{subject} is {number}: expected at least {minimum}")
    if maximum is not None and number > maximum:
        raise BadGraph(f"{subject} is {number}: expected at most {maximum}")
    return number


def a_number(subject: str, value: Any) -> float:
    """Return a real number; numpy's numbers and arrays of one element are some, too.

    Raises
    ------
    BadGraph
        If it is not one.
    """
    try:
        if not isinstance(value, str | bytes):
            return float(np.asarray(value).item())
    except (TypeError, ValueError):
        pass
    raise BadGraph(f"{subject} is {shown(value)}: expected a number")


def a_text(subject: str, value: Any) -> str:
    """Return a string.

    Raises
    ------
    BadGraph
        If it is not a string.
    """
    if not isinstance(value, str):
        raise BadGraph(f"{subject} is {shown(value)}: expected a string")
    return value


def a_switch(subject: str, value: Any) -> bool:
    """Return True or False.

    Raises
    ------
    BadGraph
        If it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise BadGraph(f"{subject} is {shown(value)}: expected True or False")
    return bool(value)


def a_kind(subject: str, value: Any, kind: Any, expected: str) -> Any:
    """Return a value of a class; `wanted` describes it in the message.

    Raises
    ------
    BadGraph
        If it is of another class.
    """
    if not isinstance(value, kind):
        raise BadGraph(f"{subject} is {shown(value)}: expected {expected}")
    return value


def a_list(subject: str, values: Any, expected: str) -> Sequence[Any]:
    """Return a sequence; `wanted` describes it in the message. A string is not a sequence.

    Raises
    ------
    BadGraph
        If it is not a sequence.
    """
    is_array = isinstance(values, np.ndarray) and values.ndim > 0
    if isinstance(values, str | bytes) or not (is_array or isinstance(values, Sequence)):
        raise BadGraph(f"{subject} is {shown(values)}: expected {expected}")
    several: Sequence[Any] = values
    return several


def numbers(subject: str, values: Any) -> NDArray[Any]:
    """Return values as an array.

    Raises
    ------
    BadGraph
        If they have uneven lengths.
    """
    try:
        return np.asarray(values)
    except ValueError:
        raise BadGraph(f"{subject} have uneven lengths: expected an array") from None


def whole_numbers(subject: str, values: Any, kind: type[np.signedinteger[Any]] = np.int64) -> Any:
    """Return values as an integer array of a numpy type, of any shape.

    Raises
    ------
    BadGraph
        If a value is not an integer or is out of the type's range.
    """
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:
        raise BadGraph(f"{subject} have uneven lengths: expected an array of integers") from None
    if array.dtype == kind:
        return array
    if array.size and array.dtype.kind not in "iu":
        is_whole = array.dtype.kind == "f" and bool((array == np.floor(array)).all())
        if not is_whole:
            offending = (
                array.reshape(-1)[0] if array.dtype.kind != "f" else array[array % 1 != 0][0]
            )
            raise BadGraph(f"{subject} include {offending!s}: expected integers")
    if array.size:
        limits = np.iinfo(kind)
        low, high = array.min(), array.max()
        if low < limits.min or high > limits.max:
            beyond = low if low < limits.min else high
            raise BadGraph(f"{subject} include {beyond!s}, which is out of range")
    return array.astype(kind)
