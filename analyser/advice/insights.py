"""Insights: does it fit, which tiles are fullest, what takes their memory, what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.advice.remedy import Remedy, fit_advice, is_recomputation
from tilescope.analyser.advice.shortfall import Shortfall, shortfall
from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import Source, target, tile_range
from tilescope.analyser.memory.liveness import (
    LiveVariables,
    always_live_variables,
    curve,
    peak_step,
    step_program,
    step_variables,
)
from tilescope.analyser.memory.tile_memory import (
    FullestTile,
    categories,
    category_bytes,
    fullest_tile,
    largest_tiles,
    memory_distribution,
    tile_memory,
)
from tilescope.analyser.program.compute_sets import Codelet, codelets
from tilescope.analyser.program.contexts import enclosing
from tilescope.analyser.program.plans import Plan, plans
from tilescope.analyser.program.training import has_training
from tilescope.analyser.quantities import BytesStyle, format_bytes, format_percent
from tilescope.analyser.summary.stage_figures import IpuMemory, ipu_memory
from tilescope.analyser.time.figures import code_missing_bytes, memory_missing_bytes, missing_bytes
from tilescope.analyser.validation import require_known
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES, PROGRAM_KINDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Consumer",
    "Fit",
    "FullTile",
    "Insights",
    "Peak",
    "Tip",
    "fit_sentence",
    "insights",
    "tips",
]

_N_CONSUMERS = 10
#: A share of the fullest tile below which a thing is not worth a sentence.
_WORTH_SAYING = 0.1


@dataclass(frozen=True)
class Fit:
    """Whether a program fits: addresses decide, gaps included.

    ``max_tile_bytes`` and ``total_bytes`` are held, gaps excluded; ``max_address_bytes`` is one
    past the highest address of any tile.
    ``n_tiles_over`` do not fit: ``n_tiles_past_memory`` of them use addresses past their memory,
    ``n_tiles_with_too_much_code`` have code past ``executable_bytes``. ``excess_bytes`` is what
    all tiles lack together.
    """

    capacity_bytes: int
    max_address_bytes: int
    max_tile_bytes: int
    total_bytes: int
    total_capacity_bytes: int
    n_tiles: int
    n_tiles_over: int
    n_tiles_past_memory: int
    n_tiles_with_too_much_code: int
    excess_bytes: int
    executable_bytes: int

    @property
    def fits(self) -> bool:
        """Whether every tile fits."""
        return self.n_tiles_over == 0


@dataclass(frozen=True)
class FullTile:
    """One of the fullest tiles; ``categories`` by label without gaps, what is not used left out."""

    tile_id: int
    ipu_id: int
    including_gaps_bytes: int
    excluding_gaps_bytes: int
    categories: dict[str, int]


@dataclass(frozen=True)
class Consumer:
    """Something that takes memory, bytes as its list says, and how many compute sets use it.

    ``detail`` is the compute set with most of it; of an exchange its kind.
    """

    name: str
    bytes: int
    n_users: int
    detail: str


@dataclass(frozen=True)
class Peak:
    """When the fullest tile holds most.

    Attributes
    ----------
    variables
        What is live then on that tile and not always, largest first.
    plan
        How the operation of that step was split, if it was planned.
    """

    tile_id: int
    step: int
    kind: str
    name: str
    variables: LiveVariables
    plan: Plan | None


@dataclass(frozen=True)
class Insights:
    """What a report says about memory to someone who wants to use less of it.

    Attributes
    ----------
    histogram_edges_bytes : ndarray of int64, shape (n_bins + 1,), bytes
    histogram_n_tiles : ndarray of int64, shape (n_bins,)
        Tiles by the memory that something takes; the last bin includes its upper bound.
    vertex_states
        Codelets by the state of their vertices over all tiles; users are compute sets.
    vertex_codes
        Codelets by their code, on each tile that runs one; users are compute sets.
    exchanges
        Exchanges and copies by their code over all tiles.
    always_live
        What always lives on the fullest tile, code and state by category, largest first.
    peak
        None without liveness.
    shortfall
        None if it fits.
    remedies, remedy_tile_id
        What gains memory, and on which tile; none if the tile is of another IPU.
    trains
        Whether the program trains a model.
    stashes
        What the IPUs of a pipeline hold, those that stash most first; none without stashes.
    """

    fit: Fit
    fullest_tiles: tuple[FullTile, ...]
    histogram_edges_bytes: NDArray[np.int64]
    histogram_n_tiles: NDArray[np.int64]
    vertex_states: tuple[Consumer, ...]
    vertex_codes: tuple[Consumer, ...]
    exchanges: tuple[Consumer, ...]
    always_live: LiveVariables
    peak: Peak | None
    shortfall: Shortfall | None
    fullest: FullestTile
    remedies: tuple[Remedy, ...]
    remedy_tile_id: int
    trains: bool
    stashes: tuple[IpuMemory, ...] = ()


@dataclass(frozen=True)
class Tip:
    """A suggestion; ``saving_bytes`` on the fullest tile, None if unknown.

    ``tile_id``, ``operation`` and ``program`` say where to look, by number and names.
    """

    title: str
    text: str
    saving_bytes: int | None
    tile_id: int | None = None
    operation: str = ""
    program: str = ""


@cached
def insights(report: Report, ipu_id: int | None = None) -> Insights:
    """Return what takes the memory of a report's tiles, or of those of one IPU.

    State and code of vertices and exchanges are over all IPUs.

    Raises
    ------
    BadQuestion
        When the report holds no memory, or the machine has no such IPU.
    """
    machine = target(report)
    tiles = tile_range(report, "all" if ipu_id is None else ("ipu", ipu_id))
    ipu_tiles = slice(tiles.start, tiles.stop)
    used = tile_memory(report, "none", include_gaps=True).total_bytes[ipu_tiles]
    held = tile_memory(report, "none", include_gaps=False).total_bytes[ipu_tiles]
    lacks = missing_bytes(report)[ipu_tiles]
    fit = Fit(
        machine.capacity_bytes,
        int(used.max(initial=0)),
        int(held.max(initial=0)),
        int(held.sum()),
        machine.capacity_bytes * len(used),
        len(used),
        int(np.count_nonzero(lacks)),
        int(np.count_nonzero(memory_missing_bytes(report)[ipu_tiles])),
        int(np.count_nonzero(code_missing_bytes(report)[ipu_tiles])),
        int(lacks.sum()),
        machine.executable_bytes,
    )
    worst = _fullest_tiles(report, ipu_id)
    edges, counts = memory_distribution(report, ipu_id)
    fullest = fullest_tile(report, ipu_id)
    advice = fit_advice(report)
    remedies = advice.remedies if advice.tile_id in tiles else ()
    return Insights(
        fit,
        worst,
        edges,
        counts,
        _vertex_states(report),
        _vertex_codes(report),
        _exchanges(report),
        always_live_variables(report, ("tile", fullest.tile_id)),
        _peak(report, fullest.tile_id),
        shortfall(report, ipu_id),
        fullest,
        remedies,
        advice.tile_id,
        has_training(report),
        _stashes(report, ipu_id),
    )


def fit_sentence(fit: Fit, style: BytesStyle | None = None) -> str:
    """Return whether a program fits, and how much is spare or missing."""

    def amount(n_bytes: int) -> str:
        return format_bytes(n_bytes, style)

    if fit.fits:
        share = format_percent(100 * fit.max_tile_bytes / fit.capacity_bytes)
        full = format_percent(100 * fit.total_bytes / fit.total_capacity_bytes)
        return (
            f"It fits: the fullest tile holds {amount(fit.max_tile_bytes)} of"
            f" {amount(fit.capacity_bytes)} ({share}), all tiles hold {amount(fit.total_bytes)} of"
            f" {amount(fit.total_capacity_bytes)} ({full}). With gaps, addresses reach"
            f" {amount(fit.max_address_bytes)}."
        )
    reasons = []
    if fit.n_tiles_past_memory:
        need = "need" if fit.n_tiles_past_memory > 1 else "needs"
        reasons.append(
            f"{fit.n_tiles_past_memory:,} of {fit.n_tiles:,} tiles {need} more than"
            f" {amount(fit.capacity_bytes)}, gaps included: addresses reach"
            f" {amount(fit.max_address_bytes)}"
        )
    if fit.n_tiles_with_too_much_code:
        reasons.append(
            f"the code of {fit.n_tiles_with_too_much_code:,} of {fit.n_tiles:,} tiles exceeds the"
            f" {amount(fit.executable_bytes)} that hold code"
        )
    return (
        f"It does not fit: {'; '.join(reasons)};"
        f" {amount(fit.excess_bytes)} are missing over all tiles."
    )


def tips(result: Insights, style: BytesStyle | None = None) -> tuple[Tip, ...]:
    """Return what could be done about memory, with its figures; what saves most comes first."""
    every = [*_remedy_tips(result, style), _plan_tip(result, style), _gap_tip(result, style)]
    every += [_exchange_tip(result, style), _stash_tip(result, style)]
    known = [tip for tip in every if tip is not None]
    return tuple(sorted(known, key=lambda tip: -(tip.saving_bytes or 0)))


def _stashes(report: Report, ipu_id: int | None) -> tuple[IpuMemory, ...]:
    """Return what IPUs that stash hold, those that stash most first."""
    rows = [row for row in ipu_memory(report) if row.stash_bytes and ipu_id in (None, row.ipu_id)]
    return tuple(sorted(rows, key=lambda row: -row.stash_bytes))


def _fullest_tiles(report: Report, ipu_id: int | None) -> tuple[FullTile, ...]:
    """Return the five fullest tiles, with what they hold."""
    ranking = largest_tiles(report, 5, None if ipu_id is None else [ipu_id])
    by_category = category_bytes(report)
    labels = [category.label for category in categories(report)]
    return tuple(
        FullTile(
            tile,
            int(ranking.ipu_id[rank]),
            int(ranking.including_gaps_bytes[rank]),
            int(ranking.excluding_gaps_bytes[rank]),
            {
                label: int(by_category[row, tile])
                for row, label in enumerate(labels)
                if by_category[row, tile]
            },
        )
        for rank, tile in enumerate(ranking.tile_id.tolist())
    )


def _vertex_states(report: Report) -> tuple[Consumer, ...]:
    """Return the codelets whose vertices' state takes most, over all tiles."""
    consumers = []
    for codelet, used in _compute_sets_by_codelet(report):
        size = sum(row.state_bytes for row in used)
        largest = max(used, key=lambda row: row.state_bytes)
        consumers.append(Consumer(codelet.name, size, len(used), largest.compute_set))
    return _largest(consumers)


