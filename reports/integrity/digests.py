"""Digests of blocks of rows, and the chain over them that every milestone seals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tilescope.reports.schema import TableSpec

__all__ = ["DIGEST_BYTES", "ROWS_PER_BLOCK", "chain", "digest_columns", "kinds_of"]

#: BLAKE2b-128 everywhere: accidental collisions are negligible, and 16 bytes are small.
DIGEST_BYTES = 16
#: Rows that share one digest.
ROWS_PER_BLOCK = 4_096

_TYPES: dict[str, type] = {
    "boolean": int,
    "bytes": bytes,
    "integer": int,
    "real": float,
    "text": str,
}


def kinds_of(table: TableSpec) -> tuple[frozenset[type], ...]:
    """Return the types that values of every digested column may have, as SQLite returns them."""
    return tuple(
        frozenset(
            (_TYPES[column.kind], type(None)) if column.is_nullable else (_TYPES[column.kind],)
        )
        for column in table.digested
    )


def digest_columns(table: TableSpec, columns: Sequence[Sequence[Any]]) -> bytes:
    """Return the digest of a block of rows, given as columns in order of the primary key.

    Parameters
    ----------
    table : TableSpec
        The table; its name and the number of rows are part of the digest.
    columns : sequence of sequences
        Values of every digested column, of the types of `kinds_of`.

    Notes
    -----
    Integers and reals are hashed as 64-bit little-endian numbers, text and bytes as the lengths of
    the values followed by all values. An optional column starts with a byte per row: 1 for null.
    """
    n_rows = len(columns[0])
    state = blake2b(_canonical([table.name, n_rows]), digest_size=DIGEST_BYTES)
    for column, values in zip(table.digested, columns, strict=True):
        present = values
        if column.is_nullable and None in values:
            state.update(bytes([value is None for value in values]))
            present = [value for value in values if value is not None]
        elif column.is_nullable:
            state.update(bytes(n_rows))
        for part in _PARTS[column.kind](present):
            state.update(part)
    return state.digest()


def chain(
    previous: bytes, name: str, n_row_blocks: int, new_blocks: Iterable[Sequence[Any]]
) -> bytes:
    """Return a milestone's digest over the previous digest, its facts and its new row blocks."""
    facts = _canonical([name, n_row_blocks, list(new_blocks)])
    return blake2b(previous + facts, digest_size=DIGEST_BYTES).digest()


def _canonical(value: object) -> bytes:
    # ASCII-only JSON is identical on all versions of Python; bytes are hexadecimal.
    return json.dumps(value, separators=(",", ":"), default=bytes.hex).encode()


def _integers(values: Sequence[int]) -> tuple[bytes, ...]:
    return (np.array(values, dtype="<i8").tobytes(),)


def _reals(values: Sequence[float]) -> tuple[bytes, ...]:
    return (np.array(values, dtype="<f8").tobytes(),)


def _text(values: Sequence[str]) -> tuple[bytes, ...]:
    return _integers(list(map(len, values)))[0], "".join(values).encode()


def _bytes(values: Sequence[bytes]) -> tuple[bytes, ...]:
    return _integers(list(map(len, values)))[0], b"".join(values)


_PARTS: dict[str, Callable[[Sequence[Any]], tuple[bytes, ...]]] = {
    "boolean": _integers,
    "bytes": _bytes,
    "integer": _integers,
    "real": _reals,
    "text": _text,
}
