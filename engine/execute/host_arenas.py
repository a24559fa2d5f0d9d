"""Host storage of the variables: one array per host type, with a row per replica."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadInput
from tilescope.engine.graph import GraphImage, Joined, Tensor, Variable, View
from tilescope.engine.graph.variable import to_host

__all__ = ["HostMemory"]

_LINE_BYTES = 64
_LINE = 64  # elements: variables of any type begin on cache lines


def _zeros(shape: tuple[int, int], host: str) -> NDArray[Any]:
    """Return zeros that begin on a cache line."""
    n_bytes = shape[0] * shape[1] * np.dtype(host).itemsize
    memory = np.zeros(n_bytes + _LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % _LINE_BYTES
    return memory[first : first + n_bytes].view(host).reshape(shape)


class HostMemory:
    """Values of all variables.

    Parameters
    ----------
    graph
        The graph whose variables are stored; constants are copied in.
    n_replicas
        Number of replicas, each with its own values.

    Attributes
    ----------
    arenas
        By host type: ndarray of shape (n_replicas, n_elements), each variable a slice of a row.
    """

    def __init__(self, graph: GraphImage, n_replicas: int = 1) -> None:
        self.base: list[int] = []
        used: dict[str, int] = {}
        for variable in graph.variables:
            at = used.get(variable.dtype.host, 0)
            self.base.append(at)
            used[variable.dtype.host] = at + -(-variable.n_elements // _LINE) * _LINE
        self.arenas = {host: _zeros((n_replicas, size), host) for host, size in used.items()}
        for variable in graph.variables:
            if variable.values is not None:
                for replica in range(n_replicas):
                    self.flat(variable, replica)[:] = variable.values

    def flat(self, variable: Variable, replica: int = 0) -> NDArray[Any]:
        """Return a variable's elements in order: a view."""
        base = self.base[variable.variable_id]
        return self.arenas[variable.dtype.host][replica, base : base + variable.n_elements]

    def _view(self, tensor: Tensor, replica: int) -> NDArray[Any]:
        """Return a tensor's elements with a dimension per atom: a view."""
        arena = self.arenas[tensor.dtype.host][replica]
        atoms = [atom for dim in tensor.dims for atom in dim]
        first = self.base[tensor.variable.variable_id] + tensor.offset
        return np.ndarray(
            [size for size, _ in atoms],
            arena.dtype,
            arena,
            first * arena.itemsize,
            [stride * arena.itemsize for _, stride in atoms],
        )

    def number(self, tensor: Tensor, replica: int = 0) -> int:
        """Return the first element of an integer tensor."""
        arena = self.arenas[tensor.dtype.host][replica]
        return int(arena[self.base[tensor.variable.variable_id] + tensor.offset])

    def read(self, tensor: View, replica: int = 0) -> NDArray[Any]:
        """Return a copy of a tensor's values in its logical shape; bool as bool, half as half."""
        if isinstance(tensor, Joined):
            return np.concatenate([self.read(part, replica) for part in tensor.parts], tensor.dim)
        values = self._view(tensor, replica).reshape(tensor.shape)
        kind = {"float16": np.float16, "bool": np.bool_}.get(tensor.dtype.name)
        return values.astype(kind) if kind else np.array(values)

    def write(self, tensor: View, values: ArrayLike, name: str, replica: int = 0) -> None:
        """Set the values of a tensor.

        Raises
        ------
        BadInput
            When the shape differs.
        """
        array = np.asarray(values)
        if array.shape != tensor.shape:
            raise BadInput(
                f"{name!r} takes an array of shape {tensor.shape}, not {array.shape}: reshape it"
            )
        self._put(tensor, to_host(array, tensor.dtype, name), replica)

    def _put(self, tensor: View, values: NDArray[Any], replica: int) -> None:
        """Store values of the tensor's shape in the arena's format."""
        if isinstance(tensor, Tensor):
            view = self._view(tensor, replica)
            view[...] = values.reshape(view.shape)
            return
        cut = np.split(values, tensor.ends[:-1], tensor.dim)
        for part, own in zip(tensor.parts, cut, strict=True):
            self._put(part, own, replica)
