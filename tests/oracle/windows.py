"""Random windows, and a naive convolution in plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tilescope.engine.library.window import Window, output_size


@st.composite
def windows(draw: st.DrawFn, height: int, width: int) -> Window:
    """Return a window that fits an input; padding is smaller than the kernel's extent."""
    kernel, stride, dilation, before, after = [], [], [], [], []
    for size in (height, width):
        kernel.append(draw(st.integers(1, min(3, size))))
        stride.append(draw(st.integers(1, 3)))
        dilation.append(draw(st.integers(1, 2)))
        extent = (kernel[-1] - 1) * dilation[-1] + 1
        before.append(draw(st.integers(0, kernel[-1] - 1)))
        after.append(draw(st.integers(max(0, extent - size - before[-1]), extent)))
    geometry = (kernel, stride, dilation, before, after)
    return Window(*((rows, columns) for rows, columns in geometry))


def naive_convolution(x: np.ndarray, w: np.ndarray, window: Window, groups: int) -> np.ndarray:
    n_out = w.shape[0]
    rows, columns = (output_size(x.shape[2 + d], d, window) for d in (0, 1))
    out = np.zeros((x.shape[0], n_out, rows, columns))
    for n, o, r, c in np.ndindex(*out.shape):
        for i, ky, kx in np.ndindex(*w.shape[1:]):
            y = r * window.stride[0] + ky * window.dilation[0] - window.padding_before[0]
            z = c * window.stride[1] + kx * window.dilation[1] - window.padding_before[1]
            if 0 <= y < x.shape[2] and 0 <= z < x.shape[3]:
                channel = o // (n_out // groups) * w.shape[1] + i
                out[n, o, r, c] += float(x[n, channel, y, z]) * float(w[o, i, ky, kx])
    return out
