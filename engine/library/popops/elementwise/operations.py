"""Elementwise operations and copies: up to three operands, any layouts, numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from tilescope.engine.codelets.popops.elementwise.binary_functions import BINARY_RATES
from tilescope.engine.codelets.popops.elementwise.copy import (
    CAST,
    CAST_BLOCK,
    CAST_TO_BOOL,
    CAST_TO_BOOL_BLOCK,
    COPY,
    COPY_BLOCK,
)
from tilescope.engine.codelets.popops.elementwise.operations import (
    BINARY,
    BINARY_BLOCK,
    TO_BOOL,
    UNARY,
    UNARY_BLOCK,
    flops_per_element,
)
from tilescope.engine.codelets.popops.elementwise.rates import Rate, rate_of
from tilescope.engine.codelets.popops.elementwise.ternary import (
    TERNARY,
    TERNARY_BLOCK,
    TERNARY_FLOPS,
    TERNARY_RATES,
)
from tilescope.engine.codelets.popops.elementwise.unary_functions import UNARY_RATES
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import BOOL, DType, Joined, Stage, Tensor, View, dtype_of
from tilescope.engine.graph.mapping.clone import CloneLayout, clone_layout
from tilescope.engine.graph.mapping.elements import share_elements
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.vertex_memo import Vertices, add_together, vertices_of
from tilescope.engine.machine import Machine

__all__ = [
    "apply_joint",
    "apply_to",
    "binary",
    "blocked_copies",
    "blocked_copy",
    "cast",
    "check_function",
    "check_select",
    "clamp",
    "copy_to",
    "copy_together",
    "fills_variable",
    "in_one",
    "rearranged",
    "row_major_copy",
    "select",
    "similar",
    "unary",
    "vector_elements",
]


def vector_elements(machine: Machine, dtype: DType) -> int:
    """Return the elements per load; variables are spread in whole vectors."""
    return max(1, machine.data_path_bytes // dtype.n_bytes)


def similar(
    builder: Builder, name: str, operands: Sequence[View], shape: Sequence[int], dtype: DType
) -> Tensor:
    """Return a new tensor with the layout and mapping of one of the operands.

    Operands of the result's shape, without aliased elements and on the builder's tiles qualify: the
    first one that fills its variable, or else the one on most tiles, such as a slice. So what is
    computed element by element stays where its operand is. Without one, the tensor is row-major
    and spread evenly.

    Source: graphcore/poplibs sdk-release-3.4, lib/popops/ElementWiseUtil.cpp,
    createOutputForElementWiseOp.
    """
    graph = builder.graph
    for operand in operands:
        if isinstance(operand, Joined):
            continue
        variable = operand.variable
        if operand.shape == tuple(shape) and fills_variable(builder, operand):
            tensor = graph.add_variable(dtype, variable.shape, name, builder.debug)
            tensor.variable.map_like(variable)
            return Tensor(tensor.variable, 0, operand.dims)
    clones = [
        clone
        for operand in operands
        if operand.shape == tuple(shape) and (clone := _clone_of(builder, operand)) is not None
    ]
    if clones:
        chosen = max(clones, key=lambda clone: clone.n_tiles)
        tensor = graph.add_variable(dtype, chosen.shape, name, builder.debug)
        graph.set_tile_mapping(tensor, chosen.start, chosen.tile)
        return chosen.as_view(tensor)
    tensor = graph.add_variable(dtype, shape, name, builder.debug)
    builder.spread(tensor, grain=vector_elements(builder.tiles.machine, dtype))
    return tensor


def fills_variable(builder: Builder, tensor: Tensor) -> bool:
    """Return whether a tensor has every element of its variable once, on the builder's tiles."""
    variable = tensor.variable
    covers = tensor.offset == 0 and tensor.n_elements == variable.n_elements
    covers = covers and all(stride for size, stride in tensor.atoms if size > 1)
    return covers and variable.is_mapped and builder.tiles.has(variable.map_tile)


#: Mappings of shorter intervals than this are not cloned: every interval is a region of a vertex.
_SHORTEST_INTERVAL = 2


def _clone_of(builder: Builder, view: View) -> CloneLayout | None:
    """Return the layout of a view; None if it aliases elements or would be in fragments."""
    if any(not variable.is_mapped for variable in view.variables) or not view.n_elements:
        return None
    atoms = [atom for tensor in view.pieces for atom in tensor.atoms if atom[0] > 1]
    if any(stride <= 0 for _, stride in atoms):
        return None
    layout = clone_layout(view)
    is_short = layout.start.size * _SHORTEST_INTERVAL > view.n_elements
    if (is_short and view.n_elements > 1) or not builder.tiles.has(layout.tile):
        return None
    return layout


