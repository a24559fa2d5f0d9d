"""Pooling over windows of rows and columns, channels innermost.

Law: graphcore/poplibs sdk-release-3.4, lib/popnn/PerformanceEstimation.hpp, getPoolingCycles: for
every output row, a worker iterates over the window's positions and the channel vectors and runs one
loop along the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar, Sliding
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.host.kernels._moves import move_block
from tilescope.engine.host.kernels._windows import window_row
from tilescope.engine.host.kernels._work_arrays import free, malloc

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["AVERAGE_POOL", "MAX_POOL", "WINDOW_SCALARS"]

#: Geometry of a window, and where the first one begins relative to a vertex's input.
WINDOW_SCALARS = tuple(
    Scalar(name)
    for name in (
        "kernel_height",
        "kernel_width",
        "stride_y",
        "stride_x",
        "dilation_y",
        "dilation_x",
        "shift_y",
        "shift_x",
    )
)
#: ``divisor``: 0 for a sum, 1 for a mean of the elements present, 2 of the whole window.
_SCALARS = (*WINDOW_SCALARS, Scalar("divisor"))


def _pool_kernel(is_max: bool) -> Any:
    combine_row = window_row(is_max)

    @jit
    def finish(out, target, step, n, n_used, count):  # type: ignore[no-untyped-def]
        """Divide a sum by the elements that count; without any, the window is padding only."""
        to = unsigned(target)
        for c in range(unsigned(n)):
            if n_used == 0:
                out[to + c * step] = 0
            if count > 0:
                out[to + c * step] /= count

    @jit
    def kernel(  # type: ignore[no-untyped-def]
        x, x_start, x_size, x_stride, out, out_start, out_size, out_stride,
        kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x,
        shift_y, shift_x, divisor,
    ):  # fmt: skip
        n, n_columns, step = out_size[2], x_size[1], unsigned(out_stride[2])
        window = (out_size[1], n, stride_x, dilation_x, shift_x, n_columns, kernel_width)
        steps = (out_stride[1], out_stride[2])
        # Channels apart are brought side by side, a row at a time.
        is_apart = x_stride[2] != 1 and out_stride[2] == 1 and n > 1
        apart = (x_stride[0], x_stride[1], x_stride[2])
        totals = malloc(n_columns * n, x) if is_apart else x[:0]
        rows = totals if is_apart else x
        x_steps = (n, 1) if is_apart else (x_stride[1], x_stride[2])
        for oy in range(out_size[0]):
            target = out_start + oy * out_stride[0]
            n_rows = 0
            for ky in range(kernel_height):
                iy = oy * stride_y + ky * dilation_y + shift_y
                if iy < 0 or iy >= x_size[0]:
                    continue
                source = x_start + iy * x_stride[0]
                if is_apart:
                    move_block(x, source, apart, rows, 0, (1, n_columns, n), (0, n, 1))
                    source = 0
                combine_row(rows, source, x_steps, out, target, steps, window, n_rows == 0)
                n_rows += 1
            if is_max:
                continue
            for ox in range(out_size[1]):
                n_used = 0
                for kx in range(kernel_width):
                    ix = ox * stride_x + kx * dilation_x + shift_x
                    n_used += n_rows if 0 <= ix < n_columns else 0
                count = kernel_height * kernel_width if divisor == 2 else max(n_used, 1)
                to = target + ox * out_stride[1]
                finish(out, to, step, n, n_used, count if divisor > 0 else 0)
        free(totals)

    return kernel


def _pool_law(per_loop: int, begin: int) -> Any:
    """Return the law; the mean takes one cycle more to begin and one more per loop."""

    def law(batch: Batch, machine: Machine) -> NDArray[np.int64]:
        height, width, channels = batch.size["out"].T
        window = batch.scalars["kernel_height"] * batch.scalars["kernel_width"]
        vectors = batch.n_vectors(channels, "out", machine)
        is_split_by_row = height >= machine.n_worker_contexts
        rows = np.where(is_split_by_row, worker_share(height, machine), 1)
        columns = np.where(is_split_by_row, width, worker_share(height * width, machine))
        first_values = worker_share(height * width * vectors, machine)
        position = 25 + vectors * (3 + per_loop + 3 * (columns - 1))
        work = begin + first_values + rows * (15 + window * position)
        return np.asarray(start_cycles(13, machine) + machine.n_worker_contexts * work)

    return law


def _pool_flops(is_max: bool) -> Callable[[Batch], NDArray[np.int64]]:
    """Return the count: one per combined pair of a window, and the division of a mean."""

    def flops(batch: Batch) -> NDArray[np.int64]:
        window = batch.scalars["kernel_height"] * batch.scalars["kernel_width"]
        is_sum = np.asarray(batch.scalars["divisor"]) == 0
        per_result = np.asarray(window) - (is_max | is_sum)
        return np.asarray(batch.n_elements("out") * per_result * batch.is_float("x"))

    return flops


def _window(dim: int, side: str, axis: str) -> Sliding:
    """Return how windows move along a dimension of the field."""
    scalars = (f"{part}_{axis}" for part in ("stride", "dilation", "shift"))
    return Sliding(("x", dim), ("out", dim), f"kernel_{side}", *scalars)


def _pool(name: str, is_max: bool, per_loop: int, begin: int) -> Codelet:
    return Codelet(
        name,
        (Field("x", "in", 3, kind="block"), Field("out", "out", 3, kind="block")),
        _pool_kernel(is_max),
        _pool_law(per_loop, begin),
        code_bytes=420,
        source="graphcore/poplibs sdk-release-3.4, lib/popnn: getPoolingCycles",
        scalars=_SCALARS,
        flops=_pool_flops(is_max),
        independent=((2, 2),),
        sliding=(_window(0, "height", "y"), _window(1, "width", "x")),
        is_selection=is_max,
    )


MAX_POOL = _pool("popnn::MaxPooling", True, 4, 45)
AVERAGE_POOL = _pool("popnn::SumPooling", False, 5, 46)
