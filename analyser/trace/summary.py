"""A range of the trace in figures: cycles by kind, balance, bytes, and what costs most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.time.data_dependent import is_measured, measured
from tilescope.analyser.time.execution import totals as run_totals
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.view import checked_ipus, checked_range
from tilescope.reports import figures
from tilescope.reports.bars.kinds import KINDS
from tilescope.reports.bars.timeline import Piece, Timeline
from tilescope.reports.schema.vocabulary import PHASES, PROGRAM_KINDS, SLICE_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tilescope.analyser.time.execution import TrackRow
    from tilescope.reports import Report

__all__ = ["Contributor", "IpuSummary", "RangeSummary", "range_summary"]

_COMPUTE = SLICE_KINDS["compute"].number
_EXCHANGES = [
    SLICE_KINDS[kind.slice].number
    for kind in PROGRAM_KINDS.values()
    if kind.is_step and PHASES[kind.phase].is_exchange
]
#: Entries summed at a time, so that what is between stays in the processor's cache.
_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class IpuSummary:
    """One IPU in a range.

    Attributes
    ----------
    ipu_id
        The IPU.
    cycles
        Cycles of the range within runs of this IPU.
    cycles_by_kind : dict
        Name of a kind to cycles on the compute track; with ``idle`` they add up to ``cycles``.
    parallel_efficiency
        Cycles in which tiles compute or exchange, summed over tiles, as a share of all tiles'
        cycles, 0 to 1; None when there are none.
    tile_balance
        Mean over all tiles of the cycles they compute, over the busiest tile's, step by step,
        0 to 1; None when nothing is computed.
    host_in_bytes, host_out_bytes
        From and to the host.
    remote_in_bytes, remote_out_bytes
        From and to remote buffers in streaming memory.
    exchange_bytes
        Sent by the tiles over the internal exchange, a multicast counted once.
    global_in_bytes, global_out_bytes
        From and to other IPUs.
    n_executions
        Executions of steps that touch the range.
    """

    ipu_id: int
    cycles: int
    cycles_by_kind: dict[str, int]
    parallel_efficiency: float | None
    tile_balance: float | None
    host_in_bytes: int
    host_out_bytes: int
    remote_in_bytes: int
    remote_out_bytes: int
    exchange_bytes: int
    global_in_bytes: int
    global_out_bytes: int
    n_executions: int


@dataclass(frozen=True)
class Contributor:
    """Steps of one name and kind in a range, over the IPUs asked for.

    ``share`` is of all cycles that steps took in the range, 0 to 1.
    """

    name: str
    kind: str
    count: int
    cycles: int
    share: float
    step_id: int


@dataclass(frozen=True)
class RangeSummary:
    """A range in figures; ``cycles`` is each run's longest over the IPUs, summed over runs."""

    start_cycle: int
    end_cycle: int
    cycles: int
    parallel_efficiency: float | None
    tile_balance: float | None
    ipus: list[IpuSummary]
    contributors: list[Contributor]
    n_contributors: int


@dataclass(frozen=True)
class _Use:
    """Per step: executions that touch the range, cycles in it, and executions by that part."""

    n_executions: np.ndarray
    cycles: np.ndarray
    fraction: np.ndarray


def range_summary(
    report: Report,
    start: int | None = None,
    end: int | None = None,
    ipus: Sequence[int] | None = None,
    *,
    top: int = 20,
) -> RangeSummary:
    """Return the figures of a range.

    A step cut by the edge of the range counts in proportion to its part inside, so that the
    figures of neighbouring ranges add up.

    Parameters
    ----------
    report
        The report.
    start, end
        Half-open range in cycles; the whole trace by default.
    ipus
        IPUs to look at, all by default.
    top
        Number of contributors.

    Returns
    -------
    RangeSummary
        Over the IPUs and for each.

    Raises
    ------
    BadQuestion
        For an empty range or an unknown IPU.

    Notes
    -----
    The metrics ``cycles.total``, ``parallel.efficiency`` and ``tile.balance`` of the whole trace
    are what these figures are for a range.
    """
    trace = trace_of(report)
    low, high = checked_range(trace, start, end)
    rows, uses = [], []
    active_total = balance_total = balance_max = 0.0
    for ipu_id in checked_ipus(trace, ipus):
        by_track = {
            track: _use(trace, (ipu_id, track), low, high)
            for known, track in trace.keys
            if known == ipu_id
        }
        uses += list(by_track.values())
        row, active, total, busiest = _ipu_summary(trace, ipu_id, by_track, low, high)
        rows.append(row)
        active_total += active
        balance_total += total
        balance_max += busiest
    contributors, n_found = _contributors(trace, uses, top)
    cycles = _critical_cycles(trace, [row.ipu_id for row in rows], low, high)
    return RangeSummary(
        low,
        high,
        cycles,
        figures.parallel_efficiency(active_total, cycles, trace.tiles_per_ipu * len(rows)),
        figures.tile_balance(balance_total, balance_max, trace.tiles_per_ipu),
        rows,
        contributors,
        n_found,
    )


