"""All calls of the library with operands of named sizes, for properties of their costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilescope.engine import Builder
from tilescope.engine.codelets.popops.elementwise.binary_functions import BINARY_RATES
from tilescope.engine.codelets.popops.elementwise.in_place import BINARY_IN_PLACE, UNARY_IN_PLACE
from tilescope.engine.codelets.popops.elementwise.rates import rate_of
from tilescope.engine.codelets.popops.elementwise.unary_functions import UNARY_RATES
from tilescope.engine.graph import View, concat
from tilescope.engine.library.poplin.cholesky import cholesky, cholesky_in_place
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.general_product import general_product
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.triangular import triangular_mask, triangular_solve
from tilescope.engine.library.poplin.updates import (
    convolution_bias_update,
    convolution_weight_update,
)
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.popnn.ctc.beam_search import ctc_beam_search
from tilescope.engine.library.popnn.ctc.loss import ctc_loss, ctc_loss_and_gradient
from tilescope.engine.library.popnn.loss import calc_accuracy, calc_loss
from tilescope.engine.library.popnn.non_linearity import (
    non_linearity,
    non_linearity_in_place,
    non_linearity_input_gradient,
)
from tilescope.engine.library.popnn.non_maximum_suppression import non_maximum_suppression
from tilescope.engine.library.popnn.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popnn.pool_gradient import (
    average_pool_input_gradient,
    max_pool_input_gradient,
)
from tilescope.engine.library.popnn.recurrent.backward import (
    Backward,
    LayerOperands,
    OutputGradients,
    gru_backward,
    gru_weight_update,
    lstm_backward,
    lstm_weight_update,
    rnn_backward,
    rnn_weight_update,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.popnn.roi_align import roi_align_input_gradient
from tilescope.engine.library.popnn.softmax import (
    log_softmax,
    log_softmax_in_place,
    softmax,
    softmax_in_place,
)
from tilescope.engine.library.popnn.spatial_softmax import spatial_softmax_2d
from tilescope.engine.library.popops.elementwise.bit_cast import bit_cast
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place, unary_in_place
from tilescope.engine.library.popops.elementwise.iota import iota
from tilescope.engine.library.popops.elementwise.map import (
    call,
    map_expression,
    map_in_place,
    operand,
)
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    cast,
    clamp,
    copy_to,
    in_one,
    rearranged,
    row_major_copy,
    select,
    unary,
)
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.arg_reduce import (
    arg_max,
    arg_min,
    max_and_arg_max,
    min_and_arg_min,
)
from tilescope.engine.library.popops.reduction.cumulative_sum import cumulative_sum
from tilescope.engine.library.popops.reduction.histogram import histogram
from tilescope.engine.library.popops.reduction.reduce import (
    Reduction,
    reduce,
    reduce_many,
    reduce_with_output,
)
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.library.popops.slicing.gather import (
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)
from tilescope.engine.library.popops.slicing.multi_slice import grouped_multi_slice, multi_slice
from tilescope.engine.library.popops.slicing.multi_update import (
    grouped_multi_update,
    multi_update,
    multi_update_add,
    multi_update_op,
)
from tilescope.engine.library.popops.slicing.one_hot import one_hot
from tilescope.engine.library.popops.slicing.padding import pad, unfold
from tilescope.engine.library.popops.slicing.scalar_in_rows import (
    select_scalar_from_rows,
    update_scalar_in_rows,
)
from tilescope.engine.library.popops.slicing.sequence_slice import sequence_slice
from tilescope.engine.library.popops.sorting.sort import (
    sort,
    sort_key_value,
    top_k,
    top_k_with_permutation,
)
from tilescope.engine.library.poprand import random_numbers as draws
from tilescope.engine.library.popsparse.block_softmax import (
    bs_softmax,
    bs_softmax_grad,
    bs_softmax_in_place,
)
from tilescope.engine.library.popsparse.static_product import (
    create_dense_sparse_matmul_rhs,
    create_sparse_dense_matmul_lhs,
    dense_sparse_matmul,
    sparse_dense_matmul,
)
from tilescope.engine.library.sparse_matrix import from_dense
from tilescope.engine.library.sparse_tensor import SparseTensor, StaticMatMulParams
from tilescope.engine.library.window import Window
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = [
    "CALLS",
    "EXEMPT",
    "IN_PLACE",
    "Arguments",
    "LibraryCall",
    "elementwise_pair",
    "elementwise_types",
]


@dataclass(frozen=True)
class Arguments:
    """What a call gets: a builder, views of its operands, and where their dimensions are.

    Parameters
    ----------
    build
        Target of the program.
    views
        By name of the operand.
    sizes
        By name of the dimension.
    axes
        By name of the dimension: its axes in the views, several where it is split.
    """

    build: Builder
    views: Mapping[str, View]
    sizes: Mapping[str, int]
    axes: Mapping[str, Sequence[int]]

    def __getitem__(self, name: str) -> View:
        """Return the view of an operand."""
        return self.views[name]


@dataclass(frozen=True)
class LibraryCall:
    """A call of the library on operands of named sizes.

    Parameters
    ----------
    run
        Makes the call.
    operands
        By name: the type, and the names of the dimensions, or their sizes.
    sizes
        Sizes of the dimensions with which the tiles of a small machine are full.
    doubles
        Dimensions of which twice the size is twice the elements.
    is_permutable
        Whether the call takes its operands with their dimensions in any order, split or joined.
    has_no_axes
        Whether it treats all dimensions alike, so that different ones can be joined.
    """

    run: Callable[[Arguments], object]
    operands: Mapping[str, tuple[str, str]]
    sizes: Mapping[str, int]
    doubles: tuple[str, ...]
    is_permutable: bool = False
    has_no_axes: bool = False

    def shape(self, name: str, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Return the shape of an operand."""
        known = self.sizes if sizes is None else {**self.sizes, **sizes}
        dims = self.operands[name][1].split()
        return tuple(known[dim] if dim in known else int(dim) for dim in dims)


