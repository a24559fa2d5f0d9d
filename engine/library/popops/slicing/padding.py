"""Padding and sliding windows, as views: nothing is copied.

As in graphcore/poplibs sdk-release-3.4, lib/popops/Pad.cpp and Padder.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy

__all__ = ["PADDING_MODES", "pad", "unfold"]

PADDING_MODES = ("constant", "edge", "reflect", "wrap")


@checked
def pad(
    builder: Builder,
    x: View,
    before: Sequence[int],
    after: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
) -> View:
    """Return a tensor with elements added at both ends of its dimensions, as ``numpy.pad``.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    before, after
        Elements to add to every dimension; negative numbers remove elements.
    mode
        ``constant``; ``edge``, which repeats the last element; ``reflect``, which mirrors at it; or
        ``wrap``, which goes on at the other end.
    value
        The constant, which becomes a variable of one element.

    Returns
    -------
    View
        A view on the tensor and the constant.

    Raises
    ------
    BadGraph
        If the mode is unknown, a dimension is padded by more than it has, or the numbers do not
        match the dimensions.
    """
    if mode not in PADDING_MODES:
        raise BadGraph(f"Unknown padding mode {mode!r}; use one of {', '.join(PADDING_MODES)}")
    rank = len(x.shape)
    if len(before) != rank or len(after) != rank:
        raise BadGraph(
            f"pad: {len(before)} and {len(after)} numbers for the {rank} dimensions of {x.name!r}:"
            " expected one of each per dimension"
        )
    detail = {"shape": list(x.shape), "before": list(before), "after": list(after), "mode": mode}
    build = builder.inside("pad", "popops.pad", detail, flops=0)
    constant: Tensor | None = None
    if mode == "constant" and max((*before, *after), default=0) > 0:
        graph = build.graph
        constant = graph.add_constant([value], "padding", dtype=x.dtype, debug=build.debug)
        first = build.tiles.take(1)
        graph.set_tile_mapping(constant, [0], build.tiles.ids[first : first + 1])
    for dim in range(rank):
        x = _cut(build, x, dim, (max(0, -before[dim]), max(0, -after[dim])))
        low, high = max(0, before[dim]), max(0, after[dim])
        largest = x.shape[dim] - (mode == "reflect")
        if mode in ("reflect", "wrap") and max(low, high) > largest:
            raise BadGraph(
                f"pad: {max(low, high)} elements at dimension {dim} of {x.name!r}: mode {mode!r}"
                f" adds at most {largest} to its {x.shape[dim]} elements"
            )
        try:
            x = _with_ends(x, dim, (low, high), mode, constant)
        except BadGraph:  # part of a dimension that several strides make up is not a view
            copy = row_major_copy(build, x, "pad")
            x = _with_ends(copy, dim, (low, high), mode, constant)
    return x


def _cut(builder: Builder, x: View, dim: int, sizes: tuple[int, int]) -> View:
    before, after = sizes
    if before + after >= x.shape[dim]:
        raise BadGraph(
            f"pad: {before + after} elements removed from dimension {dim} of {x.name!r}, which has"
            f" {x.shape[dim]}: at least one must be left"
        )
    if not before and not after:
        return x
    try:
        return x.slice(dim, before, x.shape[dim] - after)
    except BadGraph:
        return row_major_copy(builder, x, "pad").slice(dim, before, x.shape[dim] - after)


def _with_ends(
    x: View, dim: int, sizes: tuple[int, int], mode: str, constant: Tensor | None
) -> View:
    """Return a tensor with elements added at both ends of one dimension."""
    n = x.shape[dim]
    parts: list[View] = [x]
    for is_after, size in enumerate(sizes):
        if not size:
            continue
        shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
        end: View
        if constant is not None:
            end = constant.broadcast_to(shape)
        elif mode == "edge":
            end = x.slice(dim, n - 1, n) if is_after else x.slice(dim, 0, 1)
            end = end.broadcast_to(shape)
        elif mode == "reflect":
            end = x.slice(dim, n - 1 - size, n - 1) if is_after else x.slice(dim, 1, 1 + size)
            end = end.reverse(dim)
        else:
            end = x.slice(dim, 0, size) if is_after else x.slice(dim, n - size, n)
        parts = [*parts, end] if is_after else [end, *parts]
    return concat(parts, dim) if len(parts) > 1 else x


@checked
def unfold(builder: Builder, x: View, dim: int, size: int, step: int = 1) -> View:
    """Return all windows of a dimension, as ``torch.Tensor.unfold``: a view with aliased elements.

    Parameters
    ----------
    builder
        Target of the program, if `x` joins several variables or must be copied.
    x
        Any layout.
    dim
        The dimension, which then counts windows.
    size, step
        Elements of a window, which become the last dimension, and the distance between windows.

    Raises
    ------
    BadGraph
        If the dimension does not exist or is shorter than a window, or the step is less than 1.
    """
    check_dim("unfold", x, dim)
    if not 1 <= size <= x.shape[dim] or step < 1:
        raise BadGraph(
            f"unfold: windows of {size} elements, {step} apart, of dimension {dim} of {x.name!r}:"
            f" expected 1 to {x.shape[dim]} elements, at least 1 apart"
        )
    contiguous = in_one(builder, x, "join")
    if len(contiguous.dims[dim]) > 1:
        contiguous = row_major_copy(builder, contiguous, "unfold")
    ((_, stride),) = contiguous.dims[dim]
    n_windows = (x.shape[dim] - size) // step + 1
    windows = ((n_windows, step * stride),)
    dims = (*contiguous.dims[:dim], windows, *contiguous.dims[dim + 1 :], ((size, stride),))
    return replace(contiguous, dims=dims)
