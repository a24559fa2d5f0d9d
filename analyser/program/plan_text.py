"""A plan in words, the same on the command line and on the page of operations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.quantities import MISSING, BytesStyle, format_bytes
from tilescope.reports.schema.vocabulary import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilescope.analyser.program.plan_explanation import PlanExplanation
    from tilescope.analyser.program.plans import Plan

__all__ = ["PartRow", "part_rows", "plan_facts", "runner_up_words", "split_words"]


@dataclass(frozen=True)
class PartRow:
    """A part of an operation, or a sum of parts, cycles; ``change`` is compiled over predicted.

    None where the planner does not look at it, or the program has no step for it.
    """

    label: str
    predicted_cycles: int | None
    compiled_cycles: int | None
    is_sum: bool
    is_exchange: bool = False

    @property
    def texts(self) -> tuple[str, str, str]:
        """The two counts and how the second differs, as they are written."""
        predicted, compiled = self.predicted_cycles, self.compiled_cycles
        both = predicted is not None and compiled is not None
        return (
            MISSING if predicted is None else f"{predicted:,}",
            MISSING if compiled is None else f"{compiled:,}",
            _change(predicted or 0, compiled or 0) if both else "",
        )


def split_words(choice: Mapping[str, int | str]) -> str:
    """Return the parts of a split or grouping that say something."""
    parts = [f"{name} {number}" for name, number in choice.items() if number != 1]
    return ", ".join(parts) or "not split"


def plan_facts(
    explanation: PlanExplanation, style: BytesStyle | None = None
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what was chosen and why: labels, each with one text or several."""
    plan = explanation.plan
    name, kind = explanation.asked_by
    facts: list[tuple[str, tuple[str, ...]]] = []
    if name:
        facts.append(("Asked for by", (f"{kind} node {name}",)))
    facts += [
        ("Family", (f"{plan.family}, groups of channels: {split_words(plan.grouping)}",)),
        ("Split", (split_words(plan.split),)),
    ]
    if plan.swaps_operands:
        facts.append(("Operands", ("swapped: made as the transposed product",)))
    balance = f"balance {plan.tile_balance:.1%} (mean over busiest, idle tiles included)"
    facts += [
        ("Tiles", (f"{plan.n_tiles:,} of {explanation.n_machine_tiles:,} compute, {balance}",)),
        ("Vertices", _vertices(explanation)),
        (
            "Memory",
            (
                f"{format_bytes(plan.temporary_bytes, style)} of temporary memory predicted on a"
                f" tile; {plan.available_memory_proportion:g} of a tile is available, that is"
                f" {format_bytes(explanation.available_bytes, style)}",
            ),
        ),
    ]
    if explanation.live_bytes is not None:
        live = format_bytes(explanation.live_bytes, style)
        facts.append(
            ("Live meanwhile", (f"up to {live} on a tile, its operands and results included",))
        )
    facts += [
        ("Bound by", (BOUNDS[plan.bound],)),
        ("Runner-up", (runner_up_words(plan),)),
    ]
    return tuple(fact for fact in facts if fact[1])


def part_rows(explanation: PlanExplanation) -> tuple[PartRow, ...]:
    """Return predicted beside compiled cycles: each part, then their sums."""
    rows = [
        PartRow(part.part, part.predicted_cycles, part.compiled_cycles, False, part.is_exchange)
        for part in explanation.parts
    ]
    predicted, compared = explanation.plan.predicted_cycles, explanation.compared_cycles or None
    rows.append(PartRow("What was predicted", predicted, compared, True))
    if explanation.compiled_cycles != explanation.compared_cycles:
        rows.append(PartRow("All parts", None, explanation.compiled_cycles, True))
    return tuple(rows)


def _vertices(explanation: PlanExplanation) -> tuple[str, ...]:
    """Return what computes; compute sets that are alike, as those of parts in turn, once."""
    times = Counter(
        f"{vertex.n_vertices:,} {vertex.vertex_type} on {vertex.n_tiles:,} tile"
        f"{'' if vertex.n_tiles == 1 else 's'}"
        for vertex in explanation.vertices
    )
    return tuple(words if n == 1 else f"{words}, {n} times" for words, n in times.items())


def runner_up_words(plan: Plan) -> str:
    """Return what the runner-up does otherwise, and what it would have cost."""
    if plan.runner_up is None:
        return "none was left"
    alike = {"family": plan.family, "grouping": " x ".join(map(str, plan.grouping.values()))}
    otherwise = {
        key: value for key, value in plan.runner_up.choice.items() if alike.get(key) != value
    }
    cycles = plan.runner_up.cycles
    change = _change(plan.predicted_cycles, cycles)
    return f"{split_words(otherwise)}: {cycles:,} cycles predicted, {change}"


def _change(before: int, after: int) -> str:
    """Return a relative change in percent."""
    if not before:
        return "equal" if not after else "not predicted"
    return "equal" if before == after else f"{(after - before) / before:+.1%}"
