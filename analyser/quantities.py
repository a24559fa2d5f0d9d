"""Numbers as people read them; the exact value is always available beside.

Every page and command writes quantities through this module, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

__all__ = [
    "MISSING",
    "BytesStyle",
    "bytes_style",
    "format_bytes",
    "format_change",
    "format_change_of",
    "format_count",
    "format_cycles",
    "format_exact",
    "format_lives",
    "format_moment",
    "format_percent",
    "format_runs",
    "format_seconds",
    "format_steps",
    "format_value",
    "per_run",
    "percent_of",
    "use_bytes_style",
]

#: ``binary`` uses multiples of 1024 (KiB), ``si`` of 1000 (kB), ``bytes`` none.
BytesStyle = Literal["binary", "si", "bytes"]
#: What stands where there is no value.
MISSING = "–"
#: Most lives of a variable that are written.
_MOST_LIVES = 4

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SI = ("B", "kB", "MB", "GB", "TB", "PB")
_UNIT_WORDS = {"bytes": "B", "hertz": "Hz", "seconds": "s"}


_style: ContextVar[BytesStyle] = ContextVar("bytes_style", default="binary")


def bytes_style() -> BytesStyle:
    """Return how amounts of memory are written where nothing else is asked for."""
    return _style.get()


@contextmanager
def use_bytes_style(style: BytesStyle) -> Iterator[None]:
    """Write amounts of memory in another way, in this thread or task."""
    token = _style.set(style)
    try:
        yield
    finally:
        _style.reset(token)


def format_bytes(n_bytes: int | None, style: BytesStyle | None = None) -> str:
    """Return an amount of memory with a unit that keeps four digits, such as ``624.0 KiB``."""
    if n_bytes is None:
        return MISSING
    style = style or bytes_style()
    if style == "bytes":
        return f"{n_bytes:,} B"
    step, units = (1024, _BINARY) if style == "binary" else (1000, _SI)
    amount, rank = float(n_bytes), 0
    # The tenth is what is shown: 1023.96 KiB would be written 1,024.0 KiB.
    while abs(round(amount, 1)) >= step and rank < len(units) - 1:
        amount, rank = amount / step, rank + 1
    return f"{n_bytes:,} B" if rank == 0 else f"{amount:,.1f} {units[rank]}"


def format_cycles(n_cycles: int | None) -> str:
    """Return cycles with thousands separated, such as ``1,211,970 cycles``."""
    if n_cycles is None:
        return MISSING
    return f"{n_cycles:,} cycle{'' if abs(n_cycles) == 1 else 's'}"


def format_seconds(seconds: float | None) -> str:
    """Return a duration with a unit that keeps three digits, such as ``911 µs``."""
    if seconds is None:
        return MISSING
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(seconds) * factor >= 1:
            return f"{seconds * factor:,.4g} {unit}"
    return f"{seconds * 1e9:,.4g} ns"


def format_count(number: float | None) -> str:
    """Return a number with thousands separated."""
    if number is None:
        return MISSING
    return f"{number:,}" if isinstance(number, int) else f"{number:,.4g}"


def format_moment(seconds: float) -> str:
    """Return a moment, given in seconds since 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_percent(percent: float | None, *, is_signed: bool = False) -> str:
    """Return a percentage such as ``+1.25 %``; tiny ones are ``< 0.01 %``, not zero."""
    if percent is None:
        return MISSING
    sign = "+" if is_signed else ""
    if percent and abs(percent) < 0.01:
        return f"< {sign}0.01 %" if percent > 0 else "> -0.01 %"
    return f"{percent:{sign},.2f} %"


def format_steps(start: int, end: int) -> str:
    """Return the half-open range of steps as its first and last, such as ``317 to 318``."""
    return f"{start:,}" if end - start == 1 else f"{start:,} to {end - 1:,}"


def format_lives(lives: Sequence[tuple[int, int]]) -> str:
    """Return half-open ranges of steps, such as ``317 to 318, 401``; after some, the number left.

    Parameters
    ----------
    lives
        Ascending; empty for nothing that ever lives.
    """
    if not lives:
        return MISSING
    listed = ", ".join(format_steps(*life) for life in lives[:_MOST_LIVES])
    n_more = len(lives) - _MOST_LIVES
    return listed if n_more <= 0 else f"{listed} and {n_more:,} more"


def format_runs(*n_runs: int) -> str:
    """Return in how many recorded runs the cycles of a report, or of two, were taken.

    Without a run, cycles are those of one execution of every step as the compiler counts them.
    """
    texts = [
        f"in {n:,} recorded run{'s' * (n != 1)}" if n else "as compiled, not run" for n in n_runs
    ]
    if len(set(texts)) == 1:
        return texts[0]
    return f"{texts[0]} (baseline), {texts[1]} (candidate)"


def format_value(value: object, unit: str, style: BytesStyle | None = None) -> str:
    """Return a value of any unit of the metric catalogue as text for people."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and unit == "bytes":
        return format_bytes(value, style)
    if isinstance(value, int) and unit == "cycles":
        return format_cycles(value)
    if isinstance(value, int | float):
        return _format_number(value, unit)
    return str(value)


def _format_number(value: float, unit: str) -> str:
    """Return a number that is neither bytes nor cycles."""
    if unit == "ratio":
        return format_percent(value * 100)
    if unit == "seconds":
        return format_seconds(value)
    if unit == "hertz":
        return f"{value / 1e9:,.4g} GHz" if value >= 1e9 else f"{value / 1e6:,.4g} MHz"
    return f"{format_count(value)} {unit}".rstrip()


def format_exact(value: object, unit: str) -> str:
    """Return a value unrounded with its unit, such as ``638,976 B``."""
    if value is None:
        return MISSING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return format_value(value, unit)
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return f"{number} {_UNIT_WORDS.get(unit, '' if unit == 'ratio' else unit)}".rstrip()


def format_change(delta: float | None, unit: str, style: BytesStyle | None = None) -> str:
    """Return a difference with its sign, such as ``+1.0 KiB``; zero is written ``0``."""
    if delta is None:
        return MISSING
    if delta == 0:
        return "0"
    if unit == "ratio":
        return f"{delta * 100:+,.2f} points"
    text = format_value(delta, unit, style)
    return text if delta < 0 else f"+{text}"


def percent_of(baseline: float | None, delta: float | None) -> float | None:
    """Return a change in percent of the baseline; None if that is None or 0."""
    if not baseline or delta is None:
        return None
    return 100.0 * delta / abs(baseline)


def per_run(total: float, n_runs: int) -> int | float:
    """Return the mean of a run of a sum over runs, a whole number where it is one.

    Parameters
    ----------
    total
        The sum; a figure that is none of runs has ``n_runs`` 0 and stays as it is.
    n_runs
        Number of recorded runs.
    """
    if n_runs < 2:
        return total
    if isinstance(total, int) and total % n_runs == 0:
        return total // n_runs
    return total / n_runs


def format_change_of(baseline: float | None, delta: float | None, unit: str) -> str:
    """Return a difference with its percentage of the baseline, such as ``+1.0 KiB (+3.10 %)``."""
    text = format_change(delta, unit)
    percent = percent_of(baseline, delta)
    if percent is None or not delta or unit == "ratio":
        return text
    return f"{text} ({format_percent(percent, is_signed=True)})"
