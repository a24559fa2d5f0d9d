"""The gradient of regions of interest that were aligned with a grid: one channel of some regions.

A region is a box of an image, of which the samples of every bin are averaged. A sample lies between
four pixels, which have shares of it.

Source of the method: K. He and others, Mask R-CNN, ICCV 2017, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.host.jit._jit import jit

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["ROI_ALIGN_BACKWARD", "SAMPLE_CYCLES"]

#: Instructions of a region, of a row of its samples, and of a sample: its position, its weights,
#: and four reads, products, sums and writes.
_REGION_CYCLES, _ROW_CYCLES, SAMPLE_CYCLES = 40, 14, 12 + 4 * 4


@jit
def _side(position, size):  # type: ignore[no-untyped-def]
    """Return the pixel before a position, how far behind it this is, and whether it counts."""
    counts = -1 <= position <= size
    position = min(max(position, np.float32(0)), np.float32(size - 1))
    low = int(np.floor(position))
    return low, np.float32(position - np.float32(low)), counts


@jit
def _backward(  # type: ignore[no-untyped-def]
    gradient, boxes, images, out,
    first_row, height, width, n_rows, n_columns, n_samples, is_aligned, scale,
):  # fmt: skip
    """Add to rows of all images, from one on, what the bins of regions have of them."""
    out[:] = 0
    n_held = out.shape[1] // width
    shift = np.float32(0.5 if is_aligned else 0)
    one_sample = np.float32(1) / np.float32(n_samples * n_samples)
    for region in range(images.size):
        start_x, start_y, end_x, end_y = boxes[4 * region : 4 * region + 4]
        start_x = np.float32(start_x) * np.float32(scale) - shift
        start_y = np.float32(start_y) * np.float32(scale) - shift
        size_x = np.float32(end_x) * np.float32(scale) - shift - start_x
        size_y = np.float32(end_y) * np.float32(scale) - shift - start_y
        if not is_aligned:
            size_x, size_y = max(size_x, np.float32(1)), max(size_y, np.float32(1))
        image = images[region]
        if not 0 <= image < out.shape[0]:
            continue
        for j in range(n_rows * n_samples):
            share = np.float32((j + 0.5) / (n_rows * n_samples))
            y, rest_y, counts_y = _side(start_y + size_y * share, height)
            if not counts_y:
                continue
            for i in range(n_columns * n_samples):
                share = np.float32((i + 0.5) / (n_columns * n_samples))
                x, rest_x, counts_x = _side(start_x + size_x * share, width)
                if not counts_x:
                    continue
                bin_ = (region * n_rows + j // n_samples) * n_columns + i // n_samples
                whole = np.float32(gradient[bin_]) * one_sample
                for k in range(2):
                    row = min(y + k, height - 1) - first_row
                    if 0 <= row < n_held:
                        of_row = whole * (rest_y if k else np.float32(1) - rest_y)
                        place = row * width
                        out[image, place + x] += of_row * (np.float32(1) - rest_x)
                        out[image, place + min(x + 1, width - 1)] += of_row * rest_x


def _cycles(batch: Batch, _: Machine) -> NDArray[np.int64]:
    """Return cycles as if all samples were in the rows: where they are, boxes decide."""
    n_samples = batch.scalars["n_samples"]
    rows, columns = (batch.scalars[name] * n_samples for name in ("n_rows", "n_columns"))
    each = _REGION_CYCLES + rows * (_ROW_CYCLES + columns * SAMPLE_CYCLES)
    return np.asarray(20 + batch.n_elements("out") + batch.n_elements("images") * each)


ROI_ALIGN_BACKWARD = Codelet(
    "popnn::ROIAlignBackward",
    (
        Field("gradient", "in"),
        Field("boxes", "in", dtype_of="gradient"),
        Field("images", "in", dtype="int32"),
        Field("out", "out", 2, kind="view", dtype="float32"),
    ),
    _backward,
    _cycles,
    code_bytes=500,  # Assumption: four loops and eight choices
    source=(
        "Assumption: instructions of the loops of graphcore/poplibs sdk-release-3.4,"
        " lib/popnn/codelets/ROIAlign.cpp"
    ),
    scalars=(
        *map(
            Scalar,
            ["first_row", "height", "width", "n_rows", "n_columns", "n_samples", "is_aligned"],
        ),
        Scalar("scale", "float"),
    ),
    is_supervisor=False,
)
