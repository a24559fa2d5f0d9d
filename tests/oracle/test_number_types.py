"""Products of every number type on random shapes, layouts and mappings, against the naive machine.

Casts between all types, products of float8 in both formats with different scales, and products of
halves with partial sums of either type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views
from tests.oracle.windows import naive_convolution, windows

from tilescope.engine import load_machine
from tilescope.engine.graph import dtype_of
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.popops.elementwise.bit_cast import bit_cast
from tilescope.engine.library.popops.elementwise.operations import cast, row_major_copy

HALF_STEP = 2.0**-10
float8_types = st.builds("float8_{}@{}".format, st.sampled_from(["143", "152"]), st.integers(-4, 4))
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
all_types = st.one_of(float8_types, st.sampled_from(["float32", "float16", *INTEGERS]))


@st.composite
def narrow_machines(draw: st.DrawFn) -> Any:
    """Return a small machine that supports float8."""
    return load_machine(
        "c600",
        n_ipus=draw(st.integers(1, 2)),
        tiles_per_ipu=draw(st.integers(1, 9)),
        parameter_set=draw(st.sampled_from(["hardware", "ipu_model"])),
    )


def near(expected: np.ndarray, n_terms: int, result: np.ndarray) -> None:
    """Check a result in half: few roundings, of at most half a step."""
    np.testing.assert_allclose(
        result.astype(np.float64), expected, rtol=4 * HALF_STEP, atol=n_terms * HALF_STEP
    )


@given(st.data(), narrow_machines(), shapes(), all_types, all_types, seeds)
def test_cast(
    data: st.DataObject, machine: Any, shape: Any, source: str, target: str, seed: int
) -> None:
    if any(name.startswith("float8") for name in (source, target)):
        assume({source, target, "uint8"} & {*INTEGERS} == {"uint8"})  # others go through half
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, source))
    out = cast(builder, x, dtype_of(target))
    both = (source, target)
    low = 0 if any(name.startswith("uint") for name in both) else -100
    high = 120 if "int8" in both else 200
    values = np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)
    if source in INTEGERS:
        values = np.trunc(values)
    (result,) = check(builder, [(x, values)], [out])
    exact = held(graph, x, values)
    expected = held(graph, out, np.trunc(exact) if target in INTEGERS else exact)
    assert result.astype(np.float64).tolist() == expected.tolist()


@given(st.data(), machines(), shapes(), st.booleans(), seeds)
def test_bit_cast(
    data: st.DataObject, machine: Any, shape: Any, is_from_float: bool, seed: int
) -> None:
    source, target = ("float32", "int32") if is_from_float else ("int32", "float32")
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, source))
    out = bit_cast(builder, x, target)
    values = np.random.default_rng(seed).uniform(-1e9, 1e9, shape).astype(source)
    (result,) = check(builder, [(x, values)], [out])
    assert result.tobytes() == values.tobytes()


@given(st.data(), narrow_machines(), float8_types, float8_types, st.booleans(), seeds)
def test_matmul_of_float8(
    data: st.DataObject, machine: Any, first: str, second: str, is_constant: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    batch, rows = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5))
    inner = data.draw(st.sampled_from([1, 7, 32, 40, 70]))
    columns = data.draw(st.sampled_from([1, 9, 16, 20]))
    a = data.draw(views(graph, (batch, rows, inner), first, "a"))
    random = np.random.default_rng(seed)
    left, right = (
        random.uniform(-1, 1, shape).astype(np.float32)
        for shape in (a.shape, (batch, inner, columns))
    )
    b = data.draw(views(graph, right.shape, second, "b"))
    inputs = [(a, left)]
    if is_constant:
        out = matmul(builder, a, right, b_dtype=second)
    else:
        out = matmul(builder, a, b)
        inputs.append((b, right))
    (result,) = check(builder, inputs, [out])
    assert result.dtype == np.float16
    near(held(graph, a, left) @ held(graph, b, right), inner, result)


@given(st.data(), narrow_machines(), float8_types, seeds)
def test_convolution_of_float8(data: st.DataObject, machine: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    groups = data.draw(st.integers(1, 2))
    per_group = data.draw(st.sampled_from([1, 9, 33]))
    outputs = data.draw(st.sampled_from([1, 5, 17]))
    window = data.draw(windows(height, width))
    x = data.draw(views(graph, (1, groups * per_group, height, width), dtype))
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, x.shape).astype(np.float32)
    w = random.uniform(-1, 1, (groups * outputs, per_group, *window.kernel)).astype(np.float32)
    out = convolution(builder, x, w, window, groups)
    (result,) = check(builder, [(x, values)], [out])
    weights = graph.add_variable(dtype, w.shape, "held")
    graph.map_linearly(weights)
    expected = naive_convolution(held(graph, x, values), held(graph, weights, w), window, groups)
    near(expected, per_group * w[0, 0].size, result)


@given(st.data(), machines(), st.sampled_from(["float", "half"]), st.booleans(), seeds)
def test_products_of_halves_in_either_type(
    data: st.DataObject, machine: Any, partials: str, is_matmul: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    random = np.random.default_rng(seed)
    shape: tuple[int, ...]
    peer: tuple[int, ...]
    if is_matmul:
        shape, peer = (1, data.draw(st.integers(1, 5)), 40), (1, 40, 9)
    else:
        channels = data.draw(st.sampled_from([4, 8, 16]))
        shape, peer = (1, channels, 5, 4), (channels, 1, 2, 2)
    x = data.draw(views(graph, shape, "float16"))
    values, w = (random.uniform(-1, 1, s).astype(np.float16) for s in (shape, peer))
    if is_matmul:
        out = matmul(builder, x, w, partials_type=partials)
        expected = values.astype(np.float64) @ w.astype(np.float64)
    else:
        window = data.draw(windows(2, 2).filter(lambda window: window.kernel == (2, 2)))
        out = convolution(builder, x, w, window, channels, partials_type=partials)
        expected = naive_convolution(
            values.astype(np.float64), w.astype(np.float64), window, channels
        )
    (result,) = check(builder, [(x, values)], [out])
    vertices = [b for c in graph.compute_sets if c.name.endswith("convolve") for b in c.batches]
    assert {b.fields["out"].variable.dtype.name for b in vertices} == {
        "float32" if partials == "float" else "float16"
    }
    near(expected, 40, result)


@given(st.data(), machines(), shapes(), st.sampled_from(INTEGERS), seeds)
def test_copies_and_selections_of_integers(
    data: st.DataObject, machine: Any, shape: Any, kind: str, seed: int
) -> None:
    """Types of one to four bytes are copied to the bit, whatever the layout and the mapping."""
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, kind))
    limits = np.iinfo(kind)
    values = np.random.default_rng(seed).integers(
        limits.min, limits.max, shape, kind, endpoint=True
    )
    turned = row_major_copy(builder, x.dim_shuffle(*reversed(range(len(shape)))), "turned")
    (result,) = check(builder, [(x, values)], [turned])
    assert result.dtype == kind
    assert result.tolist() == values.T.tolist()
