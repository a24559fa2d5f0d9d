"""Host storage of the variables' values: one flat array per host type, each variable a slice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadInput
from tilescope.engine.graph import GraphImage, Joined, Tensor, Variable, View
from tilescope.engine.graph.variable import to_host

__all__ = ["HostMemory"]

_LINE = 16  # elements: variables begin on cache lines


class HostMemory:
    """Values of all variables.

    Parameters
    ----------
    graph
        Its variables get their place; constants are copied in.
    """

    def __init__(self, graph: GraphImage) -> None:
        self.base: list[int] = []
        used: dict[str, int] = {}
        for variable in graph.variables:
            at = used.get(variable.dtype.host, 0)
            self.base.append(at)
            used[variable.dtype.host] = at + -(-variable.n_elements // _LINE) * _LINE
        self.arenas = {host: np.zeros(size, dtype=host) for host, size in used.items()}
        for variable in graph.variables:
            if variable.values is not None:
                self.flat(variable)[:] = variable.values

    def flat(self, variable: Variable) -> NDArray[Any]:
        """Return a variable's elements in order: a view."""
        base = self.base[variable.variable_id]
        return self.arenas[variable.dtype.host][base : base + variable.n_elements]

    def _view(self, tensor: Tensor) -> NDArray[Any]:
        """Return a tensor's elements with a dimension per atom: a view."""
        arena = self.arenas[tensor.dtype.host]
        atoms = [atom for dim in tensor.dims for atom in dim]
        first = self.base[tensor.variable.variable_id] + tensor.offset
        return np.ndarray(
            [size for size, _ in atoms],
            arena.dtype,
            arena,
            first * arena.itemsize,
            [stride * arena.itemsize for _, stride in atoms],
        )

    def number(self, tensor: Tensor) -> int:
        """Return the first element of a tensor of whole numbers."""
        arena = self.arenas[tensor.dtype.host]
        return int(arena[self.base[tensor.variable.variable_id] + tensor.offset])

    def read(self, tensor: View) -> NDArray[Any]:
        """Return a copy of a tensor's values in its logical shape; bool as bool, half as half."""
        if isinstance(tensor, Joined):
            return np.concatenate([self.read(part) for part in tensor.parts], tensor.dim)
        values = self._view(tensor).reshape(tensor.shape)
        kind = {"float16": np.float16, "bool": np.bool_}.get(tensor.dtype.name)
        return values.astype(kind) if kind else np.array(values)

    def write(self, tensor: View, values: ArrayLike, name: str) -> None:
        """Set a tensor's values.

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
        self._put(tensor, to_host(array, tensor.dtype, name))

    def _put(self, tensor: View, values: NDArray[Any]) -> None:
        """Store values of a tensor's shape as the arena holds them."""
        if isinstance(tensor, Tensor):
            view = self._view(tensor)
            view[...] = values.reshape(view.shape)
            return
        cut = np.split(values, tensor.ends[:-1], tensor.dim)
        for part, own in zip(tensor.parts, cut, strict=True):
            self._put(part, own)
