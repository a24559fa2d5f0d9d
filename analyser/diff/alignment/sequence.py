"""Alignment of two sequences by keys of falling strength, in order of both.

Keys that are unique between two anchors pair first (patience), level by level; what is left
between anchors is paired by a common subsequence that is weighted by likeness.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Level", "align_sequences"]

#: A key per entry of the baseline and of the candidate; None for an entry without the key.
Level: TypeAlias = tuple[Sequence[Hashable], Sequence[Hashable]]
#: Half-open ranges of indices of both sides, between two anchors.
_Gap: TypeAlias = tuple[int, int, int, int]
_Pairs: TypeAlias = list[tuple[int, int]]

#: Runs of equal keys, the last first: begin on both sides, length, and those before it.
_Path: TypeAlias = "tuple[int, int, int, _Path] | None"
_Scores: TypeAlias = Sequence[tuple[str, int]]

#: Entries of the largest table of scores; a larger gap is split by the fewest edits first.
_MOST_SCORES = 1 << 22
#: With more edits than this, equal keys of a large gap pair by occurrence.
_MOST_EDITS = 500


def align_sequences(
    sizes: tuple[int, int], key: Callable[[str], Level], levels: Sequence[str], scores: _Scores
) -> _Pairs:
    """Return pairs of indices, rising on both sides.

    Parameters
    ----------
    sizes
        Lengths of the sequences.
    key
        Returns the keys of a name; called for those that are needed. The keys named ``text`` are
        strings and decide which side is first, so that ties fall alike if the sides are swapped.
    levels
        Names of keys, the strongest first.
    scores
        Names of keys with what their equality adds to the likeness of two entries; entries that
        differ in the first are never paired.
    """
    if sizes[0] > sizes[1] or (
        sizes[0] == sizes[1] and list(key("text")[0]) > list(key("text")[1])
    ):
        aligned = _align((sizes[1], sizes[0]), lambda name: key(name)[::-1], levels, scores)
        return sorted((before, after) for after, before in aligned)
    return sorted(_align(sizes, key, levels, scores))


def _align(
    sizes: tuple[int, int], key: Callable[[str], Level], levels: Sequence[str], scores: _Scores
) -> _Pairs:
    """Return pairs of indices, with the sides in their canonical order."""
    pairs: _Pairs = []
    gaps: list[_Gap] = [(0, sizes[0], 0, sizes[1])]
    n_found = -1
    while gaps and n_found != len(pairs):
        n_found = len(pairs)
        for level in levels:
            if gaps:
                gaps = _anchor(key(level), gaps, pairs)
    for gap in gaps:
        if (gap[1] - gap[0]) * (gap[3] - gap[2]) > _MOST_SCORES:
            gaps_left = _pair_by_edits(key(scores[-1][0]), gap, pairs)
        else:
            gaps_left = [gap]
        for left in gaps_left:
            _pair_by_likeness([(key(name), score) for name, score in scores], left, pairs)
    return pairs


def _anchor(level: Level, gaps: Sequence[_Gap], pairs: _Pairs) -> list[_Gap]:
    """Pair entries whose keys are unique in their gap; return the gaps that remain."""
    remaining: list[_Gap] = []
    for start, stop, other_start, other_stop in gaps:
        baseline_items = _unique(level[0], start, stop)
        candidate_items = _unique(level[1], other_start, other_stop)
        common = [
            (before, candidate_items[key])
            for key, before in baseline_items.items()
            if key in candidate_items
        ]
        gap = (start, stop, other_start, other_stop)
        remaining += _split(gap, _rising(sorted(common)), pairs)
    return remaining


def _split(gap: _Gap, anchors: _Pairs, pairs: _Pairs) -> list[_Gap]:
    """Add rising anchors to the pairs; return what of the gap is left between them."""
    begin, stop, other_begin, other_stop = gap
    remaining: list[_Gap] = []
    for before, after in anchors:
        if begin < before and other_begin < after:
            remaining.append((begin, before, other_begin, after))
        begin, other_begin = before + 1, after + 1
    pairs += anchors
    if begin < stop and other_begin < other_stop:
        remaining.append((begin, stop, other_begin, other_stop))
    return remaining


def _unique(keys: Sequence[Hashable], start: int, stop: int) -> dict[Hashable, int]:
    """Return where the keys are that occur once in a range."""
    positions: dict[Hashable, int] = {}
    for index in range(start, stop):
        key = keys[index]
        if key is not None:
            positions[key] = -1 if key in positions else index
    return {key: index for key, index in positions.items() if index >= 0}


def _rising(common: _Pairs) -> _Pairs:
    """Return the longest sequence of pairs that rises on both sides."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, peer) in enumerate(common):
        length = bisect_left(tails, peer)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(peer)
            ends.append(index)
        else:
            tails[length], ends[length] = peer, index
    chosen, index = [], ends[-1] if ends else -1
    while index >= 0:
        chosen.append(common[index])
        index = before[index]
    return chosen[::-1]


