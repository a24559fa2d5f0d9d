"""Random tensors: any dimension order and direction, any mapping, parts of larger variables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from hypothesis import strategies as st

from tilescope.engine import Builder, Graph, Tensor, concat, load_machine
from tilescope.engine.graph import ROOT, View
from tilescope.engine.machine import Machine
from tilescope.engine.program import Sequence as ProgramSequence


@st.composite
def machines(draw: st.DrawFn, most_tiles: int = 9) -> Machine:
    """Return a small machine: a few tiles, one or two IPUs."""
    n_ipus = draw(st.integers(1, 2))
    tiles = draw(st.integers(1, most_tiles))
    return load_machine(
        draw(st.sampled_from(["gc2", "gc200", "bow", "c600"])),
        n_ipus=n_ipus,
        tiles_per_ipu=tiles,
        parameter_set=draw(st.sampled_from(["hardware", "ipu_model"])),
    )


@st.composite
def mappings(draw: st.DrawFn, graph: Graph, tensor: Tensor) -> None:
    """Map a variable in chunks of any length to any tiles."""
    n = tensor.variable.n_elements
    cuts = draw(st.lists(st.integers(1, n - 1), max_size=6, unique=True)) if n > 1 else []
    starts = [0, *sorted(cuts)]
    last = graph.machine.n_tiles - 1
    tiles = draw(st.lists(st.integers(0, last), min_size=len(starts), max_size=len(starts)))
    graph.set_tile_mapping(tensor, starts, tiles)


@st.composite
def tensors(
    draw: st.DrawFn,
    graph: Graph,
    shape: Sequence[int],
    dtype: str = "float32",
    name: str = "x",
    *,
    may_be_part: bool = True,
) -> Tensor:
    """Return a tensor of a shape: permuted, sliced, reversed and mapped at random."""
    rank = len(shape)
    order = draw(st.permutations(range(rank)))
    margins = [draw(st.integers(0, 2)) if may_be_part and draw(st.booleans()) else 0 for _ in order]
    begins = [draw(st.integers(0, margin)) for margin in margins]
    sizes = [shape[d] + margin for d, margin in zip(order, margins, strict=True)]
    tensor = graph.add_variable(dtype, sizes, name)
    if draw(st.booleans()):
        graph.map_linearly(tensor, grain=draw(st.integers(1, 4)), first=draw(st.integers(0, 5)))
    else:
        draw(mappings(graph, tensor))
    for i, begin in enumerate(begins):
        tensor = tensor.slice(i, begin, begin + shape[order[i]])
    if may_be_part:
        for i in range(rank):
            if draw(st.integers(0, 3)) == 3:
                tensor = tensor.reverse(i)
    return tensor.dim_shuffle(*np.argsort(order).tolist()) if rank else tensor


@st.composite
def views(
    draw: st.DrawFn,
    graph: Graph,
    shape: Sequence[int],
    dtype: str = "float32",
    name: str = "x",
    *,
    may_be_part: bool = True,
) -> View:
    """Return a tensor like `tensors`, or a nested concatenation of several."""
    wide = [d for d, size in enumerate(shape) if size > 1]
    if not wide or draw(st.integers(0, 3)) < 3:
        return draw(tensors(graph, shape, dtype, name, may_be_part=may_be_part))
    dim = draw(st.sampled_from(wide))
    # The concatenation may be sliced at both ends.
    before, after = (draw(st.integers(0, 1)) if may_be_part else 0 for _ in range(2))
    total = shape[dim] + before + after
    first = draw(st.integers(1, total - 1))
    parts = []
    for i, size in enumerate((first, total - first)):
        sizes = [size if d == dim else n for d, n in enumerate(shape)]
        parts.append(draw(views(graph, sizes, dtype, f"{name}{i}", may_be_part=may_be_part)))
    joined = concat(parts, dim)
    if may_be_part and draw(st.booleans()):
        joined = joined.reverse(dim)
    return joined.slice(dim, before, before + shape[dim])


@st.composite
def shapes(draw: st.DrawFn, most: int = 40, rank: int = 4) -> tuple[int, ...]:
    """Return a small shape."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(1, rank))):
        sizes.append(draw(st.integers(1, max(1, min(7, most // prod(sizes))))))
    return tuple(sizes)


def new_builder(machine: Machine) -> tuple[Graph, Builder]:
    """Return a graph, and a builder with a new sequence."""
    graph = Graph(machine)
    return graph, Builder(graph, ProgramSequence("program"), ROOT)
