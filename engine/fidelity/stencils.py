"""Two published stencils as their authors wrote them: a Gaussian blur and the heat equation.

Their compiled code is not published, so the laws count what the source asks for: every load, store
and arithmetic operation takes an instruction of its own, and every turn of a loop two more, to
count and to branch. That the compiler pairs some arithmetic with loads makes this too many; that it
works out addresses and loads anew what may have changed makes it too few.
Source of the two per turn: simehaa/IPU, AlievPanfilovModel/codelets.S, the listing of another
codelet of the same author; it ends its loop by an addition and a branch, and has 17 of 24
arithmetic operations beside loads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.codelets.codelet import Batch, Codelet, Field, Scalar
from engine.codelets.define import codelet
from engine.machine import Machine

__all__ = ["blur_codelet", "heat_codelet"]

#: Instructions of a turn of a loop beside its body: see above.
_TURN = 2
#: Assumption: to load a vertex's state and to leave.
_VERTEX = 20


def blur_codelet(dtype: str) -> Codelet:
    """Return the blur of a block of pixels that lies in one piece, with its halo.

    Nine loads, eleven operations and a store: for the four halves of a pixel at once, or for each
    of its four floats.
    Source: thorbenlouw/lbm-graphcore, GaussianBlurCodeletHalf4 and GaussianBlurCodelet<float>.

    Parameters
    ----------
    dtype
        ``half`` for the vectorised codelet, ``float`` for the scalar one.
    """
    stencil = 9 + 11 + 1
    pixel = stencil if dtype == "half" else 4 * (stencil + _TURN)

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        row = batch.scalars["width"] * (pixel + _TURN) + _TURN
        return np.asarray(_VERTEX + batch.scalars["height"] * row)

    @codelet(
        Field("image", "in"),
        Field("out", "out"),
        law=law,
        code_bytes=280,
        name=f"GaussianBlur<{dtype}>",
        scalars=(Scalar("height"), Scalar("width")),
    )
    def blur(image, out, height, width):  # type: ignore[no-untyped-def]
        line = 4 * (width + 2)
        for y in range(height):
            for x in range(width):
                for c in range(4):
                    at = y * line + 4 * x + c
                    corners = image[at] + image[at + 8]
                    corners += image[at + 2 * line] + image[at + 2 * line + 8]
                    sides = image[at + 4] + image[at + line]
                    sides += image[at + line + 8] + image[at + 2 * line + 4]
                    total = corners + 2 * sides + 4 * image[at + line + 4]
                    out[4 * (y * width + x) + c] = np.float32(0.0625) * total

    return blur


def heat_codelet() -> Codelet:
    """Return a step of the five-point stencil over rows that each lie in one piece.

    For two cells: loads of three pairs of the row and one of the row above and below, two sums of
    neighbours, five operations on pairs, and two stores. The first cell of a row, and the last of
    an even one, go alone before: five loads, six operations, a store. Both loops over rows load
    the three rows' and the output's pointers.
    Source: simehaa/IPU, HeatEquation2D/codelets.cpp, HeatEquationOptimized.
    """
    pair, alone, pointers = 5 + 2 + 5 + 2 + _TURN, 5 + 6 + 1, 4

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        height, width = batch.size["out"].T
        ends = alone * (2 - width % 2)
        pairs = pair * ((width + 1) // 2 - 1)
        return np.asarray(_VERTEX + height * (ends + pairs + 2 * (pointers + _TURN)))

    @codelet(
        Field("grid", "in", 2, kind="view"),
        Field("out", "out", 2, kind="view"),
        law=law,
        code_bytes=400,
        name="HeatEquationOptimized",
    )
    def step(grid, out):  # type: ignore[no-untyped-def]
        for y in range(out.shape[0]):
            for x in range(out.shape[1]):
                around = grid[y, x + 1] + grid[y + 2, x + 1] + grid[y + 1, x] + grid[y + 1, x + 2]
                out[y, x] = np.float32(0.6) * grid[y + 1, x + 1] + np.float32(0.1) * around

    return step
