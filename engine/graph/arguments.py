"""What users hand to a graph, checked: whole numbers where whole numbers are meant."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import BadGraph

__all__ = ["a_count", "whole_numbers"]


def a_count(what: str, value: Any, least: int | None = None) -> int:
    """Return a whole number, at least `least` where that is given.

    Raises
    ------
    BadGraph
        When it is none, or less.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise BadGraph(f"{what} is {value!r}: give a whole number") from None
    if least is not None and number < least:
        raise BadGraph(f"{what} is {number}: it must be at least {least}")
    return number


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
