"""Every library function on random shapes, layouts and mappings, against the naive machine."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.codelets
from engine import (
    Builder,
    Engine,
    Executable,
    Graph,
    Tensor,
    compile_programs,
    load_machine,
    resolve_options,
)
from engine.codelets.codelet import Codelet
from engine.codelets.fill import FILL
from engine.errors import BadGraph
from engine.graph import blocks, dtype_of
from engine.graph.tensor import row_major
from engine.library.concat import concat
from engine.library.convolution import convolution, matmul
from engine.library.elementwise import binary, cast, copy_to, rearranged, unary
from engine.library.fill import fill
from engine.library.pool import pool
from engine.library.reduce import reduce
from engine.library.scaled_add import scaled_add
from engine.library.window import Window, output_size
from engine.program import Copy, Program, Repeat
from engine.program import Sequence as ProgramSequence
from tests.oracle.drawn_graphs import machines, mappings, new_builder, shapes, tensors
from tests.oracle.memory_rules import check_memory, check_places
from tests.oracle.naive_codelets import BINARY, NAIVE, REDUCTIONS, UNARY
from tests.oracle.naive_machine import NaiveMachine, check_traffic, naive_live_bytes


def values_for(tensor: Tensor, seed: int, *, low: float = -2, high: float = 2) -> np.ndarray:
    random = np.random.default_rng(seed)
    if tensor.dtype.is_float:
        return random.uniform(low, high, tensor.shape).astype(np.float32)
    return random.integers(max(int(low), -9), int(high) + 9, tensor.shape).astype(np.int32)


def run_both(
    graph: Graph,
    program: Program,
    inputs: Sequence[tuple[Tensor, np.ndarray]],
    outputs: Sequence[Tensor],
) -> tuple[Executable, list[np.ndarray]]:
    """Run the compiled and the naive machine; compare values, exchanges, liveness, the rule."""
    executable = compile_programs(graph, [program], is_checked=True)
    check_memory(executable)
    check_places(executable)
    naive = NaiveMachine(graph)
    with Engine(executable, resolve_options()) as engine:
        for tensor, values in inputs:
            engine.write_tensor(tensor, values)
            naive.write(tensor, values)
        engine.run()
        naive.run(program)
        results = [engine.read_tensor(tensor) for tensor in outputs]
    assert naive.violations == []
    for tensor, result in zip(outputs, results, strict=True):
        near = 4e-3 if tensor.dtype.name == "float16" else 2e-5
        np.testing.assert_allclose(result, naive.read(tensor), rtol=near, atol=near)
    return executable, results


def check(
    builder: Builder,
    inputs: Sequence[tuple[Tensor, np.ndarray]],
    outputs: Sequence[Tensor],
) -> list[np.ndarray]:
    graph = builder.graph
    executable, results = run_both(graph, builder.sequence, inputs, outputs)
    naive = NaiveMachine(graph)
    for tensor, values in inputs:
        naive.write(tensor, values)
    naive.run(builder.sequence)
    check_traffic(naive, executable)
    assert executable.memory.live.tolist() == naive_live_bytes(executable).tolist()
    return results


seeds = st.integers(0, 1000)
NUMPY_REDUCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "product": np.prod,
}


@given(st.data(), machines(), shapes(), st.booleans(), st.booleans(), seeds)
def test_scaled_add(
    data: st.DataObject, machine: Any, shape: Any, is_fast: bool, is_half: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dtype = "float16" if is_half else "float32"
    a, b = (data.draw(tensors(graph, shape, dtype, name)) for name in "ab")
    if data.draw(st.booleans()):
        scale: Tensor | float = data.draw(tensors(graph, (1,), dtype, "s", may_be_part=False))
    else:
        scale = 0.5
    scaled_add(builder, a, b, scale, optimise_for_speed=is_fast)
    inputs = [(x, values_for(x, seed + i)) for i, x in enumerate((a, b))]
    factor: Any = 0.5
    if isinstance(scale, Tensor):
        inputs.append((scale, values_for(scale, seed + 2)))
        factor = inputs[2][1]
    (result,) = check(builder, inputs, [a])
    near = 4e-3 if is_half else 1e-5
    np.testing.assert_allclose(result, inputs[0][1] + factor * inputs[1][1], rtol=near, atol=near)


@pytest.mark.parametrize(
    ("a", "b", "scale", "message"),
    [
        ("int32", "int32", 2.0, "'a' is int32: a scaled addition takes float16 or float32"),
        ("float32", "float16", 2.0, "'b' is float16, but what it is added to, 'a', is float32"),
        ("float32", "float32", "float16", "'s' is float16, but what it is added to"),
        ("float32", "float32", "float32", "'s' scales an addition and has 3 elements"),
    ],
)
def test_a_scaled_addition_that_cannot_be(a: str, b: str, scale: Any, message: str) -> None:
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=2))
    x, y = graph.add_variable(a, (3,), "a"), graph.add_variable(b, (3,), "b")
    factor = graph.add_variable(scale, (3,), "s") if isinstance(scale, str) else scale
    with pytest.raises(BadGraph, match=message):
        scaled_add(builder, x, y, factor)


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(UNARY)), seeds)
def test_unary(data: st.DataObject, machine: Any, shape: Any, function: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(tensors(graph, shape))
    out = unary(builder, function, x)
    low = 0.1 if function in ("log", "sqrt", "inverse") else -2.0
    values = values_for(x, seed, low=low)
    (result,) = check(builder, [(x, values)], [out])
    expected = np.vectorize(UNARY[function], otypes=[float])(values.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(BINARY)), seeds)
def test_binary_broadcasts(
    data: st.DataObject, machine: Any, shape: Any, function: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    is_stretched = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    other = [1 if flag else s for s, flag in zip(shape, is_stretched, strict=True)]
    other = other[data.draw(st.integers(0, len(shape) - 1)) :]
    first, second = (shape, other) if data.draw(st.booleans()) else (other, shape)
    a = data.draw(tensors(graph, first, name="a"))
    b = data.draw(tensors(graph, second, name="b"))
    out = binary(builder, function, a, b, shape)
    low = 0.2 if function in ("divide", "power") else -2.0
    left, right = values_for(a, seed, low=low), values_for(b, seed + 1, low=low)
    (result,) = check(builder, [(a, left), (b, right)], [out])
    expected = np.vectorize(BINARY[function], otypes=[float])(left.astype(np.float64), right)
    np.testing.assert_allclose(result, np.broadcast_to(expected, shape), rtol=3e-5, atol=2e-5)


@given(st.data(), machines(), st.sampled_from(["add", "subtract", "multiply", "divide"]), seeds)
def test_a_row_that_all_rows_share(
    data: st.DataObject, machine: Any, function: str, seed: int
) -> None:
    """Rows of one tile share a bias or a scale: of all rows, or another for each group."""
    graph, builder = new_builder(machine)
    groups, rows = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 7))
    columns = data.draw(st.sampled_from([1, 3, 4, 8, 12]))
    a = graph.add_variable("float16", (groups, rows, columns), "a")
    graph.map_linearly(a, grain=data.draw(st.sampled_from([1, columns, rows * columns])))
    is_grouped = data.draw(st.booleans())
    b = data.draw(tensors(graph, (groups if is_grouped else 1, 1, columns), "float16", "b"))
    operands = [b, a] if function in ("add", "multiply") and data.draw(st.booleans()) else [a, b]
    out = binary(builder, function, operands[0], operands[1], a.shape)
    left, right = (values_for(x, seed, low=0.5).astype(np.float16) for x in (a, b))
    (result,) = check(builder, [(a, left), (b, right)], [out])
    expected = np.vectorize(BINARY[function])(left.astype(np.float64), right.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("function", "dtype", "columns", "is_taken"),
    [
        ("add", "float16", 16, True),
        ("add", "float16", 10, False),
        ("add", "float32", 16, False),
        ("divide", "float32", 10, True),
        ("maximum", "float16", 16, False),
    ],
)
def test_when_a_shared_row_has_a_vertex(
    function: str, dtype: str, columns: int, is_taken: bool
) -> None:
    """Source: graphcore/poplibs sdk-release-3.4, lib/popops/ElementWise.cpp."""
    graph, builder = new_builder(_machine(2))
    a = graph.add_variable(dtype, (6, columns), "a")
    b = graph.add_variable(dtype, (columns,), "b")
    for tensor in (a, b):
        graph.map_linearly(tensor, grain=3 * columns)
    binary(builder, function, a, b, a.shape)
    (compute_set,) = graph.compute_sets
    names = {batch.codelet.name for batch in compute_set.batches}
    kind = "VectorInner" if is_taken else "Op2D"
    assert names == {f"popops::Broadcast{kind}<{function}>"}


@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_binary_on_integers(function: str) -> None:
    graph, builder = new_builder(_machine(5))
    a = graph.add_variable("int32", (4, 3), "a")
    b = graph.add_variable("int32", (3,), "b")
    graph.map_linearly(a)
    graph.map_linearly(b, first=2)
    out = binary(builder, function, a, b, (4, 3))
    left, right = values_for(a, 1), values_for(b, 2)
    (result,) = check(builder, [(a, left), (b, right)], [out])
    assert result.tolist() == np.vectorize(BINARY[function])(left, right).tolist()


@pytest.mark.parametrize("function", ["exp", "inverse", "tanh"])
def test_a_function_of_real_numbers_takes_no_whole_ones(function: str) -> None:
    graph, builder = new_builder(_machine(2))
    x = graph.add_variable("int32", (4,), "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match=r"x.*int32.*cast it to float32 or float16"):
        unary(builder, function, x)


@given(
    st.data(),
    machines(),
    shapes(most=60),
    st.sampled_from(sorted(REDUCTIONS)),
    seeds,
)
def test_reduce(data: st.DataObject, machine: Any, shape: Any, operation: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(tensors(graph, shape))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    scale = data.draw(st.sampled_from([1.0, 0.25]))
    out = reduce(builder, operation, x, dims, scale)
    values = values_for(x, seed, low=-1.2, high=1.2)
    (result,) = check(builder, [(x, values)], [out])
    function = NUMPY_REDUCTIONS[operation]
    expected = function(values.astype(np.float64), axis=tuple(dims), keepdims=True) * scale
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("operation", sorted(REDUCTIONS))
def test_a_long_reduction_goes_over_partial_results(operation: str) -> None:
    graph, builder = new_builder(_machine(8))
    x = graph.add_variable("float32", (2, 600), "x")
    graph.map_linearly(x, grain=3)
    out = reduce(builder, operation, x, [1], 0.5)
    values = values_for(x, 3, low=0.99, high=1.01)
    (result,) = check(builder, [(x, values)], [out])
    assert [s.name.rsplit("/", 1)[-1] for s in graph.compute_sets] == [
        "reduceStage1",
        "reduceStage2",
    ]
    function = NUMPY_REDUCTIONS[operation]
    expected = function(values.astype(np.float64), axis=1, keepdims=True) * 0.5
    np.testing.assert_allclose(result, expected, rtol=2e-5)


def _machine(n_tiles: int, n_ipus: int = 1) -> Any:
    from engine import load_machine

    return load_machine("gc200", tiles_per_ipu=n_tiles, n_ipus=n_ipus)


CASTS = [("float32", "float16"), ("float16", "float32"), ("float32", "int32"), ("int32", "float16")]


@given(st.data(), machines(), shapes(), st.sampled_from(CASTS), seeds)
def test_cast(
    data: st.DataObject, machine: Any, shape: Any, types: tuple[str, str], seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(tensors(graph, shape, types[0]))
    out = cast(builder, x, dtype_of(types[1]))
    values = values_for(x, seed).astype(types[0])
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_array_equal(result, values.astype(types[1]))


def test_every_codelet_of_the_library_has_a_plain_twin() -> None:
    found = set()
    for info in pkgutil.iter_modules(engine.codelets.__path__):
        for value in vars(importlib.import_module(f"engine.codelets.{info.name}")).values():
            members = value.values() if isinstance(value, dict) else [value]
            found |= {each.name for each in members if isinstance(each, Codelet)}
    assert found == set(NAIVE)


@given(st.data(), machines(), shapes(), st.sampled_from(["float32", "int32"]), seeds)
def test_copy(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    source = data.draw(tensors(graph, shape, dtype, "source"))
    target = data.draw(tensors(graph, shape, dtype, "target", may_be_part=False))
    copy_to(builder, source, target)
    values = values_for(source, seed)
    (result,) = check(builder, [(source, values)], [target])
    np.testing.assert_array_equal(result, values)


@given(st.data(), machines(), st.sampled_from(["float16", "float32", "int32", "uint8"]), seeds)
def test_a_copy_that_transposes(data: st.DataObject, machine: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    planes, rows, columns = (data.draw(st.sampled_from(n)) for n in ([1, 2, 7], [3, 4, 8], [4, 12]))
    source = data.draw(tensors(graph, (planes, columns, rows), dtype, "source"))
    target = graph.add_variable(dtype, (planes, rows, columns), "target")
    graph.map_linearly(target, grain=data.draw(st.sampled_from([1, columns, rows * columns])))
    copy_to(builder, source.dim_shuffle(0, 2, 1), target)
    values = values_for(source, seed).astype(
        np.float16 if dtype == "float16" else source.dtype.host
    )
    if dtype == "uint8":
        values = np.abs(values)
    (result,) = check(builder, [(source, values)], [target])
    np.testing.assert_array_equal(result, values.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("dtype", "rows", "is_taken"),
    [("float16", 8, True), ("float16", 6, False), ("int32", 6, True), ("uint8", 8, False)],
)
def test_when_a_copy_turns_whole_blocks(dtype: str, rows: int, is_taken: bool) -> None:
    graph, builder = new_builder(_machine(2))
    source = graph.add_variable(dtype, (12, 16, rows), "source")
    target = graph.add_variable(dtype, (12, rows, 16), "target")
    for tensor in (source, target):
        graph.map_linearly(tensor, grain=16 * rows)
    copy_to(builder, source.dim_shuffle(0, 2, 1), target)
    (compute_set,) = graph.compute_sets
    names = {batch.codelet.name for batch in compute_set.batches}
    assert names == {"poplar_rt::Transpose" if is_taken else "poplar::StridedCopy"}


@given(
    st.data(),
    machines(),
    shapes(),
    st.sampled_from([("float32", 0.5), ("float16", -3.0), ("int32", 7), ("uint8", 200)]),
)
def test_fill(data: st.DataObject, machine: Any, shape: Any, kind: tuple[str, float]) -> None:
    """Every element of the tensor, and no other of its variable."""
    graph, builder = new_builder(machine)
    dtype, value = kind
    target = data.draw(tensors(graph, shape, dtype, "target"))
    whole = Tensor(target.variable, 0, row_major(target.variable.shape))
    fill(builder, target, value)
    before = np.ones(whole.shape, "float16" if dtype == "float16" else target.dtype.host)
    _, (result, all_of_it) = run_both(graph, builder.sequence, [(whole, before)], [target, whole])
    assert (result == value).all()
    assert (all_of_it == value).sum() == target.n_elements


def test_a_value_that_the_type_cannot_hold() -> None:
    graph, builder = new_builder(_machine(1))
    for dtype, value in (("int32", 0.5), ("uint8", 256), ("uint8", -1)):
        x = graph.add_variable(dtype, (2,), "x")
        graph.map_linearly(x)
        with pytest.raises(BadGraph, match=f"'x' holds {dtype}: it cannot be filled with"):
            fill(builder, x, value)


@given(st.data(), machines(), shapes(), seeds)
def test_copy_into_a_part(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    """A target may be cut out of its variable, and reversed; the rest stays as it is."""
    graph, builder = new_builder(machine)
    source = data.draw(tensors(graph, shape, name="source"))
    target = data.draw(tensors(graph, shape, name="target"))
    whole = Tensor(target.variable, 0, row_major(target.variable.shape))
    builder.sequence.add(Copy(source, target))
    values, before = values_for(source, seed), values_for(whole, seed + 1)
    inputs = [(source, values), (whole, before)]
    _, (result, all_of_it) = run_both(graph, builder.sequence, inputs, [target, whole])
    np.testing.assert_array_equal(result, values)
    assert (all_of_it != before).sum() <= target.n_elements


@given(st.data(), machines(), shapes(), seeds)
def test_copy_within_a_variable(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    sizes = [shape[0] + data.draw(st.integers(0, 3)), *shape[1:]]
    x = graph.add_variable("float32", sizes, "x")
    data.draw(mappings(graph, x))
    source = x.slice(0, sizes[0] - shape[0], sizes[0])
    target = x.slice(0, 0, shape[0])
    if data.draw(st.booleans()):
        source = source.reverse(data.draw(st.integers(0, len(shape) - 1)))
    builder.sequence.add(Copy(source, target))
    values = values_for(x, seed)
    _, (result,) = run_both(graph, builder.sequence, [(x, values)], [target])
    assert sorted(result.reshape(-1)) == sorted(values[sizes[0] - shape[0] :].reshape(-1))


@given(st.data(), machines(), shapes(), seeds)
def test_rearranged_keeps_the_logical_order(
    data: st.DataObject, machine: Any, shape: Any, seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(tensors(graph, shape))
    out = rearranged(builder, x, (x.n_elements,), "flat")
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_array_equal(result, values.reshape(-1))


@st.composite
def windows(draw: st.DrawFn, height: int, width: int) -> Window:
    """Return a window that fits an input; padding is smaller than the kernel's extent."""
    kernel, stride, dilation, before, after = [], [], [], [], []
    for size in (height, width):
        kernel.append(draw(st.integers(1, min(3, size))))
        stride.append(draw(st.integers(1, 3)))
        dilation.append(draw(st.integers(1, 2)))
        extent = (kernel[-1] - 1) * dilation[-1] + 1
        before.append(draw(st.integers(0, kernel[-1] - 1)))
        after.append(draw(st.integers(max(0, extent - size - before[-1]), extent)))
    geometry = (kernel, stride, dilation, before, after)
    return Window(*((rows, columns) for rows, columns in geometry))


