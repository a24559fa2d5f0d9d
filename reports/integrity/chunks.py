"""Chunks: packed rectangles of typed values, identified by the digest of their content."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import zstandard

from tilescope.reports.errors import DamagedReport
from tilescope.reports.integrity.digests import DIGEST_BYTES

__all__ = [
    "MAX_STORED_BYTES",
    "PackedChunk",
    "digest_packed",
    "digest_values",
    "pack",
    "require_intact",
    "saturated_sum",
    "unpack",
]

#: Maximum size of a packed chunk.
MAX_STORED_BYTES = 512 * 1024
_LEVEL = 3
_INT64 = np.iinfo(np.int64)
_MAX_WINDOW_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class PackedChunk:
    """One chunk as stored in the file."""

    digest: bytes
    codec: str
    raw_bytes: int
    data: bytes


def digest_values(values: np.ndarray) -> bytes:
    """Return the digest of an array's type, shape and values."""
    header = f"{values.dtype.str}{values.shape}".encode()
    hasher = blake2b(header, digest_size=DIGEST_BYTES)
    hasher.update(np.ascontiguousarray(values).data)
    return hasher.digest()


def digest_packed(chunk: PackedChunk) -> bytes:
    """Return the digest of a chunk's codec and packed bytes: of about a tenth of its values."""
    hasher = blake2b(chunk.codec.encode(), digest_size=DIGEST_BYTES)
    hasher.update(chunk.data)
    return hasher.digest()


def pack(values: np.ndarray, digest: bytes | None = None) -> PackedChunk:
    """Return a chunk of these values, packed by the codec that makes it smaller.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_columns), little-endian integers
        The rectangle.
    digest : bytes, optional
        That of `digest_values`, where it is known.
    """
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    # Byte planes of neighbouring values often compress better than the values themselves.
    planes = np.ascontiguousarray(raw.reshape(-1, values.dtype.itemsize).T)
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    plain, shuffled = compressor.compress(raw.data), compressor.compress(planes.data)
    codec, data = ("zstd", plain) if len(plain) <= len(shuffled) else ("shuffle+zstd", shuffled)
    return PackedChunk(digest or digest_values(values), codec, raw.size, data)


def require_intact(
    chunk: PackedChunk, dtype: str, shape: tuple[int, int], where: str, packed_digest: bytes
) -> None:
    """Verify a chunk without unpacking it.

    Parameters
    ----------
    chunk, dtype, shape, where
        As for `unpack`.
    packed_digest : bytes
        That of `digest_packed` when it was written.

    Raises
    ------
    DamagedReport
        The length, codec or digest does not match.
    """
    expected_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if chunk.raw_bytes != expected_bytes or chunk.codec not in ("zstd", "shuffle+zstd"):
        raise DamagedReport(f"A chunk of {where} has an unexpected length or codec.")
    if digest_packed(chunk) != packed_digest:
        raise DamagedReport(f"A chunk of {where} is damaged: its bytes do not match their digest.")


def unpack(
    chunk: PackedChunk,
    dtype: str,
    shape: tuple[int, int],
    where: str,
    packed_digest: bytes | None = None,
) -> np.ndarray:
    """Return the values of a chunk, verified against its digest.

    Parameters
    ----------
    chunk : PackedChunk
        As read from a file; its metadata is not trusted.
    dtype : str
        Expected type of the values.
    shape : tuple of int
        Expected rows and columns.
    where : str
        Name of the chunk in errors, such as ``array trace.step_id``.
    packed_digest : bytes, optional
        That of the packed bytes; without it, that of the values is verified.

    Returns
    -------
    ndarray, shape ``shape``, read-only

    Raises
    ------
    DamagedReport
        The length, codec, compression or digest does not match.
    """
    itemsize = np.dtype(dtype).itemsize
    expected_bytes = shape[0] * shape[1] * itemsize
    if chunk.raw_bytes != expected_bytes or chunk.codec not in ("zstd", "shuffle+zstd"):
        raise DamagedReport(f"A chunk of {where} has an unexpected length or codec.")
    if packed_digest is not None:
        require_intact(chunk, dtype, shape, where, packed_digest)
    raw = _decompress(chunk.data, expected_bytes)
    if raw is None:
        raise DamagedReport(f"A chunk of {where} is damaged and does not decompress.")
    if chunk.codec == "shuffle+zstd":
        values = np.frombuffer(_unshuffled(raw, itemsize), dtype).reshape(shape)
    else:
        values = np.frombuffer(raw, dtype).reshape(shape)
    if packed_digest is None and digest_values(values) != chunk.digest:
        raise DamagedReport(f"A chunk of {where} does not match its digest.")
    return values


def saturated_sum(part: np.ndarray) -> int:
    """Return the sum, saturated to 64 bits."""
    largest = max(abs(int(part.min())), abs(int(part.max())))
    if largest * part.size < _INT64.max:
        return int(part.sum(dtype=np.int64))
    exact: int = sum(part.ravel().tolist())
    return min(max(exact, int(_INT64.min)), int(_INT64.max))


def _unshuffled(raw: bytes, itemsize: int) -> memoryview:
    """Return values, read-only, whose bytes were stored plane by plane, all first bytes first."""
    planes = np.frombuffer(raw, np.uint8).reshape(itemsize, -1)
    values = np.empty(planes.shape[::-1], np.uint8)
    for byte, plane in enumerate(planes):  # half the time of a transposed copy
        values[:, byte] = plane
    values.flags.writeable = False
    return values.data


def _decompress(data: bytes, expected_bytes: int) -> bytes | None:
    """Return exactly the expected number of bytes, or None; unpacks at most one byte more."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(data) as reader:
            raw = reader.read(expected_bytes + 1)
    except zstandard.ZstdError:
        return None
    return raw if len(raw) == expected_bytes else None
