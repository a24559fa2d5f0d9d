"""What lies at every address of a tile: code, variables, what shares a place, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.lowered_variables import TileVariables, tile_variables
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES, MEMORY_CATEGORY

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["USES", "AddressBlock", "AddressMap", "address_map"]

#: What a block may be used for, with its label: a category of variables, or one of three others.
USES: dict[str, str] = {
    "code": "Code, state and stack",
    **{category.name: category.label for category in MEMORY_CATEGORIES if category.is_variable},
    "shared": "Shared at different steps",
    "gap": "Gap",
}
#: Names of a block that several variables share.
_N_NAMES = 4


@dataclass(frozen=True)
class AddressBlock:
    """A range of addresses that the same variables use.

    Attributes
    ----------
    names
        Up to four of the variables, the largest part first; empty for code and gaps.
    n_variables
        How many there are.
    is_always_live
        Whether it is in use at every step.
    """

    offset_bytes: int
    bytes: int
    use: str
    names: tuple[str, ...]
    n_variables: int
    is_always_live: bool


@dataclass(frozen=True)
class AddressMap:
    """The blocks of a tile from address 0 to the highest in use, without holes.

    ``capacity_bytes`` is what programs may use; interleaved memory begins at
    ``non_interleaved_bytes``.
    """

    tile_id: int
    capacity_bytes: int
    non_interleaved_bytes: int
    blocks: tuple[AddressBlock, ...]

    @property
    def end_bytes(self) -> int:
        """One past the highest address in use."""
        last = self.blocks[-1] if self.blocks else None
        return last.offset_bytes + last.bytes if last else 0

    def bytes_of(self, use: str) -> int:
        """Return the size of all blocks of a use."""
        return sum(block.bytes for block in self.blocks if block.use == use)


def address_map(report: Report, tile: int) -> AddressMap:
    """Return what lies at every address of a tile, over the whole program.

    Code, vertex state and the stack lie below all variables; the report holds their sizes but not
    the address of every part of them, so they are one block from address 0.

    Raises
    ------
    BadQuestion
        When the machine has no such tile.
    """
    found, machine = tile_variables(report, tile), target(report)
    return AddressMap(
        found.tile_id,
        machine.capacity_bytes,
        machine.non_interleaved_bytes,
        _blocks(found, _code_bytes(report, found.tile_id)),
    )


def _code_bytes(report: Report, tile: int) -> int:
    """Return what a tile holds besides variables, bytes."""
    sizes = category_bytes(report)[:, tile].tolist()
    return sum(
        size
        for one, size in zip(categories(report), sizes, strict=True)
        if not MEMORY_CATEGORY[one.name].is_variable
    )


def _blocks(found: TileVariables, code_bytes: int) -> tuple[AddressBlock, ...]:
    """Return blocks by address."""
    start, end = found.offset_bytes, found.offset_bytes + found.bytes
    # Code ends where the first variable begins, if not before.
    code_end = min(code_bytes, int(start.min())) if len(start) else code_bytes
    ends = np.array([0, code_end], np.int64)
    edges = np.unique(np.concatenate([ends, start, end])).tolist()
    opens: dict[int, list[int]] = {}
    closes: dict[int, list[int]] = {}
    for place, (low, high) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if low < high:
            opens.setdefault(low, []).append(place)
            closes.setdefault(high, []).append(place)
    inside: dict[int, None] = {}
    blocks: list[AddressBlock] = []
    for low, high in pairwise(edges):
        for place in closes.get(low, ()):
            inside.pop(place)
        inside.update(dict.fromkeys(opens.get(low, ())))
        is_code = high <= code_end
        block = _block(found, low, high, list(inside), is_code=is_code)
        before = blocks[-1] if blocks else None
        if before is not None and _is_same(before, block):
            block = _joined(before, block)
            blocks.pop()
        blocks.append(block)
    return tuple(blocks)


def _block(
    found: TileVariables, low: int, high: int, inside: list[int], *, is_code: bool
) -> AddressBlock:
    """Return what lies between two addresses."""
    if not inside:
        return AddressBlock(low, high - low, "code" if is_code else "gap", (), 0, is_code)
    inside.sort(key=lambda place: (-int(found.bytes[place]), place))
    names = list(dict.fromkeys(found.name[place] for place in inside))
    kinds = {found.category[place] for place in inside}
    use = kinds.pop() if len(names) == 1 and len(kinds) == 1 else "shared"
    always = bool(found.is_always_live[inside].any())
    return AddressBlock(low, high - low, use, tuple(names[:_N_NAMES]), len(names), always)


def _is_same(one: AddressBlock, other: AddressBlock) -> bool:
    """Return whether two neighbours hold the same variables."""
    return (one.use, one.names, one.n_variables) == (other.use, other.names, other.n_variables)


def _joined(one: AddressBlock, other: AddressBlock) -> AddressBlock:
    """Return two neighbours as one block."""
    return AddressBlock(
        one.offset_bytes,
        one.bytes + other.bytes,
        one.use,
        one.names,
        one.n_variables,
        one.is_always_live and other.is_always_live,
    )
