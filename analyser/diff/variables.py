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
    """A variable on the sides that have it; ``delta_bytes`` is new minus base."""

    name: str
    base: VariableFacts | None
    new: VariableFacts | None
    delta_bytes: int


@dataclass(frozen=True)
class VariableChanges:
    """Changes of variables, the largest change of size first in each list."""

    added: tuple[VariableChange, ...]
    removed: tuple[VariableChange, ...]
    changed: tuple[VariableChange, ...]
    n_same: int


def variable_changes(base: Report, new: Report) -> VariableChanges:
    """Return how the variables of two reports differ."""
    ones, others = _variables(base), _variables(new)
    pairs, removed, added = align(
        [one.name for one in ones],
        [other.name for other in others],
        [_facts(one) for one in ones],
        [_facts(other) for other in others],
    )
    changed = [
        _change(ones[one], others[other])
        for one, other in pairs
        if _facts(ones[one]) != _facts(others[other])
    ]
    return VariableChanges(
        _sorted([_change(None, others[each]) for each in added]),
        _sorted([_change(ones[each], None) for each in removed]),
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


def _change(base: VariableFacts | None, new: VariableFacts | None) -> VariableChange:
    """Return a variable on the sides that have it."""
    named = new or base
    assert named is not None
    delta = (new.bytes if new else 0) - (base.bytes if base else 0)
    return VariableChange(named.name, base, new, delta)


def _sorted(changes: list[VariableChange]) -> tuple[VariableChange, ...]:
    """Return changes by size of the change, largest first; equal ones in program order."""
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_bytes)))
