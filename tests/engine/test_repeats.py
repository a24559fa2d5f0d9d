"""Repeated stretches of leaves, against a search that compares stretch with stretch."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.graph import Graph
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Sequence
from tilescope.engine.session.repeats import Leaf, Repeat, all_repeats


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


@pytest.mark.parametrize("seed", range(12))
def test_repeats_are_those_of_the_naive_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = Graph(load_machine("gc200", tiles_per_ipu=2))
    variables = [graph.add_variable("float32", (4,), f"v{i}").variable for i in range(6)]
    leaves: list[Leaf] = []
    while len(leaves) < 50:
        # A few leaves over and over, on variables that move on or stay.
        kind = int(random.integers(0, 4))
        shift = int(random.integers(0, 2)) * (len(leaves) // 5)
        named = [variables[(kind * k + shift + k) % 6] for k in range(1 + kind % 3)]
        structure = b"" if random.random() < 0.04 else bytes([kind])
        leaves.append(Leaf(Sequence("leaf"), structure, tuple(dict.fromkeys(named))))
        if random.random() < 0.2:
            leaves += leaves[-8:]
    actual = all_repeats(leaves)
    assert len(set(actual)) == len(actual)
    assert set(actual) == naive(leaves)
