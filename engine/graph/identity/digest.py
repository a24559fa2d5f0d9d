"""Digests of arrays and texts, by which reports compare what they do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.identity.arrangement import Arrangement, arrangement_of
from tilescope.engine.graph.identity.debug import DebugContext

__all__ = ["KnownDigests", "digest_of", "joint_digest"]

_DIGEST_BYTES = 16


def digest_of(parts: Iterable[str | NDArray[Any]]) -> str:
    """Return the digest of texts and of arrays with their types and shapes, in hexadecimal."""
    hasher = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        if isinstance(part, str):
            hasher.update(f"text {len(part)} {part}".encode("utf-8", "surrogatepass"))
        else:
            hasher.update(f"array {part.dtype.str} {part.shape}".encode())
            hasher.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


class KnownDigests:
    """Digests of arrays that nobody changes and that were digested before.

    Attributes
    ----------
    contexts
        Debug contexts with the digest of an arranged weight, and its arrangement.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[NDArray[Any], str]] = {}
        self.contexts: list[tuple[DebugContext, Arrangement]] = []

    def add(self, array: NDArray[Any], digest: str) -> None:
        """Keep the digest of an array, and the array: its id could be that of another one."""
        self._found[id(array)] = array, digest

    def of(self, array: NDArray[Any]) -> str:
        """Return the digest of an array, as `digest_of` does."""
        digest = self._found.get(id(array))
        return digest_of([array]) if digest is None else digest[1]

    def note(self, context: DebugContext, weights: object) -> None:
        """Note a context with the digest of weights, if it is known how they were arranged."""
        arrangement = arrangement_of(weights)
        if arrangement is not None:
            self.contexts.append((context, arrangement))


def joint_digest(digests: Sequence[str]) -> str | None:
    """Return the digest of several arrays from their own ones; None without any.

    That of one array is its own, so that no array is read twice.
    """
    if len(digests) > 1:
        return digest_of(digests)
    return digests[0] if digests else None
