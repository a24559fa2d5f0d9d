"""Make it fit: by how much tiles lack memory, and what each remedy, alone or with others, gains."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.absence import absence
from tilescope.analyser.advice.shortfall import simultaneous_bytes
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.liveness import liveness_step_ids, parsed_shape
from tilescope.analyser.memory.lowered_variables import (
    first_parts,
    lowered_parts,
    variable_columns,
    variable_positions,
)
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.quantities import BytesStyle, format_bytes
from tilescope.analyser.summary.provenance import provenance
from tilescope.analyser.time.figures import has_memory, missing_bytes, tile_rows
from tilescope.reports import figures, schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY, PROGRAM_KINDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Certainty", "Excess", "FitAdvice", "Remedy", "fit_advice", "fit_verdict"]

#: ``exact``: the report decides the bytes held; ``estimate``: it would if operations kept their
#: plans, but the compiler plans anew and may gain more or less; ``at most``: an upper bound.
Certainty: TypeAlias = Literal["exact", "estimate", "at most"]
_INSTRUMENTATION = "instrumentationResults"
#: Steps that exchange variables with the host.
_STREAMS = ("stream_begin", "stream_copy", "stream_end")


@dataclass(frozen=True)
class Excess:
    """By how much tiles do not fit: how many, the worst of them, and all together, bytes."""

    n_tiles: int
    worst_bytes: int
    total_bytes: int


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
        Measures it; empty where the program itself has to change.
    """

    name: str
    title: str
    text: str
    certainty: Certainty
    gain_bytes: int
    after: Excess
    command: str

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
    """What to add to ``tilescope run``; None where the program has to change."""


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
#: Remedies that change what lives at a step.
_OF_STEPS = frozenset({"half", "batch", "recompute"})


def _batch(report: Report) -> int:
    """Return the batch that a run chose; 1 where it chose none or the report does not say."""
    text = provenance(report).get("batch", "")
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) else 1


