"""Addresses of parts, against a search that tries every address in turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.compiler.kernels.placement import Asked, Lifetimes, element_of, first_fit
from tilescope.engine.machine import load_machine

#: 128 bytes of plain memory in elements of 32 bytes, then 384 bytes in pairs of them.
MACHINE = replace(
    load_machine("gc200", tiles_per_ipu=1),
    interleaved_bytes=384,
    non_interleaved_bytes=128,
    memory_element_bytes=32,
)
N_STEPS = 6
Part = tuple[int, tuple[tuple[int, int], ...], int]


def search(parts: list[Part], order: list[int], pairs: dict[tuple[int, int], bool]) -> list[int]:
    """Return the lowest address of every part that none placed before forbids."""
    results: dict[int, int] = {}

    def is_free(i: int, at: int, gives_way: bool) -> bool:
        size, lives, _ = parts[i]
        for j, peer in results.items():
            meets = any(a < d and c < b for a, b in lives for c, d in parts[j][1])
            if meets and at < peer + parts[j][0] and peer < at + size:
                return False
        ends = np.array([at, at + size - 1])
        low, high = element_of(ends, MACHINE)
        for j, peer in results.items():
            if (i, j) not in pairs or (pairs[i, j] and gives_way):
                continue
            first, last = element_of(np.array([peer, peer + parts[j][0] - 1]), MACHINE)
            if first <= high and low <= last:
                return False
        return True

    for i in order:
        size, _, region = parts[i]
        start = MACHINE.non_interleaved_bytes if region else 0
        offset = next(
            offset for offset in range(start, 1 << 20, 8) if is_free(i, offset, gives_way=False)
        )
        if offset + size > MACHINE.allocatable_bytes:
            start = MACHINE.non_interleaved_bytes if region == 1 else 0
            offset = next(
                offset for offset in range(start, 1 << 20, 8) if is_free(i, offset, gives_way=True)
            )
        results[i] = offset
    return [results[i] for i in range(len(parts))]


@st.composite
def drawn_parts(draw: st.DrawFn) -> list[Part]:
    """Return size, lives and region of parts, in the order of their first steps."""
    always = ((0, N_STEPS),)
    parts: list[Part] = []
    for _ in range(draw(st.integers(1, 14))):
        edges = sorted(draw(st.sets(st.integers(0, N_STEPS), min_size=2, max_size=4)))
        local = tuple(zip(edges[::2], edges[1::2], strict=False))
        lives = draw(st.sampled_from([always, always, local]))
        size = 8 * draw(st.sampled_from([1, 2, 2, 2, 5, 9]))
        parts.append((size, lives, draw(st.sampled_from([0, 0, 0, 0, 1, 2]))))
    return sorted(parts, key=lambda part: part[1][0][0])


@given(drawn_parts(), st.data())
def test_parts_lie_at_the_lowest_address_that_is_free(
    parts: list[Part], data: st.DataObject
) -> None:
    n = len(parts)
    index = st.integers(0, n - 1)
    drawn = data.draw(st.lists(st.tuples(index, index, st.booleans()), max_size=3))
    pairs = {(i, j): soft for a, b, soft in drawn for i, j in ((a, b), (b, a)) if a != b}
    keys = sorted(pairs)
    requested = Asked(
        np.array([region for _, _, region in parts], np.int8),
        np.searchsorted(np.array([i for i, _ in keys], np.int64), np.arange(n + 1)),
        np.array([j for _, j in keys], np.int64),
        np.array([pairs[key] for key in keys], np.bool_),
    )
    size = np.array([size for size, _, _ in parts], np.int64)
    # The last step is used by someone, as in a program.
    lives = [local for _, local, _ in parts] + [((0, N_STEPS),)]
    first = np.cumsum([0, *map(len, lives)]).astype(np.int64)
    steps = np.array([life for local in lives for life in local], np.int64).reshape(-1, 2)
    lifetimes = Lifetimes(np.arange(n), first, *steps.T.copy())
    offset, highest = first_fit(
        np.array([0, n]), size, lifetimes, np.zeros(1, np.int64), requested, MACHINE
    )
    expected = search(parts, list(range(n)), pairs)
    reached = max(position + part[0] for position, part in zip(expected, parts, strict=True))
    always_bytes = sum(size for size, local, _ in parts if local == ((0, N_STEPS),))
    if always_bytes <= MACHINE.allocatable_bytes < reached:
        largest_first = sorted(range(n), key=lambda i: (-parts[i][0], i))
        again = search(parts, largest_first, pairs)
        end = max(position + part[0] for position, part in zip(again, parts, strict=True))
        expected = again if end < reached else expected
        reached = min(end, reached)
    assert offset.tolist() == expected
    assert highest.tolist() == [reached]
