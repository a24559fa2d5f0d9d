"""Addresses of variable parts on each tile: first fit, swept over the program's steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.entry import array_pass
from tilescope.engine.machine import Machine

__all__ = ["Asked", "Lifetimes", "element_of", "first_fit", "nothing_asked", "share"]


#: Parts of a tile that are placed in further orders; an order takes their number squared.
_MOST_PARTS = 4_096


class Asked(NamedTuple):
    """Constraints on the placement of parts.

    Parameters
    ----------
    region : ndarray of int8, shape (n_parts,)
        0 for a part that may lie anywhere, 1 for one that must be interleaved, 2 for one that
        should be interleaved, for speed only.
    first : ndarray of int64, shape (n_parts + 1,)
        Index of each part's first neighbour.
    neighbour : ndarray of int64
        Parts that must not share a memory element with a part; each pair is listed twice.
    is_soft : ndarray of bool
        Whether a pair is kept apart for speed only.
    """

    region: NDArray[np.int8]
    first: NDArray[np.int64]
    neighbour: NDArray[np.int64]
    is_soft: NDArray[np.bool_]

    def of_parts(self, first: int, last: int) -> Asked:
        """Return the constraints of some parts, all those of their tiles."""
        low, high = self.first[[first, last]].tolist()
        return Asked(
            self.region[first:last],
            self.first[first : last + 1] - low,
            self.neighbour[low:high] - first,
            self.is_soft[low:high],
        )


class Lifetimes(NamedTuple):
    """Steps during which parts are live; parts of one variable share their lives.

    Parameters
    ----------
    owner : ndarray of integers, shape (n_parts,)
        Index of each part's variable.
    first : ndarray of int64, shape (n_owners + 1,)
        First life of each variable; every variable has one at least.
    start, end : ndarray of int64, shape (n_lives,)
        Half-open ranges of steps, ascending and apart for each variable.
    """

    owner: NDArray[Any]
    first: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


class _Turn(NamedTuple):
    """The order in which parts are placed.

    Parameters
    ----------
    order : ndarray of int64, shape (n_parts,)
        The parts of every tile.
    is_swept
        Whether the first step of a part is never before that of one placed earlier.
    chosen : ndarray of bool, shape (n_tiles,)
        Tiles whose parts are placed.
    """

    order: NDArray[np.int64]
    is_swept: bool
    chosen: NDArray[np.bool_]


class _Map(NamedTuple):
    """Sizes in bytes: the plain region, the whole memory, an element, interleaved elements."""

    plain: int
    limit: int
    element: int
    wide: int


def nothing_asked(n_parts: int) -> Asked:
    """Return constraints that allow every part to lie anywhere."""
    return Asked(
        np.zeros(n_parts, np.int8),
        np.zeros(n_parts + 1, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.bool_),
    )


@jit
def _element(address, plain, element, wide):  # type: ignore[no-untyped-def]
    """Return the number of the memory element that holds an address.

    Elements are numbered so that one begins where the plain region ends.
    """
    before = -plain % element
    if address < plain:
        return (address + before) // element
    return (plain + before) // element + (address - plain) // wide


@jit
def _begin(number, plain, element, wide):  # type: ignore[no-untyped-def]
    """Return the first address of a memory element."""
    before = -plain % element
    in_plain = (plain + before) // element
    if number < in_plain:
        return number * element - before
    return plain + (number - in_plain) * wide


@jit
def _meet(a, b, first, start, end):  # type: ignore[no-untyped-def]
    """Return whether two variables are live at the same step."""
    i, j = first[a], first[b]
    while i < first[a + 1] and j < first[b + 1]:
        if end[i] <= start[j]:
            i += 1
        elif end[j] <= start[i]:
            j += 1
        else:
            return True
    return False


@jit
def _is_always(i, n_steps, owner, life, start, end):  # type: ignore[no-untyped-def]
    """Return whether a part is live at every step, without an end between."""
    lives = life[owner[i]]
    return start[lives] == 0 and end[lives] == n_steps


@jit
def _drop_past(live, n_fixed, n_live, step, owner, life, end):  # type: ignore[no-untyped-def]
    """Drop the parts that are not live at a step or later; return how many are left."""
    n_kept = n_fixed
    for k in range(n_fixed, n_live):
        if end[life[owner[live[k]] + 1] - 1] > step:
            live[n_kept] = live[k]
            n_kept += 1
    return n_kept


@array_pass(
    "int64[:], int64[:], bool[:], int64[:], int64[:], int64[:], int64[:], int64[:], int8[:],"
    " int64[:], int64[:], bool[:], int64[:], int64, int64, int64[:]",
    writes="int64[:], int64[:], int64[:]",
)
def _first_fit(  # type: ignore[no-untyped-def]
    tile_start, order, chosen, size, owner, life, start, end, region,
    first, neighbour, is_soft, sizes, n_steps, is_swept, base, live, offset, highest,
):  # fmt: skip
    """Write the addresses of parts, and one past the highest one of every tile.

    Offsets are -1 before, the highest addresses those of `base`.
    """
    plain, limit, element, wide = sizes[0], sizes[1], sizes[2], sizes[3]
    # In `live`, parts that are still to be used, ascending by address. They overlap where they live
    # at different times.
    for t in range(base.size):
        n_live = 0
        # The first live parts that are used at every step and leave no gap: nothing fits there.
        n_fixed, floor = 0, base[t]
        # Where the last part was placed if it is used at every step: others like it come behind.
        last_size, last_end, last_slot = -1, floor, 0
        for i in order[tile_start[t] : tile_start[t + 1] if chosen[t] else tile_start[t]]:
            if is_swept:
                n_live = _drop_past(live, n_fixed, n_live, start[life[owner[i]]], owner, life, end)
            is_plain = region[i] == 0 and first[i] == first[i + 1]
            is_alike = (
                is_plain
                and size[i] == last_size
                and _is_always(i, n_steps, owner, life, start, end)
            )
            begin, begin_slot = (last_end, last_slot + 1) if is_alike else (floor, n_fixed)
            address = begin if region[i] == 0 else max(begin, plain)
            slot = begin_slot
            is_giving_way = False
            while True:
                while slot < n_live and offset[live[slot]] - address < size[i]:
                    if offset[live[slot]] + size[live[slot]] > address and _meet(
                        owner[i], owner[live[slot]], life, start, end
                    ):
                        address = offset[live[slot]] + size[live[slot]]
                    slot += 1
                beyond = -1
                for k in range(first[i], first[i + 1]):
                    neighbour_part = neighbour[k]
                    if offset[neighbour_part] < 0 or (is_soft[k] and is_giving_way):
                        continue
                    low = _element(offset[neighbour_part], plain, element, wide)
                    last = _element(
                        offset[neighbour_part] + size[neighbour_part] - 1, plain, element, wide
                    )
                    if (
                        low <= _element(address + size[i] - 1, plain, element, wide)
                        and _element(address, plain, element, wide) <= last
                    ):
                        beyond = max(beyond, last)
                if beyond >= 0:
                    address = _begin(beyond + 1, plain, element, wide)
                elif address + size[i] > limit and not is_giving_way:
                    # Constraints for speed only are dropped.
                    is_giving_way = True
                    address = max(begin, plain) if region[i] == 1 else begin
                    slot = begin_slot
                else:
                    break
            while slot > 0 and offset[live[slot - 1]] > address:
                slot -= 1
            for k in range(n_live, slot, -1):
                live[k] = live[k - 1]
            live[slot] = i
            n_live += 1
            offset[i] = address
            is_last = not is_swept and is_plain and _is_always(i, n_steps, owner, life, start, end)
            last_size, last_end, last_slot = (size[i] if is_last else -1), address + size[i], slot
            while (
                n_fixed < n_live
                and offset[live[n_fixed]] == floor
                and _is_always(live[n_fixed], n_steps, owner, life, start, end)
            ):
                floor += size[live[n_fixed]]
                n_fixed += 1
            highest[t] = max(highest[t], address + size[i])


def _placed(
    tile_start: NDArray[np.int64],
    turn: _Turn,
    size: NDArray[np.int64],
    lives: Lifetimes,
    base: NDArray[np.int64],
    constraints: Asked,
    sizes: _Map,
    n_steps: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the address of every part placed, else -1, and one past the highest of every tile."""
    offset, live = np.full(size.size, -1), np.empty(size.size, np.int64)
    highest = np.array(base, np.int64)
    arrays = (tile_start, turn.order, turn.chosen, size, *lives, *constraints)
    _first_fit(*arrays, np.array(sizes), n_steps, turn.is_swept, base, live, offset, highest)
    return offset, highest


