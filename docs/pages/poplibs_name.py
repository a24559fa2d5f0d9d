"""A function of PopLibs and its counterpart, and the common answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "FLOPS",
    "MADE",
    "PLANNED",
    "PLANS",
    "SOLVER",
    "SPLINES",
    "Name",
    "all_of",
]


class Name(NamedTuple):
    """A function of PopLibs.

    Attributes
    ----------
    header
        Header without ``.hpp``, such as ``popops/Reduce``.
    name
        Exact spelling.
    ours
        Place below `tilescope.engine`; empty if there is none.
    note
        How ours differs, or why there is none.
    """

    header: str
    name: str
    ours: str = ""
    note: str = ""


PLANS = "the report's table `plan`, `tilescope ops --plan`"
FLOPS = "counted by operation: `flops` of the report"
PLANNED = "plans are made on first use and kept: `Builder.plan_memo`"
MADE = "the result is a variable of the call"
SOLVER = "not supported: solvers"
SPLINES = "not supported: splines of graph networks"


def all_of(header: str, names: str, ours: str = "", note: str = "") -> Iterator[Name]:
    """Yield several functions with one answer."""
    for name in names.split():
        yield Name(header, name, ours, note)