def _less_batch(report: Report, n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what sizes in proportion to the batch are with half of it, rounded up."""
    batch = _batch(report)
    return -(-n_bytes * (batch // 2) // batch)


def _kinds(report: Report) -> dict[str, _Kind]:
    """Return the remedies that a report knows the ingredients of."""
    kinds = dict(_KINDS)
    batch = _batch(report)
    if batch < 2:
        del kinds["batch"]
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
    return kinds


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
    tile = int(np.lexsort((-tile_rows(report)["excluding_gaps"], -lacks))[0])
    memory = _Memory(report, np.flatnonzero(lacks) if lacks.any() else np.array([tile]))
    before, remedies, kinds = memory.excess(()), [], _kinds(report)
    if not len(_uses(report)[0]):  # the report does not say what a step uses
        del kinds["recompute"]
    for name, kind in kinds.items():
        gain, after = int(memory.gain((name,))[tile]), memory.excess((name,))
        if gain > 0 or after.total_bytes < before.total_bytes:
            command = _command(report, (name,))
            remedies.append(
                Remedy(name, kind.title, kind.text, kind.certainty, gain, after, command)
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
        -(-size // machine.capacity_bytes),
        tuple(remedies),
        together,
        memory.excess(names),
        _command(report, together),
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


def _least_set(memory: _Memory, names: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest remedies that make every tile fit: exact ones, then the largest first."""
    for size in range(1, len(names) + 1):
        enough = [
            chosen for chosen in combinations(names, size) if not memory.excess(chosen).n_tiles
        ]
        if enough:
            return min(enough, key=_n_bounds)
    return ()


def _n_bounds(names: Iterable[str]) -> int:
    """Return how many of some remedies depend on more than the report decides."""
    return sum(_KINDS[name].certainty != "exact" for name in names)


class _Memory:
    """What tiles need, and what some remedies leave of it.

    Parameters
    ----------
    report
        The report.
    tiles : ndarray of int64
        Tiles whose variables are read: remedies are computed for them. Others take part where a
        remedy moves something to them.
    """

    def __init__(self, report: Report, tiles: NDArray[np.int64]) -> None:
        self._report, self._machine, self._tiles = report, target(report), tiles
        self._rows = tile_rows(report)
        sizes = category_bytes(report)
        self._by_category = {
            category.name: sizes[row] for row, category in enumerate(categories(report))
        }
        #: What is not a variable, on every tile, bytes.
        self._code = np.zeros(self._machine.n_tiles, dtype=np.int64)
        for name, values in self._by_category.items():
            if not MEMORY_CATEGORY[name].is_variable:
                self._code += values
        #: Always-live variables on every tile, bytes.
        self._kept = np.maximum(self._rows["always_live"] - self._code, 0)
        self._parts = _Parts(report, tiles)
        self._peaks: dict[frozenset[str], NDArray[np.int64]] = {}

    def excess(self, names: Iterable[str]) -> Excess:
        """Return what tiles lack with some remedies applied."""
        names = tuple(names)
        code = self._shared_code if "exchange_code" in names else 0
        if "batch" in names:
            code += self._code - _less_batch(self._report, self._code)
        lacks = figures.missing_bytes(
            self._rows["including_gaps"] - self.gain(names),
            self._rows["code_end"] - code,
            self._machine.capacity_bytes,
            self._machine.executable_bytes,
        )
        return Excess(int(np.count_nonzero(lacks)), int(lacks.max()), int(lacks.sum()))

    def gain(self, names: Iterable[str]) -> NDArray[np.int64]:
        """Return by how much the highest address of every tile falls, int64, shape (n_tiles,)."""
        names = frozenset(names)
        gain = np.zeros(self._machine.n_tiles, dtype=np.int64)
        if names & _OF_STEPS:
            gain[self._tiles] += self._peak(frozenset()) - self._peak(names & _OF_STEPS)
        if "batch" in names:
            gain += self._code - _less_batch(self._report, self._code)
        kept_bytes = self._kept - (self._parts.always_float_bytes // 2 if "half" in names else 0)
        if "ipus" in names and self._spans_ipus():
            kept_bytes = kept_bytes - kept_bytes // 2
        if "spread" in names:
            by_ipu = kept_bytes.reshape(self._machine.n_ipus, -1)
            even = -(-by_ipu.sum(axis=1) // self._machine.tiles_per_ipu)
            kept_bytes = np.repeat(even, self._machine.tiles_per_ipu)
        gain += self._kept - kept_bytes
        if "instrumentation" in names and _INSTRUMENTATION in self._by_category:
            gain += self._by_category[_INSTRUMENTATION]
        if "exchange_code" in names:
            gain += self._shared_code
        if "tiles" in names and (tiles_of_ipu := _whole_ipu(self._report)):
            rest = self._rows["including_gaps"] - gain
            divided = np.maximum(rest - self._code, 0)
            gain += divided - -(-divided * self._machine.tiles_per_ipu // tiles_of_ipu)
        return gain

    def _peak(self, names: frozenset[str]) -> NDArray[np.int64]:
        """Return the most that lives but not always on the tiles, at one step."""
        if names not in self._peaks:
            self._peaks[names] = self._parts.peak(names)
        return self._peaks[names]

    def _spans_ipus(self) -> bool:
        """Return whether always-live variables lie on several IPUs."""
        by_ipu = self._kept.reshape(self._machine.n_ipus, -1).any(axis=1)
        return int(np.count_nonzero(by_ipu)) > 1

    @cached_property
    def _shared_code(self) -> NDArray[np.int64]:
        """The code of exchanges that others have as well, int64, shape (n_tiles,)."""
        answer = np.zeros(self._machine.n_tiles, dtype=np.int64)
        kinds = {kind.name for kind in PROGRAM_KINDS.values() if kind.has_exchange_code}
        rows = self._report.rows(schema.program, "kind", "code_pattern_id")
        n_programs = Counter(row for row in rows if row[0] in kinds and row[1] is not None)
        for (_, pattern_id), n in n_programs.items():
            if n > 1:
                answer += (n - 1) * pattern(self._report, "code.pattern", pattern_id)
        return answer


class _Parts:
    """Parts of variables on some tiles; ``always_float_bytes`` is of float32, (n_tiles,)."""

    def __init__(self, report: Report, tiles: NDArray[np.int64]) -> None:
        self._report, self._n = report, len(tiles)
        first = first_parts(report)
        # One tile is read alone; several are read with what lies between them.
        low, high = int(tiles.min()), int(tiles.max()) + 1
        columns = lowered_parts(report, low, high, "variable_id", "bytes")
        tile = np.repeat(np.arange(low, high, dtype=np.int32), np.diff(first[low : high + 1]))
        variables = variable_columns(report)
        index = variable_positions(report, columns["variable_id"])
        is_always = np.array(variables["is_always_live"], dtype=np.bool_)[index]
        is_float = _is_float(report)[index]
        del index
        self.always_float_bytes = np.zeros(target(report).n_tiles, dtype=np.int64)
        chosen = is_always & is_float
        np.add.at(self.always_float_bytes, tile[chosen], columns["bytes"][chosen])
        comes_and_goes = ~is_always & np.isin(tile, tiles)
        self._place = np.searchsorted(tiles.astype(np.int32), tile[comes_and_goes])
        self._place = self._place.astype(np.int32)
        self._variable = columns.pop("variable_id")[comes_and_goes].astype(np.int32)
        self._bytes = columns.pop("bytes")[comes_and_goes]
        self._is_float = is_float[comes_and_goes]
        for name in ("start_step", "end_step"):
            columns[name] = lowered_parts(report, low, high, name)[name][comes_and_goes]
        self._start = columns["start_step"].astype(np.int32)
        self._end = columns["end_step"].astype(np.int32)

    def peak(self, names: frozenset[str]) -> NDArray[np.int64]:
        """Return the most that lives at one step on every tile, int64, shape (n_chosen,), bytes.

        Parameters
        ----------
        names
            Remedies: ``half`` counts float32 at half its size, ``batch`` everything at the size of
            half the batch, and ``recompute`` counts variables only at the steps that use them.
        """
        size = self._bytes - np.where(self._is_float & ("half" in names), self._bytes // 2, 0)
        if "batch" in names:
            size = _less_batch(self._report, size)
        if "recompute" in names:
            part, start, end = self._used
            return _most_at_once(self._n, size[part], _events(self._place[part], start, end))
        return _most_at_once(self._n, size, self._lives)

    @cached_property
    def _lives(self) -> list[_Events]:
        """The begins and ends of all parts."""
        return list(_events(self._place, self._start, self._end))

    @cached_property
    def _used(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Part, first step and end of every stretch in which a part cannot be computed anew.

        Three ndarrays of int64, shape (n,): the steps that use a part, and all steps of a part of
        a variable that a stream fills or reads.
        """
        variable, step, streamed = _uses(self._report)
        n_steps = len(liveness_step_ids(self._report))
        keys = variable * n_steps + step
        key = self._variable.astype(np.int64) * n_steps
        low, high = (np.searchsorted(keys, key + bound) for bound in (self._start, self._end))
        is_kept = np.isin(self._variable, streamed)
        count = np.where(is_kept, 0, high - low)
        part = np.repeat(np.arange(len(count)), count)
        first = np.cumsum(count) - count
        used = step[np.arange(len(part)) - np.repeat(first, count) + low[part]]
        kept_rows = np.flatnonzero(is_kept)
        return (
            np.concatenate([part, kept_rows]),
            np.concatenate([used, self._start[kept_rows]]),
            np.concatenate([used + 1, self._end[kept_rows]]),
        )


#: Parts whose begins and ends are put in order at a time.
_PARTS_AT_A_TIME = 1 << 17


class _Events(NamedTuple):
    """Begins and ends of n of the parts, in order of tile and step.

    ``parts`` are these parts. ``order`` is an ndarray of int32, shape (2 * n,): begins have the
    numbers of the parts, ends n more. ``times`` are those places in it between which and the next
    one there is time on a tile, and ``place`` is the tile of each.
    """

    parts: slice
    order: NDArray[np.int32]
    times: NDArray[np.int32]
    place: NDArray[np.int32]


def _events(
    place: NDArray[np.integer], start: NDArray[np.integer], end: NDArray[np.integer]
) -> Iterator[_Events]:
    """Yield the begins and ends of parts on tiles; a tile's are together if its parts are."""
    n_steps = int(end.max(initial=0)) + 1
    # Parts that the report does not hold by tile are all looked at together.
    is_sorted = bool((place[1:] >= place[:-1]).all())
    low, n_parts = 0, len(place)
    while low < n_parts:
        high = n_parts
        if is_sorted and low + _PARTS_AT_A_TIME < n_parts:
            high = int(np.searchsorted(place, place[low + _PARTS_AT_A_TIME], side="right"))
        parts = slice(low, high)
        tile = place[parts].astype(np.int64) * n_steps
        key = np.concatenate([tile + start[parts], tile + end[parts]])
        # What happens at one step is one change, in whatever order.
        order = np.argsort(key)
        key = key[order]
        tile = key // n_steps
        # Between two events of a tile nothing changes; what lies between tiles is no time.
        times = np.flatnonzero((tile[1:] == tile[:-1]) & (key[1:] > key[:-1]))
        columns = (order, times, tile[times])
        yield _Events(parts, *(column.astype(np.int32) for column in columns))
        low = high


def _most_at_once(
    n_tiles: int, size: NDArray[np.int64], events: Iterable[_Events]
) -> NDArray[np.int64]:
    """Return the most bytes of parts that live at once on every tile, int64, shape (n_tiles,)."""
    answer = np.zeros(n_tiles, dtype=np.int64)
    for parts, order, times, place in events:
        if not len(times):
            continue
        change = np.concatenate([size[parts], -size[parts]])
        live_bytes = np.cumsum(change[order])[times]
        first = np.flatnonzero(np.diff(place, prepend=-1))  # places ascend
        here = place[first]
        answer[here] = np.maximum(answer[here], np.maximum.reduceat(live_bytes, first))
    return answer


@cached
def _uses(report: Report) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return variable and liveness step of every use, sorted, and the variables of streams.

    Three ndarrays of int64; the first two of shape (n_uses,).
    """
    program = report.array("program_variable.program_id").read().astype(np.int64)
    variable = report.array("program_variable.variable_id").read().astype(np.int64)
    leaves = report.array("liveness.program_id").read().astype(np.int64)
    kinds = report.rows(schema.program, "program_id", "kind")
    streams = [number for number, kind in kinds if PROGRAM_KINDS[kind].slice in _STREAMS]
    # The uses of a step are those of its program, which are consecutive.
    low, high = (np.searchsorted(program, leaves, side) for side in ("left", "right"))
    count = high - low
    step = np.repeat(np.arange(len(leaves)), count)
    first = np.cumsum(count) - count
    used = variable[np.arange(len(step)) - np.repeat(first, count) + low[step]]
    order = np.lexsort((step, used))
    return used[order], step[order], np.unique(variable[np.isin(program, streams)])


@cached
def _is_float(report: Report) -> NDArray[np.bool_]:
    """Return which variables hold float32, and which messages carry one: (n_variables,).

    Of reports that do not say what a message carries, messages are left out.
    """
    variables = variable_columns(report)
    dtypes = variables["dtype"]
    row_of = {number: row for row, number in enumerate(variables["variable_id"])}
    senders = enumerate(variables["sender_id"])
    carried = [row if sender is None else row_of[sender] for row, sender in senders]
    return np.array([dtypes[row] == "float32" for row in carried], np.bool_)


def _whole_ipu(report: Report) -> int:
    """Return the tiles of a whole IPU where an option chose fewer; 0 otherwise."""
    machine = target(report)
    n_tiles = machine.preset_tiles_per_ipu or 0
    return n_tiles if machine.tiles_per_ipu < n_tiles else 0


def _command(report: Report, names: Sequence[str]) -> str:
    """Return the command that measures some remedies; empty where the program has to change."""
    facts, machine = provenance(report), target(report)
    kinds = _kinds(report)
    flags = [kinds[name].flags for name in names]
    if not flags or None in flags or "model_sha256" not in facts:
        return ""
    words = ["tilescope", "run", f"{facts.get('model_name') or 'model'}.onnx"]
    is_preset = machine.preset_tiles_per_ipu is not None
    words += ["--machine", machine.name if is_preset else f"{machine.name}.toml"]
    n_ipus = machine.n_ipus * (2 if "ipus" in names else 1)
    if n_ipus > 1:
        words += ["--ipus", str(n_ipus)]
    if machine.tiles_per_ipu != machine.preset_tiles_per_ipu and "tiles" not in names:
        words += ["--tiles", str(machine.tiles_per_ipu)]
    if "batch" in facts:
        batch = _batch(report) // 2 if "batch" in names else facts["batch"]
        words += ["--batch", str(batch)]
    if "precision" in facts and "--precision half" not in flags:
        words += ["--precision", facts["precision"]]
    for option, value, origin in report.rows(schema.engine_option, "name", "value", "origin"):
        is_reported = option.startswith("autoReport.") or option == "debug.instrument"
        if origin == "command line" and not is_reported:
            words += ["--option", f"{option}={value}"]
    words += " ".join(filter(None, flags)).split()
    return shlex.join([*words, "--report", "-".join(names).replace("_", "-")])
