"""Multiply three matrices and profile the program.

This is the program of Poplar's profiling tutorial: (m1 x m2) x m3 in float, on the IPU Model.

    python examples/two_products.py --report baseline
    python examples/two_products.py --report candidate --sizes 400 500 200 100
    tilescope diff baseline candidate
"""

import argparse

import numpy as np

from tilescope import engine
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.program import Sequence

NAMES = ("m1", "m2", "m3")


def main() -> None:
    parser = argparse.ArgumentParser(description="Multiply three matrices on a simulated machine.")
    parser.add_argument("--sizes", type=int, nargs=4, default=[800, 500, 400, 200])
    parser.add_argument("--report", help="directory of the report")
    arguments = parser.parse_args()
    graph = engine.Graph(engine.load_machine("gc200", parameter_set="ipu_model"))
    shapes = [(1, *pair) for pair in zip(arguments.sizes, arguments.sizes[1:], strict=False)]
    m1, m2, m3 = (
        graph.add_variable("float32", shape, name)
        for name, shape in zip(NAMES, shapes, strict=True)
    )
    for matrix in (m1, m2, m3):
        graph.map_linearly(matrix)

    program = Sequence("main")
    builder = engine.Builder(graph, program)
    m5 = matmul(builder, matmul(builder, m1, m2, "m4"), m3, "m5")
    executable = engine.compile_programs(graph, [program], plans=builder.plans)

    options = engine.resolve_options(
        code={"autoReport.all": True, "autoReport.directory": arguments.report}
        if arguments.report
        else {}
    )
    random = np.random.default_rng(1)
    values = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    with engine.Engine(executable, options) as device:
        device.load()
        for matrix, value in zip((m1, m2, m3), values, strict=True):
            device.write_tensor(matrix, value)
        device.run()
        result = device.read_tensor(m5)

    for step in executable.steps:
        if step.kind != "Sync":
            print(f"{step.kind:>14} {step.name:<20} {step.cost.cycles.max():7,} cycles")
    expected = values[0].astype(np.float64) @ values[1] @ values[2]
    error = np.abs(result - expected).max() / np.abs(expected).max()
    print(f"Largest difference from numpy: {error:.1e} of the largest value")
    if error > 1e-5:
        raise SystemExit("The product is wrong")


if __name__ == "__main__":
    main()
