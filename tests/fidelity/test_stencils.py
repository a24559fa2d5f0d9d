"""The published stencils: their hand-written codelets, and the programs around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fidelity.blurs import author_tiles, author_workers
from tests.fidelity.stencils import Blocks, blur_codelet, heat_codelet

from tilescope.engine import Engine, Graph, compile_programs, load_machine, resolve_options
from tilescope.engine.fidelity import packaged_rows
from tilescope.engine.graph import Regions, Tensor, blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.program import Execute


def run_one(
    codelet: Codelet,
    variables: dict[str, np.ndarray],
    regions: dict[str, tuple[list[int], list[int]]],
    **scalars: int,
) -> tuple[np.ndarray, int]:
    """Run one vertex on one tile; return its output and its context's cycles."""
    graph = Graph(load_machine("gc2", tiles_per_ipu=1))
    tensors: dict[str, Tensor] = {}
    fields: dict[str, Regions] = {}
    for name, values in variables.items():
        tensors[name] = graph.add_variable("float32", values.shape, name)
        graph.map_linearly(tensors[name])
        sizes, strides = regions[name]
        fields[name] = blocks(tensors[name].variable, 0, sizes, strides, 1)
    compute_set = graph.add_compute_set("one")
    graph.add_vertices(compute_set, codelet, [0], fields, scalars)
    compiled = compile_programs(graph, [Execute(compute_set)], is_checked=True)
    with Engine(compiled, resolve_options(environ={})) as engine:
        for name, values in variables.items():
            engine.write_tensor(tensors[name], values)
        engine.run()
        out = engine.read_tensor(tensors["out"])
    (use,) = compiled.vertex_uses
    return out, use.max_cycles


@pytest.mark.parametrize(("dtype", "pixel"), [("half", 21), ("pairs", 42), ("float", 4 * 23)])
def test_the_blur_of_a_block(dtype: str, pixel: int) -> None:
    height, width = 3, 5
    image = np.random.default_rng(0).random((height + 2, width + 2, 4)).astype(np.float32)
    sizes = {"image": ([image.size], [1]), "out": ([height * width * 4], [1])}
    variables = {"image": image, "out": np.zeros((height, width, 4), np.float32)}
    out, cycles = run_one(blur_codelet(dtype), variables, sizes, height=height, width=width)
    weights = np.outer([1, 2, 1], [1, 2, 1]) / 16
    expected = np.zeros_like(out, dtype=np.float64)
    for y, x, c in np.ndindex(*out.shape):
        expected[y, x, c] = (weights * image[y : y + 3, x : x + 3, c]).sum()
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert cycles == 20 + 3 * (2 + 5 * (2 + pixel))


@pytest.mark.parametrize(("width", "row"), [(4, 2 * 12 + 1 * 16 + 12), (5, 12 + 2 * 16 + 12)])
def test_a_step_of_heat(width: int, row: int) -> None:
    height = 3
    grid = np.random.default_rng(0).random((height + 2, width + 2)).astype(np.float32)
    regions = {
        "grid": ([height + 2, width + 2], [width + 2, 1]),
        "out": ([height, width], [width, 1]),
    }
    variables = {"grid": grid, "out": np.zeros((height, width), np.float32)}
    out, cycles = run_one(heat_codelet(), variables, regions)
    for y, x in np.ndindex(*out.shape):
        around = grid[y, x + 1] + grid[y + 2, x + 1] + grid[y + 1, x] + grid[y + 1, x + 2]
        assert out[y, x] == pytest.approx(0.6 * grid[y + 1, x + 1] + 0.1 * around, rel=1e-6)
    assert cycles == 20 + height * row


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 7), st.integers(1, 4))
def test_blocks_cover_a_grid_once(height: int, width: int, down: int, across: int) -> None:
    down, across = min(down, height), min(across, width)
    rows, columns = (np.arange(n + 1) * size // n for n, size in ((down, height), (across, width)))
    full = Blocks.of_grid(rows, columns)
    for cut in (full, full.by_rows(2), full.by_columns(3)):
        owner = np.full((height, width), -1)
        for tile, y, x, h, w in zip(
            cut.tile, cut.top, cut.left, cut.height, cut.width, strict=True
        ):
            assert (owner[y : y + h, x : x + w] == -1).all()
            owner[y : y + h, x : x + w] = tile
        assert (owner >= 0).all()
        graph = Graph(load_machine("gc2"))
        grid = graph.add_variable("float32", (height, width, 4), "grid")
        full.map(graph, grid)
        actual = grid.variable.tile_of(np.arange(grid.n_elements)).reshape(grid.shape)
        assert (actual == owner[:, :, None]).all()


def test_the_page_shows_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "stencils.md"
    (table,) = (
        part.splitlines()[2:]
        for part in page.read_text(encoding="utf-8").split("\n\n")
        if part.startswith("| Phase | half, published")
    )
    text = {cells[1]: cells[2:6] for cells in ([c.strip() for c in x.split("|")] for x in table)}
    rows = {row.figure: row for row in packaged_rows() if row.id == "C16"}
    phases = {
        "Sync": "sync",
        "Halo exchange": "halo exchange",
        "Copy in": "arranged before",
        "Blur": "compute",
        "Copy out": "arranged after",
    }
    assert list(text) == list(phases)
    for phase, figure in phases.items():
        for dtype, cells in (("half", text[phase][:2]), ("float", text[phase][2:])):
            if row := rows.get(f"{dtype}, {figure}"):
                assert cells == [f"{row.published:,.0f}", f"{row.ours:,.0f}"], row.figure


@pytest.mark.parametrize("n_ipus", [1, 2, 8])
@pytest.mark.parametrize(("width", "height"), [(499, 302), (2200, 1122), (60, 90)])
def test_the_authors_partition_has_every_pixel_once(width: int, height: int, n_ipus: int) -> None:
    machine = load_machine("gc2", n_ipus=n_ipus)
    tiles = author_tiles(width, height, machine)
    parts = author_workers(tiles, 6)
    for actual in (tiles, parts):
        visited = np.zeros((height, width), np.int64)
        for top, left, h, w in zip(
            actual.top, actual.left, actual.height, actual.width, strict=True
        ):
            visited[top : top + h, left : left + w] += 1
        assert (visited == 1).all()
    assert np.bincount(tiles.tile).max() == 1
    assert np.bincount(parts.tile).max() <= 6
    assert tiles.tile.max() < machine.n_tiles


def test_the_authors_partition_of_the_largest_picture() -> None:
    """24 x 49 tiles, the first of them larger; 45 columns divide more evenly than 47 rows."""
    tiles = author_tiles(2200, 1122, load_machine("gc2"))
    assert tiles.tile.size == 24 * 49
    assert (tiles.height[0], tiles.width[0], tiles.height[-1], tiles.width[-1]) == (47, 45, 46, 44)
    parts = author_workers(tiles, 6)
    assert parts.width[:6].tolist() == [8, 8, 8, 7, 7, 7]
    assert set(parts.height[:6].tolist()) == {47}