def naive_convolution(x: np.ndarray, w: np.ndarray, window: Window, groups: int) -> np.ndarray:
    n_out = w.shape[0]
    rows, columns = (output_size(x.shape[2 + d], d, window) for d in (0, 1))
    out = np.zeros((x.shape[0], n_out, rows, columns))
    for n, o, r, c in np.ndindex(*out.shape):
        for i, ky, kx in np.ndindex(*w.shape[1:]):
            y = r * window.stride[0] + ky * window.dilation[0] - window.padding_before[0]
            z = c * window.stride[1] + kx * window.dilation[1] - window.padding_before[1]
            if 0 <= y < x.shape[2] and 0 <= z < x.shape[3]:
                channel = o // (n_out // groups) * w.shape[1] + i
                out[n, o, r, c] += float(x[n, channel, y, z]) * float(w[o, i, ky, kx])
    return out


@given(st.data(), machines(), seeds)
def test_convolution(data: st.DataObject, machine: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    groups = data.draw(st.integers(1, 3))
    per_group = data.draw(st.sampled_from([1, 2, 3, 9]))
    outputs = data.draw(st.sampled_from([1, 2, 5, 17]))
    images = data.draw(st.integers(1, 2))
    window = data.draw(windows(height, width))
    x = data.draw(tensors(graph, (images, groups * per_group, height, width)))
    random = np.random.default_rng(seed)
    w = random.uniform(-1, 1, (groups * outputs, per_group, *window.kernel)).astype(np.float32)
    out = convolution(builder, x, w, window, groups)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    expected = naive_convolution(values, w, window, groups)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert len(builder.plans) == 1


@given(st.data(), machines(), seeds)
def test_depthwise_convolution(data: st.DataObject, machine: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    channels = data.draw(st.sampled_from([2, 3, 16, 20]))
    window = data.draw(windows(height, width))
    x = data.draw(tensors(graph, (1, channels, height, width)))
    random = np.random.default_rng(seed)
    w = random.uniform(-1, 1, (channels, 1, *window.kernel)).astype(np.float32)
    out = convolution(builder, x, w, window, channels)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    expected = naive_convolution(values, w, window, channels)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@given(st.data(), machines(), st.booleans(), seeds)
def test_matmul(data: st.DataObject, machine: Any, is_constant: bool, seed: int) -> None:
    graph, builder = new_builder(machine)
    batch, rows = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    inner, columns = (data.draw(st.sampled_from([1, 2, 7, 8, 18, 24])) for _ in range(2))
    a = data.draw(tensors(graph, (batch, rows, inner), name="a"))
    left = values_for(a, seed)
    random = np.random.default_rng(seed)
    right = random.uniform(-1, 1, (batch, inner, columns)).astype(np.float32)
    inputs: list[tuple[Tensor, np.ndarray]] = [(a, left)]
    if is_constant:
        out = matmul(builder, a, right)
    else:
        b = data.draw(tensors(graph, right.shape, name="b"))
        out = matmul(builder, a, b)
        inputs.append((b, right))
    (result,) = check(builder, inputs, [out])
    np.testing.assert_allclose(result, left.astype(np.float64) @ right, rtol=1e-4, atol=1e-4)


@given(st.data(), machines(), seeds)
def test_half_precision(data: st.DataObject, machine: Any, seed: int) -> None:
    """A product, a bias and a relu in half: every step's results lie on the half grid."""
    graph, builder = new_builder(machine)
    rows, inner, columns = (data.draw(st.sampled_from(sizes)) for sizes in ([1, 3], [2, 16], [4]))
    a = data.draw(tensors(graph, (1, rows, inner), "float16", "a"))
    bias = data.draw(tensors(graph, (columns,), "float16", "bias"))
    right = np.random.default_rng(seed).uniform(-1, 1, (1, inner, columns))
    out = matmul(builder, a, right)
    out = unary(builder, "relu", binary(builder, "add", out, bias, out.shape))
    left, added = values_for(a, seed), values_for(bias, seed + 1)
    (result,) = check(builder, [(a, left), (bias, added)], [out])
    assert result.dtype == np.float16
    expected = np.maximum(left.astype(np.float64) @ right + added, 0)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-2)


@given(st.data(), machines(), st.booleans(), st.booleans(), seeds)
def test_pool(
    data: st.DataObject, machine: Any, is_max: bool, counts_padding: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 6))
    channels = data.draw(st.sampled_from([1, 2, 16, 18]))
    kernel = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    before, after = ([data.draw(st.integers(0, k // 2)) for k in kernel] for _ in range(2))
    stride = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2)))
    kernel = (min(kernel[0], height), min(kernel[1], width))
    window = Window(kernel, stride, (1, 1), (before[0], before[1]), (after[0], after[1]))
    x = data.draw(tensors(graph, (data.draw(st.integers(1, 2)), channels, height, width)))
    out = pool(builder, x, window, is_max=is_max, counts_padding=counts_padding)
    check(builder, [(x, values_for(x, seed))], [out])


@given(st.data(), machines(), st.integers(1, 30), st.integers(1, 4))
def test_outputs_on_other_tiles_are_exchanged(
    data: st.DataObject, machine: Any, size: int, n_vertices: int
) -> None:
    """A vertex may write what another tile holds; no library function makes one do that."""
    graph, builder = new_builder(machine)
    out = graph.add_variable("float32", (n_vertices, size), "out")
    data.draw(mappings(graph, out))
    places = st.lists(st.integers(0, machine.n_tiles - 1), min_size=n_vertices, max_size=n_vertices)
    start = np.arange(n_vertices, dtype=np.int64) * size
    fields = {"out": blocks(out.variable, start, [size], [1], n_vertices)}
    compute_set = builder.compute_set("fill")
    builder.vertices(compute_set, FILL, data.draw(places), fields, {"value": start + 1.5})
    (result,) = check(builder, [], [out])
    assert result[:, 0].tolist() == (start + 1.5).tolist()


@given(st.data(), machines(), shapes(), st.integers(1, 4), seeds)
def test_a_loop_carries_its_state(
    data: st.DataObject, machine: Any, shape: Any, count: int, seed: int
) -> None:
    graph, builder = new_builder(machine)
    state = data.draw(tensors(graph, shape, name="state", may_be_part=False))
    step = data.draw(tensors(graph, shape, name="step"))
    inside = Builder(graph, ProgramSequence("body"), builder.debug)
    made = binary(inside, "add", state, step, shape)
    inside.sequence.add(Copy(made, state))
    program = ProgramSequence("all").add(Repeat(count, inside.sequence, "loop"))
    first, added = values_for(state, seed), values_for(step, seed + 1)
    executable, (result,) = run_both(graph, program, [(state, first), (step, added)], [state])
    np.testing.assert_allclose(result, first + count * added.astype(np.float64), atol=1e-4)
    assert (executable.memory.live >= naive_live_bytes(executable)).all()


def test_the_rule_is_broken_where_two_vertices_write_one_element() -> None:
    """The naive machine would say so: it finds an overlap that is there."""
    graph, builder = new_builder(_machine(2))
    out = graph.add_variable("float32", (4,), "out")
    graph.map_linearly(out)
    fields = {"out": blocks(out.variable, np.array([0, 2]), [np.array([3, 2])], [1], 2)}
    compute_set = builder.compute_set("overlap")
    builder.vertices(compute_set, FILL, [0, 1], fields, {"value": 1.0})
    naive = NaiveMachine(graph)
    naive.run(builder.sequence)
    assert naive.violations == [("overlap", (out.variable.variable_id, 2))]


@given(st.data(), machines(), shapes(), seeds)
def test_concat(data: st.DataObject, machine: Any, shape: tuple[int, ...], seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    dtype = data.draw(st.sampled_from(["float32", "int32"]))
    parts = []
    for i in range(data.draw(st.integers(1, 4))):
        sizes = list(shape)
        sizes[dim] = data.draw(st.integers(1, 4))
        parts.append(data.draw(tensors(graph, sizes, dtype, f"part {i}")))
    values = [values_for(part, seed + i) for i, part in enumerate(parts)]
    out = concat(builder, parts, dim)
    (result,) = check(builder, list(zip(parts, values, strict=True)), [out])
    np.testing.assert_array_equal(result, np.concatenate(values, axis=dim))


def test_parts_that_do_not_agree_are_not_joined() -> None:
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=2))
    x = graph.add_variable("float32", (2, 3), "x")
    wide, whole = (
        graph.add_variable("float32", (2, 4), "y"),
        graph.add_variable("int32", (2, 3), "z"),
    )
    for other in (wide, whole):
        with pytest.raises(BadGraph, match=r"cannot be joined to float32 \(2, 3\)"):
            concat(builder, [x, other], 0)
    with pytest.raises(BadGraph, match="no dimension 2"):
        concat(builder, [x], 2)
    with pytest.raises(BadGraph, match="nothing to concatenate"):
        concat(builder, [], 0)
