"""Plan, compile and run times of products and convolutions compared with BLAS.

Never fails on time. BLAS runs in its own process with the same number of threads, because pinned
threads of one side slow down the other.
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
import pytest
from tests.bench.test_engine import measure, seconds

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence

_BLAS = """
import json, sys
from statistics import median
from time import perf_counter
import numpy as np

rows, inner, columns = (int(size) for size in sys.argv[1:])
random = np.random.default_rng(0)
a = random.standard_normal((rows, inner)).astype("f4")
b = random.standard_normal((inner, columns)).astype("f4")
a @ b
times = []
for _ in range(5):
    began = perf_counter()
    a @ b
    times.append(perf_counter() - began)
print(json.dumps({"run_s": median(times)}))
"""

#: Name, images' channels, outputs, field, kernel, groups, type; the field 0 is a product of n rows.
CASES = [
    ("product 2048 x 2048 x 2048 float", 2048, 2048, 0, 1, 1, "float32"),
    ("ResNet-50 3x3, 256 channels, 14 x 14, half", 256, 256, 14, 3, 1, "float16"),
    ("MobileNetV2 depthwise 3x3, 144 channels, 56 x 56, half", 144, 144, 56, 3, 144, "float16"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]).split(",")[0])
def test_products_beside_blas(case: tuple[str, int, int, int, int, int, str]) -> None:
    name, inputs, outputs, size, kernel, groups, dtype = case
    graph, program = Graph(load_machine("gc200")), Sequence("main")
    builder = Builder(graph, program)
    random = np.random.default_rng(0)
    shape = (1, inputs, size, size) if size else (1, inputs, inputs)
    x = graph.add_variable(dtype, shape, "x")
    graph.map_linearly(x, grain=4)
    began = perf_counter()
    if size:
        weights = random.standard_normal((outputs, inputs // groups, kernel, kernel))
        pad = (kernel // 2,) * 2
        window = Window((kernel, kernel), padding_before=pad, padding_after=pad)
        out = convolution(builder, x, weights.astype(np.float32), window, groups)
    else:
        out = matmul(builder, x, random.standard_normal((1, inputs, outputs)).astype(np.float32))
    planned = perf_counter()
    executable = compile_programs(graph, [program], plans=builder.plans)
    compiled = perf_counter()
    values = random.standard_normal(shape).astype(np.float32)
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.write_tensor(x, values)
        run_s = seconds(engine.run)
        assert np.isfinite(engine.read_tensor(out)).all()
    field = size * size or inputs
    macs = field * outputs * inputs // groups * kernel * kernel
    line = (
        f"\n{name}: planned in {planned - began:.2f} s, compiled in {compiled - planned:.2f} s, run"
        f" {run_s * 1e3:.1f} ms, {macs / run_s / 1e9:.1f} GMAC/s"
    )
    if groups == 1:
        blas_s = measure(_BLAS, field, inputs * kernel * kernel, outputs)["run_s"]
        line += f"; BLAS for the same products {blas_s * 1e3:.1f} ms: ratio {run_s / blas_s:.1f}"
    sys.stdout.write(line + "\n")
    assert run_s > 0
