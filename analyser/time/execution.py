"""What ran: executions of every step, the critical path, and its cycles by phase."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.time.critical_path import CriticalPath, Track, critical_path
from tilescope.analyser.validation import require, require_below
from tilescope.reports import schema
from tilescope.reports.schema import vocabulary
from tilescope.reports.schema.vocabulary import SYNC_ZONES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "MOST_CYCLES",
    "PHASES",
    "Costs",
    "Execution",
    "Steps",
    "Totals",
    "costs",
    "executed",
    "execution",
    "external_syncs",
    "ipu_cycles",
    "ipu_phase_cycles",
    "joins",
    "steps",
    "taken_cycles",
    "totals",
]

#: Names of the phases, in the order pages show them.
PHASES = tuple(vocabulary.PHASES)

#: A hundred and forty-six years at a gigahertz; a report with more is not one of a run.
MOST_CYCLES = 1 << 62


@dataclass(frozen=True)
class Steps:
    """The program flattened; all columns have one entry per step, in order of ``step_id``."""

    program_id: NDArray[np.int64]
    kind: tuple[str, ...]
    name: tuple[str, ...]
    phase: NDArray[np.int8]
    """Index into ``PHASES``."""
    is_data_dependent: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.kind)


@cached
def steps(report: Report) -> Steps:
    """Return the steps of a report in program order.

    Raises
    ------
    DamagedReport
        When a step is of a kind that the vocabulary does not have, or that is not a step.
    """
    program_id, kind, name, is_data_dependent = report.columns(
        schema.step, "program_id", "kind", "name", "is_data_dependent"
    )
    phases: dict[str, int] = {}
    for name_of_kind in set(kind):
        known = vocabulary.PROGRAM_KINDS.get(name_of_kind)
        is_step = known is not None and known.is_step
        require(report, is_step, f"{name_of_kind[:40]!r} is not a kind of step")
        phases[name_of_kind] = PHASES.index(vocabulary.phase_of(name_of_kind))
    return Steps(
        np.array(program_id, dtype=np.int64),
        tuple(kind),
        tuple(name),
        np.array([phases[name_of_kind] for name_of_kind in kind], dtype=np.int8),
        np.array(is_data_dependent, dtype=np.bool_),
    )


@dataclass(frozen=True)
class Costs:
    """What one execution of a step costs on one IPU; a row per step and IPU that takes part.

    ``column`` maps ``COST_COLUMNS`` of the schema to int64 arrays of equal length.
    """

    column: dict[str, NDArray[np.int64]]

    def per_step(self, name: str, n_steps: int, *, largest: bool = False) -> NDArray[np.int64]:
        """Return a column summed over IPUs, or its largest, for every step."""
        answer = np.zeros(n_steps, dtype=np.int64)
        combine = np.maximum if largest else np.add
        combine.at(answer, self.column["step_id"], self.column[name])
        return answer


@cached
def costs(report: Report) -> Costs:
    """Return the costs of all steps."""
    column = {
        name: report.array(f"cost.{name}").read().astype(np.int64) for name in schema.COST_COLUMNS
    }
    require(
        report, len({len(values) for values in column.values()}) == 1, "its costs are not all there"
    )
    n_patterns = report.array("cycles.pattern").shape[0]
    require_below(report, column["step_id"], len(steps(report)), "step")
    require_below(report, column["ipu_id"], target(report).n_ipus, "IPU")
    require_below(report, column["pattern_id"], n_patterns, "pattern of cycles")
    return Costs(column)


@dataclass(frozen=True)
class Execution:
    """The recorded runs.

    Attributes
    ----------
    run_cycles : ndarray of int64, shape (n_runs,), cycles
        Time of each run on its critical IPU, the one that took longest.
    executions : ndarray of int64, shape (n_ipus, n_steps)
        How many times each step ran, over all runs.
    critical_cycles : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time on the critical path, summed over runs: between two external syncs, the path is what
        the IPU that arrives last does.
    waiting_cycles : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time in which the IPU waits in an external sync for a later IPU, summed over runs.
    caused_cycles : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time that the other IPUs together wait in an external sync for this IPU, summed over runs.
    own_cycles : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time of each IPU in each step, waits for later IPUs excluded, summed over runs.
    phase_cycles
        Critical cycles by phase; ``other`` includes time in no step, so they add up to the total.
    is_data_dependent
        Whether the cycles of a run may differ for other data.
    """

    run_cycles: NDArray[np.int64]
    executions: NDArray[np.int64]
    critical_cycles: NDArray[np.int64]
    waiting_cycles: NDArray[np.int64]
    caused_cycles: NDArray[np.int64]
    own_cycles: NDArray[np.int64]
    phase_cycles: dict[str, int]
    is_data_dependent: bool

    @property
    def n_runs(self) -> int:
        """Number of recorded runs."""
        return len(self.run_cycles)

    @property
    def total_cycles(self) -> int:
        """Time of all runs on their slowest IPUs, cycles."""
        return int(self.run_cycles.sum())

    @property
    def step_cycles(self) -> NDArray[np.int64]:
        """Time on the critical path in each step, int64 of shape (n_steps,), cycles."""
        return np.asarray(self.critical_cycles.sum(axis=0))


def execution(report: Report, run_id: int | None = None) -> Execution:
    """Return what ran in all recorded runs or one, from the trace; all zero without a run.

    Raises
    ------
    BadQuestion
        When the run does not exist.
    """
    return _execution(report, run_id)


@cached
def _execution(report: Report, run_id: int | None) -> Execution:
    """Return what ran."""
    machine, all_steps = target(report), steps(report)
    runs = report.rows(schema.run, "run_id", "is_data_dependent")
    known = {number for number, _ in runs}
    for row in track_rows(report):
        require(report, row.run_id in known, f"run {row.run_id} has a trace but no row")
    if run_id is not None:
        if run_id not in known:
            held = f"runs 0 to {len(runs) - 1}" if runs else "no recorded run"
            raise BadQuestion(f"run {run_id} does not exist; this report has {held}")
        runs = [run for run in runs if run[0] == run_id]
    index_of_run = {number: index for index, (number, _) in enumerate(runs)}
    rows = [row for row in track_rows(report) if row.run_id in index_of_run]
    time = np.zeros((len(runs), machine.n_ipus), dtype=np.int64)
    key = [index_of_run[row.run_id] for row in rows], [row.ipu_id for row in rows]
    np.maximum.at(time, key, np.array([row.n_cycles for row in rows], dtype=np.int64))

    executions, cycles = _executed(report, run_id, track=0)
    critical, waiting, caused, own_cycles = (
        np.zeros((machine.n_ipus, len(all_steps)), dtype=np.int64) for _ in range(4)
    )
    if machine.n_ipus == 1:
        critical, own_cycles = cycles, cycles.copy()
    else:
        computing = [row for row in rows if row.track == 0]
        for path, n_runs in _critical_paths(report, computing):
            critical += n_runs * path.cycles
            waiting += n_runs * path.waiting
            caused += n_runs * path.caused
            own_cycles += n_runs * path.own
    run_cycles = time.max(axis=1) if runs else np.zeros(0, dtype=np.int64)
    for array in (run_cycles, executions, critical, waiting, caused, own_cycles):
        array.flags.writeable = False
    return Execution(
        run_cycles,
        executions,
        critical,
        waiting,
        caused,
        own_cycles,
        _by_phase(all_steps, critical.sum(axis=0), int(run_cycles.sum())),
        any(bool(flag) for _, flag in runs),
    )


@cached
def external_syncs(report: Report) -> NDArray[np.bool_]:
    """Return which steps sync externally: bool, shape (n_steps,)."""
    column = costs(report).column
    is_external = np.zeros(len(steps(report)), dtype=np.bool_)
    is_external[column["step_id"][column["sync_zone"] == SYNC_ZONES["external"]]] = True
    return is_external


@cached
def joins(report: Report) -> NDArray[np.bool_]:
    """Return which steps only wait for the other side of an overlap: bool, shape (n_steps,).

    They are the syncs that cost no cycles themselves.
    """
    every = steps(report)
    cycles = costs(report).per_step("cycles", len(every), largest=True)
    answer = np.asarray((every.phase == PHASES.index("sync")) & (cycles == 0))
    answer.flags.writeable = False
    return answer


def _critical_paths(report: Report, rows: Sequence[TrackRow]) -> Iterator[tuple[CriticalPath, int]]:
    """Yield the distinct critical paths of runs on several IPUs, with the number of their runs.

    Runs of a static program repeat each other, so that few paths are computed for many runs.
    """
    runs: dict[int, list[TrackRow]] = {}
    for row in rows:
        runs.setdefault(row.run_id, []).append(row)
    counts: dict[tuple[tuple[int, ...], ...], int] = {}
    first: dict[tuple[tuple[int, ...], ...], list[TrackRow]] = {}
    for tracks in runs.values():
        key = tuple(
            (row.ipu_id, row.n_cycles, *row.place, row.shift_cycles - row.start_cycle)
            for row in tracks
        )
        counts[key] = counts.get(key, 0) + 1
        first.setdefault(key, tracks)
    for kind, tracks in first.items():
        yield _critical_path(report, tracks), counts[kind]


_TRACK_COLUMNS = ("step_id", "start_cycle", "end_cycle", "period", "count")


def _critical_path(report: Report, rows: list[TrackRow]) -> CriticalPath:
    """Return the critical path of one run on several IPUs."""
    empty = np.zeros(0, dtype=np.int64)
    tracks = [Track(empty, empty, empty, empty, empty, 0)] * target(report).n_ipus
    entries = _read_places(report, {row.place for row in rows})
    for row in rows:
        step_id, start, end, period, count = entries[row.place]
        _require_sound(report, step_id, start + row.shift_cycles, end + row.shift_cycles, count)
        moved = row.shift_cycles - row.start_cycle
        tracks[row.ipu_id] = Track(step_id, start + moved, end + moved, period, count, row.n_cycles)
    return critical_path(tracks, external_syncs(report))


def _read_places(
    report: Report, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], list[NDArray[np.int64]]]:
    """Return step, start, end, period and count of ranges of entries; adjoining ones read once."""
    joined: list[list[tuple[int, int]]] = []
    for place in sorted(places):
        if not joined or joined[-1][-1][1] != place[0]:
            joined.append([])
        joined[-1].append(place)
    arrays = [report.array(f"trace.{name}") for name in _TRACK_COLUMNS]
    answer = {}
    for group in joined:
        begin = group[0][0]
        columns = [array.read(begin, group[-1][1]).astype(np.int64) for array in arrays]
        for first, stop in group:
            answer[first, stop] = [column[first - begin : stop - begin] for column in columns]
    return answer


class TrackRow(NamedTuple):
    """Where the trace of one run on one track of an IPU lies; half-open range in cycles.

    Tracks that repeat each other lie at the same place; ``shift_cycles`` is added to the start and
    end of the entries there.
    """

    run_id: int
    ipu_id: int
    track: int
    start_cycle: int
    end_cycle: int
    first_entry: int
    n_entries: int
    shift_cycles: int

    @property
    def n_cycles(self) -> int:
        """Length of the run on this track, cycles."""
        return self.end_cycle - self.start_cycle

    @property
    def stop_entry(self) -> int:
        """One past the last row in the ``trace`` arrays."""
        return self.first_entry + self.n_entries

    @property
    def place(self) -> tuple[int, int]:
        """Half-open range of rows in the ``trace`` arrays."""
        return self.first_entry, self.stop_entry


@cached
def track_rows(report: Report) -> tuple[TrackRow, ...]:
    """Return the tracks of all runs, in the order they were recorded.

    Raises
    ------
    DamagedReport
        A track is on an IPU that does not exist, ends before it begins or has no entries.
    """
    n_entries = len(report.array("trace.step_id"))
    columns = report.columns(schema.run_trace, *TrackRow._fields)
    columns = (*columns[:-1], [shift or 0 for shift in columns[-1]])
    _, ipu_id, _, start, end, first, n, _ = (np.array(column, np.int64) for column in columns)
    exists = (ipu_id >= 0) & (ipu_id < target(report).n_ipus)
    require(report, bool(exists.all()), "a run is on an IPU that does not exist")
    is_ordered = (start >= 0) & (start <= end) & (end < MOST_CYCLES)
    require(report, bool(is_ordered.all()), "a run ends before it begins")
    is_whole = (first >= 0) & (n >= 0) & (first <= n_entries) & (n <= n_entries - first)
    require(report, bool(is_whole.all()), "a run's trace is not all there")
    return tuple(map(TrackRow._make, zip(*columns, strict=True)))


@dataclass(frozen=True)
class Totals:
    """Executions of the first runs, summed by the writer; a row per IPU, track, step and pattern.

    Attributes
    ----------
    n_rows
        How many of `track_rows`, those after the part before, are summed.
    start_cycle, end_cycle
        Half-open range in which these lie.
    ipu_id, track, step_id, pattern_id : ndarray of int64, shape (n,)
        What was executed, and where.
    n_executions, cycles : ndarray of int64, shape (n,)
        How often, and for how long together.
    """

    n_rows: int
    start_cycle: int
    end_cycle: int
    ipu_id: NDArray[np.int64]
    track: NDArray[np.int64]
    step_id: NDArray[np.int64]
    pattern_id: NDArray[np.int64]
    n_executions: NDArray[np.int64]
    cycles: NDArray[np.int64]


@cached
def totals(report: Report) -> tuple[Totals, ...]:
    """Return the executions that the writer has summed, in the order of the runs.

    Raises
    ------
    DamagedReport
        They do not belong to the runs and steps of the report.
    """
    arrays = [report.array(f"total.{name}") for name in schema.TOTAL_COLUMNS]
    n_rows = n_summed = 0
    answer = []
    ranges = report.rows(
        schema.trace_total, "first_run_trace", "n_run_traces", "first_row", "n_rows"
    )
    for first_track, n_tracks, first, n in ranges:
        is_next = first_track == n_summed and first == n_rows and n_tracks >= 0 and n >= 0
        n_summed, n_rows = n_summed + n_tracks, n_rows + n
        is_next &= n_summed <= len(track_rows(report))
        is_next &= all(n_rows <= len(array) for array in arrays)
        require(report, is_next, "sums of executions do not belong to its runs")
        columns = [array.read(first, n_rows).astype(np.int64) for array in arrays]
        require_below(report, columns[0], target(report).n_ipus, "IPU")
        require_below(report, columns[2], len(steps(report)), "step")
        for column in columns:
            column.flags.writeable = False
        rows = track_rows(report)[first_track:n_summed]
        low = min((row.start_cycle for row in rows), default=0)
        high = max((row.end_cycle for row in rows), default=0)
        answer.append(Totals(n_tracks, low, high, *columns))
    return tuple(answer)


def taken_cycles(report: Report, run_id: int | None = None) -> NDArray[np.int64]:
    """Return what every step took on each IPU in all recorded runs or one, waits included.

    Returns
    -------
    ndarray of int64, shape (n_ipus, n_steps), cycles
    """
    return _taken_cycles(report, run_id)


@cached
def _taken_cycles(report: Report, run_id: int | None) -> NDArray[np.int64]:
    """Return what every step took on each IPU."""
    if run_id is None:
        return executed(report)[1]
    cycles = _executed(report, run_id)[1]
    cycles.flags.writeable = False
    return cycles


@cached
def executed(report: Report) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how often every step ran on each IPU in all recorded runs, and what it took.

    Returns
    -------
    tuple of ndarray of int64, shape (n_ipus, n_steps)
        Executions, and cycles with waits, over all tracks.
    """
    columns = _executed(report, None)
    for column in columns:
        column.flags.writeable = False
    return columns


