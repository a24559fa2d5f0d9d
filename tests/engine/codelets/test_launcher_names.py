"""Fields and scalars of any name: the launcher's own names never clash with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilescope import engine
from tilescope.engine.program import Execute

OWN = [
    ("first", "last", "v"),
    ("kernel", "launch", "range"),
    ("as_strided", "round0", "rounder0"),
    ("x", "x_start", "x_size"),
    ("memory0", "start0", "scalar0"),
    ("numpy", "match", "größe"),
]


def _doubled_and_moved(names: tuple[str, str, str], dtype: str, **more: Any) -> np.ndarray:
    """Run out = 2 x + shift on two vertices, with these names of `out`, `x` and `shift`."""
    out, x, shift = names

    def kernel(target: Any, source: Any, number: float) -> Any:
        for i in range(target.size):
            target[i] = 2 * source[i] + number
        return target.size

    built = engine.codelet(
        engine.Field(out, "out"),
        engine.Field(x, "in"),
        scalars=[engine.Scalar(shift, "float")],
        law=lambda batch, _: 10 + batch.size[x][:, 0] + batch.counts,
        code_bytes=40,
        name="doubled",
        **more,
    )(kernel)
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
    source = graph.add_constant(np.arange(8) / 7, "source", dtype=dtype)
    target = graph.add_variable(dtype, (8,), "target")
    for tensor in (source, target):
        graph.map_linearly(tensor)
    compute_set = graph.add_compute_set("double")
    halves = {
        name: [tensor.slice(0, 0, 4), tensor.slice(0, 4, 8)]
        for name, tensor in ((out, target), (x, source))
    }
    graph.add_vertices(compute_set, built, [0, 2], halves, {shift: [1.0, 3.0]})
    executable = engine.compile_programs(graph, [Execute(compute_set)])
    with engine.Engine(executable) as device:
        device.run()
        return device.read_tensor(target)


@pytest.mark.parametrize("names", OWN)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_any_identifier_is_a_name(names: tuple[str, str, str], dtype: str) -> None:
    result = _doubled_and_moved(names, dtype, is_data_dependent=True)
    expected = 2 * np.arange(8) / 7 + np.repeat([1.0, 3.0], 4)
    np.testing.assert_allclose(result, expected, rtol=2e-3 if dtype == "float16" else 1e-6)
