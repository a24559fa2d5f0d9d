"""The schedule of an exchange, cycle by cycle, over single elements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Element = tuple[int, int]


@dataclass(frozen=True)
class Send:
    """What goes from one tile, over one or two lanes, to a set of tiles."""

    sender: int
    lanes: frozenset[int]
    receivers: frozenset[int]
    cycles: int


def sends_of(
    receipts: Iterable[tuple[int, int, Element]],
    n_bytes: Callable[[Element], int],
    rate: float,
    partner: Callable[[int], int | None] | None = None,
) -> list[Send]:
    """Join elements that a tile sends to the same tiles; with a partner, over its lane as well."""
    receivers: dict[tuple[int, Element], set[int]] = {}
    for sender, receiver, element in receipts:
        receivers.setdefault((sender, element), set()).add(receiver)
    total: dict[tuple[int, frozenset[int]], int] = {}
    for (sender, element), tiles in sorted(receivers.items()):
        group = sender, frozenset(tiles)
        total[group] = total.get(group, 0) + n_bytes(element)
    return [
        Send(
            sender,
            frozenset({sender, partner(sender) if partner else None} - {None}),  # type: ignore[arg-type]
            tiles,
            math.ceil(size / rate),
        )
        for (sender, tiles), size in total.items()
    ]


def ends_of(sends: list[Send]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return when each tile has received all, and sent all, by tile."""
    load: Counter[int] = Counter()
    for send in sends:
        for tile in (send.sender, *send.receivers):
            load[tile] += send.cycles

    def preference(send: Send) -> tuple[int, int, int]:
        pressure = sum(load[tile] for tile in (send.sender, *send.receivers))
        return -pressure, -len(send.receivers), -send.cycles

    waiting = sorted(sends, key=lambda send: (send.sender, preference(send)))
    sends_until: Counter[int] = Counter()
    receives_until: Counter[int] = Counter()
    sent_at: Counter[int] = Counter()
    now = 0
    while waiting:
        for send in list(waiting):
            is_free = all(sends_until[tile] <= now for tile in send.lanes)
            if is_free and all(receives_until[tile] <= now for tile in send.receivers):
                waiting.remove(send)
                sent_at[send.sender] = now + send.cycles
                sends_until.update({t: now + send.cycles - sends_until[t] for t in send.lanes})
                receives_until.update(
                    {t: now + send.cycles - receives_until[t] for t in send.receivers}
                )
        now += 1
    return receives_until, sent_at
