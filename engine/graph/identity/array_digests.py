"""Digests of arrays, computed once for every array: equal operations share theirs."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIGEST_BYTES", "ArrayDigests"]

#: Length of a digest.
DIGEST_BYTES = 16

Arrays = tuple[NDArray[Any] | None, ...]


class ArrayDigests:
    """Digests of arrays that nobody changes any more; views of the same memory have one."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], tuple[NDArray[Any], bytes]] = {}
        self._by_id: dict[int, tuple[NDArray[Any], bytes]] = {}
        self._joint: dict[tuple[int, ...], tuple[Arrays, bytes]] = {}

    def of_all(self, arrays: Arrays) -> bytes:
        """Return the digests of several arrays that belong together, one after the other."""
        key = tuple(map(id, arrays))
        result = self._joint.get(key)
        if result is None:
            result = self._joint[key] = arrays, b"".join(map(self.of, arrays))
        return result[1]

    def know(self, array: NDArray[Any], digest: bytes) -> None:
        """Take in the digest of an array, as an earlier process computed it."""
        self._by_id[id(array)] = array, digest

    def of(self, array: NDArray[Any] | None) -> bytes:
        """Return the digest of an array with its type and shape, or that of None."""
        if array is None:
            return b"\0" * DIGEST_BYTES
        result = self._by_id.get(id(array))
        if result is not None:
            return result[1]
        memory = array.__array_interface__
        key = memory["data"][0], memory["shape"], memory["strides"], memory["typestr"]
        result = self._found.get(key)
        if result is None:
            is_one_row = array.ndim > 1 and len(array) > 1 and array.strides[0] == 0
            description = f"{array.dtype.str}{array.shape}{is_one_row}"
            digest = blake2b(description.encode(), digest_size=DIGEST_BYTES)
            rows = np.ascontiguousarray(array[:1] if is_one_row else array)
            digest.update(rows.reshape(-1).view(np.uint8).data)
            # Kept with the digest: another array could get the memory of one that is gone.
            result = self._found[key] = array, digest.digest()
        self._by_id[id(array)] = array, result[1]
        return result[1]
