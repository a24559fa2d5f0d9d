"""A 3 x 3 Gaussian blur of an image with four channels, in blocks over all tiles, with halos.

Every tile holds a block of the picture, and six vertices share its rows. A pixel needs its eight
neighbours. At the edge of a block they are on other tiles; the compiler infers which, and exchanges
them. The picture is padded with a ring of zeros, which is never written.

    python examples/blur.py --machine gc2 --type half
"""

import argparse

import numpy as np

from tilescope import engine
from tilescope.engine.graph import blocks
from tilescope.engine.program import Execute, Repeat, Sequence, StreamCopyIn, StreamCopyOut

HEIGHT, WIDTH, CHANNELS, STEPS = 1_122, 2_200, 4, 10
WEIGHTS = np.outer([1, 2, 1], [1, 2, 1]).astype(np.float32) / 16
BLOCKS = {1_472: (46, 32), 1_216: (38, 32)}  # down and across, by tiles of a machine


def blur_law(batch, machine):
    """20 of overhead, 2 per loop iteration, 9 loads, 11 operations and a store per 8 bytes."""
    height, width, channels = batch.size["out"].T
    vectors = batch.n_vectors(channels, "out", machine)
    return 20 + height * (2 + width * (2 + 21 * vectors))


@engine.codelet(
    engine.Field("image", "in", 3, kind="view"),
    engine.Field("out", "out", 3, kind="view"),
    law=blur_law,
    code_bytes=280,
    source="assumption: every load, store and operation of the formula is one instruction",
)
def blur(image, out):
    # image is one pixel larger than out on every side
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            for c in range(out.shape[2]):
                corners = image[y, x, c] + image[y, x + 2, c]
                corners += image[y + 2, x, c] + image[y + 2, x + 2, c]
                sides = image[y, x + 1, c] + image[y + 2, x + 1, c]
                sides += image[y + 1, x, c] + image[y + 1, x + 2, c]
                middle = image[y + 1, x + 1, c]
                out[y, x, c] = np.float32(0.0625) * (corners + 2 * sides + 4 * middle)


def edges(n_parts, size):
    """Return the boundaries of parts of nearly equal size."""
    return np.arange(n_parts + 1) * size // n_parts


def add_picture(graph, dtype, name):
    """Add a zero-padded picture; the rows of a tile are intervals of the padded lines."""
    picture = graph.add_variable(dtype, (HEIGHT + 2, WIDTH + 2, CHANNELS), name)
    down, across = BLOCKS[graph.machine.n_tiles]
    # The padding is mapped to the adjacent tiles.
    row = np.clip(np.arange(HEIGHT + 2) - 1, 0, HEIGHT - 1)
    block_row = np.searchsorted(edges(down, HEIGHT), row, side="right") - 1
    begins = edges(across, WIDTH)[:-1] + 1
    begins[0] = 0
    starts = (np.arange(HEIGHT + 2)[:, None] * (WIDTH + 2) + begins) * CHANNELS
    tiles = block_row[:, None] * across + np.arange(across)
    graph.set_tile_mapping(picture, starts.reshape(-1), tiles.reshape(-1))
    return picture


def add_step(graph, name, source, target):
    """Add a compute set that blurs `source` into `target`."""
    down, across = BLOCKS[graph.machine.n_tiles]
    n_contexts = graph.machine.n_worker_contexts
    tile = np.repeat(np.arange(down * across), n_contexts)
    worker = np.tile(np.arange(n_contexts), down * across)
    top, bottom = (edges(down, HEIGHT)[tile // across + i] for i in (0, 1))
    left, right = (edges(across, WIDTH)[tile % across + i] for i in (0, 1))
    first = top + worker * (bottom - top) // n_contexts
    height = top + (worker + 1) * (bottom - top) // n_contexts - first
    width, line = right - left, (WIDTH + 2) * CHANNELS
    # Padding shifts a pixel by one down and to the right.
    corner = first * line + left * CHANNELS
    strides = [line, CHANNELS, 1]
    compute_set = graph.add_compute_set(name)
    graph.add_vertices(
        compute_set,
        blur,
        tile,
        {
            "image": blocks(
                source.variable, corner, [height + 2, width + 2, CHANNELS], strides, tile.size
            ),
            "out": blocks(
                target.variable,
                corner + line + CHANNELS,
                [height, width, CHANNELS],
                strides,
                tile.size,
            ),
        },
    )
    return Execute(compute_set)


def in_numpy(picture, dtype):
    """Return the picture after all steps, rounded to the type after every step."""
    for _ in range(STEPS):
        ring = np.pad(picture.astype(np.float32), ((1, 1), (1, 1), (0, 0)))
        shifted = (
            weight * ring[y : y + HEIGHT, x : x + WIDTH]
            for (y, x), weight in np.ndenumerate(WEIGHTS)
        )
        picture = sum(shifted).astype(dtype)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description="Blur a picture on a simulated machine.")
    parser.add_argument("--machine", choices=["gc200", "gc2", "bow", "c600"], default="gc200")
    parser.add_argument("--type", choices=["float", "half"], default="float")
    arguments = parser.parse_args()
    dtype = {"float": "float32", "half": "float16"}[arguments.type]
    graph = engine.Graph(engine.load_machine(arguments.machine))
    now, then = (add_picture(graph, dtype, name) for name in ("now", "then"))
    there = add_step(graph, "there", now, then)
    back = add_step(graph, "back", then, now)
    program = Sequence(
        "main",
        [
            StreamCopyIn("picture", now),
            StreamCopyIn("picture again", then),
            Repeat(STEPS // 2, Sequence("two steps", [there, back]), name="steps"),
            StreamCopyOut(now, "result"),
        ],
    )
    executable = engine.compile_programs(graph, [program])

    picture = np.random.default_rng(0).random((HEIGHT, WIDTH, CHANNELS)).astype(dtype)
    ring = np.pad(picture, ((1, 1), (1, 1), (0, 0)))
    with engine.Engine(executable) as device:
        device.connect_stream("picture", ring)
        device.connect_stream("picture again", ring)
        device.run()
        result = device.output("result")[1:-1, 1:-1]

    print(f"{STEPS} steps over {HEIGHT:,} x {WIDTH:,} pixels of {CHANNELS} {dtype}")
    in_step = [step for step in executable.steps if step.name in ("there", "back")]
    for step in in_step[: len(in_step) // 2]:
        print(f"{step.kind:>14}: {step.cost.cycles.max():7,} cycles")
    expected = in_numpy(picture, dtype)
    error = np.abs(result.astype(np.float32) - expected.astype(np.float32)).max()
    print(f"largest error {error:.1e}")
    if error > (1e-6 if arguments.type == "float" else 1e-3):
        raise SystemExit("The result is wrong")


if __name__ == "__main__":
    main()
