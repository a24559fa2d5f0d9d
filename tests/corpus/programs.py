"""Builds the published programs from the calls of the library.

Training is built from the calls that exist: the gradients of products and convolutions with respect
to data and weights, and a scaled addition to the weights.
Source: graphcore/poplibs sdk-release-2.0, tools/ (general_matrix_multiply.cpp,
fully_connected_layer.cpp, single_conv_layer.cpp, pooling_layer.cpp, reduce_op.cpp,
embedding_layer.cpp, lstm_layer.cpp, gru_layer.cpp, ctc_loss.cpp, matrix_solver.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.corpus.rows import Row

from tilescope.engine.graph import Graph, Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.allocators import (
    create_convolution_input,
    create_convolution_weights,
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.cholesky import cholesky, create_cholesky_input
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.triangular import (
    create_triangular_solve_input_lhs,
    create_triangular_solve_input_rhs,
    triangular_solve,
)
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.popnn.ctc.loss import ctc_loss_and_gradient
from tilescope.engine.library.popnn.ctc.loss_plan import (
    create_ctc_data_input,
    create_ctc_labels_input,
    plan_ctc_loss,
)
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popnn.pool_gradient import max_pool_input_gradient
from tilescope.engine.library.popnn.recurrent.allocators import (
    create_gru_weights,
    create_lstm_weights,
    create_recurrent_input,
    create_recurrent_state,
)
from tilescope.engine.library.popnn.recurrent.backward import (
    LayerOperands,
    OutputGradients,
    gru_backward,
    lstm_backward,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.popops.slicing.embedding import create_slice_tensor, plan_embedding
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.slicing.multi_update import multi_update_add
from tilescope.engine.library.popops.slicing.sliceable import (
    create_indices_tensor,
    create_sliceable_tensor,
)
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

__all__ = ["MISSING", "Built", "build"]

#: What the library lacks, by program of the table.
MISSING = {
    "octave_convolution": "octave convolutions",
}
#: What solvers differ in: graphcore/poplibs, lib/poplin/poplinCycleEstimators.cpp of both releases.
_LATER_VERTICES = "the vertices of SDK 2.0, whose estimates later releases replace"
_LEARNING_RATE = -1.0
#: Of the IPU Model: osmarks/ipu-stack, of Target::getGlobalSyncCycles on IPU21.
_HOST_SYNC_CYCLES = 600
#: Programs that compile code: general_matrix_multiply, single_conv_layer and embedding_layer.
_WITH_CODE = ("product", "convolution", "embedding")


@dataclass
class Built:
    """A published program.

    Parameters
    ----------
    graph
        Its graph.
    builder
        Of the program that runs; its plans go into the report.
    others
        Control programs that are compiled and not run: transfers from and to the host.
    lacks
        A part of the published program that the library lacks; empty if there is none.
    n_runs
        Runs that the source's profile sums: its layers run forward, then backward.
    """

    graph: Graph
    builder: Builder
    others: list[Sequence] = field(default_factory=list)
    lacks: str = ""
    n_runs: int = 1

    @classmethod
    def on(cls, row: Row, lacks: str = "") -> Built:
        """Return an empty program on the row's machine.

        Only three of the source's programs ask its IPU Model for code.
        """
        machine = load_machine(
            row.machine,
            parameter_set="ipu_model",
            tiles_per_ipu=row.parameters.get("tiles"),
            compiles_code=row.program in _WITH_CODE,
        )
        graph = Graph(machine)
        return cls(graph, Builder(graph, Sequence("main")), lacks=lacks)

    def host_sync_cycles(self, row: Row) -> int:
        """Return the cycles in which runs begin, in step with the host.

        The source's profile counts a sync with the host for every run, which a timeline here does
        not have. The program of convolutions shortens it to a hop: lib/poplibs_test/Util.cpp,
        setGlobalSyncLatency.
        """
        machine = self.graph.machine
        if row.program == "convolution":
            return self.n_runs * machine.external_sync_cycles
        return self.n_runs * (machine.sync_cycles + _HOST_SYNC_CYCLES)

    def add_transfers(self, tensors: Mapping[str, View]) -> None:
        """Add control programs that write and read tensors from the host."""
        for name, add in (("upload", StreamCopyIn), ("download", StreamCopyOut)):
            program = Sequence(name)
            for tensor_name, tensor in tensors.items():
                handle = f"{name} {tensor_name}"
                program.add(
                    add(handle, tensor) if add is StreamCopyIn else add(tensor, handle)  # type: ignore[arg-type]
                )
            self.others.append(program)

    def linear(self, dtype: str, shape: Any, name: str) -> Tensor:
        """Add a variable that is spread evenly, at least 128 bytes a tile, as PopLibs does."""
        tensor = self.graph.add_variable(dtype, shape, name)
        n_bytes = tensor.dtype.n_bytes
        self.graph.map_linearly(tensor, grain=8 // n_bytes, min_elements=128 // n_bytes)
        return tensor


def _product(row: Row) -> Built:
    built, size = Built.on(row), row.parameters
    left = (1, size["rows"], size["inner"])
    right = (1, size["inner"], size["columns"])
    a = create_matmul_input_lhs(built.builder, left, right, "a", dtype="float16")
    b = create_matmul_input_rhs(built.builder, right, left, "b", dtype="float16")
    out = matmul(built.builder, a, b)
    total = built.graph.clone(out, "c")
    scaled_add(built.builder, total, out, 1.0)
    return built


def _fully_connected(row: Row) -> Built:
    built, size = Built.on(row), row.parameters
    dtype = size.get("dtype", "float16")
    groups, batch = size.get("groups", 1), size["batch"]
    x_shape = (groups, batch, size["inputs"])
    w_shape = (groups, size["inputs"], size["outputs"])
    z_shape = (groups, batch, size["outputs"])
    build = built.builder
    x = create_matmul_input_lhs(build, x_shape, w_shape, "x", dtype=dtype)
    weights = create_matmul_input_rhs(build, w_shape, x_shape, "weights", dtype=dtype)
    out = matmul(build, x, weights, "forward")
    turned = weights.dim_shuffle(0, 2, 1)
    z = create_matmul_input_lhs(build, z_shape, turned, "gradient", dtype=dtype)
    deltas = matmul(build, z, turned, "backward")
    gradient = matmul(build, x.dim_shuffle(0, 2, 1), z, "update")
    scaled_add(build, weights, gradient, _LEARNING_RATE)
    built.add_transfers({"x": x, "weights": weights, "out": out, "gradient": z, "deltas": deltas})
    built.n_runs = 2
    return built


def _window(size: Mapping[str, Any]) -> Window:
    return Window(
        tuple(size["kernel"]),
        tuple(size.get("stride", (1, 1))),
        padding_before=tuple(size.get("before", (0, 0))),
        padding_after=tuple(size.get("after", (0, 0))),
    )


def _convolution(row: Row) -> Built:
    built, size = Built.on(row), row.parameters
    groups, images, field_size = size.get("groups", 1), size["images"], tuple(size["field"])
    window = _window(size)
    n_in, n_out = groups * size["inputs"], groups * size["outputs"]
    x_shape = (images, n_in, *field_size)
    w_shape = (n_out, size["inputs"], *window.kernel)
    out_field = tuple(output_size(field_size[d], d, window) for d in (0, 1))
    build = built.builder
    x = create_convolution_input(build, x_shape, w_shape, window, groups, "x", dtype="float16")
    weights = create_convolution_weights(
        build, w_shape, x_shape, window, groups, "weights", dtype="float16"
    )
    out = convolution(build, x, weights, window, groups, "forward")
    z = built.graph.clone(out, "gradient")
    deltas = transposed_convolution(build, z, weights, window, field_size, groups, "backward")
    gradient = weight_gradient(build, x, z, window, groups, "update")
    scaled_add(build, weights, gradient, _LEARNING_RATE)
    built.add_transfers({"x": x, "weights": weights, "out": out, "gradient": z, "deltas": deltas})
    assert tuple(out.shape) == (images, n_out, *out_field)
    built.n_runs = 2
    return built


def _pooling(row: Row) -> Built:
    built, size, window = Built.on(row), row.parameters, _window(row.parameters)
    images, channels, field_size = size["images"], size["channels"], tuple(size["field"])

    def activations(field: tuple[int, ...], group: int, name: str) -> Tensor:
        shape = (channels // group, images, *field, group)
        tensor = built.linear("float16", shape, name).dim_shuffle(1, 0, 4, 2, 3)
        return tensor.reshape(images, channels, *field)

    x = activations(field_size, size["channel_group"], "prevAct")
    out_field = tuple(output_size(field_size[d], d, window) for d in (0, 1))
    z = activations(out_field, 16 if channels % 16 == 0 else 1, "zDeltas")
    out = pool(built.builder, x, window)
    deltas = max_pool_input_gradient(built.builder, x, out, z, window)
    built.add_transfers({"x": x, "out": out, "zDeltas": z, "deltas": deltas})
    built.n_runs = 2
    return built


def _reduction(row: Row) -> Built:
    built, size = Built.on(row), row.parameters
    x = built.linear("float16", tuple(size["shape"]), "x")
    reduce(built.builder, size["operation"], x, size["dims"])
    return built


def _embedding(row: Row) -> Built:
    built, size = Built.on(row), row.parameters
    build = built.builder
    shape, n_lookups = (size["rows"], size["columns"]), size["indices"]
    plan = plan_embedding(build, "float16", shape, n_lookups)
    table = create_sliceable_tensor(build, "float16", shape, name="embedding", plan=plan)
    indices = create_indices_tensor(build, (n_lookups,))
    multi_slice(build, table, indices, plan=plan)
    deltas = create_slice_tensor(build, "float16", shape, n_lookups, plan, name="deltas")
    multi_update_add(build, table, indices, deltas, plan=plan)
    return built


_ORDERS = {
    "lstm": ("forget", "input", "candidate", "output"),
    "gru": ("reset", "update", "candidate"),
}


def _recurrent(row: Row) -> Built:
    built, size = Built.on(row), row.parameters
    build = built.builder
    dtype = size.get("dtype", "float16")
    shape = (size["steps"], size["batch"], size["inputs"])
    order = tuple(size.get("order", _ORDERS[row.program]))
    create = create_lstm_weights if row.program == "lstm" else create_gru_weights
    x = create_recurrent_input(build, shape, size["outputs"], len(order), dtype=dtype)
    weights = create(build, shape, size["outputs"], dtype=dtype, cell_order=order)
    state = create_recurrent_state(build, shape, size["outputs"], "state", dtype=dtype)
    kept: dict[str, Tensor] | None = {} if size.get("trains") else None
    states = [state]
    if row.program == "lstm":
        states.append(create_recurrent_state(build, shape, size["outputs"], "cell", dtype=dtype))
    layer: Any = lstm if row.program == "lstm" else gru
    outputs, *_ = layer(build, x, *weights, *states, cell_order=order, kept=kept)
    if kept is not None:
        _recurrent_gradients(built, row, x, weights, (outputs, *states), kept, order)
    return built


def _ctc_loss(row: Row) -> Built:
    """Build the program with its transfers, one per sequence, which are part of its run."""
    built, size = Built.on(row), row.parameters
    build, batch = built.builder, size["batch"]
    shape = (size["steps"], batch, size["classes"])
    plan = plan_ctc_loss(build, "float32", shape, size["labels"])
    scores = create_ctc_data_input(build, "float32", plan)
    labels = create_ctc_labels_input(build, plan)
    lengths = [built.graph.add_variable("int32", (batch,), name) for name in ("steps", "lengths")]
    for length in lengths:
        built.graph.set_tile_mapping(length, [0], [0])
    inputs = [(tensor.name, tensor) for tensor in lengths]
    for i in range(batch):
        inputs.append((f"scores {i}", scores.slice(1, i, i + 1)))
        inputs.append((f"labels {i}", labels.slice(0, i, i + 1)))
    for name, tensor in inputs:
        build.sequence.add(StreamCopyIn(f"upload {name}", tensor))
    ctc_loss_and_gradient(build, scores, labels, *lengths, plan=plan)
    return built


def _recurrent_gradients(
    built: Built,
    row: Row,
    x: Tensor,
    weights: tuple[View, View, Tensor],
    results: tuple[Tensor, ...],
    kept: Mapping[str, Tensor],
    order: tuple[str, ...],
) -> None:
    outputs, *states = results
    of_outputs = built.linear(x.dtype.name, outputs.shape, "nextLayerGrads")
    given = LayerOperands(x, *weights, *states)
    backward = lstm_backward if row.program == "lstm" else gru_backward
    options = RecurrentOptions(partial_updates=False)  # the source's release has none
    backward(
        built.builder, given, outputs, kept, OutputGradients(of_outputs),
        cell_order=order, options=options, with_weights=True,
    )  # fmt: skip


def _triangular_solve(row: Row) -> Built:
    built, size = Built.on(row, _LATER_VERTICES), row.parameters
    n, columns, is_left = size["rank"], size["columns"], size["side"] == "left"
    a_shape = (size["batches"], n, n)
    b_shape = (size["batches"], *((n, columns) if is_left else (columns, n)))
    settings = {"left_side": is_left, "dtype": size.get("dtype", "float16")}
    block = {"block_size": size["block"]} if "block" in size else {}
    a = create_triangular_solve_input_lhs(built.builder, a_shape, b_shape, **settings, **block)
    b = create_triangular_solve_input_rhs(built.builder, a_shape, b_shape, **settings)
    x = triangular_solve(built.builder, a, b, left_side=is_left, **block)
    built.add_transfers({"a": a, "b": b, "x": x})
    return built


def _cholesky(row: Row) -> Built:
    built, size = Built.on(row, _LATER_VERTICES), row.parameters
    shape = (size["batches"], size["rank"], size["rank"])
    settings = {"lower": size["lower"], "block_size": size["block"]}
    dtype = size.get("dtype", "float16")
    a = create_cholesky_input(built.builder, shape, dtype=dtype, **settings)
    built.add_transfers({"a": a, "factors": cholesky(built.builder, a, **settings)})
    return built


_BUILDERS: Mapping[str, Callable[[Row], Built]] = {
    "product": _product,
    "fully_connected": _fully_connected,
    "convolution": _convolution,
    "pooling": _pooling,
    "reduction": _reduction,
    "embedding": _embedding,
    "lstm": _recurrent,
    "gru": _recurrent,
    "ctc_loss": _ctc_loss,
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
}


def build(row: Row) -> Built | None:
    """Build the program of a row; None if the library lacks its operation."""
    builder = _BUILDERS.get(row.program)
    return builder(row) if builder else None
