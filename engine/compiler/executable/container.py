"""The binary format of compilations: facts and named arrays, one chunk per array as in reports.

Layout: magic, digest of the header, length of the header, the header as JSON, then the chunks in
order. The header holds the digest of every chunk, so its own digest covers everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.chunks import PackedChunk, pack, unpack
from tilescope.reports.integrity.digests import DIGEST_BYTES

__all__ = ["MALFORMED", "NotAnEntry", "decode", "encode"]

#: What reading a header or an array of other content raises.
MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)

_MAGIC = b"TSEXEC01"
_LENGTH_BYTES = 8
_PREFIX_BYTES = len(_MAGIC) + DIGEST_BYTES + _LENGTH_BYTES
_LARGEST_HEADER_BYTES = 1 << 30
_NARROW = (np.int8, np.int16, np.int32)


class NotAnEntry(Exception):
    """The bytes are of another kind, or do not match their digests."""


def encode(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an entry as bytes.

    Parameters
    ----------
    facts
        JSON types only.
    arrays
        Arrays of numbers or bools, by name.
    """
    described: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    for name, array in arrays.items():
        narrow = _narrowed(np.ascontiguousarray(array))
        chunk = pack(narrow.reshape(1, -1))
        # An empty array has no bytes that could be damaged.
        data = chunk.data if array.size else b""
        chunks.append(data)
        described.append(
            {
                "name": name,
                "dtype": array.dtype.str,
                "stored": narrow.dtype.str,
                "shape": list(array.shape),
                "codec": chunk.codec,
                "raw_bytes": chunk.raw_bytes,
                "bytes": len(data),
                "digest": chunk.digest.hex(),
            }
        )
    header = json.dumps({"facts": facts, "arrays": described}, separators=(",", ":")).encode()
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    return b"".join((_MAGIC, _digest(header), length, header, *chunks))


def decode(file: BinaryIO, file_bytes: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the facts and arrays of an entry, with all digests verified.

    Parameters
    ----------
    file
        Positioned at the start of the entry.
    file_bytes
        Its size, bytes.

    Raises
    ------
    NotAnEntry
        When anything differs from what was written.
    """
    prefix = file.read(_PREFIX_BYTES)
    if len(prefix) < _PREFIX_BYTES or not prefix.startswith(_MAGIC):
        raise NotAnEntry("it is not a cached executable")
    digest = prefix[len(_MAGIC) : len(_MAGIC) + DIGEST_BYTES]
    header_bytes = int.from_bytes(prefix[-_LENGTH_BYTES:], "little")
    if header_bytes > min(file_bytes - _PREFIX_BYTES, _LARGEST_HEADER_BYTES):
        raise NotAnEntry("it is truncated")
    header = file.read(header_bytes)
    if _digest(header) != digest:
        raise NotAnEntry("its header does not match its digest")
    try:
        return _decode_chunks(json.loads(header), file, file_bytes - _PREFIX_BYTES - header_bytes)
    except MALFORMED as error:
        raise NotAnEntry(f"a part is missing or malformed: {error}") from None


def _decode_chunks(
    header: Mapping[str, Any], file: BinaryIO, available_bytes: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return facts and arrays by the header: its digest is right, but anyone can compute it."""
    chunks_bytes = sum(item["bytes"] for item in header["arrays"])
    if available_bytes != chunks_bytes:
        raise NotAnEntry("it is truncated, or longer than it was written")
    arrays = {item["name"]: _array(item, file.read(item["bytes"])) for item in header["arrays"]}
    return header["facts"], arrays


def _array(described: Mapping[str, Any], data: bytes) -> NDArray[Any]:
    shape = tuple(described["shape"])
    if not prod(shape):
        return np.zeros(shape, described["dtype"])
    digest = bytes.fromhex(described["digest"])
    chunk = PackedChunk(digest, described["codec"], described["raw_bytes"], data)
    try:
        values = unpack(chunk, described["stored"], (1, prod(shape)), described["name"])
    except DamagedReport as error:
        raise NotAnEntry(str(error)) from None
    return values.reshape(shape).astype(described["dtype"])


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return 64-bit integers in the shortest type that holds them, for faster packing."""
    if array.dtype != np.int64 or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for kind in _NARROW:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return array.astype(kind)
    return array


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