def _pair_by_edits(level: Level, gap: _Gap, pairs: _Pairs) -> list[_Gap]:
    """Pair equal keys of a large gap with the fewest edits; return the smaller gaps that remain.

    Source: E. W. Myers, An O(ND) Difference Algorithm and Its Variations, Algorithmica 1 (1986).
    """
    baseline_items, candidate_items = level[0][gap[0] : gap[1]], level[1][gap[2] : gap[3]]
    reached: dict[int, tuple[int, _Path]] = {1: (0, None)}
    for n_edits in range(_MOST_EDITS):
        for diagonal in range(-n_edits, n_edits + 1, 2):
            is_down = diagonal == -n_edits or (
                diagonal != n_edits and reached[diagonal - 1][0] < reached[diagonal + 1][0]
            )
            i, path = reached[diagonal + 1] if is_down else reached[diagonal - 1]
            begin = i = i if is_down else i + 1
            while (
                i < len(baseline_items)
                and i - diagonal < len(candidate_items)
                and baseline_items[i] == candidate_items[i - diagonal]
            ):
                i += 1
            if i > begin:
                path = (begin, begin - diagonal, i - begin, path)
            reached[diagonal] = i, path
            if i >= len(baseline_items) and i - diagonal >= len(candidate_items):
                return _split(gap, _on_path(path, gap), pairs)
    return _by_occurrence(level, gap, pairs)


def _on_path(path: _Path, gap: _Gap) -> _Pairs:
    """Return the pairs of a path of runs of equal keys, rising."""
    runs = []
    while path is not None:
        before, after, length, path = path
        runs.append((gap[0] + before, gap[2] + after, length))
    return [
        (before + k, after + k) for before, after, length in reversed(runs) for k in range(length)
    ]


def _by_occurrence(level: Level, gap: _Gap, pairs: _Pairs) -> list[_Gap]:
    """Pair the nth entry of a key with the nth of the other side, where that keeps the order."""
    sides: list[dict[tuple[Hashable, int], int]] = []
    for keys, start, stop in zip(level, gap[::2], gap[1::2], strict=True):
        count: dict[Hashable, int] = {}
        occurrences: dict[tuple[Hashable, int], int] = {}
        for index in range(start, stop):
            number = count[keys[index]] = count.get(keys[index], 0) + 1
            occurrences[keys[index], number] = index
        sides.append(occurrences)
    pairs += _rising(
        sorted((item, sides[1][key]) for key, item in sides[0].items() if key in sides[1])
    )
    return []


def _pair_by_likeness(scores: Sequence[tuple[Level, int]], gap: _Gap, pairs: _Pairs) -> None:
    """Pair entries of a gap in order so that the sum of their likeness is largest."""
    start, stop, other_start, other_stop = gap
    likeness = np.zeros((stop - start, other_stop - other_start), np.int32)
    for index, ((baseline_items, candidate_items), score) in enumerate(scores):
        equal = _equal(baseline_items[start:stop], candidate_items[other_start:other_stop])
        if index == 0:
            may_pair = equal
        likeness += equal * np.int32(score)
    likeness[~may_pair] = -1
    # best[i, j]: largest sum for entries from i and from j on.
    best = np.zeros((likeness.shape[0] + 1, likeness.shape[1] + 1), np.int32)
    for i in range(likeness.shape[0] - 1, -1, -1):
        pair_score = np.where(likeness[i] > 0, best[i + 1, 1:] + likeness[i], 0)
        row = np.maximum(best[i + 1, :-1], pair_score)
        best[i, :-1] = np.maximum.accumulate(row[::-1])[::-1]
    i = j = 0
    while i < likeness.shape[0] and j < likeness.shape[1]:
        if likeness[i, j] > 0 and best[i, j] == best[i + 1, j + 1] + likeness[i, j]:
            pairs.append((start + i, other_start + j))
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1


def _equal(
    baseline_items: Sequence[Hashable], candidate_items: Sequence[Hashable]
) -> NDArray[np.bool_]:
    """Return which entries have equal keys; a missing key equals none."""
    numbers: dict[Hashable, int] = {}
    sides = [
        np.array([-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys])
        for keys in (baseline_items, candidate_items)
    ]
    is_equal: NDArray[np.bool_] = (sides[0][:, None] == sides[1][None, :]) & (sides[0] >= 0)[
        :, None
    ]
    return is_equal
