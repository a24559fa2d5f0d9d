"""The binary format of compilations: facts and named arrays, one chunk per array as in reports.

Layout: magic, digest of the header, length of the header, the header as JSON, then the chunks in
order. The header holds the digest of every chunk, so its own digest covers everything. Chunks are
packed, or plain where they are read in place, and each can be read and verified alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b, sha256
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.chunks import PackedChunk, pack, unpack
from tilescope.reports.integrity.digests import DIGEST_BYTES

__all__ = ["MALFORMED", "Container", "NotAnEntry", "encode", "narrowed"]

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

_MAGIC = b"TSEXEC02"
_LENGTH_BYTES = 8
_PREFIX_BYTES = len(_MAGIC) + DIGEST_BYTES + _LENGTH_BYTES
_LARGEST_HEADER_BYTES = 1 << 30
#: Types to narrow to, with their limits.
_NARROW = tuple(
    (kind, np.int64(np.iinfo(kind).min), np.int64(np.iinfo(kind).max))
    for kind in (np.int8, np.int16, np.int32)
)
_PLAIN = "plain"
#: Where plain chunks begin: arrays of any type are read in place.
_ALIGNED_BYTES = 64


class NotAnEntry(Exception):
    """The bytes are of another kind, or do not match their digests."""


def encode(
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    plain: Collection[str] = (),
) -> bytes:
    """Return an entry as bytes.

    Parameters
    ----------
    facts
        JSON types only.
    arrays
        Arrays of numbers or bools, by name.
    plain
        Names of the arrays that are not packed.
    """
    described: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    end = 0
    for name, array in arrays.items():
        if name in plain:
            elements = np.ascontiguousarray(array)
            data = elements.reshape(-1).view(np.uint8).tobytes() if array.size else b""
            stored, codec, raw_bytes = elements.dtype.str, _PLAIN, len(data)
            digest = b""
            gap = -end % _ALIGNED_BYTES
            chunks.append(bytes(gap))
            end += gap
        else:
            narrow = narrowed(np.ascontiguousarray(array))
            chunk = pack(narrow.reshape(1, -1))
            # An empty array has no bytes that could be damaged.
            data = chunk.data if array.size else b""
            stored, codec, raw_bytes = narrow.dtype.str, chunk.codec, chunk.raw_bytes
            digest = chunk.digest
        chunks.append(data)
        described.append(
            {
                "name": name,
                "dtype": array.dtype.str,
                "stored": stored,
                "shape": list(array.shape),
                "codec": codec,
                "raw_bytes": raw_bytes,
                "begin": end,
                "bytes": len(data),
                "digest": digest.hex(),
                "seal": _seal(data).hex(),
            }
        )
        end += len(data)
    header = json.dumps({"facts": facts, "arrays": described}, separators=(",", ":")).encode()
    header += b" " * (-(_PREFIX_BYTES + len(header)) % _ALIGNED_BYTES)
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    return b"".join((_MAGIC, _digest(header), length, header, *chunks))


class Container:
    """An entry whose arrays are read, and verified, when they are asked for.

    Parameters
    ----------
    content
        The entry; plain arrays are views of it.

    Attributes
    ----------
    facts
        What `encode` was given.

    Raises
    ------
    NotAnEntry
        When the header is not what was written, or the length differs.
    """

    def __init__(self, content: memoryview) -> None:
        prefix = bytes(content[:_PREFIX_BYTES])
        if len(prefix) < _PREFIX_BYTES or not prefix.startswith(_MAGIC):
            raise NotAnEntry("it is not a cached executable")
        digest = prefix[len(_MAGIC) : len(_MAGIC) + DIGEST_BYTES]
        header_bytes = int.from_bytes(prefix[-_LENGTH_BYTES:], "little")
        if header_bytes > min(len(content) - _PREFIX_BYTES, _LARGEST_HEADER_BYTES):
            raise NotAnEntry("it is truncated")
        end = _PREFIX_BYTES + header_bytes
        header = bytes(content[_PREFIX_BYTES:end])
        if _digest(header) != digest:
            raise NotAnEntry("its header does not match its digest")
        self._chunks = content[end:]
        self._sound: set[str] = set()
        try:
            described = json.loads(header)
            self.facts: dict[str, Any] = described["facts"]
            self._described = {item["name"]: item for item in described["arrays"]}
            ends = [item["begin"] + item["bytes"] for item in described["arrays"]]
        except MALFORMED as error:
            raise NotAnEntry(f"a part is missing or malformed: {error}") from None
        if len(self._chunks) != max(ends, default=0):
            raise NotAnEntry("it is truncated, or longer than it was written")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(self._described)

    def check(self) -> None:
        """Verify all chunks, without unpacking any.

        Raises
        ------
        NotAnEntry
            When one is not what was written.
        """
        try:
            for described in self._described.values():
                self._data(described)
        except MALFORMED as error:
            raise NotAnEntry(f"a part is missing or malformed: {error}") from None

    def _data(self, described: Mapping[str, Any]) -> memoryview:
        """Return the bytes of a chunk, which are verified once."""
        begin, name = described["begin"], described["name"]
        data = self._chunks[begin : begin + described["bytes"]]
        if name not in self._sound:
            if _seal(data).hex() != described["seal"]:
                raise NotAnEntry(f"a part is damaged: {name}")
            self._sound.add(name)
        return data

    def array(self, name: str) -> NDArray[Any]:
        """Return an array.

        Raises
        ------
        NotAnEntry
            When there is none of that name, or it is not what was written.
        """
        try:
            return self._array(self._described[name])
        except MALFORMED as error:
            raise NotAnEntry(f"a part is missing or malformed: {error}") from None

    def _array(self, described: Mapping[str, Any]) -> NDArray[Any]:
        shape = tuple(described["shape"])
        if not prod(shape):
            return np.zeros(shape, described["dtype"])
        data = self._data(described)
        digest = bytes.fromhex(described["digest"])
        if described["codec"] == _PLAIN:
            return np.frombuffer(data, described["dtype"]).reshape(shape)
        chunk = PackedChunk(digest, described["codec"], described["raw_bytes"], bytes(data))
        try:
            values = unpack(chunk, described["stored"], (1, prod(shape)), described["name"])
        except DamagedReport as error:
            raise NotAnEntry(str(error)) from None
        return values.reshape(shape).astype(described["dtype"])


def narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return 64-bit integers in the shortest type that holds them, for faster packing."""
    if array.dtype != np.int64 or not array.size:
        return array
    low, high = np.minimum.reduce(array, axis=None), np.maximum.reduce(array, axis=None)
    for kind, least, most in _NARROW:
        if least <= low and high <= most:
            return array.astype(kind)
    return array


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _seal(data: bytes | memoryview) -> bytes:
    """Return a digest of stored bytes, for which processors have instructions."""
    return sha256(data).digest()[:DIGEST_BYTES]