def _sizes(machine: Machine) -> _Map:
    element = machine.memory_element_bytes
    return _Map(
        machine.non_interleaved_bytes,
        machine.allocatable_bytes,
        element,
        element * machine.interleave_factor,
    )


def element_of(address: NDArray[np.int64], machine: Machine) -> NDArray[np.int64]:
    """Return the memory element, or group of interleaved elements: ndarray of int64."""
    sizes = _sizes(machine)
    before = -sizes.plain % sizes.element
    in_plain = (address + before) // sizes.element
    beyond = (sizes.plain + before) // sizes.element + (address - sizes.plain) // sizes.wide
    return np.where(address < sizes.plain, in_plain, beyond)


def first_fit(
    tile_start: NDArray[np.int64],
    size: NDArray[np.int64],
    lifetimes: Lifetimes,
    base: NDArray[np.int64],
    constraints: Asked,
    machine: Machine,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Place parts so that parts live at the same step do not overlap.

    Parts are placed in the order in which they become live. On tiles where they do not fit so, two
    more orders are tested, and the lowest end counts: the largest first, and those that live
    through most steps first, so that the others lie in the gaps between these. Tiles that the
    parts live at every step would overfill in any order are left as they are.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile; its parts are sorted by their first step.
    size : ndarray of int64, shape (n_parts,)
        Bytes of each part, aligned.
    lifetimes
        The lives of the parts.
    base : ndarray of int64, shape (n_tiles,)
        First free address of each tile.
    constraints
        Constraints on the addresses; those for speed only are dropped where they do not fit.
    machine
        Regions and memory elements.

    Returns
    -------
    offset : ndarray of int64
        Address of each part.
    highest : ndarray of int64, shape (n_tiles,)
        One past the highest address in use.
    """
    sizes = _sizes(machine)
    n_steps = int(lifetimes.end.max(initial=0))
    arguments = size, lifetimes, base, constraints, sizes, n_steps
    swept = _Turn(np.arange(size.size), is_swept=True, chosen=np.ones(base.size, np.bool_))
    offset, highest = _placed(tile_start, swept, *arguments)
    is_late = (highest > sizes.limit) & (np.diff(tile_start) <= _MOST_PARTS)
    if not is_late.any():
        return offset, highest
    tile = np.repeat(np.arange(base.size), np.diff(tile_start))
    steps = _steps_of(lifetimes)[lifetimes.owner]
    always = np.where(steps == n_steps, size, 0)
    is_late &= base + np.bincount(tile, always, base.size) <= sizes.limit
    for key in ((-size,), (-size, -steps)):
        is_late = is_late & (highest > sizes.limit)
        order = np.lexsort((swept.order, *key, tile))
        again, reached = _placed(tile_start, _Turn(order, False, is_late), *arguments)
        is_better = is_late & (reached < highest)
        offset = np.where(is_better[tile], again, offset)
        highest = np.where(is_better, reached, highest)
    return offset, highest


def share(
    size: NDArray[np.int64], lifetimes: Lifetimes, base: int
) -> tuple[NDArray[np.int64], int]:
    """Place parts in one memory without limits, so that parts live at the same step do not overlap.

    Parameters
    ----------
    size : ndarray of int64, shape (n_parts,)
        Size of each part, in any unit; parts are sorted by their first step.
    lifetimes
        The lives of the parts.
    base
        First free address.

    Returns
    -------
    offset : ndarray of int64, shape (n_parts,)
        Address of each part.
    end : int
        One past the highest address in use.
    """
    n_parts = size.size
    offset, highest = _placed(
        np.array([0, n_parts]),
        _Turn(np.arange(n_parts), is_swept=True, chosen=np.ones(1, np.bool_)),
        size,
        lifetimes,
        np.array([base]),
        nothing_asked(n_parts),
        _Map(0, np.iinfo(np.int64).max, 1, 1),
        int(lifetimes.end.max(initial=0)),
    )
    return offset, int(highest[0])


def _steps_of(lifetimes: Lifetimes) -> NDArray[np.int64]:
    """Return the steps during which variables are live: ndarray of int64, (n_owners,)."""
    until = np.append(0, np.cumsum(lifetimes.end - lifetimes.start))
    return np.diff(until[lifetimes.first])
