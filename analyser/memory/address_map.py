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
    variables, machine = tile_variables(report, tile), target(report)
    return AddressMap(
        variables.tile_id,
        machine.capacity_bytes,
        machine.non_interleaved_bytes,
        _blocks(variables, _code_bytes(report, variables.tile_id)),
    )


def _code_bytes(report: Report, tile: int) -> int:
    """Return what a tile holds besides variables, bytes."""
    sizes = category_bytes(report)[:, tile].tolist()
    return sum(
        size
        for category, size in zip(categories(report), sizes, strict=True)
        if not MEMORY_CATEGORY[category.name].is_variable
    )


def _blocks(variables: TileVariables, code_bytes: int) -> tuple[AddressBlock, ...]:
    """Return blocks by address."""
    start, end = variables.offset_bytes, variables.offset_bytes + variables.bytes
    # Code ends where the first variable begins, if not before.
    code_end = min(code_bytes, int(start.min())) if len(start) else code_bytes
    ends = np.array([0, code_end], np.int64)
    edges = np.unique(np.concatenate([ends, start, end])).tolist()
    opens: dict[int, list[int]] = {}
    closes: dict[int, list[int]] = {}
    for index, (low, high) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if low < high:
            opens.setdefault(low, []).append(index)
            closes.setdefault(high, []).append(index)
    inside: dict[int, None] = {}
    blocks: list[AddressBlock] = []
    for low, high in pairwise(edges):
        for index in closes.get(low, ()):
            inside.pop(index)
        inside.update(dict.fromkeys(opens.get(low, ())))
        is_code = high <= code_end
        block = _block(variables, low, high, list(inside), is_code=is_code)
        before = blocks[-1] if blocks else None
        if before is not None and _is_same(before, block):
            block = _joined(before, block)
            blocks.pop()
        blocks.append(block)
    return tuple(blocks)


def _block(
    variables: TileVariables, low: int, high: int, inside: list[int], *, is_code: bool
) -> AddressBlock:
    """Return what lies between two addresses."""
    if not inside:
        return AddressBlock(low, high - low, "code" if is_code else "gap", (), 0, is_code)
    inside.sort(key=lambda row: (-int(variables.bytes[row]), row))
    names = list(dict.fromkeys(variables.name[row] for row in inside))
    kinds = {variables.category[row] for row in inside}
    use = kinds.pop() if len(names) == 1 and len(kinds) == 1 else "shared"
    always = bool(variables.is_always_live[inside].any())
    return AddressBlock(low, high - low, use, tuple(names[:_N_NAMES]), len(names), always)


def _is_same(first: AddressBlock, second: AddressBlock) -> bool:
    """Return whether two neighbours hold the same variables."""
    return (first.use, first.names, first.n_variables) == (
        second.use,
        second.names,
        second.n_variables,
    )


def _joined(first: AddressBlock, second: AddressBlock) -> AddressBlock:
    """Return two neighbours as one block."""
    return AddressBlock(
        first.offset_bytes,
        first.bytes + second.bytes,
        first.use,
        first.names,
        first.n_variables,
        first.is_always_live and second.is_always_live,
    )
