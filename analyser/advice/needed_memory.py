"""What tiles need of memory, and what remedies leave of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.advice.recomputation import code_again, recomputed
from tilescope.analyser.advice.training_sizes import (
    batch_of,
    micro_batches,
    scales_with_batch,
    trained_weights,
)
from tilescope.analyser.cache import cached
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.liveness import curve, lifetimes
from tilescope.analyser.memory.lowered_variables import (
    first_parts,
    lowered_parts,
    variable_columns,
    variable_positions,
)
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.memory.uses import lives_with_uses, uses
from tilescope.analyser.program.training import has_training
from tilescope.analyser.time.figures import tile_rows
from tilescope.reports import figures, schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY, PROGRAM_KINDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["AGAIN", "Excess", "Needed", "whole_ipu"]

_INSTRUMENTATION = "instrumentationResults"
#: Before the kind of recomputation in the name of its remedy.
AGAIN = "recompute_"
#: Remedies that change what lives at a step, besides those of recomputation.
_OF_STEPS = frozenset({"half", "batch", "recompute"})


@dataclass(frozen=True)
class Excess:
    """By how much tiles do not fit: how many, the worst of them, and all together, bytes."""

    n_tiles: int
    worst_bytes: int
    total_bytes: int


class Needed:
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
        self._parts = Parts.of_tiles(report, tiles)
        self._peaks: dict[frozenset[str], NDArray[np.int64]] = {}

    def excess(self, names: Iterable[str]) -> Excess:
        """Return what tiles lack with some remedies applied."""
        names = tuple(names)
        code = self._less_code(frozenset(names))
        if "exchange_code" in names:
            code = code + self._shared_code
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
        if of_steps := _of_steps(names):
            gain[self._tiles] += self._peak(frozenset()) - self._peak(of_steps)
        gain += self._less_code(names)
        kept_bytes = self._kept + self._more_kept(self._parts, names)
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
        if "tiles" in names and (tiles_of_ipu := whole_ipu(self._report)):
            rest = self._rows["including_gaps"] - gain
            divided = np.maximum(rest - self._code, 0)
            gain += divided - -(-divided * self._machine.tiles_per_ipu // tiles_of_ipu)
        return gain

    def live_bytes(self, names: Iterable[str]) -> int | None:
        """Return the most that lives at one step over all tiles, code and messages included.

        None for remedies of which it does not depend.
        """
        names = frozenset(names)
        if names != _of_steps(names):
            return None
        every = self._every
        always = curve(self._report).always_live_bytes - int(self._less_code(names).sum())
        always += int(self._more_kept(every, names).sum())
        return always + int(every.peak(names).sum())

    def _more_kept(self, parts: Parts, names: frozenset[str]) -> NDArray[np.int64]:
        """Return by how much always-live variables grow, by tile or all together, int64."""
        more = np.zeros_like(parts.always_float_bytes)
        if "half" in names:
            # Weights that train stay float, and have a copy in half.
            more += parts.always_trained_bytes // 2 - parts.always_float_bytes // 2
        if "batch" in names and micro_batches(self._report) == 1:
            more += parts.always_trained_bytes  # sums of gradients
        return more

    @cached_property
    def _every(self) -> Parts:
        return Parts.of_all(self._report)

    def _less_code(self, names: frozenset[str]) -> NDArray[np.int64]:
        """Return by how much code and what belongs to it shrink, int64, shape (n_tiles,)."""
        less = np.zeros(self._machine.n_tiles, dtype=np.int64)
        if "batch" in names and not has_training(self._report):
            less += self._code - _less_batch(self._report, self._code)
        for name in names:
            if name.startswith(AGAIN):
                less -= code_again(self._report, name.removeprefix(AGAIN))
        return less

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


class Parts:
    """Parts of variables that come and go.

    Attributes
    ----------
    always_float_bytes, always_trained_bytes : ndarray of int64, bytes
        Always-live variables by tile, or all of them together: float32 that half would halve, and
        weights that a training updates.
    """

    def __init__(
        self,
        report: Report,
        place: NDArray[np.int32],
        variable: NDArray[np.integer],
        n_bytes: NDArray[np.int64],
        lives: tuple[NDArray[np.integer], NDArray[np.integer]],
        always: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        self._report, self._place, self._n = report, place, int(place.max(initial=-1)) + 1
        self._variable, self._bytes = variable.astype(np.int32), n_bytes
        self._start, self._end = (column.astype(np.int32) for column in lives)
        self.always_float_bytes, self.always_trained_bytes = always

    @classmethod
    def of_tiles(cls, report: Report, tiles: NDArray[np.int64]) -> Parts:
        """Return the parts on some tiles; places are positions among these."""
        first = first_parts(report)
        # One tile is read alone; several are read with what lies between them.
        low, high = int(tiles.min()), int(tiles.max()) + 1
        columns = lowered_parts(report, low, high, "variable_id", "bytes")
        n_parts = np.diff(first[low : high + 1])
        tile = np.repeat(np.arange(low, high, dtype=np.int32), n_parts)
        is_chosen = np.zeros(high - low, dtype=np.bool_)
        is_chosen[tiles - low] = True
        index = variable_positions(report, columns["variable_id"])
        is_always = np.array(variable_columns(report)["is_always_live"], dtype=np.bool_)[index]
        always = []
        for chosen in (is_always & _is_halved(report)[index], trained_weights(report)[index]):
            n_bytes = np.zeros(target(report).n_tiles, dtype=np.int64)
            np.add.at(n_bytes, tile[chosen], columns["bytes"][chosen])
            always.append(n_bytes)
        comes_and_goes = ~is_always & np.repeat(is_chosen, n_parts)
        place = np.searchsorted(tiles.astype(np.int32), tile[comes_and_goes])
        variable = columns.pop("variable_id")[comes_and_goes]
        n_bytes = columns.pop("bytes")[comes_and_goes]
        start, end = (
            lowered_parts(report, low, high, name)[name][comes_and_goes]
            for name in ("start_step", "end_step")
        )
        parts = cls(
            report, place.astype(np.int32), variable, n_bytes, (start, end), (always[0], always[1])
        )
        parts._n = len(tiles)
        return parts

    @classmethod
    def of_all(cls, report: Report) -> Parts:
        """Return whole variables, at one place."""
        rows, columns = lifetimes(report), variable_columns(report)
        index = variable_positions(report, rows["variable_id"])
        sizes = np.array(columns["bytes"], np.int64)
        is_always = np.array(columns["is_always_live"], np.bool_)
        goes = ~is_always[index]
        parts = cls(
            report,
            np.zeros(int(np.count_nonzero(goes)), np.int32),
            rows["variable_id"][goes],
            sizes[index][goes],
            (rows["start_step"][goes], rows["end_step"][goes]),
            (
                sizes[is_always & _is_halved(report)].sum(keepdims=True),
                sizes[trained_weights(report)].sum(keepdims=True),
            ),
        )
        parts._n = 1
        return parts

    def peak(self, names: frozenset[str]) -> NDArray[np.int64]:
        """Return the most that lives at one step at every place, int64, bytes.

        Parameters
        ----------
        names
            Remedies: ``half`` counts float32 at half its size, ``batch`` everything that depends
            on the batch at the size of half of it, ``recompute`` counts variables only at the steps
            that use them, and those of recomputation count them as `Recomputed.lives` says.
        """
        size = self._bytes
        if "half" in names:
            size = size - np.where(_is_halved(self._report)[self._index], size // 2, 0)
        if "batch" in names:
            follows = scales_with_batch(self._report)[self._index]
            size = np.where(follows, _less_batch(self._report, size), size)
        kinds = [name.removeprefix(AGAIN) for name in names if name.startswith(AGAIN)]
        if kinds:
            part, start, end = self._again(kinds[0])
        elif "recompute" in names:
            part, start, end = self._used
        else:
            return _most_at_once(self._n, size, self._lives)
        return _most_at_once(self._n, size[part], _events(self._place[part], start, end))

    @cached_property
    def _index(self) -> NDArray[np.intp]:
        """Positions of the parts' variables in the columns of variables."""
        return variable_positions(self._report, self._variable.astype(np.int64))

    def _again(self, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return part, first step and end of every life where some operations are done again."""
        columns = np.stack([self._variable, self._start, self._end])
        (variable, start, end), number = np.unique(columns, axis=1, return_inverse=True)
        life, begin, stop = recomputed(self._report, kind).lives(self._report, variable, start, end)
        order = np.argsort(life, kind="stable")
        life, begin, stop = life[order], begin[order], stop[order]
        n_lives = np.bincount(life, minlength=len(variable))
        first = np.cumsum(n_lives) - n_lives
        count = n_lives[number]
        part = np.repeat(np.arange(len(number)), count)
        within = np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count)
        row = first[number][part] + within
        return part, begin[row], stop[row]

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
        _, _, streamed = uses(self._report)
        is_kept = np.isin(self._variable, streamed)
        part, used = lives_with_uses(self._report, self._variable, self._start, self._end)
        comes = ~is_kept[part]
        part, used = part[comes], used[comes]
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
def _is_halved(report: Report) -> NDArray[np.bool_]:
    """Return which variables hold float32, and which messages carry one: (n_variables,).

    Of reports that do not say what a message carries, messages are left out. In training, weights
    and the state of the optimiser stay float.
    """
    variables = variable_columns(report)
    dtypes, purposes = variables["dtype"], variables["purpose"]
    row_of = {number: row for row, number in enumerate(variables["variable_id"])}
    senders = enumerate(variables["sender_id"])
    carried = [row if sender is None else row_of[sender] for row, sender in senders]
    stays = ("weight", "optimiser state") if has_training(report) else ()
    return np.array(
        [dtypes[row] == "float32" and purposes[row] not in stays for row in carried], np.bool_
    )


def _less_batch(report: Report, n_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what sizes in proportion to the batch are with half of it, rounded up."""
    batch = batch_of(report)
    return -(-n_bytes * (batch // 2) // batch)


def _of_steps(names: frozenset[str]) -> frozenset[str]:
    """Return those of some remedies that change what lives at a step."""
    return frozenset(name for name in names if name in _OF_STEPS or name.startswith(AGAIN))


def whole_ipu(report: Report) -> int:
    """Return the tiles of a whole IPU where an option chose fewer; 0 otherwise."""
    machine = target(report)
    n_tiles = machine.preset_tiles_per_ipu or 0
    return n_tiles if machine.tiles_per_ipu < n_tiles else 0
