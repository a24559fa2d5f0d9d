"""What a compilation gives as bytes: facts and named arrays, each array a chunk as in reports.

Layout: magic, digest of the header, length of the header, the header as JSON, then the chunks one
after the other. The header holds the digest of every chunk, so that its own digest covers all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.chunks import PackedChunk, pack, unpack
from tilescope.reports.digests import DIGEST_BYTES
from tilescope.reports.errors import DamagedReport

__all__ = ["NotAnEntry", "decode", "encode"]

_MAGIC = b"TSEXEC01"
_LENGTH_BYTES = 8
_PREFIX_BYTES = len(_MAGIC) + DIGEST_BYTES + _LENGTH_BYTES
_LARGEST_HEADER_BYTES = 1 << 30
_NARROW = (np.int8, np.int16, np.int32)


class NotAnEntry(Exception):
    """The bytes are of another kind, or not what their digests say."""


def encode(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an entry.

    Parameters
    ----------
    facts
        JSON types only.
    arrays
        Of numbers or bools, by name.
    """
    described: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    for name, array in arrays.items():
        narrow = _narrowed(np.ascontiguousarray(array))
        chunk = pack(narrow.reshape(1, -1))
        # An empty array has no bytes, so that none can be damaged unseen.
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
    """Return the facts and arrays of an entry, everything verified.

    Parameters
    ----------
    file
        At its beginning.
    file_bytes
        Its size.

    Raises
    ------
    NotAnEntry
        At anything that is not as it was written.
    """
    prefix = file.read(_PREFIX_BYTES)
    if len(prefix) < _PREFIX_BYTES or not prefix.startswith(_MAGIC):
        raise NotAnEntry("it is not a cached executable")
    digest = prefix[len(_MAGIC) : len(_MAGIC) + DIGEST_BYTES]
    header_bytes = int.from_bytes(prefix[-_LENGTH_BYTES:], "little")
    if header_bytes > min(file_bytes - _PREFIX_BYTES, _LARGEST_HEADER_BYTES):
        raise NotAnEntry("it is cut short")
    header = file.read(header_bytes)
    if _digest(header) != digest:
        raise NotAnEntry("its header does not hold what its digest says")
    # From here on the header is what some version of this module wrote.
    found = json.loads(header)
    chunks_bytes = sum(each["bytes"] for each in found["arrays"])
    if file_bytes != _PREFIX_BYTES + header_bytes + chunks_bytes:
        raise NotAnEntry("it is cut short, or longer than it was written")
    arrays = {each["name"]: _array(each, file.read(each["bytes"])) for each in found["arrays"]}
    return found["facts"], arrays


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
    """Return 64-bit integers in the shortest type that holds them: a quarter of the time."""
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
