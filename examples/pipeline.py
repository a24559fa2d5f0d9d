"""A pipeline of two stages over two IPUs, one batch apart.

Stage 1 runs on IPU 0, stage 2 on IPU 1. Every IPU has its own cycle counter, so the two stages of a
round run concurrently. The output of stage 1 then crosses the link in an exchange of all IPUs; the
IPU with the shorter stage waits in its sync. The host feeds batches and receives results through
callbacks.
"""

import numpy as np

from tilescope import engine
from tilescope.engine.graph import blocks
from tilescope.engine.program import Copy, Execute, Repeat, Sequence, StreamCopyIn, StreamCopyOut

BATCHES, INPUTS, HIDDEN, OUTPUTS = 12, 256, 2_048, 512


def dense_law(batch, _machine):
    """12 instructions of overhead, 9 per row, and one per pair of inputs of a row."""
    rows, columns = batch.size["weights"].T
    return 12 + rows * (9 + -(-columns // 2))


@engine.codelet(
    engine.Field("x", "in"),
    engine.Field("weights", "in", 2, kind="view"),
    engine.Field("out", "out"),
    law=dense_law,
    code_bytes=180,
    source="assumption: a pair of floats is loaded, multiplied and added in one instruction",
)
def dense(x, weights, out):
    for row in range(out.size):
        total = np.float32(0)
        for i in range(x.size):
            total += weights[row, i] * x[i]
        out[row] = max(total, np.float32(0))


def tiles_of(graph, ipu):
    """Return the tiles of an IPU."""
    per_ipu = graph.machine.tiles_per_ipu
    return range(ipu * per_ipu, (ipu + 1) * per_ipu)


def variable(graph, name, shape, ipu):
    """Add a variable mapped to the tiles of one IPU in whole rows."""
    tensor = graph.add_variable("float32", shape, name)
    graph.map_linearly(tensor, grain=shape[-1] if len(shape) > 1 else 1, tiles=tiles_of(graph, ipu))
    return tensor


def add_stage(graph, name, x, weights, ipu):
    """Add a dense layer on one IPU, one row of weights per vertex; return output and program."""
    n_rows, n_columns = weights.shape
    kept = graph.add_constant(weights, f"{name}/weights")
    graph.map_linearly(kept, grain=n_columns, tiles=tiles_of(graph, ipu))
    out = variable(graph, f"{name}/out", (n_rows,), ipu)
    row = np.arange(n_rows)
    compute_set = graph.add_compute_set(name)
    graph.add_vertices(
        compute_set,
        dense,
        out.variable.tile_of(row),
        {
            "x": blocks(x.variable, 0, [n_columns], [1], n_rows),
            "weights": blocks(
                kept.variable, row * n_columns, [1, n_columns], [n_columns, 1], n_rows
            ),
            "out": blocks(out.variable, row, [1], [1], n_rows),
        },
    )
    return out, Execute(compute_set)


def spans(executable, timeline, name):
    """Return the cycles of all executions of a stage on an IPU, exchange included."""
    ids = {step.step_id for step in executable.steps if step.name == name and step.kind != "Sync"}
    found = []
    for step, start, end in zip(timeline.step_id, timeline.start, timeline.end, strict=True):
        if step in ids and executable.steps[step].compute_set is None:
            found.append(range(start, end))  # the exchange, then the compute phase after it
        elif step in ids:
            found[-1] = range(found[-1].start, end)
    return found


def main() -> None:
    random = np.random.default_rng(0)
    batches = random.standard_normal((BATCHES, INPUTS)).astype(np.float32)
    first = random.standard_normal((HIDDEN, INPUTS)).astype(np.float32) / 16
    second = random.standard_normal((OUTPUTS, HIDDEN)).astype(np.float32) / 45

    graph = engine.Graph(engine.load_machine("gc200", n_ipus=2))
    x = variable(graph, "batch", (INPUTS,), 0)
    taken = variable(graph, "taken over", (HIDDEN,), 1)
    made, stage_1 = add_stage(graph, "stage 1", x, first, 0)
    result, stage_2 = add_stage(graph, "stage 2", taken, second, 1)
    feed, hand_over = StreamCopyIn("batch", x), Copy(made, taken, "hand over")
    both = [feed, stage_1, stage_2, hand_over, StreamCopyOut(result, "result")]
    program = Sequence(
        "pipeline",
        [
            Sequence("fill", [feed, stage_1, hand_over]),
            Repeat(BATCHES - 1, Sequence("round", both), name="rounds"),
            Sequence("drain", [stage_2, StreamCopyOut(result, "result")]),
        ],
    )
    executable = engine.compile_programs(graph, [program], is_checked=True)

    coming, results = iter(batches), []
    with engine.Engine(executable) as device:
        device.connect_stream("batch", lambda: next(coming))
        device.connect_stream("result", results.append)
        device.run()
        lines = device.timelines()

    expected = np.maximum(np.maximum(batches @ first.T, 0) @ second.T, 0)
    error = np.abs(np.array(results) - expected).max()

    # In a full round, stage 1 of a batch runs beside stage 2 of the previous batch.
    ahead, behind = spans(executable, lines[0], "stage 1"), spans(executable, lines[1], "stage 2")
    pairs = zip(ahead[1:], behind, strict=False)
    shared = sum(max(0, min(a.stop, b.stop) - max(a.start, b.start)) for a, b in pairs)
    print(
        f"{BATCHES} batches in {lines[0].n_cycles:,} cycles, {shared:,} of them with both IPUs"
        f" busy, largest error {error:.1e}"
    )
    if shared != sum(map(len, ahead[1:])):
        raise SystemExit("The stages do not overlap")
    if error > 1e-3:
        raise SystemExit("The result is wrong")


if __name__ == "__main__":
    main()
