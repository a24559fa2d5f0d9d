"""What differs around the program: machine, options, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.diff.identity import PLACES, lasting_provenance
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["ContextChange", "context_changes"]

#: Columns of the machine whose change is the machine's name's, not worth a line of their own.
_FOLLOWS_NAME = frozenset(schema.target.place) - {
    "name",
    "n_ipus",
    "n_replicas",
    "tiles_per_ipu",
}


@dataclass(frozen=True)
class ContextChange:
    """A fact that differs; None where a side has none.

    ``section`` is machine, option or provenance. ``follows`` names the change that explains it, as
    another machine explains another clock; it is empty for a change of its own.
    """

    section: str
    key: str
    baseline: object
    candidate: object
    follows: str = ""


def context_changes(baseline: Report, candidate: Report) -> tuple[ContextChange, ...]:
    """Return what differs between two reports besides their program, the machine first."""
    return (
        *_machine_changes(baseline, candidate),
        *_changes("option", _options(baseline), _options(candidate)),
        *_changes("provenance", lasting_provenance(baseline), lasting_provenance(candidate)),
    )


def _changes(
    section: str, baseline: Mapping[str, object], candidate: Mapping[str, object]
) -> list[ContextChange]:
    """Return the keys whose values differ, in the order of the baseline, then of the candidate."""
    keys = dict.fromkeys((*baseline, *candidate))
    return [
        ContextChange(section, key, baseline.get(key), candidate.get(key))
        for key in keys
        if baseline.get(key) != candidate.get(key)
    ]


def _machine_changes(baseline: Report, candidate: Report) -> list[ContextChange]:
    """Return what differs in the machine; the name and what does not follow from it first."""
    changes = _changes("machine", _machine(baseline), _machine(candidate))
    if not any(change.key == "name" for change in changes):
        return changes
    own_changes = [change for change in changes if change.key not in _FOLLOWS_NAME]
    following = [
        ContextChange(change.section, change.key, change.baseline, change.candidate, "name")
        for change in changes
        if change.key in _FOLLOWS_NAME
    ]
    return own_changes + following


def _machine(report: Report) -> dict[str, object]:
    """Return the machine as a mapping."""
    names = [name for name in schema.target.place if name != "target_id"]
    rows = report.rows(schema.target, *names)
    return dict(zip(names, rows[0], strict=True)) if rows else {}


def _options(report: Report) -> dict[str, object]:
    """Return the options in effect, without those that say where the report goes."""
    rows = sorted(report.rows(schema.engine_option, "name", "value"))
    return {name: value for name, value in rows if name not in PLACES}
