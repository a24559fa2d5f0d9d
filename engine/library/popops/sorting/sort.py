"""Sorts and the largest or smallest elements of rows, by a bitonic network over the tiles.

As in graphcore/poplibs sdk-release-3.4, lib/popops/BitonicTopK.cpp and Sort.cpp: sequences of the
next power of two above k are sorted; pairs of them are merged, the worse half is dropped, and the
better one sorted again. The network is the form in which all comparisons have one direction, with
the first step of a merge mirrored: comparisons beyond the end are left out, so that rows may have
any length. A tile holds a run of 2^c elements, or whole rows, and never changes it. Pairs on two
tiles are compared by halves on both, which receive the other's elements and return them.
"""

from __future__ import annotations

from tilescope.engine.codelets.popops.sorting.sort import COMPARE_AND_SWAP, COMPARE_AND_SWAP_PAIRS
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import (
    FLOAT16,
    FLOAT32,
    INT32,
    DType,
    Regions,
    Tensor,
    View,
)
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.iota import iota
from tilescope.engine.library.popops.elementwise.operations import cast, copy_to, row_major_copy
from tilescope.engine.library.popops.sorting.sorting_network import (
    Runs,
    Spread,
    choose_run,
    network_steps,
)

__all__ = ["sort", "sort_key_value", "top_k", "top_k_with_permutation"]


@checked
def top_k(builder: Builder, x: View, k: int, dim: int = 0, *, largest: bool = True) -> Tensor:
    """Return the k largest elements along a dimension in descending order.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16, float32 or int32.
    k
        Number of elements.
    dim
        The dimension.
    largest
        Whether they are the largest; otherwise the smallest in ascending order.

    Raises
    ------
    BadGraph
        If the dimension does not exist or is shorter than k, or the type is not supported.
    """
    build = _inside(builder, "topK", (x, k, dim), has_values=False, is_stable=False)
    keys, _ = _network(build, (x, None), k, dim, is_descending=largest, is_stable=False)
    return keys


