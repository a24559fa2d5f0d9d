"""Programs of allocators of the library with the operations that they serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilescope.engine import Builder
from tilescope.engine.graph import View
from tilescope.engine.library.dynamic_sparse import FullyConnectedParams, SparsityParams
from tilescope.engine.library.poplin.allocators import (
    create_convolution_biases,
    create_convolution_input,
    create_convolution_weights,
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.cholesky import cholesky_in_place, create_cholesky_input
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.triangular import (
    create_triangular_solve_input_lhs,
    create_triangular_solve_input_rhs,
    triangular_solve,
)
from tilescope.engine.library.popnn.ctc.beam_plan import create_ctc_beam_input, plan_ctc_beams
from tilescope.engine.library.popnn.ctc.beam_search import ctc_beam_search
from tilescope.engine.library.popnn.ctc.loss import ctc_loss, ctc_loss_and_gradient
from tilescope.engine.library.popnn.ctc.loss_plan import (
    create_ctc_data_input,
    create_ctc_labels_input,
    plan_ctc_loss,
)
from tilescope.engine.library.popnn.recurrent.allocators import (
    create_gru_weights,
    create_lstm_weights,
    create_recurrent_input,
    create_recurrent_state,
    create_rnn_weights,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.library.popops.slicing.embedding import create_slice_tensor, plan_embedding
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.slicing.multi_update import (
    multi_update,
    multi_update_add,
    multi_update_op,
)
from tilescope.engine.library.popops.slicing.sliceable import (
    create_indices_tensor,
    create_sliceable_tensor,
)
from tilescope.engine.library.popsparse.fully_connected import (
    create_fully_connected_input,
    create_fully_connected_weights,
    fully_connected_fwd,
)
from tilescope.engine.library.popsparse.static_product import (
    create_dense_sparse_matmul_lhs,
    create_dense_sparse_matmul_rhs,
    create_sparse_dense_matmul_lhs,
    create_sparse_dense_matmul_rhs,
    dense_sparse_matmul,
    sparse_dense_matmul,
)
from tilescope.engine.library.sparse_matrix import CsrMatrix, from_dense
from tilescope.engine.library.sparse_tensor import StaticMatMulParams
from tilescope.engine.library.window import Window
from tilescope.engine.planner.ctc import CtcLossPlan
from tilescope.engine.planner.embedding import EmbeddingPlan

__all__ = ["ALLOCATIONS", "ALLOCATORS", "Allocation"]

Sizes = Mapping[str, int]
Views = Mapping[str, View]
#: Rows and columns of a sparse matrix.
_SPARSE_ROWS = 64
#: From a builder, sizes, a type, and the operands that are not allocated: an allocator's views.
Allocator = Callable[[Builder, Sizes, str, Views], View | tuple[View, ...]]


@dataclass(frozen=True)
class Allocation:
    """Allocators, and an operation on operands of theirs.

    Parameters
    ----------
    allocators
        By operands, separated by spaces: returns the views of an allocator.
    shapes
        By operand: its type, or empty for that of the program, and its shape.
    run
        The operation on all operands.
    sizes
        By name: the sizes to draw from.
    """

    allocators: Mapping[str, Allocator]
    shapes: Callable[[Sizes], Mapping[str, tuple[str, Sequence[int]]]]
    run: Callable[[Builder, Views, Sizes], object]
    sizes: Mapping[str, Sequence[int]]


def _matmul_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    left, right = (s["groups"], s["rows"], s["inner"]), (s["groups"], s["inner"], s["columns"])
    return {"left": ("", left), "right": ("", right)}


_BLOCK = 4


def _system_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    return {
        "a": ("", (s["batch"], s["n"], s["n"])),
        "b": ("", (s["batch"], s["n"], s["columns"])),
    }


def _system_matrices(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    a, b = (shape for _, shape in _system_shapes(s).values())
    return create_triangular_solve_input_lhs(build, a, b, dtype=dtype, block_size=_BLOCK)


def _system_right_sides(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    a, b = (shape for _, shape in _system_shapes(s).values())
    return create_triangular_solve_input_rhs(build, a, b, dtype=dtype)


def _sparse_matrix() -> CsrMatrix:
    mask = np.random.default_rng(0).random((16, 16)) < 1 / 4
    return from_dense(np.kron(mask, np.ones((4, 4))), 4)


def _sparse_params(sizes: Sizes, *, is_right: bool = False) -> StaticMatMulParams:
    return StaticMatMulParams(
        _SPARSE_ROWS, _SPARSE_ROWS, sizes["columns"], is_dense_sparse=is_right
    )


def _layer_params(sizes: Sizes) -> FullyConnectedParams:
    return FullyConnectedParams(
        sizes["batch"], _SPARSE_ROWS, _SPARSE_ROWS, _SPARSE_ROWS**2 // 4, SparsityParams(4)
    )


def _activations(build: Builder, sizes: Sizes, _: str, __: Views) -> View:
    return create_fully_connected_input(build, _layer_params(sizes))


def _sparse_layer(build: Builder, views: Views, sizes: Sizes) -> None:
    weights = create_fully_connected_weights(build, _layer_params(sizes))
    fully_connected_fwd(build, weights, views["x"])


def _dense_rhs(build: Builder, sizes: Sizes, _: str, __: Views) -> View:
    return create_sparse_dense_matmul_rhs(build, _sparse_params(sizes), _sparse_matrix())


def _dense_lhs(build: Builder, sizes: Sizes, _: str, __: Views) -> View:
    params = _sparse_params(sizes, is_right=True)
    return create_dense_sparse_matmul_lhs(build, params, _sparse_matrix())


def _sparse_by_dense(build: Builder, views: Views, sizes: Sizes) -> None:
    lhs = create_sparse_dense_matmul_lhs(build, _sparse_params(sizes), _sparse_matrix())
    sparse_dense_matmul(build, lhs, views["x"])


def _dense_by_sparse(build: Builder, views: Views, sizes: Sizes) -> None:
    params = _sparse_params(sizes, is_right=True)
    rhs = create_dense_sparse_matmul_rhs(build, params, _sparse_matrix())
    dense_sparse_matmul(build, views["x"], rhs)


def _symmetric_matrices(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    shape = (s["batch"], s["n"], s["n"])
    return create_cholesky_input(build, shape, dtype=dtype, block_size=_BLOCK)


def _left(build: Builder, s: Sizes, dtype: str, others: Views) -> View:
    shapes = _matmul_shapes(s)
    return create_matmul_input_lhs(
        build, shapes["left"][1], others.get("right", shapes["right"][1]), dtype=dtype
    )


def _right(build: Builder, s: Sizes, dtype: str, others: Views) -> View:
    shapes = _matmul_shapes(s)
    return create_matmul_input_rhs(
        build, shapes["right"][1], others.get("left", shapes["left"][1]), dtype=dtype
    )


def _window(s: Sizes) -> Window:
    kernel, side = s["kernel"], s["kernel"] // 2
    return Window((kernel, kernel), (s["stride"],) * 2, (1, 1), (side, side), (side, side))


def _convolution_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    return {
        "x": ("", (s["images"], s["channels"], s["side"], s["side"])),
        "weights": ("", (s["outputs"], s["channels"], s["kernel"], s["kernel"])),
    }


def _images(build: Builder, s: Sizes, dtype: str, others: Views) -> View:
    shapes = _convolution_shapes(s)
    weights = others.get("weights", shapes["weights"][1])
    return create_convolution_input(build, shapes["x"][1], weights, _window(s), dtype=dtype)


def _weights(build: Builder, s: Sizes, dtype: str, others: Views) -> View:
    shapes = _convolution_shapes(s)
    x = others.get("x", shapes["x"][1])
    return create_convolution_weights(build, shapes["weights"][1], x, _window(s), dtype=dtype)


def _layer_shapes(n_units: int) -> Callable[[Sizes], Mapping[str, tuple[str, Sequence[int]]]]:
    def shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
        inputs, outputs = s["inputs"], s["outputs"]
        return {
            "x": ("", (s["steps"], s["batch"], inputs)),
            "input_weights": ("", (n_units, inputs, outputs)),
            "output_weights": ("", (n_units, outputs, outputs)),
            "biases": ("", (n_units, outputs)),
            "state": ("", (s["batch"], outputs)),
        }

    return shapes


def _layer(
    create: Callable[..., Any], run: Callable[..., object], n_units: int, n_states: int
) -> dict[str, Allocation]:
    """Return the weights, the input and the state of a recurrent layer."""

    def shape(s: Sizes) -> tuple[int, ...]:
        return s["steps"], s["batch"], s["inputs"]

    def weights(build: Builder, s: Sizes, dtype: str, _: Views) -> tuple[View, ...]:
        return tuple(create(build, shape(s), s["outputs"], dtype=dtype))

    def x(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
        return create_recurrent_input(build, shape(s), s["outputs"], n_units, dtype=dtype)

    def state(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
        return create_recurrent_state(build, shape(s), s["outputs"], dtype=dtype)

    def layer(build: Builder, views: Views, _: Sizes) -> object:
        names = ("x", "input_weights", "output_weights", "biases")
        return run(build, *(views[name] for name in names), *[views["state"]] * n_states)

    sizes = {
        "steps": (2, 5),
        "batch": (1, 4, 16),
        "inputs": (32, 64, 100),
        "outputs": (32, 64, 96),
    }
    matrices = {"input_weights output_weights biases": weights}
    name = run.__name__
    return {
        f"weights of {name}": Allocation(matrices, _layer_shapes(n_units), layer, sizes),
        f"input of {name}": Allocation({"x": x}, _layer_shapes(n_units), layer, sizes),
        f"state of {name}": Allocation({"state": state}, _layer_shapes(n_units), layer, sizes),
        f"all of {name}": Allocation(
            {**matrices, "x": x, "state": state}, _layer_shapes(n_units), layer, sizes
        ),
    }


_TABLE_SIZES = {
    "rows": (64, 500, 2_000),
    "columns": (16, 64, 200),
    "lookups": (8, 100, 360),
}


def _table(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    return create_sliceable_tensor(build, dtype, (s["rows"], s["columns"]))


def _indices(build: Builder, s: Sizes, _dtype: str, _: Views) -> View:
    return create_indices_tensor(build, (s["lookups"],))


def _table_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    return {
        "x": ("", (s["rows"], s["columns"])),
        "indices": ("int32", (s["lookups"],)),
        "updates": ("", (s["lookups"], s["columns"])),
    }


def _lookup_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    shapes = _table_shapes(s)
    return {name: shapes[name] for name in ("x", "indices")}


def _planned_table(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    plan = plan_embedding(build, dtype, (s["rows"], s["columns"]), s["lookups"])
    return create_sliceable_tensor(build, dtype, (s["rows"], s["columns"]), plan=plan)


def _planned_slices(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    plan = plan_embedding(build, dtype, (s["rows"], s["columns"]), s["lookups"])
    return create_slice_tensor(build, dtype, (s["rows"], s["columns"]), s["lookups"], plan)


def _plan_of(build: Builder, x: View, s: Sizes) -> EmbeddingPlan:
    return plan_embedding(build, x.dtype, tuple(x.shape), s["lookups"])


def _add_planned(build: Builder, views: Views, s: Sizes) -> None:
    x, updates = views["x"], views["updates"]
    multi_update_add(build, x, views["indices"], updates, plan=_plan_of(build, x, s))


def _look_up_planned(build: Builder, views: Views, s: Sizes) -> None:
    multi_slice(build, views["x"], views["indices"], plan=_plan_of(build, views["x"], s))


_LOOKUPS: dict[str, Callable[[Builder, Views], object]] = {
    "multi_slice": lambda build, v: multi_slice(build, v["x"], v["indices"]),
    "multi_update": lambda build, v: multi_update(build, v["x"], v["indices"], v["updates"]),
    "multi_update_add": lambda build, v: multi_update_add(
        build, v["x"], v["indices"], v["updates"]
    ),
    "multi_update_op": lambda build, v: multi_update_op(
        build, "maximum", v["x"], v["indices"], v["updates"]
    ),
}


def _tables() -> dict[str, Allocation]:
    allocations = {}
    for name, call in _LOOKUPS.items():
        shapes = _lookup_shapes if name == "multi_slice" else _table_shapes

        def run(
            build: Builder, views: Views, _: Sizes, call: Callable[..., object] = call
        ) -> object:
            return call(build, views)

        for operands in ({"x": _table}, {"indices": _indices}, {"x": _table, "indices": _indices}):
            label = " and ".join({"x": "table", "indices": "indices"}[o] for o in operands)
            allocations[f"{label} of {name}"] = Allocation(operands, shapes, run, _TABLE_SIZES)
    return allocations


_SLICED_SIZES = {"rows": (16, 100), "columns": (64, 400, 4_096)}


def _slice_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    return {"x": ("", (s["rows"], s["columns"])), "offset": ("int32", (1,))}


def _update_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    return {**_slice_shapes(s), "update": ("", (1, s["columns"]))}


def _biased_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    return {**_convolution_shapes(s), "biases": ("", (s["outputs"],))}


def _add_biases(build: Builder, views: Views, s: Sizes) -> None:
    """Add biases to a convolution; they are allocated for its result."""
    out = convolution(build, views["x"], views["weights"], _window(s))
    biases = views["biases"] if "biases" in views else create_convolution_biases(build, out)
    binary_in_place(build, "add", out, biases.reshape(1, s["outputs"], 1, 1))


def _sequence_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    counts = ("int32", (s["batch"],))
    return {
        "scores": ("", (s["steps"], s["batch"], s["classes"])),
        "labels": ("int32", (s["batch"], s["longest"])),
        "steps": counts,
        "lengths": counts,
    }


def _searched_shapes(s: Sizes) -> dict[str, tuple[str, Sequence[int]]]:
    shapes = _sequence_shapes(s)
    return {name: shapes[name] for name in ("scores", "steps")}


def _loss_plan(build: Builder, s: Sizes, dtype: str) -> CtcLossPlan:
    return plan_ctc_loss(build, dtype, _sequence_shapes(s)["scores"][1], s["longest"])


def _sequence_scores(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    return create_ctc_data_input(build, dtype, _loss_plan(build, s, dtype), "scores")


def _sequence_labels(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    return create_ctc_labels_input(build, _loss_plan(build, s, dtype), "labels")


def _searched_scores(build: Builder, s: Sizes, dtype: str, _: Views) -> View:
    plan = plan_ctc_beams(build, dtype, _sequence_shapes(s)["scores"][1], _WIDTH)
    return create_ctc_beam_input(build, dtype, plan, "scores")


_SEQUENCE_OPERANDS = ("scores", "labels", "steps", "lengths")
#: Beams of a search.
_WIDTH = 4
_SEQUENCES = {"steps": (16, 40), "batch": (4, 16), "classes": (8, 32), "longest": (4, 12)}

_MATMUL = {
    "groups": (1, 4),
    "rows": (1, 8, 100, 256),
    "inner": (64, 200, 512),
    "columns": (16, 96, 400),
}
_CONVOLUTION = {
    "images": (1, 2, 4),
    "channels": (3, 16, 64),
    "outputs": (16, 64),
    "side": (7, 14, 28),
    "kernel": (1, 3),
    "stride": (1, 2),
}

#: By name: every allocator with every operation that it serves.
ALLOCATIONS: Mapping[str, Allocation] = {
    **{
        f"{name} of matmul": Allocation(
            operands, _matmul_shapes, lambda b, v, _: matmul(b, v["left"], v["right"]), _MATMUL
        )
        for name, operands in {
            "left": {"left": _left},
            "right": {"right": _right},
            "both": {"left": _left, "right": _right},
        }.items()
    },
    **{
        f"{name} of convolution": Allocation(
            operands,
            _convolution_shapes,
            lambda b, v, s: convolution(b, v["x"], v["weights"], _window(s)),
            _CONVOLUTION,
        )
        for name, operands in {
            "input": {"x": _images},
            "weights": {"weights": _weights},
            "both": {"x": _images, "weights": _weights},
        }.items()
    },
    "biases of convolution": Allocation(
        {"biases": lambda *_: ()}, _biased_shapes, _add_biases, _CONVOLUTION
    ),
    **_layer(create_lstm_weights, lstm, 4, 2),
    **_layer(create_gru_weights, gru, 3, 1),
    **_layer(create_rnn_weights, rnn, 1, 1),
    "scores of ctc_loss_and_gradient": Allocation(
        {"scores": _sequence_scores},
        _sequence_shapes,
        lambda b, v, _: ctc_loss_and_gradient(b, *(v[name] for name in _SEQUENCE_OPERANDS)),
        _SEQUENCES,
    ),
    "scores and labels of ctc_loss": Allocation(
        {"scores": _sequence_scores, "labels": _sequence_labels},
        _sequence_shapes,
        lambda b, v, _: ctc_loss(b, *(v[name] for name in _SEQUENCE_OPERANDS)),
        _SEQUENCES,
    ),
    "scores of ctc_beam_search": Allocation(
        {"scores": _searched_scores},
        _searched_shapes,
        lambda b, v, _: ctc_beam_search(b, v["scores"], v["steps"], _WIDTH),
        _SEQUENCES,
    ),
    **_tables(),
    "table of dynamic_slice": Allocation(
        {"x": _table},
        _slice_shapes,
        lambda b, v, _: dynamic_slice(b, v["x"], v["offset"], [0], [1]),
        _SLICED_SIZES,
    ),
    "table of dynamic_update": Allocation(
        {"x": _table},
        _update_shapes,
        lambda b, v, _: dynamic_update(b, v["x"], v["update"], v["offset"], [0]),
        _SLICED_SIZES,
    ),
    "planned table of multi_update_add": Allocation(
        {"x": _planned_table, "updates": _planned_slices}, _table_shapes, _add_planned, _TABLE_SIZES
    ),
    "matrices of triangular_solve": Allocation(
        {"a": _system_matrices, "b": _system_right_sides},
        _system_shapes,
        lambda b, v, _: triangular_solve(b, v["a"], v["b"], block_size=_BLOCK),
        {"batch": (1, 2), "n": (3, 4, 8), "columns": (1, 3)},
    ),
    "matrices of cholesky_in_place": Allocation(
        {"a": _symmetric_matrices},
        lambda s: {"a": ("", (s["batch"], s["n"], s["n"]))},
        lambda b, v, _: cholesky_in_place(b, v["a"], block_size=_BLOCK),
        {"batch": (1, 2), "n": (4, 8, 12)},
    ),
    "dense operand of sparse_dense_matmul": Allocation(
        {"x": _dense_rhs},
        lambda s: {"x": ("float32", (_SPARSE_ROWS, s["columns"]))},
        _sparse_by_dense,
        {"columns": (8, 24, 64)},
    ),
    "activations of fully_connected_fwd": Allocation(
        {"x": _activations},
        lambda s: {"x": ("float32", (s["batch"], _SPARSE_ROWS))},
        _sparse_layer,
        {"batch": (8, 24, 64)},
    ),
    "dense operand of dense_sparse_matmul": Allocation(
        {"x": _dense_lhs},
        lambda s: {"x": ("float32", (s["columns"], _SPARSE_ROWS))},
        _dense_by_sparse,
        {"columns": (8, 24, 64)},
    ),
    "planned table of multi_slice": Allocation(
        {"x": _planned_table}, _lookup_shapes, _look_up_planned, _TABLE_SIZES
    ),
}

#: Allocators that `ALLOCATIONS` has.
ALLOCATORS = (
    create_cholesky_input,
    create_dense_sparse_matmul_lhs,
    create_dense_sparse_matmul_rhs,
    create_fully_connected_input,
    create_fully_connected_weights,
    create_sparse_dense_matmul_lhs,
    create_sparse_dense_matmul_rhs,
    create_convolution_biases,
    create_convolution_input,
    create_convolution_weights,
    create_ctc_beam_input,
    create_ctc_data_input,
    create_ctc_labels_input,
    create_gru_weights,
    create_indices_tensor,
    create_lstm_weights,
    create_matmul_input_lhs,
    create_matmul_input_rhs,
    create_recurrent_input,
    create_recurrent_state,
    create_rnn_weights,
    create_slice_tensor,
    create_sliceable_tensor,
    create_triangular_solve_input_lhs,
    create_triangular_solve_input_rhs,
)
