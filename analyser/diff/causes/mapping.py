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
        before.variable_id: (before, after)
        for before, after in evidence.variables.pairs
        if before.mapping_digest != after.mapping_digest
        and before.category != "message"
        and (before.shape, before.dtype) == (after.shape, after.dtype)
    }
    if not remapped:
        return []
    users = _users(evidence.baseline)
    causes: list[tuple[Cause, frozenset[int]]] = []
    followed: set[int] = set()
    for variable_id, (before, after) in sorted(remapped.items()):
        near = set(users.get(variable_id, ()))
        if variable_id not in followed:
            causes.append((_explain(evidence, before, after), frozenset(near)))
        followed.update(
            later for later in remapped if later > variable_id and near & set(users.get(later, ()))
        )
    return causes


def _explain(evidence: Evidence, before: VariableFacts, after: VariableFacts) -> Cause:
    """Return the cause for a variable that lies elsewhere, with the steps that use it."""
    cycles, sent = 0.0, []
    for side, (report, variable) in enumerate(zip(evidence.sides, (before, after), strict=True)):
        kinds, impacts = steps(report).kind, evidence.step_impacts[side]
        near = set(_users(report).get(variable.variable_id, ()))
        # The sync before an exchange belongs to it.
        near |= {s - 1 for s in near if s and kinds[s] in _EXCHANGES and kinds[s - 1] == "Sync"}
        chosen = sorted(near)
        cycles += float(impacts[chosen].sum())
        sent.append(int(costs(report).per_step("total_sent_bytes", len(kinds))[chosen].sum()))
    return _cause(before, after, int(np.rint(cycles)), sent[1] - sent[0])


def users_of_changed(evidence: Evidence) -> frozenset[int]:
    """Return the baseline's steps that use a variable that is gone, new, or lies elsewhere."""
    pairs = evidence.variables.pairs
    changed = (
        {
            *(
                first.variable_id
                for first, second in pairs
                if first.mapping_digest != second.mapping_digest
            ),
            *(first.variable_id for first in evidence.variables.removed),
        },
        {second.variable_id for second in evidence.variables.added},
    )
    before = {step for number in changed[0] for step in _users(evidence.baseline).get(number, ())}
    after = {step for number in changed[1] for step in _users(evidence.candidate).get(number, ())}
    return frozenset(before | {first for first, second in evidence.steps.pairs if second in after})


def _cause(before: VariableFacts, after: VariableFacts, cycles: int, sent: int) -> Cause:
    """Return the cause for a variable that lies elsewhere."""
    tiles = (
        f" ({before.n_tiles:,} → {after.n_tiles:,} tiles)"
        if before.n_tiles != after.n_tiles
        else ""
    )
    text = f"Mapping of variable {short(before.name)} changed{tiles}"
    effects = []
    if sent:
        effects.append(f"its exchanges send {format_change(sent, 'bytes')}")
    if cycles:
        effects.append(impact_words(cycles, 0))
    sentence = f"{text}: {', '.join(effects)}." if effects else f"{text}."
    return Cause("mapping", before.name, cycles, 0, sentence)


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
    results = []
    for before, after in rows:
        variable = before or after
        assert variable is not None
        is_known = evidence.owner(variable, 1 if before is None else 0) in owners
        if variable.category != "message" and not is_known:
            delta = (after.bytes if after else 0) - (before.bytes if before else 0)
            results.append((delta, before, after))
    results.sort(key=lambda row: -abs(row[0]))
    causes = [_size(*row) for row in results[:_MOST_DETAILED]]
    further = results[_MOST_DETAILED:]
    if further:
        total = sum(delta for delta, _, _ in further)
        text = sentence_of(f"{len(further):,} other variables changed", 0, total)
        causes.append(Cause("size", OTHERS[1], 0, total, text))
    return causes


def _size(delta: int, before: VariableFacts | None, after: VariableFacts | None) -> Cause:
    """Return the cause for a variable that is new, gone or of another size."""
    variable = before or after
    assert variable is not None
    name = short(variable.name)
    if before is None or after is None:
        verb = "added" if before is None else "removed"
        text = f"Variable {name} was {verb}: {format_change(delta, 'bytes')}."
    else:
        verb = "grew" if delta > 0 else "shrank"
        sizes = f"{format_bytes(before.bytes)} → {format_bytes(after.bytes)}"
        text = f"Variable {name} {verb} by {format_bytes(abs(delta))} ({sizes})."
    return Cause("size", variable.name, 0, delta, text)


@cached
def _users(report: Report) -> dict[int, list[int]]:
    """Return the steps that read or write every variable."""
    programs = report.array("program_variable.program_id").read()
    variables = report.array("program_variable.variable_id").read()
    of_program = steps(report).program_id
    order = np.argsort(of_program, kind="stable")
    index = np.searchsorted(of_program[order], programs)
    index = np.minimum(index, max(len(order) - 1, 0))
    users: dict[int, list[int]] = {}
    if len(order):
        step_ids = order[index]
        is_step = of_program[step_ids] == programs
        for step_id, variable in zip(
            step_ids[is_step].tolist(), variables[is_step].tolist(), strict=True
        ):
            users.setdefault(variable, []).append(step_id)
    return users
