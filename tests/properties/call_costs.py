"""Cycles of library calls on operands of given layouts, from compiled programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.properties.library_calls import Arguments, LibraryCall

from tilescope import engine
from tilescope.engine import Builder, Graph, Tensor, load_machine
from tilescope.engine.compiler.executable.executable import Executable, Node
from tilescope.engine.graph import View
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = [
    "LAYOUTS",
    "Arrangement",
    "call_cycles",
    "compiled",
    "linear",
    "new_builder",
    "step_cycles",
    "total_cycles",
]

_N_TILES = 16


def new_builder(parameter_set: str = "hardware", n_tiles: int = _N_TILES) -> Builder:
    """Return a builder for a small machine."""
    machine = load_machine("gc200", tiles_per_ipu=n_tiles, parameter_set=parameter_set)
    return Builder(Graph(machine), ProgramSequence("main"))


def compiled(build: Builder) -> Executable:
    """Return the executable of what was built."""
    return engine.compile_programs(build.graph, [build.sequence], plans=build.plans)


def total_cycles(build: Builder) -> int:
    """Return the cycles of all steps of what was built, as often as they run."""
    return sum(map(_cycles, compiled(build).roots))


def _cycles(node: Node) -> int:
    step_cycles = 0 if node.step is None else int(node.step.cost.cycles.max())
    nodes = [*node.children, *([] if node.function is None else [node.function])]
    return node.repeat_count * (step_cycles + sum(map(_cycles, nodes)))


def linear(build: Builder, dtype: Any, shape: Sequence[int], name: str, grain: int = 8) -> Tensor:
    """Return a tensor that is spread over the tiles in its logical order, in grains of elements."""
    tensor = build.graph.add_variable(dtype, tuple(shape), name)
    build.graph.map_linearly(tensor, grain=grain)
    return tensor


def _by_columns(build: Builder, dtype: Any, shape: Sequence[int], name: str) -> Tensor:
    """Return a tensor that is spread in the order of its reversed dimensions."""
    reversed_dims = range(len(shape))[::-1]
    return linear(build, dtype, shape[::-1], name).dim_shuffle(*reversed_dims)


def _in_blocks(build: Builder, dtype: Any, shape: Sequence[int], name: str) -> Tensor:
    """Return a tensor with blocks of its first dimension innermost, as results of products."""
    first, *others = shape
    block = 8 if first % 8 == 0 else 1
    n_dims = len(others)
    tensor = linear(build, dtype, (first // block, *others, block), name)
    return tensor.dim_shuffle(0, n_dims + 1, *range(1, n_dims + 1)).reshape(*shape)


#: Ways to lay a tensor out, by name.
LAYOUTS = {"linear": linear, "by columns": _by_columns, "in blocks": _in_blocks}


@dataclass(frozen=True)
class Arrangement:
    """How views show the dimensions of their tensors.

    Parameters
    ----------
    splits
        By name of a dimension: the size of its inner part.
    order
        Ranks of the parts: a part with a lower one comes earlier.
    is_joined
        Whether neighbours are one dimension, where the call permits it.
    """

    splits: Mapping[str, int]
    order: Sequence[int]
    is_joined: bool = False

    def groups(self, call: LibraryCall) -> list[list[tuple[str, int]]]:
        """Return the dimensions of the views: the parts that each consists of."""
        parts = [
            (name, part)
            for name in call.sizes
            for part in ((0, 1) if name in self.splits else (0,))
        ]
        ranks = dict(zip(parts, self.order, strict=False))
        parts.sort(key=ranks.__getitem__)
        groups: list[list[tuple[str, int]]] = []
        for part in parts:
            fits = bool(groups) and (call.has_no_axes or groups[-1][-1][0] == part[0])
            if self.is_joined and fits:
                groups[-1].append(part)
            else:
                groups.append([part])
        return groups

    def view(self, call: LibraryCall, operand: str, tensor: Tensor) -> Tensor:
        """Return the view of an operand."""
        dims = call.operands[operand][1].split()
        if not set(dims) & set(call.sizes):
            return tensor
        sizes: dict[tuple[str, int], int] = {}
        for name, size in zip(dims, tensor.shape, strict=True):
            inner = self.splits.get(name, 1)
            sizes[name, 0] = size // inner
            if name in self.splits:
                sizes[name, 1] = inner
        groups = [[part for part in group if part in sizes] for group in self.groups(call)]
        order = [part for group in groups for part in group]
        view = tensor.reshape(*sizes.values())
        view = view.dim_shuffle(*(list(sizes).index(part) for part in order))
        shape = []
        for group in filter(None, groups):
            shape.append(1)
            for part in group:
                shape[-1] *= sizes[part]
        return view.reshape(*shape)

    def axes(self, call: LibraryCall) -> dict[str, list[int]]:
        """Return the axes of every dimension in views that have all of them."""
        axes: dict[str, list[int]] = {name: [] for name in call.sizes}
        for i, group in enumerate(self.groups(call)):
            for name, _ in group:
                if i not in axes[name]:
                    axes[name].append(i)
        return axes


def call_cycles(
    call: LibraryCall,
    parameter_set: str,
    *,
    sizes: Mapping[str, int] | None = None,
    layouts: Mapping[str, str] | None = None,
    arrangement: Arrangement | None = None,
) -> int:
    """Return the cycles of a call.

    Parameters
    ----------
    call
        The call.
    parameter_set
        That of the machine.
    sizes
        Sizes that differ from the call's.
    layouts
        By operand: its layout, linear by default.
    arrangement
        How views show the operands; in the call's order by default.
    """
    return total_cycles(_built(call, parameter_set, sizes, layouts or {}, arrangement))


def step_cycles(call: LibraryCall, parameter_set: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the cycles of the steps of a call, by kind."""
    cycles: dict[str, int] = {}
    for step in compiled(_built(call, parameter_set, sizes, {}, None)).steps:
        cycles[step.kind] = cycles.get(step.kind, 0) + int(step.cost.cycles.max())
    return cycles


def _built(
    call: LibraryCall,
    parameter_set: str,
    sizes: Mapping[str, int] | None,
    layouts: Mapping[str, str],
    arrangement: Arrangement | None,
) -> Builder:
    """Return the builder of a call."""
    build = new_builder(parameter_set)
    views: dict[str, View] = {}
    for name, (dtype, _) in call.operands.items():
        layout = LAYOUTS[layouts.get(name, "linear")]
        tensor = layout(build, dtype, call.shape(name, sizes), name)
        views[name] = tensor if arrangement is None else arrangement.view(call, name, tensor)
    known = {**call.sizes, **(sizes or {})}
    if arrangement is None:
        axes = {name: [i] for i, name in enumerate(known)}
    else:
        axes = arrangement.axes(call)
    call.run(Arguments(build, views, known, axes))
    return build
