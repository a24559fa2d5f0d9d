"""Limits: a signed amount with a unit, such as ``+1%``, ``-300 KiB`` or ``+20us``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from tilescope.analyser.errors import BadQuestion

__all__ = ["Limit", "LimitKind", "parse_limit", "units_of"]

#: ``own`` is the figure's unit; ``time`` is seconds, converted to cycles by the clock.
LimitKind: TypeAlias = Literal["percent", "own", "time"]

_BYTES = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_SECONDS = {
    "us": Fraction(1, 1_000_000),
    "µs": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
}
_FORM = re.compile(r"([+-]?)(\d{1,18}(?:\.\d{1,9})?)\s*(%|[A-Za-zµ]*)")


@dataclass(frozen=True)
class Limit:
    """A signed amount.

    ``amount`` is in percent, in the unit of the figure, or in seconds, as ``kind`` says.
    """

    text: str
    amount: Fraction
    kind: LimitKind

    def amount_of(self, baseline: float, clock_hz: float) -> Fraction:
        """Return the limit in the figure's unit.

        Parameters
        ----------
        baseline
            Value of which the limit is a percentage.
        clock_hz
            Clock by which a time becomes cycles.
        """
        if self.kind == "percent":
            return self.amount * abs(Fraction(baseline)) / 100
        return self.amount * Fraction(clock_hz) if self.kind == "time" else self.amount


def units_of(unit: str) -> tuple[str, ...]:
    """Return the units that a limit of a figure may have, as a person writes them."""
    if unit == "bytes":
        return ("%", *_BYTES)
    if unit == "cycles":
        return ("%", "c", "us", "ms", "s")
    if unit == "seconds":
        return ("%", "us", "ms", "s")
    return ("%", unit) if unit else ("%",)


def parse_limit(text: str, unit: str, *, allows_percent: bool = True) -> Limit:
    """Return the limit written as a signed number with or without a unit.

    Parameters
    ----------
    text
        Such as ``+1%``, ``+1KiB``, ``300 KiB``, ``+20us`` or ``100``.
    unit
        Unit of the limited figure, as in the catalogue of metrics.
    allows_percent
        False where there is no baseline to take a percentage of.

    Raises
    ------
    BadQuestion
        When the text is not a number, or its unit is not one of the figure's.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise BadQuestion(f"expected a number with a unit such as {_examples(unit)}, got {text!r}")
    sign, number, unit_text = match.groups()
    amount = Fraction(number) * (-1 if sign == "-" else 1)
    if unit_text == "%" and allows_percent:
        return Limit(text.strip(), amount, "percent")
    if not unit_text or unit_text == unit or (unit == "cycles" and unit_text == "c"):
        return Limit(text.strip(), amount, "own")
    if unit == "bytes" and unit_text in _BYTES:
        return Limit(text.strip(), amount * _BYTES[unit_text], "own")
    if unit in {"cycles", "seconds"} and unit_text in _SECONDS:
        kind: LimitKind = "time" if unit == "cycles" else "own"
        return Limit(text.strip(), amount * _SECONDS[unit_text], kind)
    allowed = ", ".join(unit_ for unit_ in units_of(unit) if allows_percent or unit_ != "%")
    raise BadQuestion(f"unit {unit_text!r} is not one of {allowed or 'no unit'} or a plain number")


def _examples(unit: str) -> str:
    """Return limits as examples for a figure's unit."""
    return {"bytes": "+1% or +1KiB", "cycles": "+1% or +100c", "seconds": "+1% or +5us"}.get(
        unit, "+1% or +100"
    )
