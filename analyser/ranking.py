"""Insights for memory and time in one order, of one report or two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tilescope.analyser.advice.insights import insights, tips
from tilescope.analyser.advice.time_insights import InsightKind, time_insights
from tilescope.analyser.cache import cached
from tilescope.analyser.diff import Pair
from tilescope.analyser.diff.alignment.pairs import SizeChange, pairs, size_changes
from tilescope.analyser.program.operations import operations
from tilescope.analyser.time.execution import execution, steps
from tilescope.analyser.time.figures import has_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.advice.insights import Consumer
    from tilescope.analyser.memory.liveness import LiveVariables
    from tilescope.reports import Report

__all__ = [
    "INSIGHT_TITLES",
    "RankedInsight",
    "consumer_changes",
    "live_changes",
    "ranked_insights",
    "ranked_pairs",
]

#: Names of the kinds of time insights.
INSIGHT_TITLES: dict[InsightKind, str] = {
    "imbalance": "Imbalance",
    "exchange_bound": "Exchange-bound",
    "sync_bound": "Sync-bound",
    "copies": "Copies dearer than the product",
    "waiting": "Waiting",
    "stages": "Unbalanced stages",
    "collectives": "Collectives",
    "overlap": "I/O not overlapped",
    "streaming": "Waiting for streaming memory",
}


@dataclass(frozen=True)
class RankedInsight:
    """Something that costs memory or time, and where to look.

    Attributes
    ----------
    title, subject
        What it is, and of what; the subject may be empty.
    gain
        The most that can be gained: bytes on the fullest tile, or cycles on the critical path;
        None if unknown.
    share
        Of the tile's capacity, or of the time, 0 to 1; what insights are ordered by.
    text, advice
        What was found, and what to try.
    bound
        How the gain of an insight for time is computed.
    step_id
        Its longest step that was recorded, None for none.
    program_id
        Program of its longest step, None for none.
    tile_id, operation, program
        Where to look; ``operation`` is a key of the library layer, ``program`` a name.
    """

    topic: Literal["memory", "time"]
    title: str
    subject: str
    gain: int | None
    share: float | None
    text: str
    advice: str = ""
    bound: str = ""
    step_id: int | None = None
    program_id: int | None = None
    tile_id: int | None = None
    operation: str = ""
    program: str = ""

    @property
    def key(self) -> str:
        """What identifies it in another report."""
        return "\n".join((self.topic, self.title, self.subject))


@cached
def ranked_insights(report: Report) -> tuple[RankedInsight, ...]:
    """Return the insights for memory and time, the largest share of a gain first.

    A gain of memory counts by the capacity of a tile, one of time by the time of all runs. Those
    whose gain is unknown come last.
    """
    insights_ = [*_for_memory(report), *_for_time(report)]
    return tuple(
        sorted(insights_, key=lambda insight: 1.0 if insight.share is None else -insight.share)
    )


def ranked_pairs(
    baseline: Sequence[RankedInsight], candidate: Sequence[RankedInsight]
) -> tuple[Pair[RankedInsight], ...]:
    """Return the insights of two reports side by side, the largest share on either side first."""

    def by_key(side: Sequence[RankedInsight]) -> dict[str, RankedInsight]:
        return {insight.key: insight for insight in reversed(side)}

    def largest(pair: Pair[RankedInsight]) -> float:
        shares = [
            insight.share for insight in (pair.baseline, pair.candidate) if insight is not None
        ]
        return max((share for share in shares if share is not None), default=-1.0)

    pairs_ = pairs(by_key(baseline), by_key(candidate))
    return tuple(sorted(pairs_, key=lambda pair: -largest(pair)))


def consumer_changes(
    baseline: Sequence[Consumer], candidate: Sequence[Consumer]
) -> tuple[SizeChange, ...]:
    """Return the largest consumers of two reports by name, the largest change first."""
    return size_changes(
        *(
            {consumer.name: consumer.bytes for consumer in reversed(side)}
            for side in (baseline, candidate)
        )
    )


def live_changes(
    baseline: LiveVariables | None, candidate: LiveVariables | None
) -> tuple[SizeChange, ...]:
    """Return variables, code and state on a tile of each report by name, largest change first."""
    sides: list[dict[str, int]] = []
    for side in (baseline, candidate):
        sizes: dict[str, int] = {}
        if side is not None:
            for name, size in zip(side.name, side.bytes.tolist(), strict=True):
                sizes[name] = sizes.get(name, 0) + size
        sides.append(sizes)
    return size_changes(*sides)


def _for_memory(report: Report) -> list[RankedInsight]:
    """Return the insights for memory; none without memory."""
    if not has_memory(report):
        return []
    memory_insights = insights(report)
    return [
        RankedInsight(
            "memory",
            tip.title,
            "",
            tip.saving_bytes,
            None
            if tip.saving_bytes is None
            else tip.saving_bytes / memory_insights.fit.capacity_bytes,
            tip.text,
            tile_id=tip.tile_id,
            operation=tip.operation,
            program=tip.program,
        )
        for tip in tips(memory_insights)
    ]


def _for_time(report: Report) -> list[RankedInsight]:
    """Return the insights for time; they overlap."""
    time, ran, every = time_insights(report), execution(report), steps(report)
    names = {operation.name for operation in operations(report).operations}
    answer = []
    for insight in time.found:
        longest = max(insight.step_ids, key=lambda step: int(ran.step_cycles[step]), default=None)
        answer.append(
            RankedInsight(
                "time",
                INSIGHT_TITLES[insight.kind],
                insight.subject,
                insight.gain_cycles,
                insight.gain_cycles / time.total_cycles,
                insight.text,
                insight.advice,
                insight.bound,
                longest if time.n_runs else None,
                None if longest is None else int(every.program_id[longest]),
                operation=insight.subject if insight.subject in names else "",
            )
        )
    return answer
