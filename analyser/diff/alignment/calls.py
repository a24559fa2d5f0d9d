"""Alignment of the calls of two reports: by structure first, then by name.

Nodes of a model are pinned by what leads to them and what they lead to (operation, attributes,
shapes, weights), so that neither new names nor a node more or less shifts the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilescope.analyser.diff.alignment.call_keys import LEVELS, SCORES, CallKeys
from tilescope.analyser.diff.alignment.sequence import align_sequences
from tilescope.analyser.program.call_tree import Call, CallTree

__all__ = ["CallPairs", "align_calls"]


@dataclass(frozen=True, eq=False)
class CallPairs:
    """Calls of a baseline with the same calls of a candidate, by id.

    A call is paired only if the calls around it are; ``pairs`` are in order of the baseline.
    """

    baseline: CallTree
    candidate: CallTree
    pairs: dict[int, int]

    @cached_property
    def numbers(self) -> tuple[dict[int, int], dict[int, int]]:
        """Number of the pair of every paired call, for both sides."""
        baseline_items = {before: number for number, before in enumerate(self.pairs)}
        candidate_items = {after: number for number, after in enumerate(self.pairs.values())}
        return baseline_items, candidate_items

    @cached_property
    def roots(self) -> tuple[tuple[int, int], ...]:
        """The outermost pairs."""
        contexts = self.baseline.contexts
        return tuple(pair for pair in self.pairs.items() if contexts[pair[0]].parent_id is None)

    def only(self, side: int) -> tuple[int, ...]:
        """Return the outermost calls that the baseline (0) or the candidate (1) has alone."""
        tree, paired = (self.baseline, self.candidate)[side], self.numbers[side]
        return tuple(number for number in tree.children(None) if number not in paired)


def align_calls(baseline: CallTree, candidate: CallTree) -> CallPairs:
    """Return which calls of two trees are the same; symmetric, and kept with the trees."""
    alignment = baseline.aligned.get(candidate)
    if alignment is None:
        alignment = baseline.aligned[candidate] = _align_trees(baseline, candidate)
    return CallPairs(baseline, candidate, alignment)


def _align_trees(baseline: CallTree, candidate: CallTree) -> dict[int, int]:
    """Return the pairs of two trees, found from the outermost inwards."""
    pairs: dict[int, int] = {}
    waiting: list[tuple[int | None, int | None]] = [(None, None)]
    while waiting:
        before, after = waiting.pop()
        baseline_items, candidate_items = baseline.children(before), candidate.children(after)
        if baseline_items and candidate_items:
            same_ends = _same_ends(baseline, candidate, baseline_items, candidate_items)
            pairs.update(same_ends)
            waiting += same_ends
    return dict(sorted(pairs.items()))


def _same_ends(
    baseline: CallTree,
    candidate: CallTree,
    baseline_items: Sequence[int],
    candidate_items: Sequence[int],
) -> list[tuple[int, int]]:
    """Return pairs of calls beside each other: equal ones at both ends, then those between."""
    texts = [
        [tree.text(number) for number in calls]
        for tree, calls in ((baseline, baseline_items), (candidate, candidate_items))
    ]
    shorter = min(len(baseline_items), len(candidate_items))
    n_first = 0
    while n_first < shorter and texts[0][n_first] == texts[1][n_first]:
        n_first += 1
    n_last = 0
    while n_last < shorter - n_first and texts[0][-1 - n_last] == texts[1][-1 - n_last]:
        n_last += 1
    same_ends = list(zip(baseline_items[:n_first], candidate_items[:n_first], strict=True))
    if n_last:
        same_ends += zip(baseline_items[-n_last:], candidate_items[-n_last:], strict=True)
    between = (
        baseline_items[n_first : len(baseline_items) - n_last],
        candidate_items[n_first : len(candidate_items) - n_last],
    )
    if all(between):
        calls = (
            [tree.call(number) for number in numbers]
            for tree, numbers in zip((baseline, candidate), between, strict=True)
        )
        same_ends += [(between[0][i], between[1][j]) for i, j in _align_lists(*calls)]
    return same_ends


def _align_lists(
    baseline_items: Sequence[Call], candidate_items: Sequence[Call]
) -> list[tuple[int, int]]:
    """Return pairs of places in two lists of calls."""
    if len(baseline_items) == len(candidate_items) == 1:
        return [(0, 0)] if baseline_items[0].operation == candidate_items[0].operation else []
    sides = CallKeys(baseline_items), CallKeys(candidate_items)
    pairs = align_sequences(
        (len(baseline_items), len(candidate_items)),
        lambda name: (sides[0][name], sides[1][name]),
        LEVELS,
        SCORES,
    )
    for key in ("weighted", "operation name"):
        pairs += _pair_unique(sides[0][key], sides[1][key], pairs)
    return sorted(pairs)


def _pair_unique(
    baseline_items: Sequence[Hashable],
    candidate_items: Sequence[Hashable],
    pairs: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Return pairs of calls that are left and whose key no other has, in whatever order."""
    paired = {before for before, _ in pairs}, {after for _, after in pairs}
    left, right = (
        _unique([None if index in paired_indices else key for index, key in enumerate(keys)])
        for keys, paired_indices in zip((baseline_items, candidate_items), paired, strict=True)
    )
    return [(index, right[key]) for key, index in left.items() if key in right]


def _unique(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return where the keys are that occur once; None is no key."""
    positions: dict[Hashable, int] = {}
    for index, key in enumerate(keys):
        if key is not None:
            positions[key] = -1 if key in positions else index
    return {key: index for key, index in positions.items() if index >= 0}
