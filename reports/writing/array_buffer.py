"""The writer's buffer for one packed array, until it fills a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from tilescope.reports.schema import ArraySpec
from tilescope.reports.writing.template import ArrayState

__all__ = ["ArrayBuffer"]

_PATTERN_BYTES = 16


class ArrayBuffer:
    """Rows appended to one array, returned in blocks of one chunk's height."""

    def __init__(self, spec: ArraySpec) -> None:
        self.spec = spec
        self.array_id: int | None = None
        self.n_columns = 1 if spec.columns == "one" else 0
        self.n_rows = 0
        self._pending: list[np.ndarray] = []
        self._n_pending = 0
        self._pattern_rows: dict[bytes, int] = {}

    def append(self, values: np.ndarray) -> int:
        """Append rows and return the index of the first.

        Parameters
        ----------
        values : ndarray, shape (n_rows,), or (n_rows, n_columns) or (n_columns,) for wide arrays
            Cast to the array's type; no value may change.

        Raises
        ------
        ValueError
            The shape or values do not fit the array: a bug in the caller.
        """
        rows = self._as_rows(np.asarray(values))
        first = self.n_rows
        if len(rows):
            # A copy: the caller may reuse its buffer before the next commit.
            self._pending.append(rows.copy() if np.may_share_memory(rows, values) else rows)
            self._n_pending += len(rows)
            self.n_rows += len(rows)
        return first

    def pattern(self, values: np.ndarray) -> int:
        """Append one row unless an equal row exists; return its index."""
        row = self._as_rows(np.asarray(values).reshape(1, -1))
        digest = blake2b(np.ascontiguousarray(row[0]).data, digest_size=_PATTERN_BYTES).digest()
        index = self._pattern_rows.get(digest)
        if index is None:
            index = self._pattern_rows[digest] = self.append(row)
        return index

    def state(self) -> ArrayState | None:
        """Return how the array goes on; None if it has no rows yet."""
        if self.array_id is None:
            return None
        digests = np.frombuffer(b"".join(self._pattern_rows), np.uint8)
        rows = np.array([*self._pattern_rows.values()], np.int64)
        digests = digests.reshape(-1, _PATTERN_BYTES)
        return ArrayState(self.array_id, self.n_columns, self.n_rows, digests, rows)

    @classmethod
    def resumed(cls, spec: ArraySpec, state: ArrayState) -> ArrayBuffer:
        """Return the buffer of an array that goes on."""
        buffer = cls(spec)
        buffer.array_id, buffer.n_columns = state.array_id, state.n_columns
        buffer.n_rows = state.n_rows
        content = state.pattern_digests.tobytes()
        starts = range(0, len(content), _PATTERN_BYTES)
        digests = [content[start : start + _PATTERN_BYTES] for start in starts]
        buffer._pattern_rows = dict(zip(digests, state.pattern_rows.tolist(), strict=True))
        return buffer

    def blocks(self, *, everything: bool) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, rows) of full chunks, and of a partial one if `everything` is true."""
        height = self.spec.chunk_rows
        if self._n_pending < (1 if everything else height):
            return
        rows = np.concatenate(self._pending) if len(self._pending) > 1 else self._pending[0]
        first = self.n_rows - self._n_pending
        end = len(rows) if everything else len(rows) - len(rows) % height
        self._pending = [rows[end:]] if end < len(rows) else []
        self._n_pending = len(rows) - end
        for start in range(0, end, height):
            yield first + start, rows[start : min(start + height, end)]

    def pending(self) -> tuple[int, np.ndarray]:
        """Return (first row, rows) of the rows that fill no chunk yet; they stay in the buffer."""
        first = self.n_rows - self._n_pending
        if not self._pending:
            return first, np.zeros((0, self.n_columns), self.spec.dtype)
        if len(self._pending) > 1:
            self._pending = [np.concatenate(self._pending)]
        return first, self._pending[0]

    def _as_rows(self, values: np.ndarray) -> np.ndarray:
        name, wide = self.spec.name, self.spec.columns != "one"
        if values.ndim == 1:
            values = values.reshape(1, -1) if wide else values.reshape(-1, 1)
        if values.ndim != 2 or (self.n_columns and values.shape[1] != self.n_columns):
            raise ValueError(
                f"{name} has rows of {self.n_columns or 'n'} values; got shape {values.shape}"
            )
        dtype = np.dtype(self.spec.dtype)
        if values.dtype != dtype:
            cast = values.astype(dtype)
            if not np.array_equal(cast, values):
                raise ValueError(
                    f"{name} holds {dtype.str}; a value of {values.dtype} does not fit"
                )
            values = cast
        self.n_columns = values.shape[1]
        return values
