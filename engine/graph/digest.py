"""Digests of arrays and texts, by which reports compare what they do not hold."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["digest_of"]

_DIGEST_BYTES = 16


def digest_of(parts: Iterable[str | NDArray[Any]]) -> str:
    """Return the digest of texts and of arrays with their types and shapes, in hexadecimal."""
    found = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        if isinstance(part, str):
            found.update(f"text {len(part)} {part}".encode("utf-8", "surrogatepass"))
        else:
            found.update(f"array {part.dtype.str} {part.shape}".encode())
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.hexdigest()
