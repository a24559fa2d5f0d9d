"""Library functions that take arguments of the right kind only, as their signatures say them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tilescope.engine.arguments import a_count, a_kind, a_list, a_switch, a_text, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.window import Window

__all__ = ["check_rank", "checked"]

P = ParamSpec("P")
R = TypeVar("R")

_TENSOR = "a tensor; add_constant makes one of numbers"


def _kind(kinds: Any, wanted: str) -> Callable[[str, Any], object]:
    return lambda what, value: a_kind(what, value, kinds, wanted)


def _several(what: str, values: Any) -> None:
    for each in a_list(what, values, "a list of whole numbers"):
        a_count(f"One of {what}", each)


def _pair(what: str, values: Any) -> None:
    if len(a_list(what, values, "two whole numbers")) != 2:
        raise BadGraph(f"{what} is {shown(values)}: give two whole numbers")
    _several(what, values)


#: By annotation: what looks at an argument.
_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "Builder": _kind(Builder, "an engine.Builder"),
    "View": _kind(View, _TENSOR),
    "Tensor | float": _kind(Tensor | Real, "a tensor of one element, or a number"),
    "View | NDArray[Any]": _kind(View | np.ndarray, "a tensor, or an ndarray of constants"),
    "Window": _kind(Window, "an engine.library.window.Window"),
    "Mapping[str, int]": _kind(Mapping, "a dictionary of whole numbers"),
    "str": a_text,
    "bool": a_switch,
    "int": a_count,
    "float": _kind(Real, "a number"),
    "Sequence[int]": _several,
    "tuple[int, int]": _pair,
    "Any": lambda _, value: value,
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a library function that refuses what its annotations do not name.

    A type is what `dtype_of` takes and is annotated as anything; the function asks that.
    """
    signature = inspect.signature(function)
    looks: dict[str, tuple[Callable[[str, Any], object], bool]] = {}
    for name, parameter in signature.parameters.items():
        annotation = str(parameter.annotation)
        required = annotation.removesuffix(" | None")
        looks[name] = _CHECKS[required], required != annotation

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            look, may_be_none = looks[name]
            if value is not None or not may_be_none:
                look(f"{function.__name__}: {name!r}", value)
        return function(*args, **kwargs)

    return call


def check_rank(name: str, operand: Any, dimensions: str) -> None:
    """Raise BadGraph unless an operand has as many dimensions as are named.

    Raises
    ------
    BadGraph
        When it has more or fewer.
    """
    if len(operand.shape) != dimensions.count(",") + 1:
        raise BadGraph(
            f"{name}: shape {tuple(operand.shape)} is not ({dimensions}): reshape it to that"
        )
