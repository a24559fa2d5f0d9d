"""The heat equation on a rod: a custom codelet, halo exchange, a loop on the machine.

Every tile holds a section of the rod. In a step, a cell becomes the weighted mean of itself and its
two neighbours. The cells at the ends of a section need one cell of the adjacent tile; the compiler
infers this and adds an exchange.
"""

import numpy as np

from tilescope import engine
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Repeat, Sequence, StreamCopyIn, StreamCopyOut

CELLS, STEPS, ALPHA = 94_208, 1_000, np.float32(0.25)


def spread_law(batch, _machine):
    """12 instructions of overhead, then 5 per pair of cells."""
    pairs = -(-(batch.size["out"][:, 0]) // 2)
    return 12 + 5 * pairs


@engine.codelet(
    engine.Field("rod", "in"),
    engine.Field("out", "out"),
    law=spread_law,
    code_bytes=160,
    source="assumption: two loads, two multiply-adds and a store per pair of floats",
)
def spread(rod, out):
    # rod is one cell longer than out at either end
    for i in range(out.size):
        out[i] = rod[i + 1] + ALPHA * (rod[i] - 2 * rod[i + 1] + rod[i + 2])


def add_step(graph, name, source, target):
    """Add a compute set that spreads heat from `source` to `target`, six vertices per tile."""
    machine = graph.machine
    per_tile, n_contexts = CELLS // machine.n_tiles, machine.n_worker_contexts
    tile = np.repeat(np.arange(machine.n_tiles), n_contexts)
    part = np.tile(np.arange(n_contexts), machine.n_tiles)
    start = tile * per_tile + part * per_tile // n_contexts
    end = tile * per_tile + (part + 1) * per_tile // n_contexts
    start, end = np.maximum(start, 1), np.minimum(end, CELLS - 1)  # the ends of the rod are fixed
    size, n_vertices = end - start, tile.size
    compute_set = graph.add_compute_set(name)
    graph.add_vertices(
        compute_set,
        spread,
        tile,
        {
            "rod": blocks(source.variable, start - 1, [size + 2], [1], n_vertices),
            "out": blocks(target.variable, start, [size], [1], n_vertices),
        },
    )
    return Execute(compute_set)


def main() -> None:
    graph = engine.Graph(engine.load_machine("gc200"))
    now = graph.add_variable("float32", (CELLS,), "now")
    then = graph.add_variable("float32", (CELLS,), "then")
    for rod in (now, then):
        graph.map_linearly(rod, grain=CELLS // graph.machine.n_tiles)
    there = add_step(graph, "there", now, then)
    back = add_step(graph, "back", then, now)
    program = Sequence(
        "main",
        [
            StreamCopyIn("rod", now),
            StreamCopyIn("rod again", then),
            Repeat(STEPS // 2, Sequence("two steps", [there, back]), name="steps"),
            StreamCopyOut(now, "result"),
        ],
    )
    executable = engine.compile_programs(graph, [program])

    rod = np.zeros(CELLS, np.float32)
    rod[CELLS // 2 - 50 : CELLS // 2 + 50] = 100
    with engine.Engine(executable) as device:
        device.connect_stream("rod", rod)
        device.connect_stream("rod again", rod)
        device.run()
        result = device.output("result")
        cycles = device.timelines()[0].n_cycles

    expected = rod.copy()
    for _ in range(STEPS):
        expected[1:-1] += ALPHA * (expected[:-2] - 2 * expected[1:-1] + expected[2:])
    error = np.abs(result - expected).max()
    print(f"{STEPS} steps over {CELLS:,} cells: {cycles:,} cycles, largest error {error:.1e}")
    if error > 1e-3:
        raise SystemExit("The result is wrong")


if __name__ == "__main__":
    main()