def _critical_cycles(trace: Trace, ipus: Sequence[int], low: int, high: int) -> int:
    """Return the part of each run in a range on the IPU where it is longest, summed over runs."""
    longest: dict[int, int] = {}
    for row in trace.tracks:
        if row.ipu_id in ipus:
            inside = min(row.end_cycle, high) - max(row.start_cycle, low)
            longest[row.run_id] = max(longest.get(row.run_id, 0), inside)
    return sum(longest.values())


def _use(trace: Trace, key: tuple[int, int], low: int, high: int) -> _Use:
    """Return what each step takes of a range on one track.

    Runs that lie in the range and are summed in the report are not read.
    """
    n_steps = len(trace.steps)
    n_executions = np.zeros(n_steps, np.int64)
    cycles = np.zeros(n_steps)
    fraction = np.zeros(n_steps)
    rest: list[TrackRow] = []
    begin, is_summed = 0, False
    for summed in run_totals(trace.report):
        rows = trace.tracks[begin : begin + summed.n_rows]
        begin += summed.n_rows
        if low <= summed.start_cycle and summed.end_cycle <= high:
            is_here = (summed.ipu_id == key[0]) & (summed.track == key[1])
            step_id, n = summed.step_id[is_here], summed.n_executions[is_here]
            np.add.at(n_executions, step_id, n)
            np.add.at(cycles, step_id, summed.cycles[is_here])
            np.add.at(fraction, step_id, n)
            is_summed = True
        else:
            rest += rows
    rest += trace.tracks[begin:]
    rest = [
        row
        for row in rest
        if (row.ipu_id, row.track) == key and row.end_cycle > low and row.start_cycle < high
    ]
    known = None if is_summed else trace.known_timeline(*key)
    line = trace.timeline(rest) if known is None else known
    totals = n_executions, cycles, fraction
    whole: dict[int, int] = {}
    seen = line.touching(low, high)
    for index, part in zip(seen, line.between(low, high), strict=True):
        if low < part.start_cycle and part.end_cycle < high:
            body = int(line.body[index])
            whole[body] = whole.get(body, 0) + 1
            continue
        shift = part.shift_cycles
        body_part = part.shifted(-shift)
        for shifted_low, shifted_high, times in _windows(body_part, low - shift, high - shift):
            _add_entries(line, body_part, shifted_low, shifted_high, times, totals)
    for body, n_pieces in whole.items():
        part = line.bodies[body]
        before, after = part.start_cycle - 1, part.end_cycle + 1
        _add_entries(line, part, before, after, part.n_iterations * n_pieces, totals)
    return _Use(n_executions, np.rint(cycles).astype(np.int64), fraction)


