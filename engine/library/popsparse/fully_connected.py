"""Fully connected layers whose sparse weights change their pattern between runs.

As in graphcore/poplibs sdk-release-3.4, lib/popsparse/FullyConnected.cpp: a part of the weights has
a bucket on the tiles that multiply it. Blocks that did not fit are in other buckets, which are
passed from part to part as often as the host says; if all fit, nothing is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popsparse.dynamic_product import (
    FORWARD,
    TRANSPOSED,
    VALUE_GRADIENT,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import (
    FLOAT16,
    FLOAT32,
    INT32,
    UINT16,
    Regions,
    Stage,
    Tensor,
    View,
    concat,
    dtype_of,
)
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.dynamic_sparse import DynamicSparseTensor, FullyConnectedParams
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import cast, copy_to
from tilescope.engine.library.popops.reduction.reduce import reduce_with_output
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popsparse.dense_operand import DenseLayout
from tilescope.engine.planner.plan import Plan
from tilescope.engine.planner.sparse.buckets import fill_buckets
from tilescope.engine.planner.sparse.dynamic_plan import DynamicPlan, DynamicShape, plan_dynamic
from tilescope.engine.planner.sparse.pattern import BlockPattern
from tilescope.engine.program import If, RepeatWhile, Sequence

__all__ = [
    "create_fully_connected_input",
    "create_fully_connected_weights",
    "fully_connected_fwd",
    "fully_connected_grad_a",
    "fully_connected_sparse_grad_w",
    "pass_back",
    "pass_buckets",
    "sampled_product",
]

Counts = NDArray[np.int64]


@checked
def create_fully_connected_weights(
    builder: Builder,
    params: FullyConnectedParams,
    name: str = "weights",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
) -> DynamicSparseTensor:
    """Add variables for sparse weights: buckets of blocks and of their places.

    Parameters
    ----------
    builder
        Its graph and tiles.
    params
        Sizes of the layer, and how many values the weights may have.
    name
        Name of the values; places and steps have it, too.
    dtype
        float16 or float32, of weights, activations and results. Sums are in float.
    available_memory_proportion
        Largest share of a tile for temporary memory; by default, the builder's of products.

    Returns
    -------
    DynamicSparseTensor
        The host writes what `DynamicSparseTensor.data_of` returns before every run with another
        pattern.

    Raises
    ------
    BadGraph
        If the type is not supported, or no split fits the memory.
    BadOption
        If the share of memory is invalid.
    """
    plan = _plan(
        builder, "create_fully_connected_weights", params, dtype, available_memory_proportion
    )
    size, n_parts, z_parts = plan.shape.block_size, plan.n_parts, plan.z_parts
    graph = builder.graph
    values = graph.add_variable(
        dtype_of(dtype), (n_parts, plan.capacity, size, size), name, builder.debug
    )
    places = graph.add_variable(UINT16, (n_parts, plan.n_places), f"{name}/places", builder.debug)
    tiles = np.asarray(builder.tiles.ids)
    # The tiles of a part share the storage of its bucket.
    for tensor, count, area in ((values, plan.capacity, size * size), (places, plan.n_places, 1)):
        share = -(-count // z_parts)
        start = np.arange(0, count, share)
        starts = (np.arange(n_parts)[:, None] * count + start).reshape(-1) * area
        place = (np.arange(n_parts)[:, None] * z_parts + start // share).reshape(-1)
        graph.set_tile_mapping(tensor, starts, tiles[place])
    steps = graph.add_variable(INT32, (1,), f"{name}/steps", builder.debug)
    graph.set_tile_mapping(steps, [0], tiles[:1])
    return DynamicSparseTensor(places, values, steps, params, plan)


@checked
def create_fully_connected_input(
    builder: Builder,
    params: FullyConnectedParams,
    name: str = "input",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Add a variable for the activations of a layer with sparse weights, as its plan reads them.

    Parameters
    ----------
    builder, params, name, dtype, available_memory_proportion
        As for `create_fully_connected_weights`.

    Returns
    -------
    Tensor
        Shape (n_batch, n_inputs).

    Raises
    ------
    BadGraph, BadOption
        As there.
    """
    plan = _plan(
        builder, "create_fully_connected_input", params, dtype, available_memory_proportion
    )
    layout = _layout(plan, params.n_inputs)
    return layout.variable(builder, dtype_of(dtype), name).dim_shuffle(1, 0)


