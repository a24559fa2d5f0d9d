"""Random damage to the bytes of a report file: header, pages, cells, varints, values."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["damage"]

_EXTREMES = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\x81\x00", b"\xff" * 9, b"\x00" * 8)
#: Fields of the header: place and length, from SQLite's file format.
_HEADER_FIELDS = (
    (16, 2), (18, 1), (19, 1), (20, 1), (21, 1), (22, 1), (23, 1), (24, 4), (28, 4), (32, 4),
    (36, 4), (40, 4), (44, 4), (48, 4), (52, 4), (56, 4), (60, 4), (64, 4), (68, 4), (92, 4),
    (96, 4),
)  # fmt: skip


def damage(sound: bytes, generator: random.Random) -> tuple[bytes, str]:
    """Return the damaged bytes of a report, and what was done to them."""
    content = bytearray(sound)
    page_bytes = int.from_bytes(sound[16:18])
    subject = generator.choice(_MUTATIONS)(content, page_bytes, generator)
    return bytes(content), subject


def _flip(content: bytearray, _: int, generator: random.Random) -> str:
    positions = [generator.randrange(len(content)) for _ in range(generator.randint(1, 4))]
    for position in positions:
        content[position] ^= 1 << generator.randrange(8)
    return f"bits of bytes {positions} flipped"


def _header(content: bytearray, _: int, generator: random.Random) -> str:
    position, n_bytes = generator.choice(_HEADER_FIELDS)
    value = generator.choice([bytes(n_bytes), b"\xff" * n_bytes, generator.randbytes(n_bytes)])
    content[position : position + n_bytes] = value
    return f"header field {position} set to {value.hex()}"


def _page_header(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    page = generator.randrange(len(content) // page_bytes)
    position = page * page_bytes + (100 if page == 0 else 0) + generator.randrange(12)
    content[position] = generator.choice([0, 1, 2, 5, 10, 13, 255, generator.randrange(256)])
    return f"page header byte {position} of page {page} set to {content[position]}"


def _cell_pointer(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    page = generator.randrange(1, len(content) // page_bytes)
    start = page * page_bytes
    n_cells = int.from_bytes(content[start + 3 : start + 5])
    position = start + 8 + 2 * generator.randrange(max(min(n_cells, 100), 1))
    content[position : position + 2] = generator.randrange(1 << 16).to_bytes(2)
    return f"cell pointer at {position} of page {page} changed"


def _varint(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    """Overwrite the start of a cell: lengths of payload, row id, types."""
    page = generator.randrange(1, len(content) // page_bytes)
    start = page * page_bytes
    n_cells = int.from_bytes(content[start + 3 : start + 5])
    pointer = start + 8 + 2 * generator.randrange(max(min(n_cells, 100), 1))
    cell = int.from_bytes(content[pointer : pointer + 2]) % page_bytes
    position = start + cell + generator.randrange(12)
    value = generator.choice(_EXTREMES)
    content[position : position + len(value)] = value
    return f"cell at {position} of page {page} overwritten with {value.hex()}"


def _run_of_bytes(content: bytearray, _: int, generator: random.Random) -> str:
    n_bytes = generator.choice([2, 8, 64, 700])
    position = generator.randrange(len(content) - n_bytes)
    content[position : position + n_bytes] = generator.randbytes(n_bytes)
    return f"{n_bytes} random bytes at {position}"


def _swap_pages(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    item, second = (generator.randrange(len(content) // page_bytes) * page_bytes for _ in range(2))
    first = content[item : item + page_bytes]
    content[item : item + page_bytes] = content[second : second + page_bytes]
    content[second : second + page_bytes] = first
    return f"pages at {item} and {second} swapped"


def _copy_page(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    first, second = (generator.randrange(len(content) // page_bytes) * page_bytes for _ in range(2))
    content[first : first + page_bytes] = content[second : second + page_bytes]
    return f"page at {first} replaced by that at {second}"


def _clear_page(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    start = generator.randrange(len(content) // page_bytes) * page_bytes
    content[start : start + page_bytes] = bytes(page_bytes)
    return f"page at {start} cleared"


def _truncate(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    n_bytes = generator.choice(
        [generator.randrange(len(content)), page_bytes * generator.randrange(len(content) // 2048)]
    )
    del content[n_bytes:]
    return f"truncated to {n_bytes} bytes"


def _extend(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    n_bytes = generator.choice([1, page_bytes, 3 * page_bytes])
    content += generator.randbytes(n_bytes)
    return f"extended by {n_bytes} bytes"


def _resize(content: bytearray, page_bytes: int, generator: random.Random) -> str:
    """Remove or add pages, with a header that agrees."""
    n_pages = max(len(content) // page_bytes + generator.choice([-3, -1, 1, 3]), 1)
    del content[n_pages * page_bytes :]
    content += bytes(n_pages * page_bytes - len(content))
    content[28:32] = n_pages.to_bytes(4)
    return f"resized to {n_pages} pages"


def _shift(content: bytearray, _: int, generator: random.Random) -> str:
    position = generator.randrange(100, len(content))
    if generator.random() < 0.5:
        del content[position]
        content.append(0)
        return f"byte {position} removed"
    content.insert(position, generator.randrange(256))
    content.pop()
    return f"byte inserted at {position}"


_MUTATIONS: tuple[Callable[[bytearray, int, random.Random], str], ...] = (
    _flip, _flip, _header, _page_header, _cell_pointer, _varint, _varint, _run_of_bytes,
    _swap_pages, _copy_page, _clear_page, _truncate, _extend, _resize, _shift,
)  # fmt: skip