def ipu_cycles(report: Report, run_id: int | None = None) -> NDArray[np.int64]:
    """Return the time of recorded runs, or of one, on each IPU: int64, shape (n_ipus,), cycles."""
    cycles: dict[tuple[int, int], int] = {}
    for row in track_rows(report):
        if run_id not in (None, row.run_id):
            continue
        key = row.run_id, row.ipu_id
        cycles[key] = max(cycles.get(key, 0), row.n_cycles)
    answer = np.zeros(target(report).n_ipus, dtype=np.int64)
    for (_, ipu_id), n_cycles in cycles.items():
        answer[ipu_id] += n_cycles
    answer.flags.writeable = False
    return answer


@cached
def ipu_phase_cycles(report: Report) -> dict[str, NDArray[np.int64]]:
    """Return where the time of each IPU went, by phase, waits for other IPUs in their phase.

    Returns
    -------
    dict of str to ndarray of int64, shape (n_ipus,), cycles
        ``other`` includes time in no step, so that the phases add up to `ipu_cycles`.
    """
    cycles = _executed(report, None, track=0)[1]
    phase = steps(report).phase
    answer = {name: cycles[:, phase == index].sum(axis=1) for index, name in enumerate(PHASES)}
    answer["other"] = answer["other"] + ipu_cycles(report) - sum(answer.values())
    return answer