@checked
def fully_connected_fwd(
    builder: Builder, weights: DynamicSparseTensor, x: View, name: str = "fullyConnectedFwd"
) -> Tensor:
    """Multiply activations by the transpose of sparse weights.

    Parameters
    ----------
    builder
        Target of the program.
    weights
        Of `create_fully_connected_weights`.
    x
        Shape (n_batch, n_inputs), of the type of the weights; copied unless it lies as
        `create_fully_connected_input` lays it out.
    name
        Name of the pass.

    Returns
    -------
    Tensor
        Shape (n_batch, n_outputs).

    Raises
    ------
    BadGraph
        If the operand is not one of the layer.
    """
    params = weights.params
    _check(name, x, (params.n_batch, params.n_inputs), weights)
    return _product(builder, weights, x, name, is_transposed=False)


@checked
def fully_connected_grad_a(
    builder: Builder,
    weights: DynamicSparseTensor,
    gradient: View,
    name: str = "fullyConnectedGradA",
) -> Tensor:
    """Return the gradients of activations: those of results times sparse weights.

    Parameters
    ----------
    builder
        Target of the program.
    weights
        As for `fully_connected_fwd`.
    gradient
        Of the results, shape (n_batch, n_outputs).
    name
        Name of the pass.

    Returns
    -------
    Tensor
        Shape (n_batch, n_inputs).

    Raises
    ------
    BadGraph
        If the operand is not one of the layer.
    """
    params = weights.params
    _check(name, gradient, (params.n_batch, params.n_outputs), weights)
    return _product(builder, weights, gradient, name, is_transposed=True)


@checked
def fully_connected_sparse_grad_w(
    builder: Builder,
    weights: DynamicSparseTensor,
    gradient: View,
    x: View,
    name: str = "fullyConnectedSparseGradW",
) -> Tensor:
    """Return the gradients of the values that sparse weights have.

    Parameters
    ----------
    builder
        Target of the program.
    weights
        As for `fully_connected_fwd`.
    gradient
        Of the results, shape (n_batch, n_outputs).
    x
        The activations, shape (n_batch, n_inputs).
    name
        Name of the pass.

    Returns
    -------
    Tensor
        The shape of the values, and their places in the buckets; zeros where a bucket has none.

    Raises
    ------
    BadGraph
        If an operand is not one of the layer.
    """
    params, plan = weights.params, weights.plan
    _check(name, gradient, (params.n_batch, params.n_outputs), weights)
    _check(name, x, (params.n_batch, params.n_inputs), weights)
    build = _call(builder, name, "popsparse.fullyConnectedSparseGradW", weights)
    sums, multiply = _value_gradients(build, plan, gradient, x)
    multiply(build, weights.places, sums)
    # Gradients travel with the places that they are for, and back.
    passing = pass_buckets(
        build, weights.steps, [weights.places], [sums], lambda body, moved: multiply(body, *moved)
    )
    if passing is not None:
        pass_back(passing, weights.steps, [sums])
    out = _reduced(build, sums, 1, weights.values.dtype)
    return out.reshape(*weights.values.shape)


def sampled_product(
    builder: Builder, pattern: BlockPattern, a: View, b: View, name: str = "sampledProduct"
) -> Tensor:
    """Return the blocks at some places of the product of a matrix and the transpose of another.

    Parameters
    ----------
    builder
        Target of the program.
    pattern
        Places of the blocks.
    a, b
        Shapes (n_rows, n) and (n_columns, n), of one type.
    name
        Name of the product.

    Returns
    -------
    Tensor
        Shape (n_blocks, size, size), in the order of the pattern.

    Raises
    ------
    BadGraph
        If no split fits the memory.
    """
    size, n = pattern.block_size, a.shape[1]
    shape = DynamicShape(pattern.n_rows, pattern.n_columns, n, size, pattern.n_blocks, a.dtype.name)
    share, n_tiles = builder.available_memory.matmul, len(builder.tiles.ids)
    plan = plan_dynamic(name, shape, n_tiles, builder.tiles.machine, share).for_pattern(pattern)
    flops = 2 * pattern.n_values * n
    detail = {"a": list(a.shape), "b": list(b.shape), "values": pattern.n_values}
    build = builder.inside(name, "popsparse.sampledProduct", detail, flops=flops)
    buckets = fill_buckets(name, plan, pattern)
    places = build.graph.add_constant(buckets.places, "places", dtype=UINT16, debug=build.debug)
    tiles = np.asarray(build.tiles.ids)[np.arange(plan.n_parts) * plan.z_parts]
    build.graph.set_tile_mapping(places, np.arange(plan.n_parts) * plan.n_places, tiles)
    sums, multiply = _value_gradients(build, plan, a.dim_shuffle(1, 0), b.dim_shuffle(1, 0))
    multiply(build, places, sums)
    out = _reduced(build, sums, 1, a.dtype).reshape(plan.n_parts * plan.capacity, size * size)
    slots = build.constant(buckets.slot, "slots", "int32")
    return multi_slice(build, out, slots).reshape(pattern.n_blocks, size, size)


