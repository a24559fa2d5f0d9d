"""Gradients of pools over windows of rows and columns, channels innermost.

A vertex computes a part of the gradient of the input: to every element it adds the gradients of
the windows that hold it, and for a maximum only of those whose result it equals.

Law: graphcore/poplibs sdk-release-3.4, lib/popnn/PerformanceEstimation.hpp, getPoolingCycles, on
the work lists of lib/popnn/PoolVertices.cpp: workers take equal parts of the elements, in order; a
part of a row has one item per position of the window that reaches it, and an item one loop per
vector of channels. The count of equal elements takes as long as a maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popnn.pool import MAX_POOL, WINDOW_SCALARS
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch, start_cycles, worker_share
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import unsigned

if TYPE_CHECKING:
    from tilescope.engine.machine import Machine

__all__ = ["MAX_POOL_GRADIENT", "MAX_POOL_GRADIENT_SCALE", "SUM_POOL_GRADIENT"]

Counts = NDArray[np.int64]

_SOURCE = "graphcore/poplibs sdk-release-3.4, lib/popnn: getPoolingCycles"


def _window_of(position: Any, tap: Any, stride: Any, dilation: Any, shift: Any, size: Any) -> Any:
    """Return which window holds an element as a tap; -1 if none does."""
    begin = position + shift - tap * dilation
    window = begin // stride
    return window if begin >= 0 and begin % stride == 0 and window < size else -1


_window = jit(_window_of)


@jit
def _clear(out, start, size, stride):  # type: ignore[no-untyped-def]
    n, step = unsigned(size[2]), unsigned(stride[2])
    for y in range(size[0]):
        for x in range(size[1]):
            to = unsigned(start + y * stride[0] + x * stride[1])
            for c in range(n):
                out[to + c * step] = 0


@jit
def _sum_kernel(  # type: ignore[no-untyped-def]
    gradient, g_start, g_size, g_stride, out, out_start, out_size, out_stride,
    kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x,
):  # fmt: skip
    _clear(out, out_start, out_size, out_stride)
    n, step, g_step = unsigned(out_size[2]), unsigned(out_stride[2]), unsigned(g_stride[2])
    for y in range(out_size[0]):
        for ky in range(kernel_height):
            oy = _window(y, ky, stride_y, dilation_y, shift_y, g_size[0])
            if oy < 0:
                continue
            for x in range(out_size[1]):
                to = unsigned(out_start + y * out_stride[0] + x * out_stride[1])
                for kx in range(kernel_width):
                    ox = _window(x, kx, stride_x, dilation_x, shift_x, g_size[1])
                    if ox < 0:
                        continue
                    source = unsigned(g_start + oy * g_stride[0] + ox * g_stride[1])
                    for c in range(n):
                        out[to + c * step] += gradient[source + c * g_step]


@jit
def _max_kernel(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, pooled, p_start, p_size, p_stride,
    gradient, g_start, g_size, g_stride, out, out_start, out_size, out_stride,
    kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x,
):  # fmt: skip
    _clear(out, out_start, out_size, out_stride)
    n, step, x_step = unsigned(out_size[2]), unsigned(out_stride[2]), unsigned(x_stride[2])
    p_step, g_step = unsigned(p_stride[2]), unsigned(g_stride[2])
    for iy in range(out_size[0]):
        for ky in range(kernel_height):
            oy = _window(iy, ky, stride_y, dilation_y, shift_y, g_size[0])
            if oy < 0:
                continue
            for ix in range(out_size[1]):
                to = unsigned(out_start + iy * out_stride[0] + ix * out_stride[1])
                element = unsigned(x_start + iy * x_stride[0] + ix * x_stride[1])
                for kx in range(kernel_width):
                    ox = _window(ix, kx, stride_x, dilation_x, shift_x, g_size[1])
                    if ox < 0:
                        continue
                    result = unsigned(p_start + oy * p_stride[0] + ox * p_stride[1])
                    source = unsigned(g_start + oy * g_stride[0] + ox * g_stride[1])
                    for c in range(n):
                        if x[element + c * x_step] == pooled[result + c * p_step]:
                            out[to + c * step] += gradient[source + c * g_step]


@jit
def _scale_kernel(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, pooled, p_start, p_size, p_stride,
    out, out_start, out_size, out_stride,
    kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x,
    divisor,
):  # fmt: skip
    _clear(out, out_start, out_size, out_stride)
    n, step, x_step = unsigned(out_size[2]), unsigned(out_stride[2]), unsigned(x_stride[2])
    p_step = unsigned(p_stride[2])
    for oy in range(out_size[0]):
        for ox in range(out_size[1]):
            to = unsigned(out_start + oy * out_stride[0] + ox * out_stride[1])
            result = unsigned(p_start + oy * p_stride[0] + ox * p_stride[1])
            for ky in range(kernel_height):
                iy = oy * stride_y + ky * dilation_y + shift_y
                if iy < 0 or iy >= x_size[0]:
                    continue
                for kx in range(kernel_width):
                    ix = ox * stride_x + kx * dilation_x + shift_x
                    if ix < 0 or ix >= x_size[1]:
                        continue
                    element = unsigned(x_start + iy * x_stride[0] + ix * x_stride[1])
                    for c in range(n):
                        if x[element + c * x_step] == pooled[result + c * p_step]:
                            out[to + c * step] += 1
            for c in range(n):
                if out[to + c * step] > 0:
                    out[to + c * step] = 1 / out[to + c * step]


class _Axis:
    """Windows along rows or columns that reach elements of vertices, from a batch's shapes."""

    def __init__(self, batch: Batch, dim: int) -> None:
        side, axis = (("height", "y"), ("width", "x"))[dim]
        self.n_taps = int(batch.scalars[f"kernel_{side}"].max(initial=0))
        self.taps = batch.scalars[f"kernel_{side}"]
        self.stride, self.dilation, self.shift = (
            batch.scalars[f"{part}_{axis}"] for part in ("stride", "dilation", "shift")
        )
        self.n_windows = batch.size["gradient"][:, dim]

    def reached(self, vertex: Counts, begin: Counts, end: Counts, tap: int) -> Counts:
        """Return how many elements of a range of a vertex some window holds as a tap."""
        stride = self.stride[vertex]
        offset = self.shift[vertex] - tap * self.dilation[vertex]
        first = np.maximum(begin + offset, 0)
        last = np.minimum(end + offset, (self.n_windows[vertex] - 1) * stride + 1)
        count = np.maximum(-(-last // stride) - -(-first // stride), 0)
        return np.asarray(count * (tap < self.taps[vertex]), np.int64)


def _law(begin: int, per_loop: int, per_element: int) -> Any:
    """Return the law: a worker's cycles before its rows, of a loop, and of its further elements."""

    def law(batch: Batch, machine: Machine) -> Counts:
        n_workers = machine.n_worker_contexts
        height, width, channels = batch.size["out"].T
        vectors = batch.n_vectors(channels, "out", machine)
        n = height * width
        # Parts of rows, as (vertex, worker), row, first and last column.
        edges = np.arange(n_workers + 1) * n[:, None] // n_workers
        first, last = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        widths = np.repeat(width, n_workers)
        n_parts = np.where(last > first, (last - 1) // widths - first // widths + 1, 0)
        part = np.repeat(np.arange(n_parts.size), n_parts)
        row = np.arange(part.size) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
        row += first[part] // widths[part]
        left = np.maximum(first[part] - row * widths[part], 0)
        right = np.minimum(last[part] - row * widths[part], widths[part])
        vertex = part // n_workers
        rows, columns = _Axis(batch, 0), _Axis(batch, 1)
        n_rows = sum(rows.reached(vertex, row, row + 1, tap) for tap in range(rows.n_taps))
        items = np.zeros(part.size, np.int64)
        for tap in range(columns.n_taps):
            n_columns = columns.reached(vertex, left, right, tap)
            loop = 3 + per_loop + per_element * (n_columns - 1)
            items += (n_columns > 0) * (25 + vectors[vertex] * loop)
        of_part = np.where(items * n_rows > 0, 15 + n_rows * items, 0)
        of_worker = np.bincount(part, of_part, n_parts.size).astype(np.int64)
        longest = of_worker.reshape(-1, n_workers).max(axis=1)
        work = begin + worker_share(n * vectors, machine) + longest
        return np.asarray(start_cycles(13, machine) + n_workers * work)

    return law


def _flops(batch: Batch) -> Counts:
    """Return one operation per element and window that holds it."""
    total = batch.size["out"][:, 2] * batch.is_float("out")
    vertex = np.arange(batch.n_vertices)
    for dim in (0, 1):
        axis, size = _Axis(batch, dim), batch.size["out"][:, dim]
        begin = np.zeros_like(size)
        total = total * sum(axis.reached(vertex, begin, size, tap) for tap in range(axis.n_taps))
    return np.asarray(total)


def _fields(*names: str) -> tuple[Field, ...]:
    fields = tuple(
        Field(name, "in", 3, kind="block", size_of="out" * (name == "x"), dtype_of="out")
        for name in names
    )
    return (*fields, Field("out", "out", 3, kind="block"))


MAX_POOL_GRADIENT = Codelet(
    "popnn::MaxPoolingGrad",
    _fields("x", "pooled", "gradient"),
    _max_kernel,
    _law(55, 7, 5),
    code_bytes=460,  # Assumption: a pool, and the comparison
    source=_SOURCE,
    scalars=WINDOW_SCALARS,
    flops=_flops,
    independent=((2, 2, 2, 2),),
)
SUM_POOL_GRADIENT = Codelet(
    "popnn::SumPooling<gradient>",
    _fields("gradient"),
    _sum_kernel,
    _law(46, 5, 3),
    code_bytes=420,
    source=_SOURCE,
    scalars=WINDOW_SCALARS,
    flops=_flops,
    independent=((2, 2),),
)
MAX_POOL_GRADIENT_SCALE = Codelet(
    "popnn::MaxPoolingGradientScale",
    (
        Field("x", "in", 3, kind="block", dtype_of="out"),
        Field("pooled", "in", 3, kind="block", size_of="out", dtype_of="out"),
        Field("out", "out", 3, kind="block"),
    ),
    _scale_kernel,
    MAX_POOL.law,
    code_bytes=460,  # Assumption: a pool, and the comparison
    source=_SOURCE,
    scalars=MAX_POOL.scalars,
    flops=MAX_POOL.flops,
    independent=((2, 2, 2),),
)
