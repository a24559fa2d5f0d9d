"""Elementwise operations and copies: one operand or two, any layouts, numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from engine.codelets.codelet import Codelet
from engine.codelets.copy import CAST, CAST_BLOCK, COPY, COPY_BLOCK
from engine.codelets.elementwise import BINARY, BINARY_BLOCK, UNARY, UNARY_BLOCK
from engine.codelets.elementwise_rates import BINARY_RATES, UNARY_RATES, Rate, rate_of
from engine.errors import BadGraph
from engine.graph import ComputeSet, DType, Joined, Tensor, View
from engine.library.builder import Builder
from engine.library.spread import Walk, joint_walks
from engine.library.vertex_choice import choose_vertices

__all__ = [
    "binary",
    "cast",
    "copy_to",
    "copy_together",
    "in_one",
    "rearranged",
    "row_major_copy",
    "similar",
    "unary",
]


def similar(
    builder: Builder, name: str, operands: Sequence[View], shape: Sequence[int], dtype: DType
) -> Tensor:
    """Return a new tensor that lies and is mapped as the first operand that fills its variable.

    When none does, it is row-major and spread evenly.
    """
    graph = builder.graph
    for operand in operands:
        if isinstance(operand, Joined):
            continue
        variable = operand.variable
        covers = operand.offset == 0 and operand.n_elements == variable.n_elements
        if covers and operand.shape == tuple(shape) and variable.is_mapped:
            made = graph.add_variable(dtype, variable.shape, name, builder.debug)
            graph.set_tile_mapping(made, variable.map_start, variable.map_tile)
            return Tensor(made.variable, 0, operand.dims)
    made = graph.add_variable(dtype, shape, name, builder.debug)
    graph.map_linearly(made, grain=max(1, 8 // dtype.n_bytes))
    return made


def _apply(
    builder: Builder,
    name: str,
    plain: Codelet,
    in_blocks: Codelet,
    operands: Sequence[View],
    out: View,
) -> bool:
    """Add the compute set; False when the layouts cannot be walked together."""
    walks = joint_walks(operands, out)
    if walks is None:
        return False
    compute_set = builder.compute_set(name)
    for walk in walks:
        _add_walk(builder, compute_set, name, plain, in_blocks, walk)
    return True


def _apply_to(
    builder: Builder, name: str, plain: Codelet, in_blocks: Codelet, x: View, out: Tensor
) -> None:
    """Add the compute set of one operand, copied first where it lies too differently."""
    if not _apply(builder, name, plain, in_blocks, [x], out):
        in_order = row_major_copy(builder, x, "rearrange")
        is_done = _apply(builder, name, plain, in_blocks, [in_order], out)
        assert is_done, "an operand in row-major order can be walked with its result"


def _add_walk(
    builder: Builder,
    compute_set: ComputeSet,
    name: str,
    plain: Codelet,
    in_blocks: Codelet,
    walk: Walk,
) -> None:
    """Add the vertices of a walk to a compute set."""
    for is_block, tiles, regions in walk.batches():
        codelet = in_blocks if is_block else plain
        machine = builder.graph.machine
        for chosen, where, fields in choose_vertices(name, codelet, tiles, regions, machine):
            builder.vertices(compute_set, chosen, where, fields)


def copy_together(builder: Builder, pairs: Sequence[tuple[View, View]], name: str) -> None:
    """Copy several sources to targets that do not overlap, in one compute set.

    Parameters
    ----------
    builder
        Where the program goes.
    pairs
        Sources and targets: any views, the targets on variables that no source is on.
    name
        Of the compute set.

    Raises
    ------
    BadGraph
        When a source and its target lie so differently that there is no way to walk them, even by
        way of row-major order.
    """
    walks: list[Walk] = []
    for source, target in pairs:
        found = joint_walks([source], target)
        if found is None:
            middle = row_major_copy(builder, source, f"{name}/rowMajor")
            found = joint_walks([middle], target)
        if found is None:
            raise BadGraph(
                f"{source.name!r} cannot be copied to {target.name!r}: their layouts do not divide"
            )
        walks += found
    compute_set = builder.compute_set(name)
    for walk in walks:
        _add_walk(builder, compute_set, name, COPY, COPY_BLOCK, walk)


def copy_to(builder: Builder, source: View, target: View, name: str = "Copy") -> None:
    """Copy elements in logical order into a tensor, which may be part of its variable.

    Raises
    ------
    BadGraph
        When the two lie so differently that there is no way to walk them, even by way of
        row-major order.
    """
    # What is read must not be what other vertices write: by way of a variable of its own, then.
    shared = {*source.variables} & {*target.variables}
    is_apart = not any(
        _meet(one, other)
        for one in source.pieces
        if one.variable in shared
        for other in target.pieces
    )
    if is_apart and _apply(builder, name, COPY, COPY_BLOCK, [source], target):
        return
    middle = row_major_copy(builder, source, f"{name}/rowMajor")
    if not _apply(builder, name, COPY, COPY_BLOCK, [middle], target):
        raise BadGraph(
            f"{source.name!r} cannot be copied to {target.name!r}: their layouts do not divide"
        )


def _meet(one: Tensor, other: Tensor) -> bool:
    """Whether two views on one variable each have elements within each other's span."""
    if one.variable is not other.variable:
        return False
    spans = []
    for tensor in (one, other):
        steps = [(size - 1) * stride for size, stride in tensor.atoms]
        low = tensor.offset + sum(min(step, 0) for step in steps)
        spans.append((low, tensor.offset + sum(max(step, 0) for step in steps)))
    return max(spans[0][0], spans[1][0]) <= min(spans[0][1], spans[1][1])