def _apply(
    builder: Builder,
    name: str,
    plain: Codelet,
    in_blocks: Codelet,
    operands: Sequence[View],
    out: View,
) -> bool:
    """Add the compute set; return False if the strides are incompatible."""
    vertices = vertices_of(builder.graph, name, (plain, in_blocks), operands, out)
    if vertices is None:
        return False
    vertices.add_to(builder.graph, builder.compute_set(name))
    return True


def apply_to(
    builder: Builder, name: str, plain: Codelet, in_blocks: Codelet, x: View, out: Tensor
) -> None:
    """Add the compute set of one operand, copied first if its strides are incompatible."""
    if not _apply(builder, name, plain, in_blocks, [x], out):
        in_order = row_major_copy(builder, x, "rearrange")
        is_done = _apply(builder, name, plain, in_blocks, [in_order], out)
        assert is_done, "row-major operands are compatible with the result"


def copy_together(
    builder: Builder,
    pairs: Sequence[tuple[View, View]],
    name: str,
    stage: Stage = Stage.REARRANGE,
) -> None:
    """Copy several sources to targets that do not overlap, in one compute set.

    Parameters
    ----------
    builder
        Target of the program.
    pairs
        Sources and targets: any views; targets and sources are on different variables.
    name
        Name of the compute set.
    stage
        Stage of a planned operation.

    Raises
    ------
    BadGraph
        If the strides of a source and its target are incompatible even through a row-major copy.
    """
    several: list[Vertices] = []
    for source, target in pairs:
        batches = vertices_of(builder.graph, name, (COPY, COPY_BLOCK), [source], target)
        if batches is None:
            middle = row_major_copy(builder, source, f"{name}/rowMajor")
            batches = vertices_of(builder.graph, name, (COPY, COPY_BLOCK), [middle], target)
        if batches is None:
            raise BadGraph(
                f"cannot copy {source.name!r} to {target.name!r}: their strides are incompatible"
            )
        several.append(batches)
    add_together(builder.graph, builder.compute_set(name, stage), several)


@checked
def copy_to(builder: Builder, source: View, target: View, name: str = "Copy") -> None:
    """Copy elements in logical order into a tensor, which may be part of its variable.

    Raises
    ------
    BadGraph
        If types differ, or the strides are incompatible even through a row-major copy.
    """
    if source.dtype != target.dtype:
        raise BadGraph(
            f"cannot copy {source.name!r} ({source.dtype}) to {target.name!r} ({target.dtype}):"
            " cast it first"
        )
    # A vertex must not read what another writes: copy aliased elements through a new variable.
    if not share_elements(source, target) and _apply(
        builder, name, COPY, COPY_BLOCK, [source], target
    ):
        return
    middle = row_major_copy(builder, source, f"{name}/rowMajor")
    if not _apply(builder, name, COPY, COPY_BLOCK, [middle], target):
        raise BadGraph(
            f"cannot copy {source.name!r} to {target.name!r}: their strides are incompatible"
        )


@checked
def row_major_copy(builder: Builder, source: View, name: str = "Copy") -> Tensor:
    """Return a row-major copy of a tensor, spread evenly.

    Raises
    ------
    BadGraph
        If the strides are incompatible with row-major order.
    """
    row_major = builder.graph.add_variable(source.dtype, source.shape, name, builder.debug)
    builder.spread(row_major, grain=vector_elements(builder.tiles.machine, source.dtype))
    if not _apply(builder, name, COPY, COPY_BLOCK, [source], row_major):
        raise BadGraph(f"cannot copy {source.name!r} to shape {source.shape}")
    return row_major


def blocked_copy(builder: Builder, source: View, name: str = "Copy") -> Tensor:
    """Return a copy of a tensor, spread evenly: see `blocked_copies`."""
    return blocked_copies(builder, [source], name)[0]


