"""Serial parts: correct values, less memory, equal parts, and unsupported operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine import (
    Engine,
    Executable,
    Graph,
    Tensor,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import dtype_of
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.window import Window
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.program import Sequence
from tilescope.engine.tiling import ConvolutionShape

MACHINE = load_machine("c600", tiles_per_ipu=16)
GROUPED = ConvolutionShape(
    groups=4, images=1, height=28, width=28, in_channels=32, out_channels=32, kernel=(3, 3),
    padding_before=(1, 1), in_height=28, in_width=28,
)  # fmt: skip

#: Without serial parts.
AT_ONCE = {"serial outputs": 1, "serial inputs": 1}

#: A share of a tile that the fastest plans meet, and one that no plan meets.
ALL, LEAST = 1.0, 1e-6


def new_builder() -> Builder:
    return Builder(Graph(MACHINE), Sequence("main"))


def new_tensor(builder: Builder, shape: tuple[int, ...], dtype: str, name: str) -> Tensor:
    tensor = builder.graph.add_variable(dtype, shape, name)
    builder.graph.map_linearly(tensor, grain=8)
    return tensor


def drawn(shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    """Return integers small enough to be exact in every type, sums of products included."""
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)


def run(
    builder: Builder, operands: list[tuple[Tensor, NDArray[Any]]], out: Tensor
) -> tuple[Executable, NDArray[Any]]:
    executable = compile_programs(builder.graph, [builder.sequence], plans=builder.plans)
    with Engine(executable, resolve_options()) as engine:
        for tensor, values in operands:
            engine.write_tensor(tensor, values)
        engine.run()
        return executable, engine.read_tensor(out)


def product(
    dtype: str,
    is_constant: bool,
    share: float,
    *,
    size: tuple[int, int] = (64, 512),
    split: Mapping[str, int] | None = None,
) -> tuple[Builder, Executable, NDArray[Any], NDArray[Any]]:
    """Run a product; return its plan, its result, and numpy's result."""
    builder = new_builder()
    rows, columns = size
    options: dict[str, Any] = {"available_memory_proportion": share, "split": split}
    a = new_tensor(builder, (1, rows, 256), dtype, "a")
    left, right = drawn(a.shape, 1), drawn((1, 256, columns), 2)
    operands = [(a, left)]
    if is_constant:
        out = matmul(builder, a, right, b_dtype=dtype_of(dtype), **options)
    else:
        b = new_tensor(builder, right.shape, dtype, "b")
        operands.append((b, right))
        out = matmul(builder, a, b, **options)
    executable, result = run(builder, operands, out)
    return builder, executable, result, left @ right


@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_143"])
def test_a_serial_product_is_correct_and_takes_less_memory(dtype: str, is_constant: bool) -> None:
    peaks = []
    for share in (ALL, LEAST):
        builder, executable, result, expected = product(dtype, is_constant, share)
        (plan,) = builder.plans
        assert (plan.n_serial > 1) == (share == LEAST)
        np.testing.assert_array_equal(result, expected)
        peaks.append(int(executable.memory.live.peak.max()))
    # Without serial parts, by the plan with the least memory.
    _, executable, _, _ = product(dtype, is_constant, LEAST, split=AT_ONCE)
    assert peaks[1] < min(int(executable.memory.live.peak.max()), peaks[0])


@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_143"])
def test_outputs_that_do_not_split_use_serial_inputs(dtype: str, is_constant: bool) -> None:
    peaks = []
    for split in (AT_ONCE, None):
        actual = product(dtype, is_constant, LEAST, size=(61, 511), split=split)
        builder, executable, result, expected = actual
        assert (builder.plans[0].serial.inputs > 1) == (split is None)
        np.testing.assert_array_equal(result, expected)
        peaks.append(int(executable.memory.live.peak.max()))
    assert peaks[1] < peaks[0]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_serial_convolution_is_correct_and_takes_less_memory(dtype: str) -> None:
    peaks = []
    for share in (ALL, LEAST):
        builder = new_builder()
        x = new_tensor(builder, (2, 32, 10, 10), dtype, "x")
        values, weights = drawn(x.shape, 3), drawn((128, 32, 3, 3), 4)
        window = Window((3, 3))
        out = convolution(builder, x, weights, window, available_memory_proportion=share)
        assert (builder.plans[0].n_serial > 1) == (share == LEAST)
        executable, result = run(builder, [(x, values)], out)
        visited = np.lib.stride_tricks.sliding_window_view(values, (3, 3), axis=(2, 3))
        np.testing.assert_array_equal(result, np.einsum("nirckl,oikl->norc", visited, weights))
        peaks.append(int(executable.memory.live.peak.max()))
    assert peaks[1] < peaks[0]


def test_every_part_is_the_same_program_on_other_channels() -> None:
    builder, executable, _, _ = product("float32", True, LEAST)
    (plan,) = builder.plans
    of_part: dict[str, list[int]] = {}
    for step in executable.steps:
        if "/serial" in step.name:
            name = step.name.split("/", 2)[2] + step.kind
            of_part.setdefault(name, []).append(int(step.cost.cycles.max()))
    assert {len(cycles) for cycles in of_part.values()} == {plan.n_serial}
    assert all(len(set(cycles)) == 1 for cycles in of_part.values())
    kinds = {step.kind for step in executable.steps if step.name.endswith("/update")}
    assert kinds == {"OnTileExecute"}, "results of parts are not exchanged"


def test_parts_of_the_inputs_are_one_program_on_other_channels_and_add_up_where_they_are() -> None:
    split = {"serial inputs": 4}
    builder, executable, result, expected = product("float16", True, ALL, split=split)
    np.testing.assert_array_equal(result, expected)
    of_part: dict[str, list[int]] = {}
    for step in executable.steps:
        if "/serial" in step.name:
            name = step.name.split("/", 2)[2] + step.kind
            of_part.setdefault(name, []).append(int(step.cost.cycles.max()))
    assert {name: len(cycles) for name, cycles in of_part.items()} == {
        name: 3 if name.startswith("add") else 4 for name in of_part
    }
    assert all(len(set(cycles)) == 1 for cycles in of_part.values())
    kinds = {step.kind for step in executable.steps if step.name.endswith(("/add", "/cast"))}
    assert kinds == {"OnTileExecute"}, "results of parts are not exchanged"
    held = [v for v in builder.graph.variables if v.name.endswith(("partials", "/out"))]
    types = {v.dtype.name for v in held if "/serial" in v.name}
    assert types == {"float32"}, "sums are not rounded before the last part"


def test_operations_of_several_groups_are_made_in_parts_of_their_inputs_only() -> None:
    plan = plan_convolution("conv", GROUPED, MACHINE, LEAST)
    assert plan.serial.outputs == 1 < plan.serial.inputs
    shape = replace(GROUPED, in_channels=1, out_channels=1)
    plan = plan_convolution("depthwise", shape, MACHINE, LEAST)
    assert plan.n_serial == 1
    assert plan.bound == "least_memory"


def test_invalid_serial_splits_are_refused() -> None:
    both = (("serial inputs", 2), ("serial outputs", 2))
    with pytest.raises(BadGraph, match="of the outputs or of the inputs, got 2"):
        plan_convolution("conv", GROUPED, MACHINE, 1.0, "", both)
    for name, count in (("serial inputs", 3), ("serial outputs", 2)):
        with pytest.raises(BadGraph, match=f"has the split {name} {count}: request fewer"):
            plan_convolution("conv", GROUPED, MACHINE, 1.0, "", ((name, count),))
