"""An operand that is allocated for an operation is never dearer than any other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilescope import engine
from tilescope.engine import Builder, Graph, Tensor, load_machine
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import View, concat
from tilescope.engine.library.poplin.allocators import (
    create_convolution_input,
    create_convolution_weights,
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.popnn.recurrent.allocators import (
    create_gru_weights,
    create_lstm_weights,
    create_recurrent_input,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice
from tilescope.engine.library.popops.slicing.sliceable import create_sliceable_tensor
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence

N_TILES = 96


def _new(n_tiles: int = N_TILES) -> tuple[Graph, Builder]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=n_tiles, parameter_set="ipu_model"))
    return graph, Builder(graph, Sequence("main"))


def _linear(build: Builder, shape: tuple[int, ...], name: str) -> Tensor:
    tensor = build.graph.add_variable("float16", shape, name)
    build.graph.map_linearly(tensor, grain=4)
    return tensor


def _compiled(build: Builder) -> Executable:
    return engine.compile_programs(build.graph, [build.sequence], plans=build.plans)


def _cycles(build: Builder) -> int:
    return sum(int(step.cost.cycles.max()) for step in _compiled(build).steps)


def _steps(build: Builder, kind: str, name: str) -> int:
    """Return the cycles of the steps of a kind with a name."""
    steps = _compiled(build).steps
    return sum(int(s.cost.cycles.max()) for s in steps if s.kind == kind and name in s.name)


@pytest.mark.parametrize("sizes", [(8, 256, 640), (200, 64, 2_000), (96, 768, 96), (1, 500, 500)])
@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("is_right", [True, False])
def test_a_product_of_allocated_matrices(
    sizes: tuple[int, int, int], is_left: bool, is_right: bool
) -> None:
    rows, inner, columns = sizes
    left, right = (1, rows, inner), (1, inner, columns)

    def cycles(*, left_is_made: bool, right_is_made: bool) -> int:
        _, build = _new()
        a: View = _linear(build, left, "a")
        b: View = _linear(build, right, "b")
        if left_is_made:
            other = right if right_is_made else b
            a = create_matmul_input_lhs(build, left, other, "a", dtype="float16")
        if right_is_made:
            other = left if left_is_made else a
            b = create_matmul_input_rhs(build, right, other, "b", dtype="float16")
        matmul(build, a, b)
        return _cycles(build)

    plain = cycles(left_is_made=False, right_is_made=False)
    # Shares of other tiles arrive in other pieces, which makes a few cycles.
    assert cycles(left_is_made=is_left, right_is_made=is_right) <= 1.001 * plain


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_convolution_of_allocated_operands(kernel: int) -> None:
    window = Window(
        (kernel, kernel), padding_before=(kernel // 2,) * 2, padding_after=(kernel // 2,) * 2
    )
    images, weights = (2, 32, 14, 14), (64, 32, kernel, kernel)

    def cycles(*, is_allocated: bool) -> int:
        _, build = _new()
        x: View = _linear(build, images, "x")
        w: View = _linear(build, weights, "w")
        if is_allocated:
            x = create_convolution_input(build, images, weights, window, dtype="float16")
            w = create_convolution_weights(build, weights, images, window, dtype="float16")
        convolution(build, x, w, window)
        return _cycles(build)

    assert cycles(is_allocated=True) <= cycles(is_allocated=False)


def test_operands_of_one_plan_are_divided_among_the_tiles_that_read_them() -> None:
    """Whichever operand is the larger one: most of it stays where it is."""
    for rows, columns in ((16, 4_096), (4_096, 16)):
        _, build = _new()
        left, right = (1, rows, 512), (1, 512, columns)
        a = create_matmul_input_lhs(build, left, right, "a", dtype="float16")
        b = create_matmul_input_rhs(build, right, left, "b", dtype="float16")
        matmul(build, a, b, "product")
        executable = _compiled(build)
        received = sum(
            int(step.cost.received_bytes.dense().sum())
            for step in executable.steps
            if step.kind == "DoExchange" and "product/convolve" in step.name
        )
        assert received < 512 * 4_096 * 2 / 2, "less than half of the large one moves"


def test_a_view_of_an_allocated_operand_gets_a_plan_of_its_own() -> None:
    """The transpose of a square matrix has the sizes of the matrix, and lies otherwise."""
    _, build = _new()
    square = (1, 96, 96)
    a = create_matmul_input_lhs(build, square, square, "a", dtype="float16")
    b = create_matmul_input_rhs(build, square, square, "b", dtype="float16")
    matmul(build, a, b)
    matmul(build, a, b.dim_shuffle(0, 2, 1))
    first, second = build.plans
    assert first.predicted_cycles != second.predicted_cycles


_LAYERS: dict[str, tuple[Callable[..., object], Callable[..., object], int]] = {
    "lstm": (create_lstm_weights, lstm, 4),
    "gru": (create_gru_weights, gru, 3),
}


@pytest.mark.parametrize("layer", _LAYERS)
@pytest.mark.parametrize("reverses", [False, True])
def test_weights_of_recurrent_layers(layer: str, reverses: bool) -> None:
    create, run, n_units = _LAYERS[layer]
    shape, n_outputs = (5, 4, 64), 96
    orders = {
        "lstm": ("forget", "input", "candidate", "output"),
        "gru": ("reset", "update", "candidate"),
    }
    order = orders[layer][::-1] if reverses else orders[layer]

    def built(*, is_allocated: bool) -> Builder:
        _, build = _new()
        if is_allocated:
            x = create_recurrent_input(build, shape, n_outputs, n_units, dtype="float16")
            weights = create(build, shape, n_outputs, dtype="float16", cell_order=order)
        else:
            x = _linear(build, shape, "x")
            sizes = ((n_units, 64, 96), (n_units, 96, 96), (n_units, 96))
            weights = tuple(_linear(build, size, f"w{i}") for i, size in enumerate(sizes))
        run(build, x, *weights, cell_order=order)  # type: ignore[misc]
        return build

    allocated = built(is_allocated=True)
    assert _cycles(allocated) <= _cycles(built(is_allocated=False))
    assert not _steps(allocated, "OnTileExecute", f"{layer}/weights"), "no copy of the weights"
    names = {step.name for step in _compiled(allocated).steps}
    assert not any("greater_equal" in name for name in names), "steps are sliced where they lie"


@pytest.mark.parametrize("n_units", [2, 4])
def test_units_of_a_variable_join_to_it_again(n_units: int) -> None:
    """In blocks of inputs, whatever the order in which they were taken apart."""
    graph, _ = _new()
    variable = graph.add_variable("float16", (6, n_units, 32, 8), "weights")
    blocked = variable.dim_shuffle(1, 0, 2, 3).reshape(n_units, 192, 8)
    assert max(map(len, blocked.dims)) > 1
    parts = [blocked.slice(1, begin, end) for begin, end in ((0, 64), (64, 192))]
    units = [
        concat([part.slice(0, i, i + 1) for part in parts], 1) for i in reversed(range(n_units))
    ]
    joined = concat(units[::-1])
    assert isinstance(joined, Tensor)
    assert joined == blocked


def test_a_scaled_addition_of_a_tensor_in_another_order() -> None:
    """An addend in columns is copied into the rows of its target, instead of added one by one."""
    _, build = _new()
    target = _linear(build, (96, 128), "target")
    addend = _linear(build, (128, 96), "addend").dim_shuffle(1, 0)
    scaled_add(build, target, addend, 1.0)
    assert _steps(build, "OnTileExecute", "addTo") < 300
    _, copied = _new()
    copy_to(
        copied, _linear(copied, (128, 96), "a").dim_shuffle(1, 0), _linear(copied, (96, 128), "b")
    )
    assert _cycles(build) < 3 * _cycles(copied)


def test_a_scaled_addition_to_a_tensor_on_one_tile() -> None:
    """An addend in columns is copied into the rows of its target by all tiles."""
    graph, build = _new()
    target = graph.add_variable("float16", (96, 128), "target")
    graph.set_tile_mapping(target, [0], [7])
    addend = _linear(build, (128, 96), "addend").dim_shuffle(1, 0)
    scaled_add(build, target, addend, 1.0)
    (copies,) = (step for step in graph.compute_sets if step.name.endswith("rearrange"))
    tiles = {tile for batch in copies.batches for tile in batch.tile.tolist()}
    assert len(tiles) == N_TILES
    assert _steps(build, "OnTileExecute", "rearrange") < 1000


@pytest.mark.parametrize(
    "window", [Window((1, 1)), Window((1, 1), (2, 2)), Window((5, 1)), Window((1, 5))]
)
def test_a_gradient_of_one_tap_costs_no_more_than_its_convolution(window: Window) -> None:
    """Four images are few channels, the field is many."""
    images, weights = (4, 64, 28, 28), (64, 64, *window.kernel)
    _, build = _new()
    x = create_convolution_input(build, images, weights, window, dtype="float16")
    w = create_convolution_weights(build, weights, images, window, dtype="float16")
    out = convolution(build, x, w, window, name="forward")
    weight_gradient(build, x, build.graph.clone(out, "gradient"), window, name="update")
    forward, update = (
        _steps(build, "OnTileExecute", f"{name}/convolve") for name in ("forward", "update")
    )
    assert update <= 2 * forward


def test_a_slice_of_a_sliceable_tensor_is_one_step() -> None:
    graph, build = _new()
    x = create_sliceable_tensor(build, "float16", (20, 400), 0)
    offset = graph.add_variable("int32", (1,), "offset")
    graph.map_linearly(offset)
    dynamic_slice(build, x, offset, [0], [1])
    computed = [step.name for step in _compiled(build).steps if step.kind == "OnTileExecute"]
    assert computed == ["dynamicSlice/slice"]
