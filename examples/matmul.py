"""Multiply two matrices with the graph API and profile the program.

By default no report is written. Request one through the environment:

    POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true","autoReport.directory":"./report"}' \
        python examples/matmul.py
    tilescope summary report
"""

import numpy as np

from tilescope import engine
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

ROWS, INNER, COLUMNS = 400, 250, 200


def main() -> None:
    machine = engine.load_machine("gc200")
    graph = engine.Graph(machine)

    # Variables live on tiles: define which tile holds which elements.
    left = graph.add_variable("float32", (1, ROWS, INNER), "left")
    right = graph.add_variable("float32", (1, INNER, COLUMNS), "right")
    graph.map_linearly(left, grain=2)
    graph.map_linearly(right, grain=2)

    # The library plans the product, adds its compute sets and returns its result.
    program = Sequence("main")
    program.add(StreamCopyIn("left", left), StreamCopyIn("right", right))
    builder = engine.Builder(graph, program)
    product = matmul(builder, left, right, name="product")
    program.add(StreamCopyOut(product, "product"))

    executable = engine.compile_programs(graph, [program], plans=builder.plans)
    for plan in builder.plans:
        print(f"{plan.name}: {dict(plan.split)} on {plan.n_tiles} tiles")

    a = np.random.default_rng(1).standard_normal((1, ROWS, INNER)).astype(np.float32)
    b = np.random.default_rng(2).standard_normal((1, INNER, COLUMNS)).astype(np.float32)
    with engine.Engine(executable) as device:
        device.connect_stream("left", a)
        device.connect_stream("right", b)
        device.run()
        result = device.output("product")
    error = np.abs(result - a @ b).max()
    print(f"Largest difference from numpy: {error:.1e}")
    if error > 1e-3:
        raise SystemExit("The product is wrong")


if __name__ == "__main__":
    main()
