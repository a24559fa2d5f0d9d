"""Fragments cut where the set of receivers changes, beside sets of receivers by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tilescope.engine.compiler.kernels.sends import parts_of_fragments


def naive(fragments: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, list[int]]]:
    """Return sender, start, elements and receivers of every part."""
    bounds: dict[int, set[int]] = {}
    for sender, start, length, _ in fragments:
        bounds.setdefault(sender, set()).update((start, start + length))
    parts = []
    for sender, edges in sorted(bounds.items()):
        ordered = sorted(edges)
        for begin, end in itertools.pairwise(ordered):
            receivers = [
                to for s, offset, n, to in fragments if s == sender and offset <= begin < offset + n
            ]
            if receivers:
                parts.append((sender, begin, end - begin, receivers))
    return parts


def nested(n: int) -> list[tuple[int, int, int, int]]:
    """Return fragments all of which overlap: parts have n (n + 1) / 2 receivers."""
    return [(3, 0, k + 1, k) for k in range(n)]


def scattered(seed: int) -> list[tuple[int, int, int, int]]:
    random = np.random.default_rng(seed)
    rows = random.integers([0, 0, 1, 0], [4, 40, 20, 12], (60, 4)).tolist()
    return [(sender, start, length, to) for sender, start, length, to in rows]


@pytest.mark.parametrize(
    "fragments", [nested(40), *map(scattered, range(5))], ids=["nested", *"01234"]
)
def test_parts_have_the_receivers_of_their_elements(
    fragments: list[tuple[int, int, int, int]],
) -> None:
    fragments = sorted(fragments, key=lambda fragment: fragment[:2])
    sender, start, length, receiver = np.array(fragments).T
    actual = parts_of_fragments(sender, start, length, 4 * length, receiver)
    part_sender, part_start, part_bytes, send, first, receivers = actual
    expected = naive(fragments)
    assert part_sender.tolist() == [part[0] for part in expected]
    assert part_start.tolist() == [part[1] for part in expected]
    assert part_bytes.tolist() == [4 * part[2] for part in expected]
    local = [sorted(receivers[a:b]) for a, b in itertools.pairwise(first)]
    assert local == [sorted(part[3]) for part in expected]
    # A send is a sender with a set of receivers, numbered by its first part.
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for part in expected:
        numbers.setdefault((part[0], tuple(sorted(part[3]))), len(numbers))
    assert send.tolist() == [numbers[part[0], tuple(sorted(part[3]))] for part in expected]
    assert receivers.size == sum(len(part[3]) for part in expected)


def test_no_fragments() -> None:
    nothing = np.zeros(0, np.int64)
    assert all(
        parts_of_fragment.sum() == 0 for parts_of_fragment in parts_of_fragments(*[nothing] * 5)
    )
