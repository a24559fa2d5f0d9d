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
        ones = {one: number for number, one in enumerate(self.pairs)}
        others = {other: number for number, other in enumerate(self.pairs.values())}
        return ones, others

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
    found = baseline.aligned.get(candidate)
    if found is None:
        found = baseline.aligned[candidate] = _align_trees(baseline, candidate)
    return CallPairs(baseline, candidate, found)


def _align_trees(baseline: CallTree, candidate: CallTree) -> dict[int, int]:
    """Return the pairs of two trees, found from the outermost inwards."""
    pairs: dict[int, int] = {}
    waiting: list[tuple[int | None, int | None]] = [(None, None)]
    while waiting:
        one, other = waiting.pop()
        ones, others = baseline.children(one), candidate.children(other)
        if ones and others:
            found = _same_ends(baseline, candidate, ones, others)
            pairs.update(found)
            waiting += found
    return dict(sorted(pairs.items()))


def _same_ends(
    baseline: CallTree, candidate: CallTree, ones: Sequence[int], others: Sequence[int]
) -> list[tuple[int, int]]:
    """Return pairs of calls beside each other: equal ones at both ends, then those between."""
    texts = [
        [tree.text(number) for number in calls]
        for tree, calls in ((baseline, ones), (candidate, others))
    ]
    shorter = min(len(ones), len(others))
    n_first = 0
    while n_first < shorter and texts[0][n_first] == texts[1][n_first]:
        n_first += 1
    n_last = 0
    while n_last < shorter - n_first and texts[0][-1 - n_last] == texts[1][-1 - n_last]:
        n_last += 1
    found = list(zip(ones[:n_first], others[:n_first], strict=True))
    if n_last:
        found += zip(ones[-n_last:], others[-n_last:], strict=True)
    between = ones[n_first : len(ones) - n_last], others[n_first : len(others) - n_last]
    if all(between):
        calls = (
            [tree.call(number) for number in numbers]
            for tree, numbers in zip((baseline, candidate), between, strict=True)
        )
        found += [(between[0][i], between[1][j]) for i, j in _align_lists(*calls)]
    return found


def _align_lists(ones: Sequence[Call], others: Sequence[Call]) -> list[tuple[int, int]]:
    """Return pairs of places in two lists of calls."""
    if len(ones) == len(others) == 1:
        return [(0, 0)] if ones[0].operation == others[0].operation else []
    sides = CallKeys(ones), CallKeys(others)
    pairs = align_sequences(
        (len(ones), len(others)), lambda name: (sides[0][name], sides[1][name]), LEVELS, SCORES
    )
    for key in ("weighted", "operation name"):
        pairs += _pair_unique(sides[0][key], sides[1][key], pairs)
    return sorted(pairs)


def _pair_unique(
    ones: Sequence[Hashable], others: Sequence[Hashable], pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return pairs of calls that are left and whose key no other has, in whatever order."""
    taken = {one for one, _ in pairs}, {other for _, other in pairs}
    left, right = (
        _unique([None if place in done else key for place, key in enumerate(keys)])
        for keys, done in zip((ones, others), taken, strict=True)
    )
    return [(place, right[key]) for key, place in left.items() if key in right]


def _unique(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return where the keys are that occur once; None is no key."""
    found: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        if key is not None:
            found[key] = -1 if key in found else place
    return {key: place for key, place in found.items() if place >= 0}
