"""Host storage of the variables of a replica: one array per host type.

Values that live at different steps can share memory: what a kernel reads is then more often in a
cache of the host.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.compiler.kernels.placement import Lifetimes, share
from tilescope.engine.errors import BadGraph, BadInput
from tilescope.engine.execute.storage import Group, Storage, Trace, coalesce
from tilescope.engine.graph import GraphImage, Joined, Tensor, Variable, View
from tilescope.engine.graph.variable import to_host

__all__ = ["HostLayout", "HostMemory"]

_LINE_BYTES = 64
_LINE = 64  # elements: variables of any type begin on cache lines


def _zeros(n_elements: int, host: str) -> NDArray[Any]:
    """Return zeros that begin on a cache line."""
    n_bytes = n_elements * np.dtype(host).itemsize
    memory = np.zeros(n_bytes + _LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % _LINE_BYTES
    return memory[first : first + n_bytes].view(host)


def _size(group: Group) -> int:
    """Return the elements that a group takes, with those up to the next."""
    return -(-(group.end - group.first) // _LINE) * _LINE


def _placed(groups: Sequence[Group], base: int) -> tuple[list[int], int]:
    """Return where groups that share memory begin, and its end; they are in order of birth."""
    intervals = [group.ranges for group in groups]
    first = np.cumsum([0, *map(len, intervals)])
    steps = np.array([*chain.from_iterable(intervals)], np.int64).reshape(-1, 2)
    lifetimes = Lifetimes(np.arange(len(intervals)), first, *steps.T.copy())
    offset, end = share(np.array([_size(group) for group in groups], np.int64), lifetimes, base)
    return offset.tolist(), end


@dataclass(frozen=True, eq=False)
class HostLayout:
    """Where variables are in the host's memory.

    Parameters
    ----------
    base
        First element of every variable in the array of its type.
    sizes
        Elements of the arrays, by type.
    shared
        Ids of the variables that share memory with others.
    places : ndarray of int64, shape (n, 4)
        Lives of the variables that are at another place in another life: id, first step, one past
        the last, and first element; ascending.
    without
        By step, the batches that are not computed, since they copy elements to where they are.
    """

    base: tuple[int, ...]
    sizes: Mapping[str, int]
    shared: frozenset[int]
    places: NDArray[np.int64]
    without: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, graph: GraphImage, storage: Storage | None = None) -> HostLayout:
        """Return the layout of a graph's variables.

        Parameters
        ----------
        graph
            The graph.
        storage
            Which of their values share storage; by default none do, and all are kept.
        """
        if storage is None:
            sizes = [variable.n_elements for variable in graph.variables]
            storage = coalesce(Trace(sizes, [v.dtype.name for v in graph.variables], {}))
        used: dict[str, int] = {}
        place: dict[int, int] = {}
        shared: dict[str, list[Group]] = {}
        for group in storage.groups:
            host = graph.variables[storage.values[group.values[0]].variable].dtype.host
            if group.is_kept:
                place[id(group)] = used.get(host, 0)
                used[host] = used.get(host, 0) + _size(group)
            else:
                shared.setdefault(host, []).append(group)
        for host, groups in shared.items():
            groups.sort(key=lambda group: group.lives[0].start)
            offsets, used[host] = _placed(groups, used.get(host, 0))
            place.update((id(group), at) for group, at in zip(groups, offsets, strict=True))
        base: dict[int, int] = {}
        n_values = Counter(value.variable for value in storage.values)
        places = []
        for value in storage.values:
            at = place[id(value.group)] + value.offset - value.group.first
            base.setdefault(value.variable, at)
            if n_values[value.variable] > 1:
                places += [(value.variable, *life, at) for life in value.lives]
        is_shared = frozenset(value.variable for value in storage.values if not value.is_kept)
        return cls(
            tuple(base[variable] for variable in range(len(graph.variables))),
            used,
            is_shared,
            np.array(sorted(places), np.int64).reshape(-1, 4),
            storage.without,
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(size * np.dtype(host).itemsize for host, size in self.sizes.items())

    @cached_property
    def _lives(self) -> dict[int, list[tuple[int, int, int]]]:
        """By variable: first step, end and first element of its lives."""
        lives: dict[int, list[tuple[int, int, int]]] = {}
        for variable, *life in self.places.tolist():
            lives.setdefault(variable, []).append((life[0], life[1], life[2]))
        return lives

    def base_at(self, variable_id: int, step_id: int) -> int:
        """Return the first element of a variable in the array of its type, at a step."""
        lives = self._lives.get(variable_id)
        if lives is None:
            return self.base[variable_id]
        _, end, base = lives[bisect_right(lives, (step_id, 1 << 62, 0)) - 1]
        assert step_id < end, f"variable {variable_id} is not live at step {step_id}"
        return base


class HostMemory:
    """Values of all variables of a replica.

    Parameters
    ----------
    graph
        The graph whose variables are stored; constants are copied in.
    layout
        Where they are; by default, each variable has memory of its own.
    replica
        Number of the replica.

    Attributes
    ----------
    arenas
        By host type: ndarray of shape (n_elements,), each variable a slice of it.
    """

    def __init__(
        self, graph: GraphImage, layout: HostLayout | None = None, replica: int = 0
    ) -> None:
        self.layout = HostLayout.of(graph) if layout is None else layout
        self.base = self.layout.base
        self.arenas = {host: _zeros(size, host) for host, size in self.layout.sizes.items()}
        for variable in graph.variables:
            if variable.is_replica_index:
                self.flat(variable)[:] = replica
            elif variable.values is not None:
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

    def check_kept(self, tensor: View) -> None:
        """Raise BadGraph if a tensor's memory is used for other values, too.

        Raises
        ------
        BadGraph
            When a variable of the tensor shares memory.
        """
        for variable in tensor.variables:
            if variable.variable_id in self.layout.shared:
                raise BadGraph(
                    f"The values of {variable.name!r} are not kept: variables of a model that"
                    " are not always live share memory. Return the value from the model, or build"
                    " the program with the graph API"
                )

    def place(self, tensor: Tensor) -> tuple[int, int, bool]:
        """Return where the first element of an integer tensor is: address, bytes, and its sign."""
        arena = self.arenas[tensor.dtype.host]
        index = self.base[tensor.variable.variable_id] + tensor.offset
        address = arena.ctypes.data + index * arena.itemsize
        return address, arena.itemsize, arena.dtype.kind == "i"

    def read(self, tensor: View) -> NDArray[Any]:
        """Return a copy of a tensor's values in its logical shape; bool as bool, half as half."""
        values = self.stored(tensor)
        kind = {"float16": np.float16, "bool": np.bool_}.get(tensor.dtype.name)
        return values.astype(kind) if kind else values

    def stored(self, tensor: View) -> NDArray[Any]:
        """Return a copy of a tensor's values in its logical shape, as they are stored."""
        if isinstance(tensor, Joined):
            return np.concatenate([self.stored(part) for part in tensor.parts], tensor.dim)
        return np.array(self._view(tensor)).reshape(tensor.shape)

    def write(self, tensor: View, values: ArrayLike, name: str) -> None:
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
        self.store(tensor, to_host(array, tensor.dtype, name, copy=False))

    def store(self, tensor: View, values: NDArray[Any]) -> None:
        """Store values of the tensor's shape in the arena's format."""
        if isinstance(tensor, Tensor):
            view = self._view(tensor)
            view[...] = values.reshape(view.shape)
            return
        cut = np.split(values, tensor.ends[:-1], tensor.dim)
        for part, cut_part in zip(tensor.parts, cut, strict=True):
            self.store(part, cut_part)
