"""Digests of blocks of rows, and the chain over them that every milestone seals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

__all__ = ["DIGEST_BYTES", "ROWS_PER_BLOCK", "chain", "digest_rows"]

#: BLAKE2b-128 everywhere: accidental collisions are negligible, and 16 bytes are small.
DIGEST_BYTES = 16
#: Rows that share one digest.
ROWS_PER_BLOCK = 4_096


def _canonical(value: object) -> bytes:
    # ASCII-only JSON is identical on all versions of Python; bytes are hexadecimal.
    return json.dumps(value, separators=(",", ":"), default=bytes.hex).encode()


def digest_rows(table_name: str, rows: Sequence[Sequence[Any]]) -> bytes:
    """Return the digest of rows, as SQLite stores them, in order of their primary key."""
    return blake2b(_canonical([table_name, rows]), digest_size=DIGEST_BYTES).digest()


def chain(
    previous: bytes, name: str, n_row_blocks: int, new_blocks: Iterable[Sequence[Any]]
) -> bytes:
    """Return a milestone's digest over the previous digest, its facts and its new row blocks."""
    facts = _canonical([name, n_row_blocks, list(new_blocks)])
    return blake2b(previous + facts, digest_size=DIGEST_BYTES).digest()
