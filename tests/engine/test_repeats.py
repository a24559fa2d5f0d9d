"""Repeated stretches of leaves, against a search that compares stretch with stretch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilescope.engine.graph import Graph
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Sequence
from tilescope.engine.session.repeats import Leaf, Repeat, all_repeats, find_repeats


def naive(leaves: list[Leaf]) -> set[Repeat]:
    """Return the repeats of every length by comparing all stretches."""
    actual = set()
    for length in range(1, len(leaves)):
        by_look: dict[object, list[int]] = {}
        for start in range(len(leaves) - length + 1):
            stretch = leaves[start : start + length]
            if not all(leaf.structure for leaf in stretch):
                continue
            numbers: dict[object, int] = {}
            look = tuple(
                (leaf.structure, *(numbers.setdefault(v, len(numbers)) for v in leaf.variables))
                for leaf in stretch
            )
            by_look.setdefault(look, []).append(start)
        for starts in by_look.values():
            apart: list[int] = []
            for start in starts:
                if not apart or apart[-1] + length <= start:
                    apart.append(start)
            if len(apart) > 1:
                actual.add(Repeat(tuple(apart), length))
    return actual


def drawn_leaves(random: np.random.Generator) -> list[Leaf]:
    """Return a few leaves over and over, on variables that move on or stay."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=2))
    variables = [graph.add_variable("float32", (4,), f"v{i}").variable for i in range(6)]
    leaves: list[Leaf] = []
    while len(leaves) < 50:
        kind = int(random.integers(0, 4))
        shift = int(random.integers(0, 2)) * (len(leaves) // 5)
        named = [variables[(kind * k + shift + k) % 6] for k in range(1 + kind % 3)]
        structure = b"" if random.random() < 0.04 else bytes([kind])
        leaves.append(Leaf(Sequence("leaf"), structure, tuple(dict.fromkeys(named))))
        if random.random() < 0.2:
            leaves += leaves[-8:]
    return leaves


@pytest.mark.parametrize("seed", range(12))
def test_repeats_are_those_of_the_naive_search(seed: int) -> None:
    leaves = drawn_leaves(np.random.default_rng(seed))
    actual = all_repeats(leaves)
    assert len(set(actual)) == len(actual)
    assert set(actual) == naive(leaves)


def most_gain_first(leaves: list[Leaf], gain: Callable[[Repeat], float]) -> list[Repeat]:
    """Return the repeats with most gain, evaluating the gain of all that are left every time."""
    chosen: list[Repeat] = []
    taken: set[int] = set()
    while True:
        left = []
        for repeat in all_repeats(leaves):
            free = [
                start
                for start in repeat.starts
                if not taken.intersection(range(start, start + repeat.length))
            ]
            if len(free) > 1:
                left.append(Repeat(tuple(free), repeat.length))
        worth = {repeat: gain(repeat) for repeat in left}
        if max(worth.values(), default=0) <= 0:
            return chosen
        best = max(left, key=lambda repeat: (worth[repeat], -repeat.length, repeat.starts))
        chosen.append(best)
        taken.update(s + i for s in best.starts for i in range(best.length))


@pytest.mark.parametrize("seed", range(12))
def test_the_repeats_with_most_gain_come_first_though_few_gains_are_evaluated(seed: int) -> None:
    leaves = drawn_leaves(np.random.default_rng(seed))
    worth_of_leaf = [len(leaf.structure) * (1 + leaf.structure[:1][0] % 3) if leaf.structure else 0
                     for leaf in leaves]  # fmt: skip
    evaluated: list[Repeat] = []

    def bound(repeat: Repeat) -> float:
        start = repeat.starts[0]
        return (len(repeat.starts) - 1) * sum(worth_of_leaf[start : start + repeat.length])

    def gain(repeat: Repeat) -> float:
        evaluated.append(repeat)
        # Calls that lose a stretch may gain more than they did with it.
        factor = (0, 0.9, 1, 0.3)[(sum(repeat.starts) + repeat.length) % 4]
        return factor * bound(repeat)

    actual = find_repeats(leaves, gain, bound)
    assert len(evaluated) == len(set(evaluated))
    n_evaluated = len(evaluated)
    assert actual == most_gain_first(leaves, gain)
    assert n_evaluated < len(evaluated) - n_evaluated
