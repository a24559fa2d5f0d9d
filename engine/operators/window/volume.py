"""Windows over volumes, built of windows over images and layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilescope.engine.ir import Expansion, Value
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import padded, part
from tilescope.engine.operators.window.window import window_shape

__all__ = ["layers_under", "pooled_volume"]


def layers_under(
    expansion: Expansion, x: Value, window: Mapping[str, Any], fill: float
) -> list[Value]:
    """Emit, for each layer of the kernel, the layers of a volume that come under it.

    Parameters
    ----------
    x
        Shape (images, channels, layers, rows, columns).
    window
        Sizes in three dimensions.
    fill
        What padding layers hold.

    Returns
    -------
    list of Value
        Shape (images, channels, windows along the layers, rows, columns) each.
    """
    sizes = {key: tuple(values[:1]) for key, values in window.items() if key != "counts_padding"}
    (n_windows,) = window_shape(x.shape[2:3], sizes)
    before, after = window["padding_before"][0], window["padding_after"][0]
    padded_volume = padded(expansion, x, 2, before, after, fill)
    stride, dilation = window["stride"][0], window["dilation"][0]
    layers = []
    for k in range(window["kernel"][0]):
        first = k * dilation
        starts = [0, 0, first, 0, 0]
        stops = list(padded_volume.shape)
        stops[2] = first + (n_windows - 1) * stride + 1
        layers.append(part(expansion, padded_volume, starts, stops, [1, 1, stride, 1, 1]))
    return layers


def pooled_volume(
    expansion: Expansion,
    x: Value,
    window: Mapping[str, Any],
    pool: Callable[[Value, Mapping[str, Any]], Value],
) -> Value:
    """Emit a pool of volumes: one over rows and columns, then one over layers.

    Parameters
    ----------
    x
        Shape (images, channels, layers, rows, columns).
    window
        Sizes in three dimensions.
    pool
        Emits a pool of images, from images and a window of two dimensions.
    """
    n, channels, depth = x.shape[:3]
    images = reshape(expansion, x, (n, channels * depth, *x.shape[3:]))
    flat = pool(images, {key: values[1:] for key, values in window.items()})
    rows, columns = flat.shape[2:]
    columns_of = reshape(expansion, flat, (n, channels, depth, rows * columns))
    unit = {"padding_before": 0, "padding_after": 0}
    along = {key: (values[0], unit.get(key, 1)) for key, values in window.items()}
    out = pool(columns_of, along)
    return reshape(expansion, out, (n, channels, out.shape[2], rows, columns))
