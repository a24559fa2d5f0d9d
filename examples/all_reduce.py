"""A ring all-reduce over 4 IPUs with the graph API: every IPU ends with the sum of all vectors.

The vector has one chunk per IPU. In three steps, every IPU adds one of its neighbour's chunks to
its own and then holds one chunk of the total. In three more steps, the summed chunks travel around
the ring. A step is one compute set with vertices on all IPUs; reading the neighbour's chunk causes
the exchange over the links. Before the first step the IPUs do unequal work, so that all wait for
the last one.
"""

import numpy as np

from tilescope import engine
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Sequence

N_IPUS, TILES, PER_TILE = 4, 64, 96
ELEMENTS = TILES * PER_TILE
CHUNK = ELEMENTS // N_IPUS


def scale_law(batch, _machine):
    """12 instructions of overhead, two per element and round."""
    return 12 + 2 * batch.size["x"][:, 0] * batch.scalars["rounds"].astype(np.int64)


def add_law(batch, _machine):
    """12 instructions of overhead, three per pair of elements."""
    return 12 + 3 * -(-batch.size["own"][:, 0] // 2)


SYNC = ("Sync", "sum 0")
SOURCE = "assumption: a pair of floats is loaded, added and stored in three instructions"


@engine.codelet(
    engine.Field("x", "inout"),
    law=scale_law,
    code_bytes=80,
    scalars=(engine.Scalar("rounds"),),
    source="assumption: a load and a multiplication per element",
)
def scale(x, rounds):
    for _ in range(rounds):
        for i in range(x.size):
            x[i] *= np.float32(0.5)


@engine.codelet(
    engine.Field("theirs", "in"),
    engine.Field("own", "inout"),
    law=add_law,
    code_bytes=100,
    source=SOURCE,
)
def add(theirs, own):
    for i in range(own.size):
        own[i] += theirs[i]


@engine.codelet(
    engine.Field("theirs", "in"),
    engine.Field("own", "out"),
    law=add_law,
    code_bytes=80,
    source=SOURCE,
)
def take(theirs, own):
    for i in range(own.size):
        own[i] = theirs[i]


def add_step(graph, name, codelet, vectors, chunk_of):
    """Add a compute set in which every IPU reads a chunk of its predecessor in the ring."""
    ipu = np.repeat(np.arange(N_IPUS), CHUNK // PER_TILE)
    part = np.tile(np.arange(CHUNK // PER_TILE), N_IPUS)
    place = chunk_of(ipu) % N_IPUS * CHUNK + part * PER_TILE
    own, theirs = ipu * ELEMENTS + place, (ipu - 1) % N_IPUS * ELEMENTS + place
    compute_set = graph.add_compute_set(name)
    graph.add_vertices(
        compute_set,
        codelet,
        vectors.variable.tile_of(own),
        {
            "theirs": blocks(vectors.variable, theirs, [PER_TILE], [1], ipu.size),
            "own": blocks(vectors.variable, own, [PER_TILE], [1], ipu.size),
        },
    )
    return Execute(compute_set)


def main() -> None:
    graph = engine.Graph(engine.load_machine("gc200", n_ipus=N_IPUS, tiles_per_ipu=TILES))
    vectors = graph.add_variable("float32", (N_IPUS, ELEMENTS), "vectors")
    graph.map_linearly(vectors, grain=PER_TILE)

    work = graph.add_compute_set("work")
    tile = np.arange(N_IPUS * TILES)
    parts = blocks(vectors.variable, tile * PER_TILE, [PER_TILE], [1], tile.size)
    rounds = 2 * (1 + tile // TILES)
    graph.add_vertices(work, scale, tile, {"x": parts}, {"rounds": rounds})
    # In step s an IPU adds chunk ipu - 1 - s; at the end it holds the sum of chunk ipu + 1.
    sums = [
        add_step(graph, f"sum {s}", add, vectors, lambda ipu, s=s: ipu - 1 - s)
        for s in range(N_IPUS - 1)
    ]
    rounds_of_sums = [
        add_step(graph, f"spread {s}", take, vectors, lambda ipu, s=s: ipu - s)
        for s in range(N_IPUS - 1)
    ]
    program = Sequence("all-reduce", [Execute(work), *sums, *rounds_of_sums])
    executable = engine.compile_programs(graph, [program], is_checked=True)

    start = np.random.default_rng(0).standard_normal((N_IPUS, ELEMENTS)).astype(np.float32)
    with engine.Engine(executable) as device:
        device.write_tensor(vectors, start)
        device.run()
        result = device.read_tensor(vectors)
        timelines = device.timelines()

    # IPUs with less work wait in the first sync until the last IPU arrives.
    (first,) = (step.step_id for step in executable.steps if (step.kind, step.name) == SYNC)
    waits = [timeline.end[1] - timeline.start[1] for timeline in timelines]
    worked = [timeline.end[0] for timeline in timelines]
    is_as_expected = all(timeline.step_id[1] == first for timeline in timelines)
    is_as_expected &= len({a + b for a, b in zip(worked, waits, strict=True)}) == 1

    scaled = start * np.float32(0.5) ** (2 * np.arange(1, N_IPUS + 1))[:, None]
    error = np.abs(result - scaled.sum(axis=0)).max()
    sent = sum(step.cost.link_out_bytes.dense() for step in executable.steps)
    print(
        f"{ELEMENTS:,} floats of {N_IPUS} IPUs summed in {timelines[0].n_cycles:,} cycles,"
        f" {int(sent[0]):,} bytes over the links of every IPU, largest error {error:.1e}"
    )
    if not is_as_expected:
        raise SystemExit("The IPUs do not wait as expected")
    if error > 1e-5 or (sent != 2 * (N_IPUS - 1) * CHUNK * 4).any():
        raise SystemExit("The result is wrong")


if __name__ == "__main__":
    main()
