"""Hyper-parameters of optimisers: ranges, text, and the numbers that the device has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tilescope.engine.errors import BadOption

__all__ = ["Number", "Ranges", "check_decay", "check_ranges", "last_match", "parsed_options"]

#: Least and largest value of a hyper-parameter; whether the largest itself is too large.
Ranges = Mapping[str, tuple[float, float, bool]]


_DECAYS = ("decoupled", "l2")


@dataclass(frozen=True)
class Number:
    """A number that the device computes with.

    Parameters
    ----------
    value
        The number.
    of
        The hyper-parameters that it is made of.
    power
        How many times it has the factor of gradients in it.
    """

    value: float
    of: tuple[str, ...]
    power: int = 0


def check_ranges(kind: str, stated: object, ranges: Ranges) -> None:
    """Refuse values out of range.

    Raises
    ------
    BadOption
        Names the first.
    """
    for name, (low, high, is_open) in ranges.items():
        value = getattr(stated, name)
        is_low = isinstance(value, int | float) and np.isfinite(value) and low <= value
        if is_low and (value < high if is_open else value <= high):
            continue
        limit = f"{low:g} or more"
        if np.isfinite(high):
            limit = (
                f"{low:g} or more, and less than {high:g}"
                if is_open
                else f"from {low:g} to {high:g}"
            )
        shown = f"{value:g}" if isinstance(value, int | float) else repr(value)
        raise BadOption(f"{kind}: {name} is {shown}; it has to be {limit}")


def check_decay(kind: str, decay: str) -> None:
    """Refuse a way in which weights cannot shrink.

    Raises
    ------
    BadOption
        When it is neither ``decoupled``, apart from the gradient, nor ``l2``, as a part of it.
    """
    if decay not in _DECAYS:
        raise BadOption(f"{kind}: decay is {decay!r}; it has to be {' or '.join(_DECAYS)}")


def last_match(name: str, patterns: Iterable[str]) -> str:
    """Return the last of the patterns that a name matches; "" if it matches none."""
    return next((p for p in reversed([*patterns]) if fnmatchcase(name, p)), "")


def parsed_options(kind: str, cls: Any, options: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of an optimiser from options as the command line has them.

    Raises
    ------
    BadOption
        When one is unknown, or its value is not of its kind.
    """
    known = {field.name: field.default for field in fields(cls) if field.name not in _NOT_STATED}
    stated: dict[str, Any] = {}
    for name, text in options.items():
        if name not in known:
            raise BadOption(f"{kind} has no option {name!r}: it has {', '.join(known)}")
        default = known[name]
        if isinstance(default, bool):
            if text.lower() not in ("true", "false"):
                raise BadOption(f"{kind}: {name} is {text!r}; it has to be true or false")
            stated[name] = text.lower() == "true"
        elif isinstance(default, str):
            stated[name] = text
        else:
            is_whole = isinstance(default, int)
            try:
                stated[name] = int(text) if is_whole else float(text)
            except ValueError:
                what = "a whole number" if is_whole else "a number"
                raise BadOption(f"{kind}: {name} is {text!r}; it has to be {what}") from None
    return stated


#: Fields that are no options of their own on a command line.
_NOT_STATED = ("constants", "varying", "specific", "scaling", "clip_groups")
