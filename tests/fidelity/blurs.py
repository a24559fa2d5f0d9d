"""The published blur over other pictures, in pairs of floats, and on several IPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.read_off import compute_cycles, kind_cycles, total_cycles
from tests.fidelity.stencils import Blocks, blur_step

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.window import Window
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Copy, Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = [
    "author_tiles",
    "author_workers",
    "convolved",
    "phases_on_sixteen",
    "times_on_one",
    "times_on_several",
]

#: Width and height of the pictures.
_PICTURES = {"bricks": (499, 302), "leaf": (768, 1024), "cheese": (2200, 1122)}
#: Rows and columns of IPUs by their number; for 2 and 8, where columns divide more evenly.
_IPU_GRIDS = {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (2, 4), 16: (4, 4)}
#: Number of times that a run applies the blur there and back.
_STEPS = 2 * 100


def _lengths(size: int, n_parts: int) -> NDArray[np.int64]:
    """Return the lengths of parts; the first ones take the remainder."""
    minimum, extra = divmod(size, n_parts)
    return np.array([minimum + (i < extra) for i in range(n_parts)], dtype=np.int64)


def _edges(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(lengths))


def _unevenness(size: NDArray[np.int64], n: int) -> NDArray[np.float32]:
    """Return the remainder of a division as a fraction, in float as the author compares it."""
    left, full = (size % n).astype(np.float32), size.astype(np.float32)
    return np.asarray(np.divide(left, full), np.float32)


def author_tiles(width: int, height: int, machine: Machine) -> Blocks:
    """Return the author's blocks of a picture: a grid of IPUs with a grid of tiles per IPU.

    Source: thorbenlouw/lbm-graphcore, StructuredGridUtils.hpp: partitionForIpus and
    generalTileGridStrategy with no smallest block.
    """
    down, across = _IPU_GRIDS[machine.n_ipus]
    uneven = _unevenness(np.array([height, width]), machine.n_ipus)
    if uneven[0] < uneven[1]:
        down, across = max(down, across), min(down, across)
    tops, lefts = _edges(_lengths(height, down)), _edges(_lengths(width, across))
    results = []
    for ipu in range(machine.n_ipus):
        row, column = divmod(ipu, across)
        own_height = int(tops[row + 1] - tops[row])
        own_width = int(lefts[column + 1] - lefts[column])
        n = machine.tiles_per_ipu
        n_columns = min(own_width, math.ceil(math.sqrt(n * own_width / own_height)))
        n_rows = min(own_height, n // n_columns)
        local = Blocks.of_grid(
            tops[row] + _edges(_lengths(own_height, n_rows)),
            lefts[column] + _edges(_lengths(own_width, n_columns)),
        )
        results.append(
            Blocks(local.tile + ipu * n, local.top, local.left, local.height, local.width)
        )
    return _joined(results)


def _joined(found: Iterable[Blocks]) -> Blocks:
    columns = [(b.tile, b.top, b.left, b.height, b.width) for b in found]
    return Blocks(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def author_workers(tiles: Blocks, n: int) -> Blocks:
    """Split every block into up to `n` parts by rows, unless its columns divide more evenly.

    Source: the same, toWorkerPartitions.
    """
    by_row = _unevenness(tiles.height, n) <= _unevenness(tiles.width, n)
    parts = [tiles.only(by_row).in_rows(n), tiles.only(~by_row).in_columns(n)]
    joined = _joined(parts)
    order = np.argsort(joined.tile, kind="stable")
    return joined.only(order)


def _blur(dtype: str, picture: str, n_ipus: int) -> tuple[Executable, Machine]:
    machine = load_machine("gc2", n_ipus=n_ipus)
    width, height = _PICTURES[picture]
    tiles = author_tiles(width, height, machine)
    parts = author_workers(tiles, machine.n_worker_contexts)
    return blur_step(dtype, machine, tiles, parts, (height, width)), machine


def _seconds(dtype: str, picture: str, n_ipus: int) -> float:
    built, machine = _blur(dtype, picture, n_ipus)
    return _STEPS * total_cycles(built) / machine.clock_hz


def times_on_one() -> Mapping[str, float]:
    """Return the milliseconds of a hundred blurs there and back on one IPU."""
    names = {"half": "half", "pairs": "pairs of floats", "float": "float"}
    return {
        f"{picture}, {name}": 1e3 * _seconds(dtype, picture, 1)
        for picture in _PICTURES
        for dtype, name in names.items()
    }


def times_on_several() -> Mapping[str, float]:
    """Return the milliseconds of the same for the largest picture on several IPUs."""
    return {
        f"{dtype}, {n_ipus} IPUs": 1e3 * _seconds(dtype, "cheese", n_ipus)
        for dtype in ("half", "float")
        for n_ipus in (2, 4, 8, 16)
    }


def phases_on_sixteen() -> Mapping[str, float]:
    """Return the cycles of a step by phase, for the largest picture on 16 IPUs."""
    cycles: dict[str, float] = {}
    for dtype in ("half", "float"):
        built, _ = _blur(dtype, "cheese", 16)
        cycles |= {
            f"{dtype}, compute": compute_cycles(built, "blur"),
            f"{dtype}, arranged before": compute_cycles(built, "before"),
            f"{dtype}, arranged after": compute_cycles(built, "after"),
            f"{dtype}, exchange between IPUs and within": kind_cycles(built, "GlobalExchange"),
            f"{dtype}, sync": kind_cycles(built, "Sync"),
        }
    return cycles


def _convolved_cycles(dtype: str, size: tuple[int, int], *, is_first: bool) -> int:
    """Return the cycles of a convolution, optionally with a second one and a copy back."""
    graph = Graph(load_machine("gc2"))
    kind = "float16" if dtype == "half" else "float32"
    image = graph.add_variable(kind, (1, 4, size[1], size[0]), "image")
    mask = graph.add_variable(kind, (4, 4, 3, 3), "mask")
    for tensor in (image, mask):
        graph.map_linearly(tensor)
    program = Sequence("stencil")
    builder = Builder(graph, program)
    window = Window((3, 3), padding_before=(1, 1), padding_after=(1, 1))
    image = convolution(builder, image, mask, window, name="first")
    if not is_first:
        out = convolution(builder, image, mask, window, name="second")
        program.add(Copy(out, image))
    return total_cycles(compile_programs(graph, [program]))


def convolved() -> Mapping[str, float]:
    """Return the milliseconds of the blur as 200 library convolutions with our plans."""
    clock_hz = load_machine("gc2").clock_hz
    times = {}
    for picture, dtype in product(_PICTURES, ("half", "float")):
        if (picture, dtype) != ("cheese", "float"):
            item, two = (
                _convolved_cycles(dtype, _PICTURES[picture], is_first=is_first)
                for is_first in (True, False)
            )
            times[f"{picture}, {dtype}"] = 1e3 * _STEPS * (two - item) / clock_hz
    return times