def _windows(part: Piece, low: int, high: int) -> list[tuple[int, int, int]]:
    """Return ranges on a piece's first iteration and how often each is taken."""
    period = part.period_cycles
    if not period:
        return [(low, high, 1)]
    body_end = part.end_cycle - period * (part.n_iterations - 1)
    # Iterations that lie wholly in the range, and those that its edges cut.
    first_whole = max(0, -(-(low - part.start_cycle) // period))
    stop_whole = min(part.n_iterations, (high - body_end) // period + 1)
    if stop_whole <= first_whole:
        touched = range(max(0, (low - body_end) // period), min(part.n_iterations, first_whole + 1))
        return [(low - k * period, high - k * period, 1) for k in touched]
    windows = [(part.start_cycle, body_end, stop_whole - first_whole)]
    if first_whole > 0:
        k = first_whole - 1
        windows.append((low - k * period, body_end, 1))
    if stop_whole < part.n_iterations:
        k = stop_whole
        windows.append((part.start_cycle, high - k * period, 1))
    return windows


def _add_entries(
    line: Timeline,
    region: Piece,
    low: int,
    high: int,
    times: int,
    totals: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Add the entries of a piece in a range, ``times`` over, to the sums by step."""
    first = region.first_entry + int(
        np.searchsorted(line.end[region.first_entry : region.stop_entry], low, side="right")
    )
    stop = region.first_entry + int(
        np.searchsorted(line.start[region.first_entry : region.stop_entry], high, side="left")
    )
    if stop <= first:
        return
    n_executions, cycles, fraction = totals
    n_steps = len(n_executions)
    for low_entry in range(first, stop, _AT_A_TIME):
        part = slice(low_entry, min(low_entry + _AT_A_TIME, stop))
        step = line.step[part]
        counted = np.bincount(step, minlength=n_steps)
        n_executions += counted * times
        cycles += np.bincount(step, line.end[part] - line.start[part], minlength=n_steps) * times
        fraction += counted * times
    for edge in {first, stop - 1}:  # only the outermost entries can be cut
        full = int(line.end[edge] - line.start[edge])
        inside = min(int(line.end[edge]), high) - max(int(line.start[edge]), low)
        if inside < full:
            cycles[line.step[edge]] -= (full - inside) * times
            fraction[line.step[edge]] -= (1 - inside / full) * times


def _ipu_summary(
    trace: Trace, ipu_id: int, by_track: dict[int, _Use], low: int, high: int
) -> tuple[IpuSummary, float, float, float]:
    """Return the row of one IPU, its active, compute and busiest tile cycles."""
    ranges = {
        (max(row.start_cycle, low), min(row.end_cycle, high))
        for row in trace.tracks
        if row.ipu_id == ipu_id and row.track == min(by_track)
    }
    cycles = sum(max(0, stop - first) for first, stop in ranges)
    compute_track = by_track[min(by_track)]
    by_kind = np.bincount(trace.step_kinds, compute_track.cycles, minlength=len(KINDS))
    named = {kind.name: int(by_kind[kind.number]) for kind in KINDS[:9]}
    named["idle"] = cycles - sum(named.values())
    fraction = sum(use.fraction for use in by_track.values())
    costs = trace.step_costs.get(ipu_id)

    is_exchange = np.isin(trace.step_kinds, _EXCHANGES)

    def total(column: str, of_steps: NDArray[np.bool_] | slice = slice(None)) -> int:
        if costs is None:
            return 0
        return int(np.rint((costs[column] * fraction)[of_steps].sum()))

    worked = busiest = exchanged = 0.0
    if costs is not None:
        is_compute = (trace.step_kinds == _COMPUTE) & ~is_measured(trace.report)
        worked = float((costs["total_tile_cycles"] * fraction)[is_compute].sum())
        busiest = float((costs["max_tile_cycles"] * fraction)[is_compute].sum())
        exchanged = float((costs["total_tile_cycles"] * fraction)[is_exchange].sum())
    if ipu_id in (by_ipu := measured(trace.report)):
        inside = by_ipu[ipu_id].busy_cycles(low, high)
        worked, busiest = worked + inside[0], busiest + inside[1]
    active = worked + exchanged
    row = IpuSummary(
        ipu_id,
        cycles,
        named,
        figures.parallel_efficiency(active, cycles, trace.tiles_per_ipu),
        figures.tile_balance(worked, busiest, trace.tiles_per_ipu),
        total("host_in_bytes"),
        total("host_out_bytes"),
        total("remote_in_bytes"),
        total("remote_out_bytes"),
        total("total_sent_bytes", is_exchange),
        total("link_in_bytes"),
        total("link_out_bytes"),
        int(sum(int(use.n_executions.sum()) for use in by_track.values())),
    )
    return row, active, worked, busiest


def _contributors(trace: Trace, uses: list[_Use], top: int) -> tuple[list[Contributor], int]:
    """Return the names with most cycles, and how many names there are."""
    n_steps = len(trace.steps)
    cycles = sum((use.cycles for use in uses), np.zeros(n_steps, np.int64))
    count = sum((use.n_executions for use in uses), np.zeros(n_steps, np.int64))
    key = trace.paths.leaf.astype(np.int64) * len(KINDS) + trace.step_kinds
    used = np.flatnonzero(count > 0)
    if len(used) == 0:
        return [], 0
    keys, first, where = np.unique(key[used], return_index=True, return_inverse=True)
    cycles_by_key = np.bincount(where, cycles[used], minlength=len(keys)).astype(np.int64)
    count_by_key = np.bincount(where, count[used], minlength=len(keys)).astype(np.int64)
    total_cycles = int(cycles_by_key.sum())
    order = np.lexsort((keys, -cycles_by_key))[: max(0, top)]
    rows = [
        Contributor(
            trace.steps.name[used[first[i]]],
            KINDS[int(keys[i]) % len(KINDS)].name,
            int(count_by_key[i]),
            int(cycles_by_key[i]),
            int(cycles_by_key[i]) / total_cycles if total_cycles else 0.0,
            int(used[first[i]]),
        )
        for i in order.tolist()
    ]
    return rows, len(keys)
