"""Division of blocks among tiles: against the rule, applied to every grain."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine import Graph, load_machine
from tilescope.engine.graph import Regions, blocks
from tilescope.engine.tiling.division import TileShares, share_out

MACHINE = load_machine("gc200", tiles_per_ipu=64)
GRAIN = 4


def blocks_of(draw: np.random.Generator) -> Regions:
    """Return blocks of rows and of columns of one picture, in any order."""
    n_rows, n_columns, height, width = (int(n) for n in draw.integers(1, 5, 4))
    shape = (n_rows * height, n_columns * width, GRAIN)
    out = Graph(MACHINE).add_variable("float32", shape, "out")
    row, column = (grid.reshape(-1) for grid in np.indices((n_rows, n_columns)))
    order = draw.permutation(row.size)
    pitch = n_columns * width * GRAIN
    start = (row * height * pitch + column * width * GRAIN)[order]
    return blocks(out.variable, start, [height, width, GRAIN], [pitch, GRAIN, 1], row.size)


def owners_by_grain(regions: Regions, sharers: np.ndarray, whole_runs: bool) -> dict[int, int]:
    """Return the tile of the first element of every grain."""
    n = sharers.shape[1]
    owners: dict[int, int] = {}
    for block, start in enumerate(regions.start.tolist()):
        (height, width, _), (pitch, *_) = regions.size[block], regions.stride[block]
        runs = [[start + y * pitch + x * GRAIN for x in range(width)] for y in range(height)]
        if pitch == width * GRAIN or height == 1:
            runs = [[grain for run in runs for grain in run]]
        n_grains = sum(map(len, runs))
        part = 0
        for number, run in enumerate(runs):
            for place, grain in enumerate(run):
                own, of = (part, n_grains)
                if whole_runs:
                    own, of = (place, len(run)) if len(run) >= n else (number, len(runs))
                owners[grain] = int(sharers[block, ((own + 1) * n - 1) // of])
                part += 1
    return owners


def mapped(shares: TileShares, n_elements: int) -> dict[int, int]:
    edges = [*shares.map_start.tolist(), n_elements]
    return {
        element: int(tile)
        for tile, begin, end in zip(shares.map_tile, edges, edges[1:], strict=False)
        for element in range(begin, end, GRAIN)
    }


def held(shares: TileShares) -> dict[int, int]:
    """Return the tile of the first element of every grain, as the blocks of vertices say it."""
    owners: dict[int, int] = {}
    for tile, start, size, stride in zip(
        shares.tile, shares.start, shares.size, shares.stride, strict=True
    ):
        for plane in range(size[0]):
            for row in range(size[1]):
                first = int(start + plane * stride[0] + row * stride[1])
                for element in range(first, first + int(size[2]), GRAIN):
                    assert element not in owners
                    owners[element] = int(tile)
    return owners


@pytest.mark.parametrize("seed", range(40))
def test_shares_follow_the_rule(seed: int) -> None:
    draw = np.random.default_rng(seed)
    regions = blocks_of(draw)
    n_sharers = int(draw.integers(1, 7))
    sharers = np.arange(regions.start.size * n_sharers).reshape(-1, n_sharers) % MACHINE.n_tiles
    ways = share_out(regions, sharers, [True, False])
    for shares, way in zip([ways[0], ways[-1]], [True, False], strict=True):
        expected = owners_by_grain(regions, sharers, way)
        assert mapped(shares, regions.variable.n_elements) == expected
        assert held(shares) == expected