Multiply = Callable[[Builder, Tensor, Tensor], None]


def _value_gradients(
    build: Builder, plan: DynamicPlan, gradient: View, x: View
) -> tuple[Tensor, Multiply]:
    """Return zeros for gradients of values, and what adds those of the places in buckets.

    Parameters
    ----------
    build
        Target of the program.
    plan
        Of the product.
    gradient, x
        By batch.

    Returns
    -------
    sums
        Shape (n_parts, z_parts, elements of a bucket).
    multiply
        Takes a builder, places, and what has the shape of the sums.
    """
    size, shape = plan.shape.block_size, plan.shape
    parts = _Parts(plan, np.asarray(build.tiles.ids))
    layouts = _layout(plan, shape.n_rows), _layout(plan, shape.n_columns)
    operands = {
        "gradient": parts.operand(
            layouts[0].of(build, gradient.dim_shuffle(1, 0), "gradient"), parts.rows
        ),
        "dense": parts.operand(
            layouts[1].of(build, x.dim_shuffle(1, 0), "activations"), parts.columns
        ),
    }
    in_bucket, n_tiles = plan.capacity * size * size, parts.tile.size
    sums = build.graph.add_variable(
        FLOAT32, (plan.n_parts, plan.z_parts, in_bucket), "partials", build.debug
    )
    build.graph.set_tile_mapping(sums, np.arange(n_tiles) * in_bucket, parts.tile)
    fill(build, sums, 0)

    def multiply(inside: Builder, places: Tensor, target: Tensor) -> None:
        start = np.arange(n_tiles) * in_bucket
        out = blocks(target.variable, start, [in_bucket], [1], n_tiles)
        fields = {"places": parts.bucket(places), **operands, "out": out}
        _add(inside, parts, VALUE_GRADIENT[size], fields)

    return sums, multiply


def _check(name: str, x: View, shape: tuple[int, int], weights: DynamicSparseTensor) -> None:
    """Refuse an operand of another layer.

    Raises
    ------
    BadGraph
        If its shape or type is another one.
    """
    if tuple(x.shape) != shape or x.dtype != weights.values.dtype:
        raise BadGraph(
            f"{name}: {x.name!r} is {x.dtype} of shape {tuple(x.shape)}: expected"
            f" {weights.values.dtype} of shape {shape}, as {weights.values.name!r} was made for"
        )


def _plan(
    builder: Builder,
    name: str,
    params: FullyConnectedParams,
    dtype: Any,
    available_memory_proportion: float | None,
) -> DynamicPlan:
    """Return the plan of a layer.

    Raises
    ------
    BadGraph
        If the type is not supported, or no split fits.
    """
    kind = dtype_of(dtype)
    if kind not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: dtype is {kind}: use float16 or float32")
    share = builder.available_memory.with_own(available_memory_proportion).matmul
    n_tiles, machine = len(builder.tiles.ids), builder.tiles.machine
    return plan_dynamic(name, params.shape(kind.name), n_tiles, machine, share)


def _layout(plan: DynamicPlan, n_rows: int) -> DenseLayout:
    return DenseLayout(n_rows, plan.z_parts, plan.width, plan.shape.block_size)


def _call(builder: Builder, name: str, operation: str, weights: DynamicSparseTensor) -> Builder:
    """Return the builder of a pass, whose plan the report has."""
    plan, params = weights.plan, weights.params
    detail = {
        "weights": [params.n_outputs, params.n_inputs],
        "batch": params.n_batch,
        "blockSize": plan.shape.block_size,
        "values": params.n_values,
    }
    build = builder.inside(name, operation, detail).planned()
    build.plans.append(
        Plan(
            name=build.debug.name,
            operation="matmul",
            family="dynamic sparse",
            grouping={"block": plan.shape.block_size},
            split={"rows": plan.x_parts, "columns": plan.y_parts, "batch": plan.z_parts},
            swaps_operands=False,
            n_tiles=plan.n_parts * plan.z_parts,
            stages=plan.stages,
            temporary_bytes=plan.temporary_bytes,
            tile_balance=1.0,
            bound="cycles",
            runner_up={},
            partial_dtype="float32",
            plan_id=build.plan_id,
            call=build.debug,
        )
    )
    return build


