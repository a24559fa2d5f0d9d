"""Alignment of things with names: the nth of a name in one report is the nth in the other.

Where a name occurs more often on one side, equal ones are paired first and keep their order, so
that one more at the front does not shift all others. The alignment is symmetric.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence

__all__ = ["Alignment", "align", "align_in_turn", "longest_rise"]

#: Pairs of indices, indices only in the baseline, only in the candidate; each in order.
Alignment = tuple[list[tuple[int, int]], list[int], list[int]]

#: A name that occurs more often than this on a side is paired in order without looking further.
_MOST_COMPARED = 300


def align(
    baseline_names: Sequence[Hashable],
    candidate_names: Sequence[Hashable],
    baseline_shapes: Sequence[Hashable],
    candidate_shapes: Sequence[Hashable],
) -> Alignment:
    """Pair the entries of two lists by name and occurrence.

    Parameters
    ----------
    baseline_names, candidate_names
        What must be equal in a pair, in order of the program.
    baseline_shapes, candidate_shapes
        What is equal in pairs to prefer where a name is not equally frequent.
    """
    if len(set(baseline_names)) == len(baseline_names):
        positions = dict(zip(candidate_names, range(len(candidate_names)), strict=True))
        if len(positions) == len(candidate_names):
            return _align_unique(baseline_names, positions)
    baseline_places, candidate_places = _places(baseline_names), _places(candidate_names)
    pairs: list[tuple[int, int]] = []
    for name, baseline_indices in baseline_places.items():
        candidate_indices = candidate_places.get(name, [])
        if len(baseline_indices) > len(candidate_indices):
            flipped = _pair(candidate_indices, baseline_indices, candidate_shapes, baseline_shapes)
            pairs += [(before, after) for after, before in flipped]
        else:
            pairs += _pair(baseline_indices, candidate_indices, baseline_shapes, candidate_shapes)
    pairs.sort()
    in_baseline, in_candidate = {before for before, _ in pairs}, {after for _, after in pairs}
    return (
        pairs,
        [before for before in range(len(baseline_names)) if before not in in_baseline],
        [after for after in range(len(candidate_names)) if after not in in_candidate],
    )


def align_in_turn(
    rounds: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]],
    baseline_shapes: Sequence[Hashable],
    candidate_shapes: Sequence[Hashable],
) -> Alignment:
    """Pair the entries of two lists by several names in turn.

    Parameters
    ----------
    rounds
        Names of both sides, the strongest first; a round pairs what the earlier ones have left, and
        none is asked for once a side has nothing left. An entry whose name is None takes no part
        in the round.
    baseline_shapes, candidate_shapes
        As for `align`.
    """
    left = [list(range(len(baseline_shapes))), list(range(len(candidate_shapes)))]
    shapes = baseline_shapes, candidate_shapes
    pairs_: list[tuple[int, int]] = []
    names_in_turn = iter(rounds)
    while all(left) and (names := next(names_in_turn, None)) is not None:
        chosen = [
            [index for index in indices if side[index] is not None]
            for indices, side in zip(left, names, strict=True)
        ]
        if not all(chosen):
            continue
        pairs, _, _ = align(
            *(
                [side[index] for index in indices]
                for indices, side in zip(chosen, names, strict=True)
            ),
            *(
                [side[index] for index in indices]
                for indices, side in zip(chosen, shapes, strict=True)
            ),
        )
        pairs_ += [(chosen[0][before], chosen[1][after]) for before, after in pairs]
        paired = {before for before, _ in pairs_}, {after for _, after in pairs_}
        left = [
            [index for index in indices if index not in paired_indices]
            for indices, paired_indices in zip(left, paired, strict=True)
        ]
    pairs_.sort()
    return pairs_, left[0], left[1]


def longest_rise(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most pairs that rise on both sides; ``pairs`` are in order of the first."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, pair) in enumerate(pairs):
        length = bisect_left(ends, pair)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [pair]
        last[length : length + 1] = [index]
    rise = []
    index = last[-1] if last else -1
    while index >= 0:
        rise.append(pairs[index])
        index = before[index]
    return rise[::-1]


def _align_unique(names: Sequence[Hashable], positions: dict[Hashable, int]) -> Alignment:
    """Pair the entries of two lists of names that occur once.

    ``positions`` are those of the candidate's names.
    """
    pairs = [(before, positions.pop(name, -1)) for before, name in enumerate(names)]
    removed = [before for before, after in pairs if after < 0]
    return [pair for pair in pairs if pair[1] >= 0], removed, sorted(positions.values())


def _places(names: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Return the indices of every name, in order."""
    positions: dict[Hashable, list[int]] = {}
    for index, name in enumerate(names):
        positions.setdefault(name, []).append(index)
    return positions


def _pair(
    few: list[int], many: list[int], few_shapes: Sequence[Hashable], many_shapes: Sequence[Hashable]
) -> list[tuple[int, int]]:
    """Pair every one of the fewer entries with one of the others, in order."""
    if len(few) == len(many) or not few or len(many) > _MOST_COMPARED:
        return list(zip(few, many, strict=False))
    # score[i][j]: most equal shapes when few[i:] is paired with entries of many[j:], all of them.
    n_few, n_many = len(few), len(many)
    worst = -n_few - 1
    score = [[worst] * (n_many + 1) for _ in range(n_few)] + [[0] * (n_many + 1)]
    for i in range(n_few - 1, -1, -1):
        for j in range(n_many - 1, -1, -1):
            pair_score = score[i + 1][j + 1] + (few_shapes[few[i]] == many_shapes[many[j]])
            score[i][j] = max(pair_score, score[i][j + 1])
    pairs, j = [], 0
    for i in range(n_few):
        while score[i][j] == score[i][j + 1]:
            j += 1
        pairs.append((few[i], many[j]))
        j += 1
    return pairs
