"""One track of one IPU: its lanes, flat or as a flame, and the bars of a window."""

from __future__ import annotations

import hashlib
import math
import threading
from dataclasses import dataclass, field, replace

import numpy as np

from tilescope.reports.bars.kinds import GROUP
from tilescope.reports.bars.lane import Bars, Merged, SliceLane, join_bars, merged_bars
from tilescope.reports.bars.paths import PathTable
from tilescope.reports.bars.timeline import Piece, Timeline

__all__ = ["TrackGroup"]


#: So many pieces that repeat each other are drawn one by one, each where it is.
_FEW = 2


@dataclass
class TrackGroup:
    """The executions of one track of one IPU and their lanes, built when first asked for."""

    ipu_id: int
    track: int
    timeline: Timeline
    paths: PathTable
    kinds: np.ndarray
    _flat: SliceLane | None = None
    _flame: dict[str, list[SliceLane]] = field(default_factory=dict, repr=False)
    #: Lanes of tiles, by tile.
    tiles: dict[int, SliceLane] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def lanes(self, view: str) -> list[SliceLane]:
        """Return the lanes of a view: ``flat`` is one, ``flame`` and ``calls`` have one a level."""
        with self._lock:
            if view == "flat":
                if self._flat is None:
                    line = self.timeline
                    self._flat = SliceLane(
                        line.start, line.end, line.step, self.paths.leaf, self.kinds
                    )
                return [self._flat]
            if view not in self._flame:
                self._flame[view] = self._build_flame(is_merged=view == "calls")
            return self._flame[view]

    def bars(self, lane: SliceLane, start: int, end: int, n_pixels: int) -> Bars:
        """Return the bars of a lane in a window; see ``SliceLane.bars``.

        Of pieces that repeat each other, the bars of one are shifted, except those that an edge of
        the window cuts. Those that are narrow become one bar a pixel.
        """
        line, pixel_cycles = self.timeline, (end - start) / n_pixels
        seen = line.touching(start, end)
        bodies, shifts = (values[seen.start : seen.stop] for values in (line.body, line.shift))
        parts: list[Bars] = []
        narrow: list[tuple[Merged, np.ndarray]] = []
        for number in np.unique(bodies).tolist():
            body, shift = line.bodies[number], shifts[bodies == number]
            is_alone = (body.start_cycle + shift < start) | (body.end_cycle + shift > end)
            if len(shift) <= _FEW:
                is_alone[:] = True
            parts += [
                _piece_bars(lane, body, start - moved, end - moved, n_pixels).shifted(
                    np.asarray([moved])
                )
                for moved in shift[is_alone].tolist()
            ]
            shift = shift[~is_alone]
            if not len(shift):
                continue
            if body.end_cycle - body.start_cycle >= 2 * pixel_cycles:
                n_body_pixels = math.ceil((body.end_cycle - body.start_cycle) / pixel_cycles)
                bars = _piece_bars(
                    lane,
                    body,
                    body.start_cycle,
                    body.end_cycle,
                    min(max(1, n_body_pixels), 4 * n_pixels),
                )
                parts.append(bars.shifted(shift).within(start, end))
            elif (merged := _whole_piece(lane, body)) is not None:
                narrow.append((merged, shift))
        if narrow:
            parts.append(merged_bars(narrow, start, pixel_cycles))
        together = join_bars(parts)
        if len(parts) <= 1:
            return together
        return together.at(np.argsort(together.start_cycle, kind="stable"))

    def _build_flame(self, *, is_merged: bool) -> list[SliceLane]:
        """Return one lane a level; neighbours of equal path are one slice, runs part them.

        Steps of one name stay apart, phase by phase, unless they are merged.
        """
        line, paths = self.timeline, self.paths
        if len(line.step) == 0:
            return []
        present = np.unique(line.step) if len(line.step) < 100_000 else _distinct(line.step, paths)
        n_levels = int(paths.depth[present].max()) + 1
        starts = line.run_starts
        stops = np.append(starts[1:], len(line.step))
        ranges = list(zip(starts.tolist(), stops.tolist(), strict=True))
        digests = [
            hashlib.blake2b(line.step[low:high].tobytes(), digest_size=16).digest()
            for low, high in ranges
        ]
        lanes = []
        kinds = _merged_kinds(self.kinds, paths) if is_merged else self.kinds
        for level in range(n_levels):
            known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
            firsts, lasts = [], []
            for (low, high), digest in zip(ranges, digests, strict=True):
                if digest not in known:
                    known[digest] = _slices(line.step[low:high], paths, level, is_merged)
                first, last = known[digest]
                firsts.append(first + low)
                lasts.append(last + low)
            lanes.append(
                SliceLane(
                    line.start,
                    line.end,
                    line.step,
                    paths.level[level],
                    np.where(paths.depth > level, np.uint8(GROUP), kinds).astype(np.uint8),
                    np.concatenate(firsts).astype(np.int32),
                    np.concatenate(lasts).astype(np.int32),
                )
            )
        return lanes