@dataclass(eq=False)
class _Parts:
    """Regions of the tiles of a plan: parts of rows, of columns, and of the batch innermost.

    Parameters
    ----------
    plan
        Of the layer.
    tiles : ndarray of int, shape (n_tiles,)
        The tiles to use.
    """

    plan: DynamicPlan
    tiles: NDArray[Any]

    def __post_init__(self) -> None:
        """Find the parts of every tile."""
        plan = self.plan
        grid = np.indices((plan.x_parts, plan.y_parts, plan.z_parts)).reshape(3, -1)
        self.x, self.y, self.z = grid
        self.part = self.x * plan.y_parts + self.y
        self.tile = self.tiles[: self.part.size]

    @property
    def rows(self) -> tuple[Counts, Counts]:
        """First row, and number of rows, of every tile's part: elements."""
        return self._range(self.x, self.plan.rows, self.plan.shape.n_rows)

    @property
    def columns(self) -> tuple[Counts, Counts]:
        """First column, and number of columns, of every tile's part: elements."""
        return self._range(self.y, self.plan.columns, self.plan.shape.n_columns)

    def _range(self, part: Counts, n_blocks: int, end: int) -> tuple[Counts, Counts]:
        length = n_blocks * self.plan.shape.block_size
        return part * length, np.minimum(length, end - part * length)

    def operand(self, matrix: Tensor, rows: tuple[Counts, Counts]) -> Regions:
        """Return rows of a matrix in its layout, and the columns of every tile's part."""
        first, count = rows
        width, n_rows = self.plan.width, matrix.shape[0]
        start = matrix.offset + (self.z * n_rows + first) * width
        return blocks(matrix.variable, start, [count * width], [1], self.part.size)

    def sums(self, of: Tensor, summed: Counts, rows: tuple[Counts, Counts]) -> Regions:
        """Return rows of sums, shape (z_parts, parts that are summed, n_rows, width)."""
        first, count = rows
        _, n_summed, n_rows, width = of.shape
        start = ((self.z * n_summed + summed) * n_rows + first) * width
        return blocks(of.variable, start, [count * width], [1], self.part.size)

    def bucket(self, of: Tensor) -> Regions:
        """Return the bucket of every tile's part."""
        size = of.n_elements // self.plan.n_parts
        start = of.offset + self.part * size
        return blocks(of.variable, start, [size], [1], self.part.size)


def _add(build: Builder, parts: _Parts, codelet: Codelet, fields: Mapping[str, Regions]) -> None:
    """Add the vertices of a pass."""
    scalars = {"part": parts.part, "width": parts.plan.width}
    build.vertices(
        build.compute_set("multiply", Stage.COMPUTE), codelet, parts.tile, fields, scalars
    )


def _product(
    builder: Builder, weights: DynamicSparseTensor, x: View, name: str, *, is_transposed: bool
) -> Tensor:
    """Multiply by the weights or their transpose, and return the result by batch."""
    params, plan = weights.params, weights.plan
    operation = f"popsparse.fullyConnected{'GradA' if is_transposed else 'Fwd'}"
    build = _call(builder, name, operation, weights)
    parts = _Parts(plan, np.asarray(build.tiles.ids))
    n_in, n_out = params.n_inputs, params.n_outputs
    rows_in, rows_out, summed, n_summed = parts.columns, parts.rows, parts.y, plan.y_parts
    if is_transposed:
        n_in, n_out = n_out, n_in
        rows_in, rows_out, summed, n_summed = parts.rows, parts.columns, parts.x, plan.x_parts
    dense = _layout(plan, n_in).of(build, x.dim_shuffle(1, 0))
    shape = (plan.z_parts, n_summed, n_out, plan.width)
    sums = build.graph.add_variable(FLOAT32, shape, "partials", build.debug)
    out = parts.sums(sums, summed, rows_out)
    order = np.argsort(out.start)
    build.graph.set_tile_mapping(sums, out.start[order], parts.tile[order])
    fill(build, sums, 0)
    codelet = (TRANSPOSED if is_transposed else FORWARD)[plan.shape.block_size]

    def multiply(inside: Builder, values: Tensor, places: Tensor) -> None:
        fields = {
            "values": parts.bucket(values),
            "places": parts.bucket(places),
            "dense": parts.operand(dense, rows_in),
            "out": out,
        }
        _add(inside, parts, codelet, fields)

    multiply(build, weights.values, weights.places)
    buckets = [weights.values, weights.places]
    pass_buckets(build, weights.steps, buckets, [], lambda inside, moved: multiply(inside, *moved))
    result = _reduced(build, sums, 1, weights.values.dtype)
    result = result.reshape(plan.z_parts, n_out, plan.width)
    return _layout(plan, n_out).matrix(result).dim_shuffle(1, 0)


