"""Make it fit: by how much tiles lack memory, and what each remedy, alone or with others, gains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tilescope.analyser.absence import absence
from tilescope.analyser.advice.needed_memory import AGAIN, Excess, Needed
from tilescope.analyser.advice.recomputation import recomputation_kinds, recomputed
from tilescope.analyser.advice.remedy_command import measuring_command
from tilescope.analyser.advice.shortfall import simultaneous_bytes
from tilescope.analyser.advice.training_sizes import batch_of, micro_batches
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.liveness import parsed_shape
from tilescope.analyser.memory.uses import uses
from tilescope.analyser.program.training import has_training
from tilescope.analyser.quantities import (
    BytesStyle,
    format_bytes,
    format_change,
    format_percent,
    percent_of,
)
from tilescope.analyser.summary.provenance import provenance
from tilescope.analyser.time.execution import execution
from tilescope.analyser.time.figures import has_memory, missing_bytes, tile_rows
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Certainty",
    "Excess",
    "FitAdvice",
    "Remedy",
    "fit_advice",
    "fit_verdict",
    "is_recomputation",
    "live_words",
]

#: ``exact``: the report decides the bytes held; ``estimate``: it would if operations kept their
#: plans, but the compiler plans anew and may gain more or less; ``at most``: an upper bound.
Certainty: TypeAlias = Literal["exact", "estimate", "at most"]
#: Tiles whose variables are looked at where all tiles fit.
_MOST_FULLEST = 8


#: Of what the fullest tile lacks, that an estimate has to give before it has a command: another
#: plan may take more than a smaller gain.
#: Assumption: one case was measured, where 4 % were estimated and 0.3 % more were taken.
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Remedy:
    """Something to change, and what it gains.

    Attributes
    ----------
    name
        Stable.
    title
        What to do.
    text
        Where its figures come from, and how to do it.
    gain_bytes
        On the tile that lacks most, or on the fullest if all fit.
    after
        What still lacks if it alone is applied; with ``at most``, what lacks at the least.
    command
        Measures it; empty where the program itself has to change, or an estimate gives too little.
    live_bytes
        The most that then lives at one step over all tiles, code and messages included; None where
        it does not change what lives at a step.
    cycles
        What a run takes longer by it, as far as it is known; None where it is not.
    """

    name: str
    title: str
    text: str
    certainty: Certainty
    gain_bytes: int
    after: Excess
    command: str
    live_bytes: int | None = None
    cycles: int | None = None

    @property
    def is_enough(self) -> bool:
        """Whether it alone makes every tile fit, or may, if it is not exact."""
        return not self.after.n_tiles


@dataclass(frozen=True)
class FitAdvice:
    """Whether a program fits, and what makes it fit.

    Attributes
    ----------
    tile_id
        The tile that lacks most, of several the one that holds most; the fullest if all fit.
    before
        What tiles lack.
    gap_bytes
        What gaps take below the highest address of ``tile_id``; no option removes them.
    spare_bytes
        What the tile with the highest address has left; 0 if any lacks memory.
    simultaneous_bytes
        Variables and constants that live at one step, over all tiles.
    live_bytes
        The most that lives at one step over all tiles, code and messages included.
    least_tiles
        Lower bound: tiles of this capacity that hold them.
    remedies
        Those that gain anything, the most on the worst tile first.
    together
        Names of the least number of remedies that suffice; empty if none do, or all tiles fit.
    rest
        What lacks with all remedies applied.
    command
        Measures ``together``; empty where the program itself has to change, or nothing suffices.
    """

    tile_id: int
    n_tiles: int
    capacity_bytes: int
    before: Excess
    gap_bytes: int
    spare_bytes: int
    simultaneous_bytes: int
    live_bytes: int
    least_tiles: int
    remedies: tuple[Remedy, ...]
    together: tuple[str, ...]
    rest: Excess
    command: str

    @property
    def fits(self) -> bool:
        """Whether every tile fits."""
        return not self.before.n_tiles

    @property
    def is_certain(self) -> bool:
        """Whether the gains of ``together`` are exact."""
        by_name = {remedy.name: remedy for remedy in self.remedies}
        return all(by_name[name].certainty == "exact" for name in self.together)


@dataclass(frozen=True)
class _Kind:
    """A remedy before its effect is known."""

    title: str
    text: str
    certainty: Certainty
    flags: str | None
    """What to add to the command that was run; None where the program has to change."""
    cycles: int | None = None


_KINDS = {
    "spread": _Kind(
        "Spread always-live variables",
        "Weights and other variables that always live, divided evenly over all tiles of their IPU:"
        " map them with 'graph.map_linearly'.",
        "exact",
        None,
    ),
    "half": _Kind(
        "Use half precision",
        "Every float32 variable takes half of its bytes, and so do the messages that carry one.",
        "estimate",
        "--precision half",
    ),
    "instrumentation": _Kind(
        "Drop instrumentation",
        "Without cycle counters, their results need no memory, and the report has no cycles.",
        "exact",
        "--option debug.instrument=false",
    ),
    "exchange_code": _Kind(
        "Share exchange code",
        "Exchanges whose code has the same size on every tile, as if each kind of them had its code"
        " once: call equal operations as a function.",
        "at most",
        None,
    ),
    "tiles": _Kind(
        "Use all tiles",
        "As if everything but code divided evenly over the tiles of a whole IPU.",
        "estimate",
        "",
    ),
    "ipus": _Kind(
        "Use more IPUs",
        "As if always-live variables spread over twice as many IPUs.",
        "at most",
        "",
    ),
    "batch": _Kind(
        "Use half the batch",
        "As if all but always-live variables shrank with the batch, code and the state of vertices"
        " too, and work were spread over tiles as before.",
        "at most",
        "",
    ),
    "recompute": _Kind(
        "Recompute what waits",
        "As if all that a step computes and others use later lived only at the steps that use it;"
        " what the host sends or receives stays. The engine does not recompute by itself: build"
        " the operations again where their results are used.",
        "at most",
        None,
    ),
}


def _kinds(report: Report) -> dict[str, _Kind]:
    """Return the remedies that a report knows the ingredients of."""
    kinds = dict(_KINDS)
    batch, trains = batch_of(report), has_training(report)
    if batch < 2:
        del kinds["batch"]
    elif trains:
        kinds["batch"] = _smaller_micro_batch(report, batch)
    else:
        n_bytes = _batched_bytes(report, batch)
        title = f"Use a batch of {batch // 2:,} in place of {batch:,}"
        text = f"{kinds['batch'].text} Variables with the batch in their shape have"
        text += f" {format_bytes(n_bytes // batch)} a sample, added up over the whole program."
        kinds["batch"] = replace(kinds["batch"], title=title, text=text)
    if provenance(report).get("precision") == "half":
        # Half partial sums, and a smaller share of memory for plans, are no remedies: the plans
        # that are chosen then may take more in all, and measured ones did.
        del kinds["half"]
    elif trains:
        kinds["half"] = replace(kinds["half"], text=_HALF_IN_TRAINING, certainty="at most")
    if trains or not len(uses(report)[0]):  # the report does not say what a step uses
        del kinds["recompute"]
    return kinds | {AGAIN + kind: _again(report, kind) for kind in recomputation_kinds(report)}


_HALF_IN_TRAINING = (
    "Every float32 variable takes half of its bytes, and so do the messages that carry one, but for"
    " weights and the state of the optimizer, which stay float. Copies of weights in half come"
    " to it, and what the policy of half keeps in float."
)


def _smaller_micro_batch(report: Report, batch: int) -> _Kind:
    """Return the remedy that trains on more, smaller micro-batches in a step."""
    n_rounds = micro_batches(report)
    text = "What depends on the batch shrinks with it: activations, their gradients, and what"
    text += " operations work in. A step has as many samples as before."
    if n_rounds == 1:
        text += " Every weight gets a sum of gradients."
    return _Kind(
        f"Accumulate gradients over {2 * n_rounds:,} micro-batches of {batch // 2:,}",
        text,
        "estimate",
        "",
    )


def _again(report: Report, kind: str) -> _Kind:
    """Return the remedy of a kind of recomputation."""
    found = recomputed(report, kind)
    total = int(execution(report).run_cycles.sum()) // max(execution(report).n_runs, 1)
    share = percent_of(total, found.cycles)
    cost = format_change(found.cycles, "cycles")
    cost += f" a step ({format_percent(share, is_signed=True)})" if share is not None else " a step"
    what = {
        "all": "everything that the backward pass reads",
        "norm": "normalisations and the non-linearities after them",
        "standard": "all but what is alive at a few places",
    }.get(kind, kind)
    operations = f"{found.n_operations:,} operation{'s' * (found.n_operations != 1)}"
    verb = "are" if found.n_operations != 1 else "is"
    text = f"Before the backward pass reads it, {what} is computed again in place of being kept:"
    text += f" {operations} {verb} repeated, {cost}. The same bits result."
    flags = f"--recompute {kind}"
    return _Kind(f"Recompute: {kind}", text, "estimate", flags, found.cycles)


def _batched_bytes(report: Report, batch: int) -> int:
    """Return the bytes of the variables that come and go and have the batch in their shape.

    Lowering may join the batch with other dimensions: a multiple of it counts.
    """
    columns = report.rows(schema.variable, "shape", "bytes", "is_always_live")
    return sum(
        n_bytes
        for shape, n_bytes, is_always_live in columns
        if not is_always_live and any(size and size % batch == 0 for size in parsed_shape(shape))
    )


@cached
def fit_advice(report: Report) -> FitAdvice:
    """Return by how much a program lacks memory, and what would make it fit.

    Raises
    ------
    BadQuestion
        When the report holds no memory.

    Notes
    -----
    A tile's highest address is taken to fall by the bytes that a remedy removes from it, with gaps
    left as they are. The most that lives at one step is computed anew for every remedy.
    """
    if not has_memory(report):
        raise BadQuestion(absence(report, "memory"))
    machine, lacks = target(report), missing_bytes(report)
    fullest = np.lexsort((-tile_rows(report)["excluding_gaps"], -lacks))
    tile = int(fullest[0])
    looked_at = np.flatnonzero(lacks) if lacks.any() else np.sort(fullest[:_MOST_FULLEST])
    memory = Needed(report, looked_at)
    before, remedies, kinds = memory.excess(()), [], _kinds(report)
    for name, kind in kinds.items():
        gain, after = int(memory.gain((name,))[tile]), memory.excess((name,))
        if gain > 0 or after.total_bytes < before.total_bytes:
            is_worth_it = kind.certainty == "exact" or gain >= _LEAST_SHARE * before.worst_bytes
            command = measuring_command(report, {name: kind.flags}) if is_worth_it else ""
            live = memory.live_bytes((name,))
            remedies.append(
                Remedy(
                    name,
                    kind.title,
                    kind.text,
                    kind.certainty,
                    gain,
                    after,
                    command,
                    live,
                    kind.cycles,
                )
            )
    remedies.sort(key=lambda remedy: (-remedy.gain_bytes, remedy.after.total_bytes))
    names = [remedy.name for remedy in remedies]
    together = _least_set(memory, names) if lacks.any() else ()
    rows = tile_rows(report)
    size = simultaneous_bytes(report)
    return FitAdvice(
        tile,
        machine.n_tiles,
        machine.capacity_bytes,
        before,
        int(rows["including_gaps"][tile] - rows["excluding_gaps"][tile]),
        0 if lacks.any() else machine.capacity_bytes - int(rows["including_gaps"].max()),
        size,
        memory.live_bytes(()) or 0,
        -(-size // machine.capacity_bytes),
        tuple(remedies),
        together,
        memory.excess(_compatible(names)),
        measuring_command(report, {name: kinds[name].flags for name in together}),
    )


def fit_verdict(result: FitAdvice, style: BytesStyle = "binary") -> str:
    """Return in a few sentences what makes a program fit."""

    def amount(n_bytes: int) -> str:
        return format_bytes(n_bytes, style)

    if result.fits:
        return f"It fits: the tile with the highest address has {amount(result.spare_bytes)} left."
    before = result.before
    lacks = "tile lacks" if before.n_tiles == 1 else "tiles lack"
    needs = (
        f"{before.n_tiles:,} of {result.n_tiles:,} {lacks} memory: {amount(before.worst_bytes)} on"
        f" tile {result.tile_id:,}, the worst, {amount(before.total_bytes)} together. Variables and"
        f" constants that live at one step, {amount(result.simultaneous_bytes)}, need at least"
        f" {result.least_tiles:,} tiles, without any code or message"
    )
    needs += "." if result.least_tiles <= result.n_tiles else ": more than there are."
    by_name = {remedy.name: remedy for remedy in result.remedies}
    if result.together:
        titles = " and ".join(f"'{by_name[name].title}'" for name in result.together)
        is_single = len(result.together) == 1
        makes = "may make" if not result.is_certain else "makes" if is_single else "make"
        return f"{needs} {titles} {'' if is_single else 'together '}{makes} it fit."
    rest = f"{amount(result.rest.worst_bytes)} would still lack on the worst tile"
    gaps = f", where gaps take {amount(result.gap_bytes)}" if result.gap_bytes else ""
    return f"{needs} All remedies below together do not suffice: {rest}{gaps}."


def live_words(advice: FitAdvice, remedy: Remedy, style: BytesStyle | None = None) -> str:
    """Return what a remedy leaves of the most that lives at one step; empty if that is all."""
    live = remedy.live_bytes
    if live is None or live == advice.live_bytes:
        return ""
    before, after = (format_bytes(n_bytes, style) for n_bytes in (advice.live_bytes, live))
    return f"Over all tiles at most {after} then live at one step, in place of {before}."


def _compatible(names: Sequence[str]) -> tuple[str, ...]:
    """Return remedies without kinds of recomputation but the first one."""
    again = [name for name in names if name.startswith(AGAIN)]
    return tuple(name for name in names if name not in again[1:])


def _least_set(memory: Needed, names: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest remedies that make every tile fit: exact ones, then the largest first."""
    for size in range(1, len(names) + 1):
        enough = [
            chosen
            for chosen in combinations(names, size)
            if chosen == _compatible(chosen) and not memory.excess(chosen).n_tiles
        ]
        if enough:
            return min(enough, key=_n_bounds)
    return ()


def is_recomputation(remedy: Remedy) -> bool:
    """Return whether a remedy is a kind of recomputation."""
    return remedy.name.startswith(AGAIN)


def _n_bounds(names: Iterable[str]) -> int:
    """Return how many of some remedies depend on more than the report decides."""
    return sum(name not in _KINDS or _KINDS[name].certainty != "exact" for name in names)
