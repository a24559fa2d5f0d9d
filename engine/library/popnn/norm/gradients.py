"""Backward passes of normalisations over dimension 1, from whitened tensors.

Source of the steps: graphcore/poplibs sdk-release-3.4, lib/poplin/Norms.cpp.
"""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, Tensor, View, concat
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.norm.statistics import times, with_channels
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.map import map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import binary, copy_to
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import Reduction, reduce, reduce_many
from tilescope.engine.library.replicas import Replicas

__all__ = [
    "check_gradient",
    "gamma_gradient",
    "param_gradients",
    "param_update",
    "statistics_gradients",
    "times_gamma",
]

#: Share of the factor 1 / n, as its power, that scales the sums; the rest scales the addition.
#: Source: graphcore/poplibs sdk-release-3.4, lib/poplin/Norms.cpp, normStatisticsGradientsImpl.
_SCALE_SPLIT = 3 / 4


def check_gradient(name: str, x: View, gradient: View) -> None:
    """Raise BadGraph unless a gradient has the shape and type of the activations.

    Raises
    ------
    BadGraph
        If it has another shape or type.
    """
    if tuple(gradient.shape) != tuple(x.shape):
        raise BadGraph(
            f"{name}: {gradient.name!r} has shape {tuple(gradient.shape)}, but {x.name!r} has"
            f" {tuple(x.shape)}: expected the gradient of the result, of the same shape"
        )
    if gradient.dtype != x.dtype:
        raise BadGraph(
            f"{name}: {gradient.name!r} is {gradient.dtype}, but {x.name!r} is {x.dtype}: cast one"
            " of them"
        )


def param_gradients(builder: Builder, white: View, gradient: View) -> tuple[Tensor, Tensor]:
    """Return the sums of gradient × whitened and of the gradient, per channel.

    Parameters
    ----------
    builder
        Target of the program.
    white, gradient
        Shape (…, channels, …).

    Returns
    -------
    gamma gradient, beta gradient
        Of the type of the gradient, shape (channels,).
    """
    return _sums(builder, white, _in_order_of(builder, gradient, white), 1.0)


def gamma_gradient(builder: Builder, white: View, gradient: View) -> Tensor:
    """Return the sums of gradient × whitened per channel: see `param_gradients`."""
    return _sum_of_products(builder, white, _in_order_of(builder, gradient, white), 1.0)


def times_gamma(builder: Builder, gradient: View, gamma: View) -> Tensor:
    """Return the gradient of the whitened tensor: gradient × gamma, per channel."""
    return binary(builder, "multiply", gradient, with_channels(gradient, gamma))


def statistics_gradients(
    builder: Builder,
    white: View,
    gradient: View,
    inverse: View,
    replicas: Replicas | None = None,
    *,
    is_centred: bool = True,
) -> Tensor:
    """Return the gradient of a tensor from that of the whitened one.

    It is inverse × (gradient − mean of the gradient − whitened × mean of gradient × whitened), with
    means over all dimensions but the second.

    Parameters
    ----------
    builder
        Target of the program.
    white, gradient
        Shape (…, channels, …).
    inverse
        Inverse standard deviations, one per channel.
    replicas
        Replicas that share the statistics.
    is_centred
        Whether the tensor was whitened with its mean; without it, the mean of the gradient does not
        matter.
    """
    n = white.n_elements // white.shape[1]
    if replicas is not None:
        n *= replicas.count(white.shape[0])
    of_sums, of_addition = _split_scale(n, is_half=white.dtype == FLOAT16)
    out = builder.graph.clone(white, "gradient", debug=builder.debug)
    copy_to(builder, gradient, out, "gradient")
    if is_centred:
        of_variance, of_mean = _sums(builder, white, out, -of_sums)
        if replicas is not None:
            both = (of_variance, of_mean)
            of_variance, of_mean = replicas.total(builder, both, white.shape[0])
    else:
        of_variance = _sum_of_products(builder, white, out, -of_sums)
    product = binary(builder, "multiply", white, with_channels(white, of_variance))
    if is_centred:
        map_in_place(builder, operand(0) * of_addition, [of_mean])
        binary_in_place(builder, "add", out, with_channels(out, of_mean))
    scaled_add(builder, out, product, of_addition)
    times(builder, out, inverse)
    return out


def param_update(
    name: str,
    builder: Builder,
    gamma_gradients: View,
    beta_gradients: View,
    scale: Tensor | float,
    gamma: View,
    beta: View,
) -> None:
    """Add the scaled gradients to gamma and beta, in one compute set.

    Raises
    ------
    BadGraph
        If shapes or types differ.
    """
    for gradient, values in ((gamma_gradients, gamma), (beta_gradients, beta)):
        if tuple(gradient.shape) != tuple(values.shape):
            raise BadGraph(
                f"{name}: {gradient.name!r} has shape {tuple(gradient.shape)}, but {values.name!r}"
                f" has {tuple(values.shape)}: expected the same"
            )
    target, addend = concat([beta, gamma]), concat([beta_gradients, gamma_gradients])
    scaled_add(builder, target, addend, scale)


def _sums(builder: Builder, white: View, gradient: View, scale: float) -> tuple[Tensor, Tensor]:
    """Return scaled sums of gradient × whitened and of the gradient, in shared compute sets."""
    product = binary(builder, "multiply", white, gradient)
    dims = [d for d in range(len(white.shape)) if d != 1]
    both = [Reduction("sum", x, dims, scale) for x in (product, gradient)]
    of_product, of_gradient = reduce_many(builder, both)
    n_channels = white.shape[1]
    return of_product.reshape(n_channels), of_gradient.reshape(n_channels)


def _sum_of_products(builder: Builder, white: View, gradient: View, scale: float) -> Tensor:
    """Return scaled sums of gradient × whitened."""
    product = binary(builder, "multiply", white, gradient)
    dims = [d for d in range(len(white.shape)) if d != 1]
    return reduce(builder, "sum", product, dims, scale).reshape(white.shape[1])


def _split_scale(n: int, *, is_half: bool) -> tuple[float, float]:
    """Return two factors of 1 / n: of the sums, and of the addition of their products.

    Sums of halves are scaled before they are rounded, so that they stay in range. The second factor
    is then a half, as the codelet of the addition takes it.
    """
    of_addition = n ** (_SCALE_SPLIT - 1)
    if is_half:
        of_addition = float(np.float16(of_addition))
    return 1 / n / of_addition, of_addition


def _in_order_of(builder: Builder, x: View, reference: View) -> View:
    """Return a view, or its copy in the order of another one if innermost dimensions differ."""
    if _innermost(reference) in (None, _innermost(x)):
        return x
    out = builder.graph.clone(reference, "regroup", debug=builder.debug)
    copy_to(builder, x, out, "regroup")
    return out


def _innermost(x: View) -> int | None:
    """Return the dimension whose elements are neighbours in memory, if there is one."""
    if not isinstance(x, Tensor):
        return None
    for d, dim in enumerate(x.dims):
        if any(size > 1 and abs(stride) == 1 for size, stride in dim):
            return d
    return None