def row_major_copy(builder: Builder, source: View, name: str = "Copy") -> Tensor:
    """Return a copy of a tensor that lies in logical order, spread evenly.

    Raises
    ------
    BadGraph
        When there is no way to walk the tensor in that order.
    """
    graph = builder.graph
    made = graph.add_variable(source.dtype, source.shape, name, builder.debug)
    graph.map_linearly(made, grain=max(1, 8 // source.dtype.n_bytes))
    if not _apply(builder, name, COPY, COPY_BLOCK, [source], made):
        raise BadGraph(f"{source.name!r} cannot be copied to shape {source.shape}")
    return made


def in_one(builder: Builder, view: View, name: str = "join") -> Tensor:
    """Return a tensor on one variable: the view itself, or a copy of one that joins several.

    Raises
    ------
    BadGraph
        When there is no way to walk it in logical order.
    """
    return view if isinstance(view, Tensor) else row_major_copy(builder, view, name)


def rearranged(builder: Builder, source: View, shape: Sequence[int], name: str) -> Tensor:
    """Return a tensor reshaped, copied first where its layout makes that necessary."""
    source = in_one(builder, source, name)
    if source.can_reshape(*shape):
        return source.reshape(*shape)
    return row_major_copy(builder, source, name).reshape(*shape)


def _check_types(function: str, rate: Rate, operands: Sequence[View]) -> None:
    for operand in operands:
        if rate_of(rate, operand.dtype.kind) is None:
            raise BadGraph(
                f"{function} of {operand.name!r}, which is {operand.dtype}: there is no"
                f" vertex for that; cast it to {' or '.join(rate)} first"
            )


def unary(builder: Builder, function: str, x: View) -> Tensor:
    """Apply a function of one operand: see `engine.codelets.elementwise`.

    Raises
    ------
    BadGraph
        When there is no vertex for its type.
    """
    _check_types(function, UNARY_RATES[function], [x])
    build = builder.inside(function, "popops.map", {"operation": function, "shape": list(x.shape)})
    out = similar(build, "out", [x], x.shape, x.dtype)
    _apply_to(build, function, UNARY[function], UNARY_BLOCK[function], x, out)
    return out


def binary(builder: Builder, function: str, a: View, b: View, shape: Sequence[int]) -> Tensor:
    """Apply a function of two operands that broadcast to `shape`.

    Raises
    ------
    BadGraph
        When there is no vertex for their type.
    """
    _check_types(function, BINARY_RATES[function], [a, b])
    detail = {"operation": function, "shapes": [list(a.shape), list(b.shape)]}
    build = builder.inside(function, "popops.map", detail)
    out = similar(build, "out", [a, b], shape, a.dtype)
    plain, in_blocks = BINARY[function], BINARY_BLOCK[function]
    if not _apply(build, function, plain, in_blocks, [a, b], out):
        a = row_major_copy(build, a, "rearrangeLeft")
        b = row_major_copy(build, b, "rearrangeRight")
        out = similar(build, "out", [], shape, a.dtype)
        is_done = _apply(build, function, plain, in_blocks, [a, b], out)
        assert is_done, "operands in row-major order can be walked together"
    return out


def cast(builder: Builder, x: View, dtype: DType) -> Tensor:
    """Return the elements in another type: rounded to half or float8, cut to whole numbers.

    Raises
    ------
    BadGraph
        When there is no vertex for the two types.
    """
    kinds = {x.dtype.kind, dtype.kind}
    if "float8" in kinds and kinds & {"int32", "bool"}:
        raise BadGraph(f"{x.name!r} cannot be cast from {x.dtype} to {dtype}: go by way of float16")
    build = builder.inside("cast", "popops.cast", {"from": x.dtype.name, "to": dtype.name})
    out = similar(build, "out", [x], x.shape, dtype)
    _apply_to(build, "cast", CAST, CAST_BLOCK, x, out)
    return out