def _vertex_codes(report: Report) -> tuple[Consumer, ...]:
    """Return the codelets with most code."""
    consumers = []
    for codelet, used in _compute_sets_by_codelet(report):
        widest = max(used, key=lambda row: row.n_tiles)
        consumers.append(Consumer(codelet.name, codelet.code_bytes, len(used), widest.compute_set))
    return _largest(consumers)


@dataclass(frozen=True)
class _Use:
    """A compute set that has vertices of a codelet."""

    compute_set: str
    state_bytes: int
    n_tiles: int


@cached
def _compute_sets_by_codelet(report: Report) -> tuple[tuple[Codelet, tuple[_Use, ...]], ...]:
    """Return the codelets in use with the compute sets that have vertices of them."""
    names = dict(report.rows(schema.compute_set, "compute_set_id", "name"))
    columns = ("vertex_type_id", "compute_set_id", "state_bytes", "n_tiles")
    results: dict[int, list[_Use]] = {}
    used = report.column(schema.compute_set_vertex, "compute_set_id")
    require_known(report, used, names, "compute set {} does not exist")
    for type_id, compute_set_id, *rest in report.rows(schema.compute_set_vertex, *columns):
        results.setdefault(type_id, []).append(_Use(names[compute_set_id], *rest))
    known = codelets(report)
    return tuple((known[type_id], tuple(uses)) for type_id, uses in results.items())


