"""float8: formats, scales, casts, and operations that do not support it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilescope import engine
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import DType, dtype_of, float8
from tilescope.engine.host.kernels._rounding import rounder_of
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popops.elementwise.operations import binary, cast, unary
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.window import Window
from tilescope.engine.number.grid import Grid
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

NO_OPTIONS = engine.resolve_options(environ={})
FORMATS: dict[str, Any] = {"143": ml_dtypes.float8_e4m3fnuz, "152": ml_dtypes.float8_e5m2fnuz}
SCALES = (-32, -7, 0, 5, 31)


def all_numbers(layout: str) -> NDArray[np.float32]:
    """Return the finite numbers of a format, ascending, by the oracle."""
    codes = np.arange(256, dtype=np.uint8).view(FORMATS[layout]).astype(np.float32)
    return np.sort(codes[np.isfinite(codes)])


def grid_of(layout: str, scale: int = 0) -> Grid:
    grid = float8(layout, scale).grid
    assert grid is not None
    return grid


def by_kernel(values: NDArray[np.float32], grid: Grid) -> NDArray[np.float32]:
    memory = values.copy()
    region = np.array([0, memory.size, 1])
    rounder_of(grid)(memory.ctypes.data, region.ctypes.data, 1)
    return memory


def drawn_values(layout: str) -> NDArray[np.float32]:
    """Return every number of a format, midpoints, their neighbours, and special values."""
    numbers = all_numbers(layout)
    middle = (numbers[1:] + numbers[:-1]) / 2
    beside = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
    special = np.array([0.0, -0.0, 1e-30, -1e-30, 1e-45], np.float32)
    return np.concatenate([numbers, middle, *beside, special])


@pytest.mark.parametrize("layout", FORMATS)
def test_rounding_is_that_of_another_implementation(layout: str) -> None:
    values = drawn_values(layout)
    expected = values.astype(FORMATS[layout]).astype(np.float32)
    for actual in (by_kernel(values, grid_of(layout)), grid_of(layout).rounded(values)):
        assert np.array_equal(actual, expected)
        assert not np.signbit(actual[actual == 0]).any()


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_multiplies_all_numbers_by_a_power_of_two(layout: str, scale: int) -> None:
    values = drawn_values(layout)
    factor = np.float32(2.0) ** scale
    expected = values.astype(FORMATS[layout]).astype(np.float32) * factor
    grid = grid_of(layout, scale)
    for actual in (by_kernel(values * factor, grid), grid.rounded(values * factor)):
        assert np.array_equal(actual, expected)


@pytest.mark.parametrize(("layout", "largest"), [("143", 240), ("152", 57344)])
def test_what_is_too_large_becomes_the_largest_number(layout: str, largest: float) -> None:
    assert all_numbers(layout)[-1] == largest
    values = np.array([largest * 1.04, -largest * 1.2, 1e38, np.inf, -np.inf, np.nan], np.float32)
    expected = np.array([1, -1, 1, 1, -1, np.nan]) * largest
    for actual in (by_kernel(values, grid_of(layout)), grid_of(layout).rounded(values)):
        assert np.array_equal(actual, expected, equal_nan=True)


@given(st.sampled_from(sorted(FORMATS)), st.sampled_from(SCALES), st.integers(0, 10**6))
def test_the_kernel_and_the_host_round_alike(layout: str, scale: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = (random.standard_normal(200) * 2.0 ** random.integers(-60, 60, 200)).astype(np.float32)
    grid = grid_of(layout, scale)
    assert np.array_equal(by_kernel(values, grid), grid.rounded(values))


def run(values: NDArray[Any], source: str, targets: list[DType]) -> NDArray[Any]:
    """Write values as `source`, cast them along `targets`, and return the result."""
    graph = engine.Graph(engine.load_machine("c600", tiles_per_ipu=4))
    x = graph.add_variable(source, values.shape, "x")
    graph.map_linearly(x)
    program = Sequence("", [StreamCopyIn("x", x)])
    builder = engine.Builder(graph, program)
    out = x.dim_shuffle(1, 0)
    for target in targets:
        out = cast(builder, out, target)
    program.add(StreamCopyOut(out, "out"))
    with engine.Engine(engine.compile_programs(graph, [program]), NO_OPTIONS) as device:
        device.connect_stream("x", values)
        device.run()
        return device.output("out").T


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("source", ["float16", "float32"])
def test_a_cast_to_float8_and_back_leaves_the_nearest_numbers(layout: str, source: str) -> None:
    values = np.random.default_rng(3).uniform(-200, 200, (9, 14)).astype(source)
    actual = run(values, source, [float8(layout), dtype_of(source)])
    assert actual.dtype == values.dtype
    assert np.array_equal(actual, values.astype(FORMATS[layout]).astype(source))


def test_a_cast_between_formats_rounds_and_saturates() -> None:
    values = np.array([[3.25, 500.0, -1000.0, 2.0**-14, 17.0]], np.float32)
    actual = run(values, "float32", [float8("152"), float8("143"), float8("143", 2)])
    wide = values.astype(FORMATS["152"]).astype(np.float32)
    narrow = np.clip(wide, -240, 240).astype(FORMATS["143"]).astype(np.float32)
    assert np.array_equal(actual, (narrow / 4).astype(FORMATS["143"]).astype(np.float32) * 4)


@pytest.mark.parametrize("layout", FORMATS)
def test_values_from_the_host_are_rounded_and_come_back_as_float(layout: str) -> None:
    values = np.random.default_rng(4).standard_normal((3, 5)).astype(np.float32)
    actual = run(values, f"float8_{layout}@-3", [])
    assert actual.dtype == np.float32
    assert np.array_equal(actual, (values * 8).astype(FORMATS[layout]).astype(np.float32) / 8)


def test_a_float8_takes_one_byte() -> None:
    graph = engine.Graph(engine.load_machine("c600", tiles_per_ipu=2))
    x = graph.add_variable("float8_143", (100,), "x")
    assert x.variable.n_bytes == 100


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("float8_143", float8()),
        ("float8_152@-7", float8("152", -7)),
        (ml_dtypes.float8_e4m3fnuz, float8("143")),
        (ml_dtypes.float8_e5m2fnuz, float8("152")),
        (str(float8("143", 31)), float8("143", 31)),
    ],
)
def test_a_type_is_found_by_its_name(name: Any, same: DType) -> None:
    assert dtype_of(name) == same


@pytest.mark.parametrize(
    ("layout", "scale", "message"),
    [
        ("134", 0, "Unknown float8 layout '134'"),
        ("143", 32, "from -32 to 31"),
        ("152", -33, "-32 to"),
        ("143", 1.5, "is 1.5: expected an integer"),
        ("143", "2", "is '2': expected an integer"),
    ],
)
def test_other_layouts_and_scales_are_refused(layout: str, scale: Any, message: str) -> None:
    with pytest.raises(BadGraph, match=message):
        float8(layout, scale)


@pytest.mark.parametrize("machine", ["gc2", "gc200", "bow"])
def test_machines_without_float8_refuse_it(machine: str) -> None:
    graph = engine.Graph(engine.load_machine(machine, tiles_per_ipu=2))
    message = f"'weights' is float8_143: {machine} has no float8; use float16"
    with pytest.raises(BadGraph, match=message):
        graph.add_variable("float8_143", (4,), "weights")
    with pytest.raises(BadGraph, match="has no float8"):
        graph.add_constant(np.ones(4, np.float32), "c", dtype=float8())
    with pytest.raises(BadGraph, match="has no float8"):
        graph.add_remote_buffer("rows", "float8_152", 4)


def test_operations_without_a_vertex_for_float8_say_so() -> None:
    graph = engine.Graph(engine.load_machine("c600", tiles_per_ipu=2))
    x = graph.add_variable("float8_143", (1, 1, 4, 4), "x")
    graph.map_linearly(x)
    builder = engine.Builder(graph, Sequence(""))
    with pytest.raises(BadGraph, match=r"'x': float8_143.*cast it to float32"):
        unary(builder, "relu", x)
    with pytest.raises(BadGraph, match=r"'x': float8_143.*cast it to float32"):
        binary(builder, "add", x, x, x.shape)
    with pytest.raises(BadGraph, match=r"'x' is float8_143.*cast it to float16 first"):
        reduce(builder, "sum", x, [3])
    with pytest.raises(BadGraph, match=r"'x' is float8_143.*cast it to float16 first"):
        pool(builder, x, Window((2, 2)))
    with pytest.raises(BadGraph, match="from float8_143 to int32; cast to float16 first"):
        cast(builder, x, dtype_of("int32"))