def _reduced(build: Builder, sums: Tensor, dim: int, dtype: Any) -> Tensor:
    """Return sums over a dimension, in a type."""
    shape = [size for d, size in enumerate(sums.shape) if d != dim]
    if sums.shape[dim] == 1:
        flat = sums.reshape(*shape)
        return flat if dtype == FLOAT32 else cast(build, flat, dtype)
    out = build.graph.add_variable(dtype, shape, "out", build.debug)
    # The reduction has a plan of its own.
    reduce_with_output(replace(build, plan_id=None), "sum", sums, out, [dim])
    return out


Passed = Callable[[Builder, list[Tensor]], None]


def pass_buckets(
    build: Builder, steps: Tensor, copied: list[Tensor], own: list[Tensor], work: Passed
) -> Builder | None:
    """Pass buckets on, as often as the host says, and work on what has come after every step.

    Parameters
    ----------
    build
        Target of the program.
    steps
        Number of steps.
    copied, own
        What is passed on by bucket, the first dimension: copies, and variables themselves, which
        other buckets' are in afterwards.
    work
        Takes a builder, and what has come, which it may change.

    Returns
    -------
    Builder
        Of programs that run after the steps, if there is one at least. None if one bucket is all.
    """
    if steps.n_elements and (copied + own)[0].shape[0] == 1:
        return None
    graph = build.graph
    inside = replace(build, sequence=Sequence("pass", debug=build.debug))
    build.sequence.add(If(steps.reshape(), inside.sequence, Sequence(), debug=build.debug))
    moving = [graph.clone(x, f"moving{i}", debug=build.debug) for i, x in enumerate(copied)]
    for source, target in zip(copied, moving, strict=True):
        copy_to(inside, source, target, "moving")
    _loop(inside, steps, lambda body: _moved(body, [*moving, *own], work))
    return inside


def pass_back(build: Builder, steps: Tensor, own: list[Tensor]) -> None:
    """Return what `pass_buckets` has passed on to where it was.

    Parameters
    ----------
    build
        The builder that `pass_buckets` returned.
    steps, own
        As there.
    """
    _loop(build, steps, lambda body: _moved(body, own, is_back=True))


def _loop(build: Builder, steps: Tensor, add: Callable[[Builder], None]) -> None:
    """Add a loop over a number of steps that the device has."""
    left = build.graph.clone(steps, "left", debug=build.debug)
    copy_to(build, steps, left, "left")
    body = replace(build, sequence=Sequence("step", debug=build.debug))
    add(body)
    one = build.graph.add_constant([1], "one", dtype=INT32, debug=build.debug)
    one.variable.map_like(steps.variable)
    binary_in_place(body, "subtract", left, one)
    build.sequence.add(
        RepeatWhile(Sequence(), left.reshape(), body.sequence, name="pass", debug=build.debug)
    )


def _moved(
    build: Builder, tensors: list[Tensor], work: Passed | None = None, *, is_back: bool = False
) -> None:
    """Replace the data of every bucket by those of the next one, or of the one before."""
    arrived = []
    for tensor in tensors:
        n = tensor.shape[0]
        at = n - 1 if is_back else 1
        rolled = concat([tensor.slice(0, at, n), tensor.slice(0, 0, at)])
        target = build.graph.clone(tensor, "arrived", debug=build.debug)
        copy_to(build, rolled, target, "pass")
        arrived.append(target)
    if work is not None:
        work(build, arrived)
    for source, target in zip(arrived, tensors, strict=True):
        copy_to(build, source, target, "keep")
