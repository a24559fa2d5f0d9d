"""Overlap host copies with compute: load the next batch and store the last result meanwhile.

32 tiles are reserved for I/O. Every batch passes through the input buffer on those tiles, the
compute tiles and the output buffer. A round copies between them and then runs both sides
concurrently, so it takes as long as the longer side instead of the sum.
"""

import numpy as np

from tilescope import engine
from tilescope.engine.graph import blocks
from tilescope.engine.program import (
    Copy,
    Execute,
    Overlap,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)

BATCHES, IO_TILES, PER_VERTEX, ROUNDS = 16, 32, 8, 380


def iterate_law(batch, _machine):
    """5 instructions of overhead, 4 per round and pair of elements."""
    return 5 + 4 * batch.scalars["rounds"] * -(-batch.size["x"][:, 0] // 2)


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("out", "out"),
    law=iterate_law,
    code_bytes=96,
    scalars=(engine.Scalar("rounds"),),
    source="assumption: a pair of floats is loaded, multiplied, added and stored",
)
def iterate(x, out, rounds):
    for i in range(out.size):
        value = x[i]
        for _ in range(int(rounds)):
            value = value * np.float32(0.75) + np.float32(1)
        out[i] = value


def vector(graph, name, tiles, n_elements):
    """Add a variable for one batch, mapped to the given tiles."""
    tensor = graph.add_variable("float32", (n_elements,), name)
    graph.map_linearly(tensor, grain=PER_VERTEX, tiles=tiles)
    return tensor


def add_work(graph, x, out):
    """Return a program with six vertices on every compute tile, one per context."""
    start = np.arange(0, x.n_elements, PER_VERTEX)
    compute_set = graph.add_compute_set("iterate")
    graph.add_vertices(
        compute_set,
        iterate,
        out.variable.tile_of(start),
        {
            "x": blocks(x.variable, start, [PER_VERTEX], [1], start.size),
            "out": blocks(out.variable, start, [PER_VERTEX], [1], start.size),
        },
        {"rounds": ROUNDS},
    )
    return Execute(compute_set)


def compiled(overlaps):
    """Return the program with host copies overlapped with compute, or before it."""
    graph = engine.Graph(engine.load_machine("gc200"), n_io_tiles=IO_TILES)
    n_elements = graph.compute_tiles.size * graph.machine.n_worker_contexts * PER_VERTEX
    coming = vector(graph, "coming", graph.io_tiles, n_elements)
    going = vector(graph, "going", graph.io_tiles, n_elements)
    x = vector(graph, "x", graph.compute_tiles, n_elements)
    y = vector(graph, "y", graph.compute_tiles, n_elements)
    compute = add_work(graph, x, y)
    feed, fetch = StreamCopyIn("batch", coming), StreamCopyOut(going, "result")
    hand_over = Sequence("hand over", [Copy(y, going, "result"), Copy(coming, x, "batch")])

    def beside(*copies):
        io = Sequence("host", list(copies))
        return Overlap(io, compute, "beside") if overlaps else Sequence("", [io, compute])

    program = Sequence(
        "batches",
        [
            Sequence("fill", [feed, Copy(coming, x, "batch"), beside(feed), hand_over]),
            Repeat(BATCHES - 2, Sequence("round", [beside(fetch, feed), hand_over]), name="rounds"),
            Sequence("drain", [beside(fetch), Copy(y, going, "result"), fetch]),
        ],
    )
    return engine.compile_programs(graph, [program], is_checked=True)


def run(executable, batches, name):
    """Return the results and the timeline of the IPU."""
    coming, results = iter(batches), []
    with engine.Engine(executable, name=name) as device:
        device.connect_stream("batch", lambda: next(coming))
        device.connect_stream("result", results.append)
        device.run()
        return np.array(results), device.timelines()[0]


def cycles_of(executable, timeline, kinds):
    """Return the cycles of all executions of steps of the given kinds on one track."""
    chosen = np.isin(
        timeline.step_id, [step.step_id for step in executable.steps if step.kind in kinds]
    )
    return int(((timeline.end - timeline.start) * timeline.count)[chosen].sum())


def main() -> None:
    overlapped, plain = compiled(overlaps=True), compiled(overlaps=False)
    n_elements = overlapped.graph.variables[0].n_elements
    batches = np.random.default_rng(0).random((BATCHES, n_elements), dtype=np.float32)
    results, line = run(overlapped, batches, "")
    plain_results, plain_line = run(plain, batches, "plain")

    expected = batches
    for _ in range(ROUNDS):
        expected = expected * np.float32(0.75) + np.float32(1)
    error = max(np.abs(found - expected).max() for found in (results, plain_results))

    copies = ("StreamCopyBegin", "StreamCopyMid", "StreamCopyEnd")
    beside = cycles_of(overlapped, line.io, copies)
    saved = plain_line.n_cycles - line.n_cycles
    print(
        f"{BATCHES} batches: {plain_line.n_cycles:,} cycles with the host copies before compute,"
        f" {line.n_cycles:,} beside it; {beside:,} cycles of copies ran on the I/O tiles,"
        f" {saved:,} of them hidden; largest error {error:.1e}"
    )
    if error > 1e-5:
        raise SystemExit("The result is wrong")
    if not 0.8 * beside < saved <= beside:
        raise SystemExit("The copies are not hidden")


if __name__ == "__main__":
    main()
