"""Variables added, removed and changed, aligned by the calls that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.diff.alignment.align import align_in_turn
from tilescope.analyser.diff.alignment.calls import align_calls
from tilescope.analyser.diff.alignment.pairs import Pair, by_change, matching_rows, paired_rows
from tilescope.analyser.memory.variable_list import VariableFilter, VariableRow, list_variables
from tilescope.analyser.program.call_tree import call_tree, relative_name
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from tilescope.analyser.diff.alignment.calls import CallPairs
    from tilescope.reports import Report

__all__ = [
    "VariableChange",
    "VariableChanges",
    "VariableFacts",
    "VariablePairs",
    "align_variables",
    "no_variable_changes",
    "variable_changes",
    "variable_pairs",
    "variable_partners",
]


@dataclass(frozen=True)
class VariableFacts:
    """A variable as the compiler made it; ``shape`` is JSON, sizes are in bytes.

    The digests are of its tile mapping and of its contents, None without.
    """

    variable_id: int
    name: str
    dtype: str
    shape: str
    bytes: int
    category: str
    is_always_live: bool
    n_tiles: int
    max_tile_bytes: int
    mapping_digest: str | None
    content_digest: str | None
    debug_context_id: int | None
    sender_id: int | None


_FACTS = attrgetter(
    "dtype",
    "shape",
    "bytes",
    "category",
    "is_always_live",
    "n_tiles",
    "max_tile_bytes",
    "mapping_digest",
)


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


@dataclass(frozen=True)
class VariablePairs:
    """All variables of two reports: those that are the same, and those on one side only."""

    pairs: tuple[tuple[VariableFacts, VariableFacts], ...]
    removed: tuple[VariableFacts, ...]
    added: tuple[VariableFacts, ...]


def align_variables(baseline: Report, candidate: Report, calls: CallPairs) -> VariablePairs:
    """Return which variables of two reports are the same.

    A variable follows its call: within it, by name and category, then by category. One outside of
    calls is aligned by name; a renamed one by what it is.
    """
    sides = _variables(baseline), _variables(candidate)
    facts = [[_facts(variable) for variable in side] for side in sides]
    names = [_names(side, calls, side_index) for side_index, side in enumerate(sides)]
    alone = [
        [
            (variable.category, fact) if variable.debug_context_id is None else None
            for variable, fact in zip(side, of_side, strict=True)
        ]
        for side, of_side in zip(sides, facts, strict=True)
    ]
    rounds = [([row[k] for row in names[0]], [row[k] for row in names[1]]) for k in range(3)]
    pairs, removed, added = align_in_turn([*rounds, (alone[0], alone[1])], *facts)
    return VariablePairs(
        tuple((sides[0][before], sides[1][after]) for before, after in pairs),
        tuple(sides[0][index] for index in removed),
        tuple(sides[1][index] for index in added),
    )


def variable_partners(baseline: Report, candidate: Report) -> dict[int, int]:
    """Return the candidate's variable for every one of the baseline that both have, by id."""
    calls = align_calls(call_tree(baseline), call_tree(candidate))
    pairs = align_variables(baseline, candidate, calls).pairs
    return {before.variable_id: after.variable_id for before, after in pairs}


def variable_pairs(
    baseline: Report, candidate: Report, variable_filter: VariableFilter | None = None
) -> tuple[Pair[VariableRow], ...]:
    """Return the variables of two reports, the largest change of size first.

    Parameters
    ----------
    baseline, candidate
        The reports.
    variable_filter
        As in `list_variables`; a variable is listed if its name matches on one side.

    Raises
    ------
    BadQuestion
        When a report does not have the category, tile, IPU or step.
    """
    requested = variable_filter or VariableFilter()

    def list_rows(report: Report, text: str) -> tuple[VariableRow, ...]:
        return list_variables(report, replace(requested, text=text)).rows

    pairs = paired_rows(
        *matching_rows(baseline, candidate, list_rows, requested.text),
        number=lambda row: row.variable_id,
        partners=variable_partners(baseline, candidate),
    )
    return by_change(pairs, lambda row: row.bytes)


def _names(
    variables: Sequence[VariableFacts], calls: CallPairs, side: int
) -> list[tuple[Hashable, Hashable, Hashable]]:
    """Return what two variables must share in each round; None to take no part in it.

    The name of a message buffer ends with that of the variable that is sent, which a second round
    leaves out.
    """
    tree, numbers = (calls.baseline, calls.candidate)[side], calls.numbers[side]
    name_of = {variable.variable_id: variable.name for variable in variables}
    names: list[tuple[Hashable, Hashable, Hashable]] = []
    for variable in variables:
        context, category = variable.debug_context_id, variable.category
        if context is None:
            names.append(((variable.name, category), None, None))
            continue
        number = numbers.get(context)
        if number is None:
            names.append((None, None, None))
            continue
        relative = relative_name(variable.name, tree.contexts[context].name)
        sent = "" if variable.sender_id is None else name_of[variable.sender_id]
        sender = relative.removesuffix(f"/message/{sent}") if sent else relative
        names.append(((number, relative, category), (number, sender, category), (number, category)))
    return names


def variable_changes(aligned: VariablePairs) -> VariableChanges:
    """Return how the variables of two reports differ; contents are not compared."""
    changed = [
        _change(before, after) for before, after in aligned.pairs if _facts(before) != _facts(after)
    ]
    return VariableChanges(
        _sorted([_change(None, variable) for variable in aligned.added]),
        _sorted([_change(variable, None) for variable in aligned.removed]),
        _sorted(changed),
        len(aligned.pairs) - len(changed),
    )


def no_variable_changes(report: Report) -> VariableChanges:
    """Return what is said of two reports with the same variables."""
    return VariableChanges((), (), (), report.n_rows(schema.variable))


@cached
def _variables(report: Report) -> tuple[VariableFacts, ...]:
    """Return all variables in order of their id."""
    rows = report.rows(schema.variable, *VariableFacts.__dataclass_fields__)
    return tuple(VariableFacts(*row) for row in rows)


def _facts(variable: VariableFacts) -> tuple[object, ...]:
    """Return what makes a variable different; its number, name and contents do not."""
    return _FACTS(variable)


def _change(baseline: VariableFacts | None, candidate: VariableFacts | None) -> VariableChange:
    """Return a variable on the sides that have it."""
    named = candidate or baseline
    assert named is not None
    delta = (candidate.bytes if candidate else 0) - (baseline.bytes if baseline else 0)
    return VariableChange(named.name, baseline, candidate, delta)


def _sorted(changes: list[VariableChange]) -> tuple[VariableChange, ...]:
    """Return changes by size of the change, largest first; equal ones in program order."""
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_bytes)))