def _distinct(step: np.ndarray, paths: PathTable) -> np.ndarray:
    """Return the steps that occur, by counting instead of sorting."""
    return np.flatnonzero(np.bincount(step, minlength=len(paths.depth)))


def _merged_kinds(kinds: np.ndarray, paths: PathTable) -> np.ndarray:
    """Return the kind of the slices of every step's name: its own, a group if it has several."""
    low = np.full(len(paths.labels), 255, np.uint8)
    high = np.zeros(len(paths.labels), np.uint8)
    np.minimum.at(low, paths.leaf, kinds)
    np.maximum.at(high, paths.leaf, kinds)
    merged: np.ndarray = np.where(low == high, low, np.uint8(GROUP))
    return np.asarray(merged[paths.leaf])


def _slices(
    step: np.ndarray, paths: PathTable, level: int, is_merged: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last entry of each slice of one level of a run, int64."""
    labels = paths.level[level][step]
    is_first = np.ones(len(step), bool)
    is_first[1:] = labels[1:] != labels[:-1]
    if not is_merged:
        is_first[1:] |= (paths.depth[step[1:]] == level) | (paths.depth[step[:-1]] == level)
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(step)) - 1
    keep = labels[first] >= 0
    return first[keep], last[keep]


def _piece_bars(lane: SliceLane, part: Piece, start: int, end: int, n_pixels: int) -> Bars:
    """Return the bars of a piece in a window."""
    if part.period_cycles:
        return _loop_bars(lane, part, start, end, n_pixels)
    return lane.bars(start, end, n_pixels, part.first_entry, part.stop_entry)


def _whole_piece(lane: SliceLane, part: Piece) -> Merged | None:
    """Return all slices of a piece as one; None when there is none."""
    merged = lane.merged(part.first_entry, part.stop_entry)
    if merged is None or not part.period_cycles:
        return merged
    added = part.period_cycles * (part.n_iterations - 1)
    end = merged.end_cycle + added
    if merged.n_slices == 1 and merged.kind == GROUP:  # the group goes on through all iterations
        whole = end - merged.start_cycle
        cycles = np.where(merged.cycles > 0, whole, 0.0)
        return merged._replace(end_cycle=end, cycles=cycles, longest_cycles=whole)
    return merged._replace(
        end_cycle=end,
        cycles=merged.cycles * part.n_iterations,
        n_slices=merged.n_slices * part.n_iterations,
    )


def _loop_bars(lane: SliceLane, part: Piece, start: int, end: int, n_pixels: int) -> Bars:
    """Return the bars of a loop in a window, expanding only the iterations that are seen."""
    low, high = lane.slices_of(np.asarray([part.first_entry, part.stop_entry])).tolist()
    n_slices = high - low
    if n_slices == 0:
        return join_bars([])
    only = lane.every(part.first_entry, part.stop_entry) if n_slices == 1 else None
    period = part.period_cycles
    if only is not None and only.kind[0] == GROUP:
        # Every iteration is inside the same group: the group goes on through all of them.
        end_cycle = only.end_cycle + period * (part.n_iterations - 1)
        cycles = end_cycle - only.start_cycle
        return replace(
            only, end_cycle=end_cycle, cycles=cycles.astype(np.float64), longest_cycles=cycles
        )
    body_cycles = part.end_cycle - part.start_cycle - period * (part.n_iterations - 1)
    k_low = max(0, math.floor((start - part.start_cycle - body_cycles) / period) + 1)
    k_high = min(part.n_iterations, math.ceil((end - part.start_cycle) / period))
    if k_high <= k_low:
        return join_bars([])
    pixel_cycles = (end - start) / n_pixels
    n_seen = k_high - k_low
    shifts = period * np.arange(k_low, k_high, dtype=np.int64) if n_seen <= 4 * n_pixels else None
    if shifts is not None and n_slices * n_seen <= 4 * n_pixels:
        bars = lane.every(part.first_entry, part.stop_entry).shifted(shifts)
    elif shifts is not None and period >= 2 * pixel_cycles:
        body_pixels = min(max(1, math.ceil(period / pixel_cycles)), n_pixels * 4)
        body_end = part.start_cycle + period
        if n_seen <= 2:  # deep inside a long body: only the part that is seen
            return join_bars(
                [
                    lane.bars(
                        start - k * period,
                        end - k * period,
                        n_pixels,
                        part.first_entry,
                        part.stop_entry,
                    ).shifted(np.asarray([k * period]))
                    for k in range(k_low, k_high)
                ]
            )
        bars = lane.bars(
            part.start_cycle, body_end, body_pixels, part.first_entry, part.stop_entry
        ).shifted(shifts)
    else:
        round_bars = lane.whole(part.first_entry, part.stop_entry)
        return Bars(
            round_bars.start_cycle + period * k_low,
            round_bars.end_cycle + period * (k_high - 1),
            round_bars.name if n_slices == 1 and n_seen == 1 else np.full(1, -1, np.int32),
            round_bars.kind,
            round_bars.count * n_seen,
            round_bars.share,
            round_bars.cycles * n_seen,
            round_bars.longest_name,
            round_bars.longest_cycles,
        )
    return bars.within(start, end)
