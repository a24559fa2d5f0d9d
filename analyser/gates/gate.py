"""A gate as written: ``METRIC[@SELECTOR]:LIMIT``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.gates.limit import Limit, parse_limit
from tilescope.analyser.summary.metrics import METRICS

__all__ = [
    "OPERATION_FIGURES",
    "Figure",
    "Gate",
    "Level",
    "figures_named",
    "limits_of",
    "matches",
    "parse_gate",
    "split_subject",
]

#: What a gate does when its figure is outside the limit.
Level: TypeAlias = Literal["fail", "warn"]

_IPU = re.compile(r"ipu(\*|\d{1,4})")
_ADVICE = "write one such as cycles.total:+1%, cycles.compute@ipu1:+100c or memory.max_tile:+1KiB"


@dataclass(frozen=True)
class Figure:
    """A figure that a gate may name; ``worse`` as in the catalogue of metrics."""

    name: str
    unit: str
    worse: str
    is_measured: bool


def _operation_figures() -> dict[str, Figure]:
    """Return the figures of one operation."""
    rows: tuple[tuple[str, str, str, bool], ...] = (
        ("cycles", "cycles", "higher", True),
        ("flops", "flops", "neither", True),
        ("always_live", "bytes", "higher", False),
        ("temporary", "bytes", "higher", False),
        ("code", "bytes", "higher", False),
    )
    figures = [
        Figure(f"operation.{name}", unit, worse, is_measured)
        for name, unit, worse, is_measured in rows
    ]
    return {figure.name: figure for figure in figures}


#: Figures of one operation; a gate on one of them names operations after ``@``.
OPERATION_FIGURES = _operation_figures()


@dataclass(frozen=True)
class Gate:
    """A limit on the change of figures, candidate minus baseline.

    A figure for which higher is worse may grow by at most the limit (``-5%`` requires it to shrink
    by 5 % or more); one for which lower is worse may change by no less than the limit (``-1%`` lets
    it fall by 1 %).

    Attributes
    ----------
    text
        The gate as written.
    metric
        Name of a metric or of a figure of operations; ``*`` stands for any text.
    selector
        ``ipu1`` or ``ipu*`` for a metric, names of operations for a figure of operations; None for
        a metric over all IPUs.
    limits
        The limit of every figure that ``metric`` matches, by name.
    level
        Whether to fail or to warn.
    origin
        File that holds the gate; empty for one of the command line.
    """

    text: str
    metric: str
    selector: str | None
    limits: dict[str, Limit]
    level: Level = "fail"
    origin: str = ""

    @property
    def is_about_operations(self) -> bool:
        """Whether the gate is about figures of operations."""
        return self.metric.startswith("operation.")

    @property
    def has_wildcard(self) -> bool:
        """Whether the gate may be about several figures."""
        return "*" in self.metric or "*" in (self.selector or "")


def matches(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern in which ``*`` stands for any text."""
    if "*" not in pattern:
        return pattern == name
    # Not fnmatch, for which the brackets in names of operations are sets of characters.
    parts = map(re.escape, re.split(r"\*+", pattern))
    return re.fullmatch(".*".join(parts), name, re.DOTALL) is not None


def figures_named(pattern: str) -> tuple[Figure, ...]:
    """Return the figures that a name or pattern stands for.

    Raises
    ------
    BadQuestion
        When there is none; the message names the nearest.
    """
    if pattern.startswith("operation."):
        known = OPERATION_FIGURES
    else:
        known = {
            metric.name: Figure(metric.name, metric.unit, metric.worse, metric.is_measured)
            for metric in METRICS.values()
        }
    figures = tuple(figure for name, figure in known.items() if matches(pattern, name))
    if not figures:
        near = get_close_matches(pattern, known, n=1, cutoff=0.0)[0]
        word = "no metric matches" if "*" in pattern else "unknown metric"
        raise BadQuestion(f"{word} {pattern!r}; the nearest is {near!r}")
    return figures


def split_subject(text: str) -> tuple[str, str | None, tuple[Figure, ...]]:
    """Return metric, selector and figures of ``METRIC[@SELECTOR]``.

    Raises
    ------
    BadQuestion
        When the metric is unknown, or the selector does not suit it.
    """
    name, mark, selector = text.partition("@")
    name, selector = name.strip(), selector.strip()
    figures = figures_named(name)
    if name.startswith("operation."):
        if not selector:
            raise BadQuestion(
                f"{name} needs the names of operations, such as {name}@Conv1 or {name}@*"
            )
        return name, selector, figures
    if not mark:
        return name, None, figures
    if _IPU.fullmatch(selector) is None:
        raise BadQuestion(f"expected an IPU such as ipu1 or ipu* after '@', got {selector!r}")
    per_ipu = tuple(figure for figure in figures if METRICS[figure.name].compute_ipu is not None)
    if not per_ipu:
        raise BadQuestion(f"{name} has no value per IPU; remove '@{selector}'")
    return name, selector, per_ipu


def limits_of(figures: Sequence[Figure], text: str) -> dict[str, Limit]:
    """Return a limit for every figure that it has a unit for, by name.

    Raises
    ------
    BadQuestion
        When it suits none of them.
    """
    limits: dict[str, Limit] = {}
    problems = []
    for figure in figures:
        try:
            limits[figure.name] = parse_limit(text, figure.unit)
        except BadQuestion as error:
            problems.append(f"limit of {figure.name}: {error}")
    if not limits:
        raise BadQuestion(problems[0])
    return limits


def parse_gate(text: str, level: Level = "fail", origin: str = "") -> Gate:
    """Return the gate written as ``METRIC[@SELECTOR]:LIMIT``.

    Parameters
    ----------
    text
        Such as ``cycles.total:+1%``, ``cycles.*@ipu1:+20us``, ``operation.cycles@Conv*:+0c`` or
        ``memory.max_tile:+1KiB``. The limit follows the last colon, because names of operations may
        hold one. A limit with a unit leaves out the figures that lack it: ``memory.*:+0B`` does not
        gate numbers of tiles.
    level
        Whether to fail or to warn.
    origin
        File that holds the gate.

    Raises
    ------
    BadQuestion
        When the metric is unknown, or selector or limit do not suit it.
    """
    subject, colon, limit = text.strip().rpartition(":")
    if not subject or not limit.strip():
        if subject or (limit.strip() and not colon):
            split_subject(subject or limit)  # the name may be what is wrong
        raise BadQuestion(f"expected METRIC:LIMIT for a gate, got {text!r}; {_ADVICE}")
    name, selector, figures = split_subject(subject)
    try:
        limits = limits_of(figures, limit)
    except BadQuestion as error:
        raise BadQuestion(f"gate {text!r} is not METRIC:LIMIT: {error}") from None
    return Gate(text.strip(), name, selector, limits, level, origin)