#: Trace entries read at a time; a part of this size takes some tens of megabytes.
_ENTRIES_AT_A_TIME = 1 << 20


def _executed(
    report: Report, run_id: int | None, track: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return executions and cycles of every step on every IPU, (n_ipus, n_steps), over tracks.

    In all runs or one; cycles count on one track only if `track` is not None. Of all runs, only
    entries of those are read that the writer has not summed yet.
    """
    rows, n_steps = track_rows(report), len(steps(report))
    if run_id is not None:
        return _sum_trace(report, [row for row in rows if row.run_id == run_id], n_steps, track)
    summed = totals(report)
    n_summed = sum(part.n_rows for part in summed)
    executions, cycles = _sum_trace(report, rows[n_summed:], n_steps, track)
    for part in summed:
        np.add.at(executions, (part.ipu_id, part.step_id), part.n_executions)
        counted = slice(None) if track is None else part.track == track
        index = part.ipu_id[counted], part.step_id[counted]
        np.add.at(cycles, index, part.cycles[counted])
    return executions, cycles


def _sum_trace(
    report: Report, rows: Sequence[TrackRow], n_steps: int, track: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return executions and cycles of every step on every IPU, (n_ipus, n_steps), over tracks.

    Cycles count on one track only if `track` is not None. Entries are read once, however many
    tracks repeat them, and those of adjoining tracks together.
    """
    n_ipus = target(report).n_ipus
    executions = np.zeros(n_ipus * n_steps, dtype=np.int64)
    cycles = np.zeros(n_ipus * n_steps, dtype=np.int64)
    arrays = [report.array(f"trace.{name}") for name in _SUMMED_COLUMNS]
    for first, stop, uses in _stretches(rows):
        ids, counts, began, ended = (array.read(first, stop) for array in arrays)
        _require_sound(report, ids, began, ended, counts)
        sizes = [use.stop - use.start for use in uses]
        lengths = (ended - began) * counts
        total = sum(float(lengths[use.start : use.stop].sum()) * use.n_rows for use in uses)
        require(report, total < MOST_CYCLES, "its steps take longer than can be")
        entry = np.concatenate([np.arange(use.start, use.stop) for use in uses])
        target_index = np.repeat([use.ipu_id * n_steps for use in uses], sizes) + ids[entry]
        n_rows = np.repeat([use.n_rows for use in uses], sizes)
        _add_at(executions, target_index, counts[entry] * n_rows)
        if track is not None:
            is_counted = np.repeat([use.track == track for use in uses], sizes)
            target_index, entry, n_rows = (
                values[is_counted] for values in (target_index, entry, n_rows)
            )
        _add_at(cycles, target_index, lengths[entry] * n_rows)
    shape = n_ipus, n_steps
    return executions.reshape(shape), cycles.reshape(shape)


_SUMMED_COLUMNS = ("step_id", "count", "start_cycle", "end_cycle")


class _Use(NamedTuple):
    """How many rows of an IPU and track have some entries, which are counted within a stretch."""

    start: int
    stop: int
    ipu_id: int
    track: int
    n_rows: int


def _stretches(rows: Sequence[TrackRow]) -> Iterator[tuple[int, int, list[_Use]]]:
    """Yield ranges of entries of adjoining tracks, ascending, and what uses them.

    A range has at most `_ENTRIES_AT_A_TIME` entries.
    """
    n_rows: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    for row in rows:
        of_place = n_rows.setdefault(row.place, {})
        key = row.ipu_id, row.track
        of_place[key] = of_place.get(key, 0) + 1
    uses: list[_Use] = []
    begin = end = 0
    for (first, stop), of_place in sorted(n_rows.items()):
        entry = first
        while entry < stop:
            if uses and (entry != end or end - begin >= _ENTRIES_AT_A_TIME):
                yield begin, end, uses
                uses = []
            if not uses:
                begin = end = entry
            n = min(stop - entry, _ENTRIES_AT_A_TIME - (end - begin))
            part = entry - begin, entry + n - begin
            uses += [_Use(*part, *key, count) for key, count in of_place.items()]
            entry += n
            end = entry
    if uses:
        yield begin, end, uses


def _require_sound(
    report: Report,
    step_id: NDArray[np.integer],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    count: NDArray[np.integer],
) -> None:
    """Refuse entries that cannot be of a run."""
    require_below(report, step_id, len(steps(report)), "step")
    is_sound = bool((start >= 0).all() and (start <= end).all() and (count >= 0).all())
    require(report, is_sound, "a step ends before it begins")
    total = float(((end - start).astype(np.float64) * count).sum())
    require(report, total < MOST_CYCLES, "its steps take longer than can be")


def _add_at(totals: NDArray[np.int64], index: NDArray[np.int64], values: NDArray[np.int64]) -> None:
    """Add values at indices; exact below 2**53, where float sums of integers are exact."""
    if len(values) and int(np.abs(values).sum()) < 1 << 53:
        totals += np.bincount(index, weights=values, minlength=len(totals)).astype(np.int64)
    else:
        np.add.at(totals, index, values)


def _by_phase(all_steps: Steps, step_cycles: NDArray[np.int64], total: int) -> dict[str, int]:
    """Return cycles of the critical path by phase; what no step accounts for is ``other``."""
    answer = {
        phase: int(step_cycles[all_steps.phase == index].sum())
        for index, phase in enumerate(PHASES)
    }
    answer["other"] += total - sum(answer.values())
    return answer