def blocked_copies(builder: Builder, sources: Sequence[View], name: str) -> list[Tensor]:
    """Return copies of tensors, spread evenly, in which short runs of elements stay together.

    Where most elements of a source lie in runs along a dimension, such as the channels of a group
    of a convolution's result, its copy has these runs, if the AMP unit can read them as a group.
    Else it is row-major. All are copied in one compute set: elements that a tile reads for several
    of them move once.

    Source: graphcore/popart, willow/src/popx/op/concatx.cpp and resizex.cpp: concatenations and
    resized images are views, or clones of views, which keep the layouts of their parts.

    Raises
    ------
    BadGraph
        If the strides are incompatible with row-major order.
    """
    copies, machine = [], builder.tiles.machine
    for source in sources:
        dim, size = _block_of(source)
        n_bytes, vector = source.dtype.n_bytes, vector_elements(machine, source.dtype)
        if size < max(vector, machine.conv_unit(n_bytes, n_bytes)[1]):
            dim, size = len(source.shape) - 1, 1
        shape, rank = source.shape, len(source.shape)
        sizes = (*shape[:dim], shape[dim] // size, *shape[dim + 1 :], size)
        blocks = builder.graph.add_variable(source.dtype, sizes, name, builder.debug)
        builder.spread(blocks, grain=max(size, vector))
        order = (*range(dim + 1), rank, *range(dim + 1, rank))
        copies.append(blocks.dim_shuffle(*order).reshape(*shape))
    if copies:
        copy_together(builder, list(zip(sources, copies, strict=True)), name)
    return copies


def _block_of(view: View) -> tuple[int, int]:
    """Return the dimension along which most elements lie in runs, and the length of the runs.

    The length is 1 where row-major order has the runs, or the runs of several parts do not agree.
    """
    last = len(view.shape) - 1
    runs: dict[int, list[Tensor]] = {}
    for tensor in view.pieces:
        inner = [d for d, atoms in enumerate(tensor.dims) if atoms[-1][0] > 1 and atoms[-1][1] == 1]
        runs.setdefault(inner[0] if inner else last, []).append(tensor)
    dim = max(runs, key=lambda d: sum(tensor.n_elements for tensor in runs[d]), default=last)
    if dim == last:
        return dim, 1
    return dim, gcd(
        *(tensor.dims[dim][-1][0] for tensor in runs[dim]),
        *(tensor.shape[dim] for tensor in view.pieces),
    )


def in_one(builder: Builder, view: View, name: str = "join") -> Tensor:
    """Return a tensor on one variable: the view itself, or a copy of one that joins several.

    Raises
    ------
    BadGraph
        If its strides are incompatible with row-major order.
    """
    return view if isinstance(view, Tensor) else row_major_copy(builder, view, name)


@checked
def rearranged(builder: Builder, source: View, shape: Sequence[int], name: str) -> Tensor:
    """Return a reshaped tensor; copy it first if its layout requires that."""
    source = in_one(builder, source, name)
    if source.can_reshape(*shape):
        return source.reshape(*shape)
    return row_major_copy(builder, source, name).reshape(*shape)


def _rate_of(function: str, rates: Mapping[str, Rate], n_operands: int) -> Rate:
    """Return the rates of a function by type.

    Raises
    ------
    BadGraph
        If the function is unknown.
    """
    if function not in rates:
        raise BadGraph(
            f"Unknown function {function!r} of {n_operands} operand"
            f"{'s' if n_operands > 1 else ''}: use one of {', '.join(sorted(rates))}"
        )
    return rates[function]


def _check_types(function: str, rate: Rate, operands: Sequence[View]) -> None:
    first = operands[0]
    for operand in operands:
        if rate_of(rate, operand.dtype.kind) is None:
            raise BadGraph(
                f"{function} of {operand.name!r}: {operand.dtype} is not supported; cast it to"
                f" {' or '.join(rate)} first"
            )
        if operand.dtype != first.dtype:
            raise BadGraph(
                f"{function} of {first.name!r} ({first.dtype}) and {operand.name!r}"
                f" ({operand.dtype}): cast one of them first"
            )


def check_function(function: str, operands: Sequence[View]) -> None:
    """Raise BadGraph unless a function of one or two operands supports their type.

    Raises
    ------
    BadGraph
        If the function is unknown, or does not support the type, or types differ.
    """
    rates = UNARY_RATES if len(operands) == 1 else BINARY_RATES
    _check_types(function, _rate_of(function, rates, len(operands)), operands)


@checked
def unary(builder: Builder, function: str, x: View) -> Tensor:
    """Apply a function of one operand: see `codelets.popops.elementwise.unary_functions`.

    Raises
    ------
    BadGraph
        If the function is unknown or does not support the type.
    """
    check_function(function, [x])
    detail = {"operation": function, "shape": list(x.shape)}
    flops = flops_per_element(function) * x.n_elements * x.dtype.is_float
    build = builder.inside(function, "popops.map", detail, flops=flops)
    out = similar(build, "out", [x], x.shape, BOOL if function in TO_BOOL else x.dtype)
    apply_to(build, function, UNARY[function], UNARY_BLOCK[function], x, out)
    return out


@checked
def binary(
    builder: Builder, function: str, a: View, b: View, shape: Sequence[int] | None = None
) -> Tensor:
    """Apply a function of two operands: see `codelets.popops.elementwise.binary_functions`.

    Parameters
    ----------
    builder
        Target of the program.
    function
        Name of the function.
    a, b
        Operands of one type.
    shape
        Shape of the result; by default, by numpy's broadcasting rules.

    Raises
    ------
    BadGraph
        If the function is unknown or does not support the type, or if types or shapes are
        incompatible.
    """
    check_function(function, [a, b])
    dtype = BOOL if function in TO_BOOL else a.dtype
    return _joint(builder, function, (BINARY, BINARY_BLOCK), [a, b], dtype, shape)


@checked
def select(builder: Builder, a: View, b: View, chooser: View) -> Tensor:
    """Return `a` where `chooser` is true, else `b`.

    Parameters
    ----------
    builder
        Target of the program.
    a, b
        Operands of one type.
    chooser
        Bools; all three operands broadcast by numpy's rules.

    Raises
    ------
    BadGraph
        If types or shapes are incompatible.
    """
    check_select(a, b, chooser)
    return _joint(builder, "select", (TERNARY, TERNARY_BLOCK), [a, b, chooser], a.dtype)


def check_select(a: View, b: View, chooser: View) -> None:
    """Raise BadGraph unless a choice between two tensors exists.

    Raises
    ------
    BadGraph
        If their types differ or are not supported, or the chooser is not bool.
    """
    _check_types("select", TERNARY_RATES["select"], [a, b])
    if chooser.dtype != BOOL:
        raise BadGraph(f"select: expected a bool chooser, got {chooser.name!r} ({chooser.dtype})")


@checked
def clamp(builder: Builder, x: View, low: View, high: View) -> Tensor:
    """Return `x` clamped to limits of the same type; operands broadcast by numpy's rules.

    Raises
    ------
    BadGraph
        If types or shapes are incompatible.
    """
    _check_types("clamp", TERNARY_RATES["clamp"], [x, low, high])
    return _joint(builder, "clamp", (TERNARY, TERNARY_BLOCK), [x, low, high], x.dtype)


def _joint(
    builder: Builder,
    function: str,
    codelets: tuple[Mapping[str, Codelet], Mapping[str, Codelet]],
    operands: Sequence[View],
    dtype: DType,
    shape: Sequence[int] | None = None,
) -> Tensor:
    """Apply a function of several operands, copied first if their strides are incompatible."""
    shapes = [operand.shape for operand in operands]
    if shape is None:
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            raise BadGraph(f"{function}: shapes {shapes} do not broadcast to one") from None
    detail = {"operation": function, "shapes": [list(of_operand) for of_operand in shapes]}
    per_element = TERNARY_FLOPS.get(function, flops_per_element(function))
    flops = per_element * prod(shape) * operands[0].dtype.is_float
    build = builder.inside(function, "popops.map", detail, flops=flops)
    plain, in_blocks = (by_name[function] for by_name in codelets)
    out = similar(build, "out", operands, shape, dtype)
    return apply_joint(build, function, plain, in_blocks, operands, out)


def apply_joint(
    builder: Builder,
    name: str,
    plain: Codelet,
    in_blocks: Codelet,
    operands: Sequence[View],
    out: Tensor,
) -> Tensor:
    """Add the compute set of several operands; return its result.

    Parameters
    ----------
    builder
        Target of the program.
    name
        Name of the compute set.
    plain, in_blocks
        Codelets for vectors and for blocks.
    operands
        Up to three tensors that broadcast to the result's shape.
    out
        Holds the result. If strides are incompatible, the operands are copied to row-major order,
        and so is the tensor that holds it instead.
    """
    if _apply(builder, name, plain, in_blocks, operands, out):
        return out
    names = ("rearrangeLeft", "rearrangeRight", "rearrangeThird")
    operands = [row_major_copy(builder, x, name) for x, name in zip(operands, names, strict=False)]
    out = similar(builder, "out", [], out.shape, out.dtype)
    is_done = _apply(builder, name, plain, in_blocks, operands, out)
    assert is_done, "row-major operands have compatible strides"
    return out


@checked
def cast(builder: Builder, x: View, dtype: Any) -> Tensor:
    """Return the elements cast to another type: rounded to half or float8, truncated to integers.

    Nonzero values become true. The type is a name, a numpy type or a `DType`.

    Raises
    ------
    BadGraph
        If the type is unknown, or the cast is not supported.
    """
    dtype = dtype_of(dtype)
    kinds = {x.dtype.kind, dtype.kind}
    if "float8" in kinds and kinds & {"int32", "bool"}:
        raise BadGraph(f"cannot cast {x.name!r} from {x.dtype} to {dtype}; cast to float16 first")
    detail = {"from": x.dtype.name, "to": dtype.name}
    build = builder.inside("cast", "popops.cast", detail, flops=0)
    out = similar(build, "out", [x], x.shape, dtype)
    plain, in_blocks = (CAST_TO_BOOL, CAST_TO_BOOL_BLOCK) if dtype == BOOL else (CAST, CAST_BLOCK)
    apply_to(build, "cast", plain, in_blocks, x, out)
    return out
