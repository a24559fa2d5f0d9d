"""Variables added, removed and changed, aligned by debug name and occurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from tilescope.analyser.diff.align import align
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["VariableChange", "VariableChanges", "VariableFacts", "variable_changes"]


@dataclass(frozen=True)
class VariableFacts:
    """A variable as the compiler made it; ``shape`` is JSON, sizes are in bytes."""

    variable_id: int
    name: str
    dtype: str
    shape: str
    bytes: int
    category: str
    is_always_live: bool
    n_tiles: int
    max_tile_bytes: int


@dataclass(frozen=True)
class VariableChange:
    """A variable on the sides that have it; ``delta_bytes`` is candidate minus baseline."""

    name: str
    baseline: VariableFacts | None
    candidate: VariableFacts | None
    delta_bytes: int


@dataclass(frozen=True)
class VariableChanges:
    """Changes of variables, the largest change of size first in each list."""

    added: tuple[VariableChange, ...]
    removed: tuple[VariableChange, ...]
    changed: tuple[VariableChange, ...]
    n_same: int


def variable_changes(baseline: Report, candidate: Report) -> VariableChanges:
    """Return how the variables of two reports differ."""
    baseline_variables, candidate_variables = _variables(baseline), _variables(candidate)
    pairs, removed, added = align(
        [one.name for one in baseline_variables],
        [other.name for other in candidate_variables],
        [_facts(one) for one in baseline_variables],
        [_facts(other) for other in candidate_variables],
    )
    changed = [
        _change(baseline_variables[one], candidate_variables[other])
        for one, other in pairs
        if _facts(baseline_variables[one]) != _facts(candidate_variables[other])
    ]
    return VariableChanges(
        _sorted([_change(None, candidate_variables[index]) for index in added]),
        _sorted([_change(baseline_variables[index], None) for index in removed]),
        _sorted(changed),
        len(pairs) - len(changed),
    )


def _variables(report: Report) -> list[VariableFacts]:
    """Return all variables in order of their id."""
    columns = [schema.variable.c[name] for name in VariableFacts.__dataclass_fields__]
    rows = report.fetch(select(*columns).order_by(schema.variable.c.variable_id))
    return [VariableFacts(*row) for row in rows]


def _facts(variable: VariableFacts) -> tuple[object, ...]:
    """Return what makes a variable different; its number does not."""
    return (
        variable.dtype,
        variable.shape,
        variable.bytes,
        variable.category,
        bool(variable.is_always_live),
        variable.n_tiles,
        variable.max_tile_bytes,
    )


def _change(baseline: VariableFacts | None, candidate: VariableFacts | None) -> VariableChange:
    """Return a variable on the sides that have it."""
    named = candidate or baseline
    assert named is not None
    delta = (candidate.bytes if candidate else 0) - (baseline.bytes if baseline else 0)
    return VariableChange(named.name, baseline, candidate, delta)


def _sorted(changes: list[VariableChange]) -> tuple[VariableChange, ...]:
    """Return changes by size of the change, largest first; equal ones in program order."""
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_bytes)))
