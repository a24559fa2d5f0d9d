"""Causes in variables: mapped to other tiles, or of another size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.diff.causes.cause import OTHERS, Cause, impact_words, sentence_of, short
from tilescope.analyser.quantities import format_bytes, format_change
from tilescope.analyser.time.execution import costs, steps

if TYPE_CHECKING:
    from collections.abc import Container

    from tilescope.analyser.diff.alignment.variables import VariableFacts
    from tilescope.analyser.diff.causes.evidence import Evidence
    from tilescope.reports import Report

__all__ = ["mapping_causes", "size_causes", "users_of_changed"]

#: Steps that move data between tiles.
_EXCHANGES = frozenset({"DoExchange", "GlobalExchange"})
#: Most variables whose size has a cause of its own.
_MOST_DETAILED = 20


def mapping_causes(evidence: Evidence) -> list[tuple[Cause, frozenset[int]]]:
    """Return variables mapped to other tiles, with the baseline's steps that they explain.

    A variable that a call computes from another such variable follows it, and is left out.
    """
    remapped = {
        one.variable_id: (one, other)
        for one, other in evidence.variables.pairs
        if one.mapping_digest != other.mapping_digest
        and one.category != "message"
        and (one.shape, one.dtype) == (other.shape, other.dtype)
    }
    if not remapped:
        return []
    users = _users(evidence.baseline)
    found: list[tuple[Cause, frozenset[int]]] = []
    followed: set[int] = set()
    for variable_id, (one, other) in sorted(remapped.items()):
        near = set(users.get(variable_id, ()))
        if variable_id not in followed:
            found.append((_explain(evidence, one, other), frozenset(near)))
        followed.update(
            later for later in remapped if later > variable_id and near & set(users.get(later, ()))
        )
    return found


def _explain(evidence: Evidence, one: VariableFacts, other: VariableFacts) -> Cause:
    """Return the cause for a variable that lies elsewhere, with the steps that use it."""
    cycles, sent = 0.0, []
    for side, (report, variable) in enumerate(zip(evidence.sides, (one, other), strict=True)):
        kinds, impacts = steps(report).kind, evidence.step_impacts[side]
        near = set(_users(report).get(variable.variable_id, ()))
        # The sync before an exchange belongs to it.
        near |= {s - 1 for s in near if s and kinds[s] in _EXCHANGES and kinds[s - 1] == "Sync"}
        chosen = sorted(near)
        cycles += float(impacts[chosen].sum())
        sent.append(int(costs(report).per_step("total_sent_bytes", len(kinds))[chosen].sum()))
    return _cause(one, other, int(np.rint(cycles)), sent[1] - sent[0])


def users_of_changed(evidence: Evidence) -> frozenset[int]:
    """Return the baseline's steps that use a variable that is gone, new, or lies elsewhere."""
    pairs = evidence.variables.pairs
    changed = (
        {
            *(
                one.variable_id
                for one, other in pairs
                if one.mapping_digest != other.mapping_digest
            ),
            *(one.variable_id for one in evidence.variables.removed),
        },
        {other.variable_id for other in evidence.variables.added},
    )
    before = {step for number in changed[0] for step in _users(evidence.baseline).get(number, ())}
    after = {step for number in changed[1] for step in _users(evidence.candidate).get(number, ())}
    return frozenset(before | {one for one, other in evidence.steps.pairs if other in after})


def _cause(one: VariableFacts, other: VariableFacts, cycles: int, sent: int) -> Cause:
    """Return the cause for a variable that lies elsewhere."""
    tiles = f" ({one.n_tiles:,} → {other.n_tiles:,} tiles)" if one.n_tiles != other.n_tiles else ""
    text = f"Mapping of variable {short(one.name)} changed{tiles}"
    effects = []
    if sent:
        effects.append(f"its exchanges send {format_change(sent, 'bytes')}")
    if cycles:
        effects.append(impact_words(cycles, 0))
    sentence = f"{text}: {', '.join(effects)}." if effects else f"{text}."
    return Cause("mapping", one.name, cycles, 0, sentence)


def size_causes(evidence: Evidence, owners: Container[object]) -> list[Cause]:
    """Return variables outside of known causes that hold more or less, or are new or gone.

    Parameters
    ----------
    evidence
        What the reports hold.
    owners
        Calls whose cause is known, as `Evidence.owner` gives them.
    """
    aligned = evidence.variables
    rows: list[tuple[VariableFacts | None, VariableFacts | None]] = [
        *(pair for pair in aligned.pairs if pair[0].bytes != pair[1].bytes),
        *((variable, None) for variable in aligned.removed),
        *((None, variable) for variable in aligned.added),
    ]
    found = []
    for one, other in rows:
        variable = one or other
        assert variable is not None
        is_known = evidence.owner(variable, 1 if one is None else 0) in owners
        if variable.category != "message" and not is_known:
            delta = (other.bytes if other else 0) - (one.bytes if one else 0)
            found.append((delta, one, other))
    found.sort(key=lambda row: -abs(row[0]))
    causes = [_size(*row) for row in found[:_MOST_DETAILED]]
    others = found[_MOST_DETAILED:]
    if others:
        total = sum(delta for delta, _, _ in others)
        text = sentence_of(f"{len(others):,} other variables changed", 0, total)
        causes.append(Cause("size", OTHERS[1], 0, total, text))
    return causes


def _size(delta: int, one: VariableFacts | None, other: VariableFacts | None) -> Cause:
    """Return the cause for a variable that is new, gone or of another size."""
    variable = one or other
    assert variable is not None
    name = short(variable.name)
    if one is None or other is None:
        verb = "added" if one is None else "removed"
        text = f"Variable {name} was {verb}: {format_change(delta, 'bytes')}."
    else:
        verb = "grew" if delta > 0 else "shrank"
        sizes = f"{format_bytes(one.bytes)} → {format_bytes(other.bytes)}"
        text = f"Variable {name} {verb} by {format_bytes(abs(delta))} ({sizes})."
    return Cause("size", variable.name, 0, delta, text)


@cached
def _users(report: Report) -> dict[int, list[int]]:
    """Return the steps that read or write every variable."""
    programs = report.array("program_variable.program_id").read()
    variables = report.array("program_variable.variable_id").read()
    of_program = steps(report).program_id
    order = np.argsort(of_program, kind="stable")
    place = np.searchsorted(of_program[order], programs)
    place = np.minimum(place, max(len(order) - 1, 0))
    found: dict[int, list[int]] = {}
    if len(order):
        step_ids = order[place]
        is_step = of_program[step_ids] == programs
        for step_id, variable in zip(
            step_ids[is_step].tolist(), variables[is_step].tolist(), strict=True
        ):
            found.setdefault(variable, []).append(step_id)
    return found