def _largest(consumers: list[Consumer]) -> tuple[Consumer, ...]:
    """Return the consumers that take most; none without bytes."""
    consumers.sort(key=lambda consumer: (-consumer.bytes, consumer.name))
    return tuple(consumer for consumer in consumers[:_N_CONSUMERS] if consumer.bytes)


def _exchanges(report: Report) -> tuple[Consumer, ...]:
    """Return the exchanges and copies with most code, over all tiles."""
    kinds = {kind.name for kind in PROGRAM_KINDS.values() if kind.has_exchange_code}
    return _largest(
        [
            Consumer(name, size, 1, kind)
            for kind, name, size in report.rows(schema.program, "kind", "name", "code_bytes")
            if kind in kinds
        ]
    )


def _peak(report: Report, tile: int) -> Peak | None:
    """Return when a tile holds most, and what."""
    source: Source = ("tile", tile)
    step = peak_step(report, source)
    if step is None:
        return None
    live = curve(report, source)
    return Peak(
        tile,
        step,
        live.kind[step],
        live.name[step],
        step_variables(report, step, source),
        _plan_of(report, step_program(report, step)),
    )


def _plan_of(report: Report, program_id: int) -> Plan | None:
    """Return the plan of the operation that a program belongs to."""
    ids, contexts = report.columns(schema.program, "program_id", "debug_context_id")
    context_id = contexts[ids.index(program_id)] if program_id in ids else None
    around = {context.debug_context_id for context in enclosing(report, context_id)}
    return next((plan for plan in plans(report) if plan.debug_context_id in around), None)


