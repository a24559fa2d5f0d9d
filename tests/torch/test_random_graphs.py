"""Gradients of random graphs: values with several readers, in place and as views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.compared import agree, case

_PARAMETERS = {"p0": (4, 6), "p1": (6,), "p2": (4, 1), "p3": (6, 6)}

_Node = tuple[Any, ...]
#: Computes a tensor of those so far.
_Step = Callable[[dict[str, torch.Tensor]], torch.Tensor]

_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Abs": torch.abs,
    "Cos": torch.cos,
    "Gelu": torch.nn.functional.gelu,
    "Neg": torch.neg,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Softplus": torch.nn.functional.softplus,
    "Tanh": torch.tanh,
}
_BINARY = {"Add": torch.add, "Max": torch.maximum, "Mul": torch.mul, "Sub": torch.sub}


@dataclass
class _Graph:
    """A graph that grows node by node."""

    rng: np.random.Generator
    shapes: dict[str, tuple[int, ...]] = field(default_factory=lambda: dict(_PARAMETERS))
    nodes: list[_Node] = field(default_factory=list)
    steps: list[tuple[str, _Step]] = field(default_factory=list)
    known: dict[str, np.ndarray] = field(default_factory=dict)

    def grow(self) -> None:
        """Add a node that some operand allows."""
        ways = (
            self._unary, self._binary, self._sliced, self._joined, self._transposed, self._reduced,
            self._multiplied, self._reshaped, self._expanded, self._softmax, self._looked_up,
        )  # fmt: skip
        before = len(self.nodes)
        while len(self.nodes) == before:
            ways[self.rng.integers(len(ways))]()

    def _any(self, rank: int = 0) -> str:
        """Return a value of a least rank, rather one of the last."""
        names = [name for name, shape in self.shapes.items() if len(shape) >= rank]
        return names[-1 - min(int(self.rng.geometric(0.3)) - 1, len(names) - 1)]

    def _constant(self, values: Any) -> str:
        name = f"c{len(self.known)}"
        self.known[name] = np.asarray(values)
        return name

    def _add(self, kind: str, inputs: list[str], step: _Step, **attributes: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append((kind, ",".join(inputs), name, attributes))
        self.steps.append((name, step))
        zeros = {n: torch.zeros(shape) for n, shape in self.shapes.items()}
        self.shapes[name] = tuple(step(zeros).shape)

    def _unary(self) -> None:
        kind, x = sorted(_UNARY)[self.rng.integers(len(_UNARY))], self._any()
        self._add(kind, [x], lambda v: _UNARY[kind](v[x]))

    def _binary(self) -> None:
        a, b = self._any(), self._any()
        try:
            np.broadcast_shapes(self.shapes[a], self.shapes[b])
        except ValueError:
            return
        kind = sorted(_BINARY)[self.rng.integers(len(_BINARY))]
        self._add(kind, [a, b], lambda v: _BINARY[kind](v[a], v[b]))

    def _sliced(self) -> None:
        x = self._any(1)
        axis = int(self.rng.integers(len(self.shapes[x])))
        size = self.shapes[x][axis]
        if size < 2:
            return
        start = int(self.rng.integers(size - 1))
        stop = int(self.rng.integers(start + 1, size))
        bounds = [self._constant([n]) for n in (start, stop, axis)]
        self._add("Slice", [x, *bounds], lambda v: v[x].narrow(axis, start, stop - start))

    def _joined(self) -> None:
        a, b = self._any(2), self._any(2)
        axis = int(self.rng.integers(2))
        shapes = [list(self.shapes[name]) for name in (a, b)]
        if len(shapes[0]) != len(shapes[1]):
            return
        others = [[n for d, n in enumerate(shape) if d != axis] for shape in shapes]
        if others[0] == others[1] and shapes[0][axis] + shapes[1][axis] < 20:
            self._add("Concat", [a, b], lambda v: torch.cat([v[a], v[b]], axis), axis=axis)

    def _transposed(self) -> None:
        x = self._any(2)
        order = self.rng.permutation(len(self.shapes[x])).tolist()
        self._add("Transpose", [x], lambda v: v[x].permute(order), perm=order)

    def _reduced(self) -> None:
        x = self._any(1)
        axis, keep = int(self.rng.integers(len(self.shapes[x]))), bool(self.rng.integers(2))
        kind = ("ReduceMean", "ReduceSum", "ReduceMax")[self.rng.integers(3)]
        function = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[kind]
        self._add(
            kind,
            [x, self._constant([axis])],
            lambda v: function(v[x], dim=axis, keepdim=keep),
            keepdims=int(keep),
        )

    def _multiplied(self) -> None:
        a, b = self._any(2), self._any(2)
        if len(self.shapes[b]) == 2 and self.shapes[a][-1] == self.shapes[b][0]:
            self._add("MatMul", [a, b], lambda v: v[a] @ v[b])

    def _reshaped(self) -> None:
        x = self._any(1)
        shape = self.shapes[x]
        other = (*shape[:-2], int(np.prod(shape[-2:]))) if len(shape) > 2 else (*shape, 1)
        if len(other) < 4:
            target = self._constant(other)
            self._add("Reshape", [x, target], lambda v: v[x].reshape(other))

    def _expanded(self) -> None:
        x = self._any()
        if len(self.shapes[x]) < 3:
            shape = (2, *self.shapes[x])
            self._add("Expand", [x, self._constant(shape)], lambda v: v[x].expand(shape))

    def _softmax(self) -> None:
        x = self._any(1)
        axis = int(self.rng.integers(len(self.shapes[x])))
        self._add("Softmax", [x], lambda v: torch.softmax(v[x], axis), axis=axis)

    def _looked_up(self) -> None:
        x = self._any(1)
        indices = self.rng.integers(0, self.shapes[x][0], 3)
        places = torch.tensor(indices)
        self._add("Gather", [x, self._constant(indices)], lambda v: v[x][places])


def _tanh_of(name: str) -> _Step:
    return lambda values: torch.tanh(values[name])


def _run(graph: _Graph, outputs: list[str]) -> Callable[..., list[torch.Tensor]]:
    def reference(*parameters: torch.Tensor) -> list[torch.Tensor]:
        values = dict(zip(_PARAMETERS, parameters, strict=True))
        for name, step in graph.steps:
            values[name] = step(values)
        return [values[name] for name in outputs]

    return reference


@pytest.mark.parametrize("seed", range(24))
def test_random_graph(seed, tmp_path):
    graph = _Graph(np.random.default_rng([seed, 3]))
    for _ in range(12):
        graph.grow()
    read = {name for _, inputs, *_ in graph.nodes for name in inputs.split(",")}
    outputs = [name for name, _ in graph.steps if name not in read]
    # Every parameter is on the way to the loss.
    for name in sorted(set(_PARAMETERS) - read):
        graph.nodes.append(("Tanh", name, f"t{name}", {}))
        graph.steps.append((f"t{name}", _tanh_of(name)))
        outputs.append(f"t{name}")
    given = case(
        f"graph{seed}",
        graph.nodes,
        _PARAMETERS,
        _run(graph, outputs),
        known=graph.known,
        outputs=tuple(outputs),
        tolerance=2e-5,
    )
    agree(given, tmp_path)