_MATRIX = "rows columns"
_FULL = {"rows": 256, "columns": 256}


def _of_blocks(run: Callable[[Arguments], object], **operands: tuple[str, str]) -> LibraryCall:
    blocks = {"x": ("float16", "blocks 4 4"), **operands}
    return LibraryCall(run, blocks, {"blocks": 512}, ("blocks",))


def _sixteen_in_a_row(p: Arguments) -> BlockPattern:
    """Return the pattern of full rows of 16 blocks."""
    place = np.arange(p.sizes["blocks"])
    return BlockPattern(place.size // 16 * 4, 64, 4, place // 16, place % 16)


def _sparse_operand(p: Arguments, create: Callable[..., SparseTensor]) -> SparseTensor:
    """Return a sparse operand of 128 rows and columns, a quarter of them filled."""
    mask = np.random.default_rng(0).random((32, 32)) < 1 / 4
    matrix = from_dense(np.kron(mask, np.ones((4, 4))), 4)
    is_right = create is create_dense_sparse_matmul_rhs
    params = StaticMatMulParams(128, 128, p.sizes["columns"], is_dense_sparse=is_right)
    return create(p.build, params, matrix, dtype="float16")


def _elementwise(
    run: Callable[[Arguments], object], *dtypes: str, names: str = "a b c"
) -> LibraryCall:
    operands = {name: (dtype, _MATRIX) for name, dtype in zip(names.split(), dtypes, strict=False)}
    dims = ("rows", "columns")
    return LibraryCall(run, operands, _FULL, dims, is_permutable=True, has_no_axes=True)


def _of_rows(
    run: Callable[[Arguments], object],
    doubles: tuple[str, ...] = ("rows",),
    *,
    is_permutable: bool = False,
    **others: tuple[str, str],
) -> LibraryCall:
    """Return a call on a matrix and other operands."""
    operands = {"x": ("float16", _MATRIX), **others}
    return LibraryCall(run, operands, _FULL, doubles, is_permutable=is_permutable)


def _drawn(draw: Callable[..., object], *arguments: Any) -> LibraryCall:
    """Return a random call with the type of its operand."""
    return LibraryCall(
        lambda p: draw(p.build, p["seed"], 1, p["x"], *arguments),
        {"seed": ("int32", "2"), "x": ("float16", _MATRIX)},
        _FULL,
        ("rows", "columns"),
        is_permutable=True,
        has_no_axes=True,
    )


_FIELD = "images channels height width"
_IMAGES = {"images": 4, "channels": 32, "height": 16, "width": 16}


def _norm(run: Callable[[Arguments], object], factors: str = "", per: str = "") -> LibraryCall:
    """Return a call of a normalisation; factors are one per channel, the others per group."""
    operands = {"x": ("float16", _FIELD)}
    operands |= {name: ("float16", "channels") for name in factors.split()}
    operands |= {name: ("float16", per) for name in ("mean", "inverse") if per}
    sizes = {**_IMAGES, "groups": 4 * 8, "instances": 4 * 32}
    return LibraryCall(run, operands, sizes, ("height", "width"))


def _norm_gradients(module: Any, name: str, per: str) -> dict[str, LibraryCall]:
    """Return the backward calls of a normalisation on whitened tensors, by name."""
    of_x, of_params, update = (
        getattr(module, f"{name}_{part}")
        for part in ("gradients", "param_gradients", "param_update")
    )
    whole = {"x": ("float16", _FIELD), "gradient": ("float16", _FIELD)}
    factors = {"inverse": ("float16", per), "gamma": ("float16", "channels")}
    names = ("of_gamma", "of_beta", "gamma", "beta")
    sizes = {**_IMAGES, "groups": 4 * 8, "instances": 4 * 32}
    dims = ("height", "width")
    return {
        of_x.__name__: LibraryCall(
            lambda p: of_x(p.build, p["x"], p["gradient"], p["inverse"], p["gamma"]),
            {**whole, **factors},
            sizes,
            dims,
        ),
        of_params.__name__: LibraryCall(
            lambda p: of_params(p.build, p["x"], p["gradient"]), whole, sizes, dims
        ),
        update.__name__: LibraryCall(
            lambda p: update(p.build, p["of_gamma"], p["of_beta"], -0.5, p["gamma"], p["beta"]),
            {name: ("float16", "channels") for name in names},
            {"channels": 65_536},
            ("channels",),
        ),
    }


_WINDOW = Window((3, 3), padding_before=(1, 1), padding_after=(1, 1))
_LAYER_OPERANDS = ("x", "input_weights", "output_weights", "biases")
_LAYER = {"steps": 4, "batch": 8, "inputs": 64, "outputs": 64}


def _recurrent(run: Callable[[Arguments], object], n_units: int) -> LibraryCall:
    operands = {
        "x": ("float16", "steps batch inputs"),
        "input_weights": ("float16", f"{n_units} inputs outputs"),
        "output_weights": ("float16", f"{n_units} outputs outputs"),
        "biases": ("float16", f"{n_units} outputs"),
    }
    return LibraryCall(run, operands, _LAYER, ("steps",))


def _layer(function: Callable[..., object]) -> Callable[[Arguments], object]:
    return lambda p: function(p.build, p["x"], p["input_weights"], p["output_weights"], p["biases"])


def _layer_operands(p: Arguments) -> LayerOperands:
    return LayerOperands(*(p[name] for name in _LAYER_OPERANDS))


def _of_sequences(function: Callable[..., object]) -> LibraryCall:
    """Return a loss of sequences whose alignment is not known."""
    counts = ("int32", "batch")
    return LibraryCall(
        lambda p: function(p.build, *p.views.values()),
        {
            "scores": ("float32", "steps batch classes"),
            "labels": ("int32", "batch longest"),
            "steps": counts,
            "lengths": counts,
        },
        {"steps": 16, "batch": 16, "classes": 16, "longest": 8},
        ("batch", "steps"),
    )


def _of_layer(
    run: Callable[[Arguments], object], n_units: int, sizes: Mapping[str, int], **operands: str
) -> LibraryCall:
    stated = {
        "x": "steps batch inputs",
        "input_weights": f"{n_units} inputs outputs",
        "output_weights": f"{n_units} outputs outputs",
        "biases": f"{n_units} outputs",
        "outputs": "steps batch outputs",
        **operands,
    }
    typed = {name: ("float16", dims) for name, dims in stated.items()}
    return LibraryCall(run, typed, sizes, ("steps",))


def _backward(function: Callable[..., object], n_units: int, **kept: str) -> LibraryCall:
    def run(p: Arguments) -> object:
        gradients = OutputGradients(p["gradient"])
        return function(p.build, _layer_operands(p), p["outputs"], {**p.views}, gradients)

    return _of_layer(run, n_units, _LAYER, gradient="steps batch outputs", **kept)


def _update(function: Callable[..., object], n_units: int, **kept: str) -> LibraryCall:
    def run(p: Arguments) -> object:
        values = {name: in_one(p.build, p[name]) for name in ("sums", *kept)}
        backward = Backward((), values=values)
        return function(p.build, _layer_operands(p), p["outputs"], backward)

    sums = f"steps {n_units} batch outputs"
    return _of_layer(run, n_units, {**_LAYER, "steps": 64}, sums=sums, **kept)


def _product(run: Callable[[Arguments], object], doubles: str, **sizes: int) -> LibraryCall:
    operands = {"a": ("float16", "groups rows inner"), "b": ("float16", "groups inner columns")}
    full = {"groups": 1, "rows": 256, "inner": 256, "columns": 256, **sizes}
    return LibraryCall(run, operands, full, tuple(doubles.split()))


_TABLE = {"rows": 2_048, "columns": 64, "lookups": 512}
_GROUPED = {"groups": 16, "rows": 256, "columns": 64, "lookups": 64}


def _table(run: Callable[[Arguments], object], *names: str) -> LibraryCall:
    operands = {
        "x": ("float16", _MATRIX),
        "indices": ("int32", "lookups"),
        "updates": ("float16", "lookups columns"),
    }
    chosen = {name: operands[name] for name in ("x", "indices", *names)}
    return LibraryCall(run, chosen, _TABLE, ("lookups",))


def _tuples(run: Callable[[Arguments], object], *names: str) -> LibraryCall:
    base = _table(run, *names)
    return LibraryCall(
        run, {**base.operands, "indices": ("int32", "lookups 1")}, _TABLE, ("lookups",)
    )


_EXPRESSION = call("maximum", operand(0) * 2, operand(1))
_SORTED = {"rows": 64, "columns": 256}

#: By name of the function, and a variant of it after a slash.
CALLS: Mapping[str, LibraryCall] = {
    "unary": _elementwise(lambda p: unary(p.build, "tanh", p["a"]), "float16"),
    "unary/negate": _elementwise(lambda p: unary(p.build, "negate", p["a"]), "float32"),
    "unary/not": _elementwise(lambda p: unary(p.build, "logical_not", p["a"]), "bool"),
    "binary": _elementwise(lambda p: binary(p.build, "add", p["a"], p["b"]), "float16", "float16"),
    "binary/divide": _elementwise(
        lambda p: binary(p.build, "divide", p["a"], p["b"]), "float32", "float32"
    ),
    "binary/int32": _elementwise(
        lambda p: binary(p.build, "multiply", p["a"], p["b"]), "int32", "int32"
    ),
    "binary/compare": _elementwise(
        lambda p: binary(p.build, "less", p["a"], p["b"]), "float16", "float16"
    ),
    "select": _elementwise(
        lambda p: select(p.build, p["a"], p["b"], p["c"]), "float16", "float16", "bool"
    ),
    "clamp": _elementwise(
        lambda p: clamp(p.build, p["a"], p["b"], p["c"]), "float16", "float16", "float16"
    ),
    "cast": _elementwise(lambda p: cast(p.build, p["a"], "float32"), "float16"),
    "cast/narrow": _elementwise(lambda p: cast(p.build, p["a"], "float16"), "float32"),
    "copy_to": _elementwise(lambda p: copy_to(p.build, p["a"], p["b"]), "float16", "float16"),
    "row_major_copy": LibraryCall(
        lambda p: row_major_copy(p.build, p["a"].dim_shuffle(1, 0)),
        {"a": ("float16", _MATRIX)},
        _FULL,
        ("rows", "columns"),
    ),
    "rearranged": LibraryCall(
        lambda p: rearranged(p.build, concat([p["a"], p["b"]], 1), (p["a"].n_elements, 2), "flat"),
        {"a": ("float16", _MATRIX), "b": ("float16", _MATRIX)},
        _FULL,
        ("rows", "columns"),
    ),
    "unary_in_place": _elementwise(lambda p: unary_in_place(p.build, "tanh", p["a"]), "float16"),
    "unary_in_place/negate": _elementwise(
        lambda p: unary_in_place(p.build, "negate", p["a"]), "float32"
    ),
    "binary_in_place": _elementwise(
        lambda p: binary_in_place(p.build, "add", p["a"], p["b"]), "float16", "float16"
    ),
    "binary_in_place/divide": _elementwise(
        lambda p: binary_in_place(p.build, "divide", p["a"], p["b"]), "float32", "float32"
    ),
    "binary_in_place/int32": _elementwise(
        lambda p: binary_in_place(p.build, "multiply", p["a"], p["b"]), "int32", "int32"
    ),
    "map_expression": _elementwise(
        lambda p: map_expression(p.build, _EXPRESSION, [p["a"], p["b"]]), "float16", "float16"
    ),
    "map_in_place": _elementwise(
        lambda p: map_in_place(p.build, _EXPRESSION, [p["a"], p["b"]]), "float16", "float16"
    ),
    "fill": _elementwise(lambda p: fill(p.build, p["a"], 1.0), "float16"),
    "fill/int32": _elementwise(lambda p: fill(p.build, p["a"], 1.0), "int32"),
    "scaled_add": _elementwise(
        lambda p: scaled_add(p.build, p["a"], p["b"], 0.5), "float16", "float16"
    ),
    "scaled_add/float32": _elementwise(
        lambda p: scaled_add(p.build, p["a"], p["b"], 0.5), "float32", "float32"
    ),
    "iota": LibraryCall(
        lambda p: iota(p.build, p["a"]), {"a": ("int32", "rows")}, {"rows": 65_536}, ("rows",)
    ),
    "bit_cast": _elementwise(lambda p: bit_cast(p.build, p["a"], "int32"), "float32"),
    "non_linearity": _elementwise(lambda p: non_linearity(p.build, "gelu", p["a"]), "float16"),
    "non_linearity_in_place": _elementwise(
        lambda p: non_linearity_in_place(p.build, "gelu", p["a"]), "float16"
    ),
    "non_linearity_input_gradient": _elementwise(
        lambda p: non_linearity_input_gradient(p.build, "gelu", p["a"], p["b"]),
        "float16",
        "float16",
    ),
    "non_linearity_input_gradient/relu": _elementwise(
        lambda p: non_linearity_input_gradient(p.build, "relu", p["a"], p["b"]),
        "float32",
        "float32",
    ),
    "non_linearity_input_gradient/softmax": LibraryCall(
        lambda p: non_linearity_input_gradient(p.build, "softmax", p["a"], p["b"]),
        {"a": ("float16", _MATRIX), "b": ("float16", _MATRIX)},
        _FULL,
        ("rows",),
    ),
    "calc_loss": _of_rows(
        lambda p: calc_loss(p.build, "cross_entropy", p["x"], p["labels"]),
        labels=("int32", "rows"),
    ),
    "calc_loss/squares": _of_rows(
        lambda p: calc_loss(p.build, "sum_squared", p["x"], p["labels"]), labels=("int32", "rows")
    ),
    "calc_accuracy": _of_rows(
        lambda p: calc_accuracy(p.build, p["x"], p["labels"], p["count"]),
        labels=("int32", "rows"),
        count=("int32", "1"),
    ),
    "softmax": _of_rows(lambda p: softmax(p.build, p["x"], 1)),
    "softmax_in_place": _of_rows(lambda p: softmax_in_place(p.build, p["x"], 1)),
    "log_softmax": _of_rows(lambda p: log_softmax(p.build, p["x"], 1)),
    "log_softmax_in_place": _of_rows(lambda p: log_softmax_in_place(p.build, p["x"], 1)),
    "spatial_softmax_2d": LibraryCall(
        lambda p: spatial_softmax_2d(p.build, p["x"], p["temperature"]),
        {"x": ("float16", "fields height width"), "temperature": ("float16", "1")},
        {"fields": 64, "height": 32, "width": 32},
        ("fields", "height"),
    ),
    "reduce": _of_rows(
        lambda p: reduce(p.build, "sum", p["x"], p.axes["rows"]),
        ("rows", "columns"),
        is_permutable=True,
    ),
    "reduce/columns": _of_rows(
        lambda p: reduce(p.build, "maximum", p["x"], p.axes["columns"]),
        ("rows", "columns"),
        is_permutable=True,
    ),
    "reduce/all": _of_rows(
        lambda p: reduce(p.build, "sum", p["x"], [*p.axes["rows"], *p.axes["columns"]]),
        ("rows", "columns"),
        is_permutable=True,
    ),
    "reduce_with_output": _of_rows(
        lambda p: reduce_with_output(p.build, "sum", p["x"], p["out"], p.axes["rows"]),
        ("rows", "columns"),
        is_permutable=True,
        out=("float16", "columns"),
    ),
    "reduce_many": _of_rows(
        lambda p: reduce_many(
            p.build,
            [
                Reduction("sum", p["x"], p.axes["rows"]),
                Reduction("maximum", p["y"], p.axes["columns"]),
            ],
        ),
        ("rows", "columns"),
        is_permutable=True,
        y=("float16", _MATRIX),
    ),
    "arg_max": _of_rows(lambda p: arg_max(p.build, p["x"], 1), ("rows", "columns")),
    "arg_min": _of_rows(lambda p: arg_min(p.build, p["x"], 1), ("rows", "columns")),
    "max_and_arg_max": _of_rows(lambda p: max_and_arg_max(p.build, p["x"], 1), ("rows", "columns")),
    "min_and_arg_min": _of_rows(lambda p: min_and_arg_min(p.build, p["x"], 1), ("rows", "columns")),
    "cumulative_sum": _of_rows(lambda p: cumulative_sum(p.build, p["x"], 1), ("rows", "columns")),
    "histogram": _of_rows(
        lambda p: histogram(p.build, p["x"], p["levels"]),
        ("rows", "columns"),
        levels=("float16", "10"),
    ),
    "dynamic_slice": LibraryCall(
        lambda p: dynamic_slice(p.build, p["x"], p["offset"], [0], [1]),
        {"x": ("float16", "rows columns"), "offset": ("int32", "1")},
        {"rows": 16, "columns": 16_384},
        ("rows", "columns"),
    ),
    "dynamic_update": LibraryCall(
        lambda p: dynamic_update(p.build, p["x"], p["update"], p["offset"], [0]),
        {
            "x": ("float16", "rows columns"),
            "update": ("float16", "1 columns"),
            "offset": ("int32", "1"),
        },
        {"rows": 16, "columns": 16_384},
        ("rows", "columns"),
    ),
    "multi_slice": _table(lambda p: multi_slice(p.build, p["x"], p["indices"])),
    "multi_update": _table(
        lambda p: multi_update(p.build, p["x"], p["indices"], p["updates"]), "updates"
    ),
    "multi_update_add": _table(
        lambda p: multi_update_add(p.build, p["x"], p["indices"], p["updates"]), "updates"
    ),
    "multi_update_op": _table(
        lambda p: multi_update_op(p.build, "maximum", p["x"], p["indices"], p["updates"]), "updates"
    ),
    "grouped_multi_slice": LibraryCall(
        lambda p: grouped_multi_slice(p.build, p["x"], p["indices"]),
        {"x": ("float16", "groups rows columns"), "indices": ("int32", "groups lookups")},
        _GROUPED,
        ("groups", "lookups"),
    ),
    "grouped_multi_update": LibraryCall(
        lambda p: grouped_multi_update(p.build, "add", p["x"], p["indices"], p["updates"]),
        {
            "x": ("float16", "groups rows columns"),
            "indices": ("int32", "groups lookups"),
            "updates": ("float16", "groups lookups columns"),
        },
        _GROUPED,
        ("groups", "lookups"),
    ),
    "select_scalar_from_rows": _of_rows(
        lambda p: select_scalar_from_rows(p.build, p["x"], p["indices"]), indices=("int32", "rows")
    ),
    "update_scalar_in_rows": _of_rows(
        lambda p: update_scalar_in_rows(p.build, p["x"], p["indices"]), indices=("int32", "rows")
    ),
    "sequence_slice": LibraryCall(
        lambda p: sequence_slice(
            p.build, p["x"], p["target"], p["lengths"], p["offsets"], p["targets"]
        ),
        {
            "x": ("float16", _MATRIX),
            "target": ("float16", _MATRIX),
            "lengths": ("int32", "4"),
            "offsets": ("int32", "4"),
            "targets": ("int32", "4"),
        },
        _FULL,
        ("rows", "columns"),
    ),
    "gather_elements": LibraryCall(
        lambda p: gather_elements(p.build, p["x"], p["indices"], 1),
        {"x": ("float16", _MATRIX), "indices": ("int32", "rows lookups")},
        {"rows": 256, "columns": 128, "lookups": 16},
        ("rows", "lookups"),
    ),
    "gather_nd": _tuples(lambda p: gather_nd(p.build, p["x"], p["indices"])),
    "scatter_elements": LibraryCall(
        lambda p: scatter_elements(p.build, p["x"], p["indices"], p["updates"], 1),
        {
            "x": ("float16", _MATRIX),
            "indices": ("int32", "rows lookups"),
            "updates": ("float16", "rows lookups"),
        },
        {"rows": 256, "columns": 128, "lookups": 16},
        ("rows", "lookups"),
    ),
    "scatter_nd": _tuples(
        lambda p: scatter_nd(p.build, p["x"], p["indices"], p["updates"]), "updates"
    ),
    "top_k": LibraryCall(
        lambda p: top_k(p.build, p["x"], 16, 1), {"x": ("float32", _MATRIX)}, _SORTED, ("rows",)
    ),
    "top_k_with_permutation": LibraryCall(
        lambda p: top_k_with_permutation(p.build, p["x"], 16, 1),
        {"x": ("float32", _MATRIX)},
        _SORTED,
        ("rows",),
    ),
    "sort": LibraryCall(
        lambda p: sort(p.build, p["x"], 1), {"x": ("float32", _MATRIX)}, _SORTED, ("rows",)
    ),
    "sort_key_value": LibraryCall(
        lambda p: sort_key_value(p.build, p["x"], p["y"], 1),
        {"x": ("float32", _MATRIX), "y": ("float32", _MATRIX)},
        _SORTED,
        ("rows",),
    ),
    "one_hot": LibraryCall(
        lambda p: one_hot(p.build, p["indices"], p.sizes["depth"], "float16"),
        {"indices": ("int32", "rows")},
        {"rows": 512, "depth": 128},
        ("rows", "depth"),
    ),
    "pad": _of_rows(
        lambda p: row_major_copy(p.build, pad(p.build, p["x"], (0, 8), (8, 0))),
        ("rows", "columns"),
    ),
    "unfold": _of_rows(
        lambda p: row_major_copy(p.build, unfold(p.build, p["x"], 0, 2)), ("rows", "columns")
    ),
    "pool": LibraryCall(
        lambda p: pool(p.build, p["x"], Window((2, 2), (2, 2))),
        {"x": ("float16", _FIELD)},
        _IMAGES,
        ("images", "channels", "height", "width"),
    ),
    "max_pool_input_gradient": LibraryCall(
        lambda p: max_pool_input_gradient(
            p.build, p["x"], p["pooled"], p["gradient"], Window((2, 2), (2, 2))
        ),
        {
            "x": ("float16", "images channels 16 16"),
            "pooled": ("float16", "images channels 8 8"),
            "gradient": ("float16", "images channels 8 8"),
        },
        _IMAGES,
        ("images", "channels"),
    ),
    "average_pool_input_gradient": LibraryCall(
        lambda p: average_pool_input_gradient(p.build, p["x"], p["x"].shape, _WINDOW),
        {"x": ("float16", _FIELD)},
        _IMAGES,
        ("images", "channels", "height", "width"),
    ),
    "batch_norm_statistics": _norm(
        lambda p: batch_norm.batch_norm_statistics(p.build, p["x"], 1e-5)
    ),
    "batch_norm_whiten": _norm(
        lambda p: batch_norm.batch_norm_whiten(p.build, p["x"], p["mean"], p["inverse"]),
        per="channels",
    ),
    "batch_normalise": _norm(
        lambda p: batch_norm.batch_normalise(
            p.build, p["x"], p["gamma"], p["beta"], p["mean"], p["inverse"]
        ),
        "gamma beta",
        "channels",
    ),
    "group_norm_statistics": _norm(
        lambda p: group_norm.group_norm_statistics(p.build, p["x"], 1e-5, 8)
    ),
    "group_norm_whiten": _norm(
        lambda p: group_norm.group_norm_whiten(p.build, p["x"], p["mean"], p["inverse"]),
        per="groups",
    ),
    "group_normalise": _norm(
        lambda p: group_norm.group_normalise(
            p.build, p["x"], p["gamma"], p["beta"], p["mean"], p["inverse"]
        ),
        "gamma beta",
        "groups",
    ),
    "group_standardise": _norm(lambda p: group_norm.group_standardise(p.build, p["x"], 1e-5, 8)),
    "layer_norm_statistics": _norm(
        lambda p: layer_norm.layer_norm_statistics(p.build, p["x"], 1e-5)
    ),
    "layer_norm_whiten": _norm(
        lambda p: layer_norm.layer_norm_whiten(p.build, p["x"], p["mean"], p["inverse"]),
        per="images",
    ),
    "layer_normalise": _norm(
        lambda p: layer_norm.layer_normalise(
            p.build, p["x"], p["gamma"], p["beta"], p["mean"], p["inverse"]
        ),
        "gamma beta",
        "images",
    ),
    "instance_norm_statistics": _norm(
        lambda p: instance_norm.instance_norm_statistics(p.build, p["x"], 1e-5)
    ),
    "instance_norm_whiten": _norm(
        lambda p: instance_norm.instance_norm_whiten(p.build, p["x"], p["mean"], p["inverse"]),
        per="instances",
    ),
    "instance_normalise": _norm(
        lambda p: instance_norm.instance_normalise(
            p.build, p["x"], p["gamma"], p["beta"], p["mean"], p["inverse"]
        ),
        "gamma beta",
        "instances",
    ),
    **_norm_gradients(batch_norm, "batch_norm", "channels"),
    **_norm_gradients(group_norm, "group_norm", "groups"),
    **_norm_gradients(layer_norm, "layer_norm", "images"),
    **_norm_gradients(instance_norm, "instance_norm", "instances"),
    "root_mean_square_normalise": _of_rows(
        lambda p: rms_norm.root_mean_square_normalise(p.build, p["x"], 1e-5)
    ),
    "rms_norm_statistics": _of_rows(
        lambda p: rms_norm.rms_norm_statistics(p.build, p["x"], 1e-5), ("rows", "columns")
    ),
    "rms_norm_whiten": _of_rows(
        lambda p: rms_norm.rms_norm_whiten(p.build, p["x"], p["inverse"]),
        inverse=("float16", "rows"),
    ),
    "rms_normalise": _of_rows(
        lambda p: rms_norm.rms_normalise(p.build, p["x"], p["gamma"], p["inverse"]),
        inverse=("float16", "rows"),
        gamma=("float16", "columns"),
    ),
    "rms_norm_param_gradients": _of_rows(
        lambda p: rms_norm.rms_norm_param_gradients(p.build, p["x"], p["gradient"]),
        ("rows", "columns"),
        gradient=("float16", _MATRIX),
    ),
    "rms_norm_gradients": _of_rows(
        lambda p: rms_norm.rms_norm_gradients(
            p.build, p["x"], p["gradient"], p["inverse"], p["gamma"]
        ),
        gradient=("float16", _MATRIX),
        inverse=("float16", "rows"),
        gamma=("float16", "columns"),
    ),
    "bernoulli": _drawn(draws.bernoulli, "float16", 0.5),
    "dropout": LibraryCall(
        lambda p: draws.dropout(p.build, p["seed"], 1, p["x"], p["y"], 0.5, 2.0),
        {"seed": ("int32", "2"), "x": ("float16", _MATRIX), "y": ("float16", _MATRIX)},
        _FULL,
        ("rows", "columns"),
        is_permutable=True,
        has_no_axes=True,
    ),
    "log_uniform": _drawn(draws.log_uniform, "float16", 1.0, 2.0),
    "normal": _drawn(draws.normal, "float16"),
    "shaped_dropout": LibraryCall(
        lambda p: draws.shaped_dropout(p.build, p["seed"], 1, p["x"], p["y"], 0.5, 2.0),
        {"seed": ("int32", "2"), "x": ("float16", _MATRIX), "y": ("float16", "rows 1")},
        _FULL,
        ("rows", "columns"),
    ),
    "stochastic_cast": LibraryCall(
        lambda p: draws.stochastic_cast(p.build, p["seed"], 1, p["x"]),
        {"seed": ("int32", "2"), "x": ("float32", _MATRIX)},
        _FULL,
        ("rows", "columns"),
        is_permutable=True,
        has_no_axes=True,
    ),
    "truncated_normal": _drawn(draws.truncated_normal, "float16"),
    "uniform": _drawn(draws.uniform, "float16", 0.0, 1.0),
    "non_maximum_suppression": LibraryCall(
        lambda p: non_maximum_suppression(p.build, p["corners"], p["scores"], 8),
        {"corners": ("float32", "batch boxes 4"), "scores": ("float32", "batch classes boxes")},
        {"batch": 4, "classes": 4, "boxes": 512},
        ("batch", "boxes"),
    ),
    "ctc_loss": _of_sequences(ctc_loss),
    "ctc_loss_and_gradient": _of_sequences(ctc_loss_and_gradient),
    "cholesky": LibraryCall(
        lambda p: cholesky(p.build, p["a"]),
        {"a": ("float32", "batch 16 16")},
        {"batch": 8},
        ("batch",),
    ),
    "cholesky_in_place": LibraryCall(
        lambda p: cholesky_in_place(p.build, p["a"]),
        {"a": ("float32", "batch 16 16")},
        {"batch": 8},
        ("batch",),
    ),
    "sparse_dense_matmul": LibraryCall(
        lambda p: sparse_dense_matmul(
            p.build, _sparse_operand(p, create_sparse_dense_matmul_lhs), p["x"]
        ),
        {"x": ("float16", "128 columns")},
        {"columns": 128},
        ("columns",),
    ),
    "dense_sparse_matmul": LibraryCall(
        lambda p: dense_sparse_matmul(
            p.build, p["x"], _sparse_operand(p, create_dense_sparse_matmul_rhs)
        ),
        {"x": ("float16", "columns 128")},
        {"columns": 128},
        ("columns",),
    ),
    "bs_softmax": _of_blocks(lambda p: bs_softmax(p.build, p["x"], _sixteen_in_a_row(p))),
    "bs_softmax_in_place": _of_blocks(
        lambda p: bs_softmax_in_place(p.build, p["x"], _sixteen_in_a_row(p))
    ),
    "bs_softmax_grad": _of_blocks(
        lambda p: bs_softmax_grad(p.build, p["x"], p["gradient"], _sixteen_in_a_row(p)),
        gradient=("float16", "blocks 4 4"),
    ),
    "triangular_mask": LibraryCall(
        lambda p: triangular_mask(p.build, p["a"]),
        {"a": ("float32", "batch 32 32")},
        {"batch": 32},
        ("batch",),
    ),
    "triangular_solve": LibraryCall(
        lambda p: triangular_solve(p.build, p["a"], p["b"], block_size=4),
        {"a": ("float32", "batch 8 8"), "b": ("float32", "batch 8 columns")},
        {"batch": 8, "columns": 8},
        ("batch",),
    ),
    "roi_align_input_gradient": LibraryCall(
        lambda p: roi_align_input_gradient(
            p.build,
            (2, p.sizes["channels"], 16, 16),
            p["boxes"],
            p["images"],
            p["gradient"],
            n_samples=2,
        ),
        {
            "boxes": ("float32", "regions 4"),
            "images": ("int32", "regions"),
            "gradient": ("float32", "regions channels 4 4"),
        },
        {"regions": 32, "channels": 64},
        ("regions", "channels"),
    ),
    "ctc_beam_search": LibraryCall(
        lambda p: ctc_beam_search(p.build, p["scores"], p["steps"], 4),
        {"scores": ("float32", "steps batch classes"), "steps": ("int32", "batch")},
        {"steps": 16, "batch": 8, "classes": 24},
        ("steps", "batch"),
    ),
    "lstm": _recurrent(_layer(lstm), 4),
    "gru": _recurrent(_layer(gru), 3),
    "rnn": _recurrent(_layer(rnn), 1),
    "lstm_backward": _backward(
        lstm_backward, 4, units="steps 4 batch outputs", states="steps 1 batch outputs"
    ),
    "gru_backward": _backward(
        gru_backward,
        3,
        gates="steps 2 batch outputs",
        candidate="steps 1 batch outputs",
        states="steps 1 batch outputs",
    ),
    "rnn_backward": _backward(rnn_backward, 1),
    "lstm_weight_update": _update(lstm_weight_update, 4),
    "gru_weight_update": _update(
        gru_weight_update, 3, gates="steps 2 batch outputs", states="steps 1 batch outputs"
    ),
    "rnn_weight_update": _update(rnn_weight_update, 1),
    "convolution": LibraryCall(
        lambda p: convolution(p.build, p["x"], p["weights"], _WINDOW),
        {"x": ("float16", _FIELD), "weights": ("float16", "outputs channels 3 3")},
        {**_IMAGES, "outputs": 32},
        ("images", "channels", "height", "width", "outputs"),
    ),
    "matmul": _product(lambda p: matmul(p.build, p["a"], p["b"]), "rows inner columns"),
    "matmul/groups": _product(
        lambda p: matmul(p.build, p["a"], p["b"]), "groups rows", groups=16, rows=64, columns=64
    ),
    "general_product": _product(
        lambda p: general_product(p.build, p["a"], p["b"]), "rows inner columns"
    ),
    "transposed_convolution": LibraryCall(
        lambda p: transposed_convolution(
            p.build,
            p["x"],
            p["weights"],
            Window((2, 2), (2, 2)),
            (2 * p.sizes["height"], 2 * p.sizes["width"]),
        ),
        {"x": ("float16", _FIELD), "weights": ("float16", "channels outputs 2 2")},
        {**_IMAGES, "outputs": 32},
        ("images", "channels", "height", "width", "outputs"),
    ),
    "weight_gradient": LibraryCall(
        lambda p: weight_gradient(p.build, p["x"], p["gradient"], _WINDOW),
        {"x": ("float16", _FIELD), "gradient": ("float16", "images outputs height width")},
        {**_IMAGES, "outputs": 32},
        ("images", "channels", "height", "width", "outputs"),
    ),
    "convolution_weight_update": LibraryCall(
        lambda p: convolution_weight_update(
            p.build, p["gradient"], p["weights"], p["x"], _WINDOW, -0.5
        ),
        {
            "x": ("float16", _FIELD),
            "gradient": ("float16", "images outputs height width"),
            "weights": ("float16", "outputs channels 3 3"),
        },
        {**_IMAGES, "outputs": 32},
        ("images", "channels", "height", "width", "outputs"),
    ),
    "convolution_bias_update": LibraryCall(
        lambda p: convolution_bias_update(p.build, p["gradient"], p["biases"], -0.5),
        {"gradient": ("float16", _FIELD), "biases": ("float16", "channels")},
        _IMAGES,
        ("images", "channels", "height", "width"),
    ),
}

#: Calls of the library without a cost of their own, with the reason.
EXEMPT: Mapping[str, str] = {
    "operand": "Makes an expression; `map_expression` computes it.",
    "call": "Makes an expression; `map_expression` computes it.",
    "Reduction": "Holds the arguments of `reduce_many`.",
    "cycle_count": "Measures other programs, and has no operands.",
    "cycle_stamp": "Measures other programs, and has no operands.",
    "CsrMatrix": "A sparse matrix on the host.",
    "CscMatrix": "A sparse matrix on the host.",
    "CooMatrix": "A sparse matrix on the host.",
    "from_dense": "Makes a sparse matrix on the host.",
    "SparsityParams": "Holds the kind of sparse weights.",
    "FullyConnectedParams": "Holds the sizes of a layer with sparse weights.",
    **dict.fromkeys(
        (
            *("fully_connected_fwd", "fully_connected_grad_a", "fully_connected_sparse_grad_w"),
            *("embedding_slice", "embedding_update_add"),
        ),
        "Costs depend on the pattern that the host writes: tests/oracle has some.",
    ),
    "StaticMatMulParams": "Holds the sizes of sparse products.",
    "CommGroup": "Says which replicas take part in a collective.",
    **dict.fromkeys(
        (
            *("all_gather_cross_replica", "all_reduce_cross_replica"),
            *("all_reduce_in_place_cross_replica", "all_to_all_cross_replica"),
            *("broadcast_cross_replica", "reduce_scatter_cross_replica"),
        ),
        "Between replicas, and these machines have one; test_collectives.py has several.",
    ),
    **dict.fromkeys(
        (
            *("all_gather_within_replica", "all_reduce_within_replica"),
            "reduce_scatter_within_replica",
        ),
        "Between IPUs, and these machines have one; test_collectives.py has several.",
    ),
    "plan_ctc_beams": "Makes a plan; the search that it is given to computes.",
    "plan_ctc_loss": "Makes a plan; the losses that it is given to compute.",
    "plan_embedding": "Makes a plan; the calls that it is given to compute.",
    "Backward": "Holds results of the backward passes of recurrent layers.",
    "OutputGradients": "Holds operands of the backward passes of recurrent layers.",
    "LayerOperands": "Holds operands of recurrent layers.",
    "WeightGradients": "Holds results of the weight updates of recurrent layers.",
}

#: By name: a call that returns a tensor, and its form in place.
IN_PLACE: Mapping[str, tuple[LibraryCall, LibraryCall]] = {
    **{
        name: (CALLS[name], CALLS[f"{name}_in_place"])
        for name in ("non_linearity", "softmax", "log_softmax", "bs_softmax")
    },
    "map": (CALLS["map_expression"], CALLS["map_in_place"]),
    "scaled_add": (
        _elementwise(lambda p: binary(p.build, "add", p["a"], _scaled(p)), "float16", "float16"),
        CALLS["scaled_add"],
    ),
}


def _scaled(p: Arguments) -> View:
    """Return the addend of a scaled addition, times its scale."""
    scale = p.build.constant([0.5], "scale", p["b"].dtype)
    return binary(p.build, "multiply", p["b"], scale)


def elementwise_types() -> dict[tuple[str, int], list[str]]:
    """Return the types of all functions with a form in place, by name and number of operands."""
    types = {}
    for n_operands, rates, names in (
        (1, UNARY_RATES, UNARY_IN_PLACE),
        (2, BINARY_RATES, BINARY_IN_PLACE),
    ):
        for name in names:
            dtypes = ("float16", "float32", "int32", "bool")
            types[name, n_operands] = [d for d in dtypes if rate_of(rates[name], d) is not None]
    return types


def elementwise_pair(name: str, n_operands: int, dtype: str) -> tuple[LibraryCall, LibraryCall]:
    """Return an elementwise function that returns a tensor, and its form in place."""
    dtypes = [dtype] * n_operands
    if n_operands == 1:
        return (
            _elementwise(lambda p: unary(p.build, name, p["a"]), *dtypes),
            _elementwise(lambda p: unary_in_place(p.build, name, p["a"]), *dtypes),
        )
    return (
        _elementwise(lambda p: binary(p.build, name, p["a"], p["b"]), *dtypes),
        _elementwise(lambda p: binary_in_place(p.build, name, p["a"], p["b"]), *dtypes),
    )
