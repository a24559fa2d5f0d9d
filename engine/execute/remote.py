"""Values of the remote buffers, and copies between their rows and the tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_count, a_kind, numbers
from tilescope.engine.compiler.executable.executable import RemoteAccess
from tilescope.engine.errors import BadGraph, BadInput, RunFailed
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.graph import GraphImage, RemoteBuffer, View
from tilescope.engine.graph.variable import to_host

__all__ = ["RemoteMemory"]


class RemoteMemory:
    """Streaming memory, which begins with what its buffers say, or zeros.

    Parameters
    ----------
    graph
        The graph whose remote buffers are stored.

    Raises
    ------
    RunFailed
        When the buffers do not fit into the host's memory.
    """

    def __init__(self, graph: GraphImage) -> None:
        self._buffers = graph.remote_buffers
        self._rows = [_rows_for(buffer) for buffer in graph.remote_buffers]

    def read(self, buffer: RemoteBuffer, row: int | None) -> NDArray[Any]:
        """Return a copy of one row, or of all rows; bool as bool, half as half.

        Raises
        ------
        BadGraph
            When the buffer belongs to another graph.
        BadInput
            When the row is out of range.
        """
        values = self._find(buffer, row)
        kind = {"float16": np.float16, "bool": np.bool_}.get(buffer.dtype.name)
        return values.astype(kind) if kind else np.array(values)

    def write(self, buffer: RemoteBuffer, values: ArrayLike, row: int | None) -> None:
        """Set one row, or all rows.

        Raises
        ------
        BadGraph
            When the buffer belongs to another graph.
        BadInput
            When the row is out of range, or the shape differs.
        """
        rows = self._find(buffer, row)
        array = numbers(f"The values of remote buffer {buffer.name!r}", values)
        if array.shape != rows.shape:
            raise BadInput(
                f"Remote buffer {buffer.name!r} takes an array of shape {rows.shape}, not"
                f" {array.shape}: reshape it, or specify a row"
            )
        rows[...] = to_host(array, buffer.dtype, buffer.name, copy=False)

    def _find(self, buffer: RemoteBuffer, row: int | None) -> NDArray[Any]:
        a_kind("The remote buffer", buffer, RemoteBuffer, "what add_remote_buffer returned")
        i = buffer.buffer_id
        if i >= len(self._buffers) or self._buffers[i] is not buffer:
            raise BadGraph(f"Remote buffer {buffer.name!r} belongs to another graph")
        if row is None:
            return self._rows[i]
        if not 0 <= a_count(f"The row of {buffer.name!r}", row) < buffer.repeats:
            raise BadInput(
                f"Remote buffer {buffer.name!r} has rows 0 to {buffer.repeats - 1}, not {row}"
            )
        rows: NDArray[Any] = self._rows[i][row]
        return rows

    def copy(self, access: RemoteAccess, memory: HostMemory) -> None:
        """Execute a copy step of a program.

        Raises
        ------
        RunFailed
            When the program requests a row that is out of range.
        """
        buffer, tensor = access.buffer, access.tensor
        rows = _rows_of(access.row, memory)
        if bad := [row for row in rows if not 0 <= row < buffer.repeats]:
            raise RunFailed(
                f"The program copies row {bad[0]} of remote buffer {buffer.name!r}, which has rows"
                f" 0 to {buffer.repeats - 1}: check the tensor that holds the row"
            )
        store = self._rows[buffer.buffer_id]
        if access.is_input:
            memory.write(tensor, store[rows].reshape(tensor.shape), buffer.name)
        else:
            values = memory.read(tensor).reshape(len(rows), buffer.n_elements)
            for row, line in zip(rows, values, strict=True):
                store[row] = line


def _rows_for(buffer: RemoteBuffer) -> NDArray[Any]:
    """Allocate the rows of a buffer, with what it begins with.

    Raises
    ------
    RunFailed
        When they do not fit into the host's memory.
    """
    try:
        if buffer.values is not None:
            return buffer.values.copy()
        return np.zeros((buffer.repeats, buffer.n_elements), dtype=buffer.dtype.host)
    except (MemoryError, ValueError):
        raise RunFailed(
            f"Remote buffer {buffer.name!r} takes {buffer.n_bytes:,} bytes, more than this computer"
            " has memory for: use fewer or shorter rows"
        ) from None


def _rows_of(row: int | View, memory: HostMemory) -> list[int]:
    if isinstance(row, int):
        return [int(row)]
    return [int(number) for number in memory.read(row).reshape(-1)]