def _remedy_tips(result: Insights, style: BytesStyle | None) -> list[Tip]:
    """Return what half precision gains, and in training the micro-batch and recomputation.

    Their figures are those of the remedies.
    """
    tips_ = []
    for remedy in result.remedies:
        is_said = remedy.name == "half" or (
            result.trains and (remedy.name == "batch" or is_recomputation(remedy))
        )
        if not is_said or 2 * remedy.gain_bytes < _WORTH_SAYING * result.fit.max_tile_bytes:
            continue
        gain = format_bytes(remedy.gain_bytes, style)
        text = f"{remedy.text} Tile {result.remedy_tile_id:,} then holds {gain} less"
        text += ", if operations keep their plans."
        tips_.append(Tip(remedy.title, text, remedy.gain_bytes, tile_id=result.remedy_tile_id))
    return tips_


def _plan_tip(result: Insights, style: BytesStyle | None) -> Tip | None:
    """Return what to change where the tile is fullest in a planned operation."""
    if result.shortfall is not None and result.shortfall.n_tiles_always_over:
        # What always lives is too much: no plan of an operation makes it fit.
        return None
    if result.peak is None or result.peak.plan is None:
        return None
    plan, held = result.peak.plan, result.peak.variables.total_bytes
    if held < _WORTH_SAYING * result.fit.max_tile_bytes:
        return None
    return Tip(
        "Give the operation at the peak less memory",
        f"The fullest tile holds most at step {result.peak.step:,}, in {plan.name}, which"
        f" adds {format_bytes(held, style)} to what always lives there. It was planned to keep"
        f" to {plan.available_memory_proportion:g} of a tile: a smaller"
        " availableMemoryProportion may make it take less, for more cycles.",
        None,
        operation=plan.name,
    )


def _gap_tip(result: Insights, style: BytesStyle | None) -> Tip | None:
    """Return what gaps take."""
    if not result.fullest_tiles:
        return None
    tile = result.fullest_tiles[0]
    gaps = tile.including_gaps_bytes - tile.excluding_gaps_bytes
    if gaps < _WORTH_SAYING * tile.including_gaps_bytes:
        return None
    harm = "" if not result.fit.fits else " They do no harm while every tile fits."
    return Tip(
        "Memory lost to gaps",
        f"{format_bytes(gaps, style)} of tile {tile.tile_id:,} hold nothing at its worst step: what"
        " lives later or earlier lies there, interleaved operands begin in another region, and"
        " others are kept apart or aligned."
        f"{harm}",
        None,
        tile_id=tile.tile_id,
    )


def _exchange_tip(result: Insights, style: BytesStyle | None) -> Tip | None:
    """Return what code of exchanges takes."""
    if not result.fullest_tiles or not result.exchanges:
        return None
    tile = result.fullest_tiles[0]
    labels = {category.label for category in MEMORY_CATEGORIES if category.is_exchange_code}
    size = sum(held for label, held in tile.categories.items() if label in labels)
    if size < 2 * _WORTH_SAYING * tile.excluding_gaps_bytes:
        return None
    largest = result.exchanges[0]
    share = format_percent(100 * size / tile.excluding_gaps_bytes)
    return Tip(
        "Exchange less, or in larger pieces",
        f"Code of exchanges takes {format_bytes(size, style)} of tile {tile.tile_id:,}, {share} of"
        f" what it holds. The largest over all tiles is that of {largest.name or 'an exchange'},"
        f" {format_bytes(largest.bytes, style)}.",
        None,
        program=largest.name,
    )


def _stash_tip(result: Insights, style: BytesStyle | None) -> Tip | None:
    """Return what stages of a pipeline stash, where that is much of an IPU's memory."""
    if not result.stashes or not result.trains:
        return None
    most = result.stashes[0]
    if most.stash_bytes < _WORTH_SAYING * most.total_bytes:
        return None
    share = format_percent(100 * most.stash_bytes / most.total_bytes)
    return Tip(
        "Stash less of micro-batches",
        f"Stages of IPU {most.ipu_id} stash {format_bytes(most.stash_bytes, style)} over its tiles,"
        f" {share} of what it holds when it holds most: a stage keeps 2d + 1 micro-batches at"
        " distance d from the last one. The recomputation 'pipeline' keeps only what reaches a"
        " stage (--recompute pipeline), and earlier stages with small results stash less.",
        None,
    )