@checked
def top_k_with_permutation(
    builder: Builder, x: View, k: int, dim: int = 0, *, largest: bool = True, stable: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the k largest elements along a dimension, as `top_k`, and their positions (int32).

    Parameters
    ----------
    stable
        Whether equal elements keep their order; comparisons then take longer.

    Raises
    ------
    BadGraph
        As for `top_k`.
    """
    build = _inside(builder, "topKWithPermutation", (x, k, dim), True, stable)
    positions = build.graph.add_variable(INT32, _turned(x.shape, dim), "positions", build.debug)
    build.spread(positions, grain=2)
    iota(build, positions)
    order = [*range(len(x.shape) - 1)]
    values = positions.dim_shuffle(*order[:dim], len(x.shape) - 1, *order[dim:])
    keys, sorted_values = _network(
        build, (x, values), k, dim, is_descending=largest, is_stable=stable
    )
    assert sorted_values is not None
    return keys, sorted_values


@checked
def sort(builder: Builder, x: View, dim: int = 0, *, descending: bool = False) -> Tensor:
    """Return the elements sorted along a dimension.

    Raises
    ------
    BadGraph
        If the dimension does not exist, or the type is not supported.
    """
    check_dim("sort", x, dim)
    build = _inside(builder, "sort", (x, x.shape[dim], dim), False, False)
    n = x.shape[dim]
    keys, _ = _network(build, (x, None), n, dim, is_descending=descending, is_stable=False)
    return keys


@checked
def sort_key_value(
    builder: Builder, keys: View, values: View, dim: int = 0, *, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """Return keys sorted along a dimension, and values in the order of their keys.

    Parameters
    ----------
    builder
        Target of the program.
    keys, values
        Tensors of one shape: float16, float32 or int32.
    dim, descending
        As for `sort`.

    Raises
    ------
    BadGraph
        If shapes differ, the dimension does not exist, or a type is not supported.
    """
    check_dim("sort_key_value", keys, dim)
    if keys.shape != values.shape:
        raise BadGraph(
            f"sort_key_value: {values.name!r} has shape {values.shape}: expected that of"
            f" {keys.name!r}, {keys.shape}"
        )
    n = keys.shape[dim]
    build = _inside(builder, "sortKeyValue", (keys, n, dim), True, False)
    pair = (keys, values)
    sorted_keys, sorted_values = _network(
        build, pair, n, dim, is_descending=descending, is_stable=False
    )
    assert sorted_values is not None
    return sorted_keys, sorted_values


def _turned(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """Return a shape with a dimension moved to the end."""
    return (*shape[:dim], *shape[dim + 1 :], shape[dim])


def _inside(
    builder: Builder, name: str, call: tuple[View, int, int], has_values: bool, is_stable: bool
) -> Builder:
    """Check a call and return the builder for it."""
    x, k, dim = call
    check_dim(name, x, dim)
    if not 1 <= k <= x.shape[dim]:
        raise BadGraph(
            f"{name}: k is {k}, but dimension {dim} of {x.name!r} has {x.shape[dim]} elements:"
            f" expected 1 to {x.shape[dim]}"
        )
    for_keys = _type_of(name, x)
    n_rows = x.n_elements // x.shape[dim]
    n_pairs = sum(step.n_pairs for step in network_steps(x.shape[dim], k))
    detail = {
        "shape": list(x.shape),
        "k": k,
        "dim": dim,
        "has_values": has_values,
        "stable": is_stable,
    }
    flops = n_rows * n_pairs * for_keys.is_float
    return builder.inside(name, f"popops.{name}", detail, flops=flops)


def _type_of(name: str, x: View) -> DType:
    """Return the type in which a tensor is sorted: halves as floats."""
    if x.dtype not in (FLOAT16, FLOAT32, INT32):
        raise BadGraph(
            f"{name}: {x.name!r} is {x.dtype}: expected float16, float32 or int32; cast it"
        )
    return FLOAT32 if x.dtype == FLOAT16 else x.dtype


def _network(
    builder: Builder,
    operands: tuple[View, View | None],
    k: int,
    dim: int,
    *,
    is_descending: bool,
    is_stable: bool,
) -> tuple[Tensor, Tensor | None]:
    """Sort keys, and values with them; return the first k of each along the dimension."""
    shape = operands[0].shape
    n = shape[dim]
    machine = builder.tiles.machine
    n_rows = operands[0].n_elements // n
    spread = Spread(n_rows, n, choose_run(n_rows, n, k, machine), builder.tiles.ids)
    held = [
        None if x is None else _spread_out(builder, x, dim, name, spread)
        for x, name in zip(operands, ("keys", "values"), strict=True)
    ]
    scalars = {"is_descending": int(is_descending)}
    codelet = COMPARE_AND_SWAP
    if held[1] is not None:
        codelet, scalars = COMPARE_AND_SWAP_PAIRS, {**scalars, "is_stable": int(is_stable)}
    for step in network_steps(n, k):
        compute_set = builder.compute_set(step.name)
        for runs in spread.runs(step):
            fields = _fields(runs, held)
            builder.vertices(compute_set, codelet, runs.tile, fields, scalars)
    keys, values = (
        None if tensor is None or x is None else _first_of(builder, tensor, k, x, dim)
        for tensor, x in zip(held, operands, strict=True)
    )
    assert keys is not None
    return keys, values


def _fields(runs: Runs, held: list[Tensor | None]) -> dict[str, Regions]:
    """Return the regions of the pairs in keys and values."""
    fields = {}
    for tensor, suffix in zip(held, ("", "_value"), strict=True):
        if tensor is None:
            continue
        for side, start, strides in (
            ("low", runs.low, runs.low_strides),
            ("high", runs.high, runs.high_strides),
        ):
            fields[side + suffix] = blocks(
                tensor.variable, start, runs.sizes, strides, runs.tile.size
            )
    return fields


def _spread_out(builder: Builder, x: View, dim: int, name: str, spread: Spread) -> Tensor:
    """Return a copy with the dimension last, spread for the network; halves as floats."""
    other_dims = [d for d in range(len(x.shape)) if d != dim]
    turned = x.dim_shuffle(*other_dims, dim)
    dtype = _type_of(name, x)
    if x.dtype != dtype:
        turned = cast(builder, turned, dtype)
    tensor = builder.graph.add_variable(dtype, turned.shape, name, builder.debug)
    builder.graph.set_tile_mapping(tensor, *spread.mapping())
    copy_to(builder, turned, tensor, f"{name}Copy")
    return tensor


def _first_of(builder: Builder, sorted_: Tensor, k: int, x: View, dim: int) -> Tensor:
    """Return a copy of the first k elements of every row, in the type and order of an operand."""
    last = len(sorted_.shape) - 1
    first_values = sorted_.slice(last, 0, k)
    if x.dtype != sorted_.dtype:
        first_values = cast(builder, first_values, x.dtype)
    elif k < sorted_.shape[last]:
        first_values = row_major_copy(builder, first_values, "out")
    order = [*range(last)]
    return first_values.dim_shuffle(*order[:dim], last, *order[dim:])
