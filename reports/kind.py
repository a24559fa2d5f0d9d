"""The kind of a report: what it is about, which decides the pages and commands that take it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

from tilescope.reports.errors import UnsupportedSchema, WrongKind
from tilescope.reports.schema import HOST_TRACE as _HOST_TRACE
from tilescope.reports.schema import provenance

if TYPE_CHECKING:
    from tilescope.reports.reading.report import Report

__all__ = ["KIND_KEY", "PROFILES", "Kind", "report_kind", "require_kind"]

#: Key of the kind in a report's provenance; a report without one is a profile.
KIND_KEY = "report_kind"


class Kind(StrEnum):
    """What a report is about."""

    #: A program on the machine: graph, memory, execution.
    PROFILE = "profile"
    #: What a host did: calls, transfers and marks on its own clock.
    HOST_TRACE = _HOST_TRACE
    #: A program on another machine, of which its tool told what it knows.
    IMPORTED_PROFILE = "imported profile"


#: Kinds with a machine, memory and steps.
PROFILES = frozenset({Kind.PROFILE, Kind.IMPORTED_PROFILE})


def report_kind(report: Report) -> Kind:
    """Return the kind of a report.

    Raises
    ------
    UnsupportedSchema
        When it is of a kind that this version does not know.
    """
    text = dict(report.rows(provenance, "key", "value")).get(KIND_KEY, Kind.PROFILE)
    if text not in list(Kind):
        raise UnsupportedSchema(
            f"{report.name} is a report of kind {text[:40]!r}; this TileScope knows"
            f" {', '.join(Kind)}. Update TileScope."
        )
    return Kind(text)


def require_kind(report: Report, kinds: Collection[Kind] = PROFILES) -> None:
    """Refuse a report of another kind.

    Raises
    ------
    WrongKind
        When it is of none of the kinds.
    UnsupportedSchema
        When it is of a kind that this version does not know.
    """
    kind = report_kind(report)
    if kind not in kinds:
        raise WrongKind(
            f"{report.name} is of the kind {kind}; this takes the kind"
            f" {' or '.join(sorted(kinds))}. Give another report."
        )
