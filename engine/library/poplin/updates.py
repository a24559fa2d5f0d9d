"""Updates of the weights and biases of convolutions, where they lie.

Source: graphcore/poplibs sdk-release-3.4, include/poplin/Convolution.hpp, convolutionWeightUpdate
and convolutionBiasUpdate.
"""

from __future__ import annotations

from typing import Any

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.window import Window

__all__ = ["convolution_bias_update", "convolution_weight_update"]


@checked
def convolution_weight_update(
    builder: Builder,
    gradient: View,
    weights: View,
    x: View,
    window: Window,
    scale: Tensor | float,
    groups: int = 1,
    name: str = "weightUpdate",
    **options: Any,
) -> None:
    """Add the scaled gradient of a convolution's weights to them, in place.

    Parameters
    ----------
    builder
        Target of the program.
    gradient
        Gradient of the output, shape (images, out channels, rows, columns).
    weights
        Shape (out channels, channels / groups, kernel rows, kernel columns).
    x
        The convolution's input, shape (images, channels, rows, columns).
    window, groups
        Geometry of the convolution.
    scale
        What the gradient is multiplied by: a rate is negative. A tensor of one element of the
        weights' type, or a number.
    name
        Debug name.
    **options
        As for `weight_gradient`.

    Raises
    ------
    BadGraph
        If shapes or types do not fit.
    """
    deltas = weight_gradient(builder, x, gradient, window, groups, name, **options)
    if deltas.shape != weights.shape:
        raise BadGraph(
            f"{name}: the weights {weights.name!r} have shape {weights.shape}, but their gradient"
            f" has {deltas.shape}"
        )
    scaled_add(builder, weights, deltas, scale)


@checked
def convolution_bias_update(
    builder: Builder,
    gradient: View,
    biases: View,
    scale: Tensor | float,
    name: str = "biasUpdate",
) -> None:
    """Add the scaled sums of a gradient over images and field to biases, in place.

    Parameters
    ----------
    builder
        Target of the program.
    gradient
        Gradient of the output, shape (images, out channels, rows, columns).
    biases
        Shape (out channels,).
    scale
        As for `convolution_weight_update`.
    name
        Debug name.

    Raises
    ------
    BadGraph
        If shapes or types do not fit.
    """
    check_rank(f"{name}: its gradient", gradient, "images, channels, rows, columns")
    if biases.shape != gradient.shape[1:2]:
        raise BadGraph(
            f"{name}: the biases {biases.name!r} have shape {biases.shape}, but the gradient has"
            f" {gradient.shape[1]} channels"
        )
    sums = reduce(builder, "sum", gradient, (0, 2, 3))
    scaled_add(builder, biases, sums.reshape(*biases.shape), scale)
