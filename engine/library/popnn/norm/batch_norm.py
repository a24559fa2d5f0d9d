"""Batch normalisation: statistics, whitening, scale and offset per channel, and gradients.

Source: graphcore/poplibs sdk-release-3.4, include/popnn/BatchNorm.hpp and lib/popnn/BatchNorm.cpp.
"""

from __future__ import annotations

from typing import Any

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.norm.gradients import (
    check_gradient,
    param_gradients,
    param_update,
    statistics_gradients,
    times_gamma,
)
from tilescope.engine.library.popnn.norm.statistics import (
    StatisticsOptions,
    check_input,
    scaled,
    statistics,
    whitened,
)
from tilescope.engine.library.replicas import Replicas

__all__ = [
    "batch_norm_gradients",
    "batch_norm_param_gradients",
    "batch_norm_param_update",
    "batch_norm_statistics",
    "batch_norm_whiten",
    "batch_normalise",
]


@checked
def batch_norm_statistics(
    builder: Builder,
    x: View,
    epsilon: float,
    *,
    is_unbiased: bool = False,
    is_stable: bool = False,
    partials_type: Any = "float32",
    statistics_type: Any = None,
    replicas: Replicas | None = None,
) -> tuple[Tensor, Tensor]:
    """Return mean and inverse standard deviation per channel.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    epsilon
        Added to the variance.
    is_unbiased
        Whether the variance is divided by n − 1 instead of n.
    is_stable
        Whether the variance is that of the differences to the mean.
    partials_type
        Type of mean squares: ``float32`` or ``float16``.
    statistics_type
        Type of the results: ``float32`` or ``float16``. By default that of `x`, as in PopLibs;
        float32 keeps the precision of the sums.
    replicas
        Replicas that share the statistics.

    Returns
    -------
    mean, inverse standard deviation
        Shape (channels,).

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, a type is not supported, or the images do not
        divide those of all replicas.
    """
    check_input("batch_norm_statistics", x, partials_type, statistics_type)
    options = StatisticsOptions(
        epsilon, is_unbiased, is_stable, partials_type, statistics_type, replicas
    )
    detail = {"shape": list(x.shape), **options.detail()}
    build = builder.inside("batchNormStatistics", "popnn.batchNormStatistics", detail)
    return statistics(build, x, options)


@checked
def batch_norm_whiten(builder: Builder, x: View, mean: View, inverse: View) -> Tensor:
    """Return (x − mean) × inverse standard deviation, both per channel.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    mean, inverse
        Statistics, float16 or float32; cast to the type of `x`.

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, a type is not supported, or numbers of channels
        differ.
    """
    check_input("batch_norm_whiten", x)
    detail = {"shape": list(x.shape)}
    build = builder.inside("batchNormWhiten", "popnn.batchNormWhiten", detail)
    return whitened(build, x, mean, inverse)


@checked
def batch_normalise(
    builder: Builder,
    x: View,
    gamma: View,
    beta: View,
    mean: View | None = None,
    inverse: View | None = None,
) -> tuple[Tensor, Tensor] | Tensor:
    """Return gamma × whitened + beta and the whitened tensor, all factors per channel.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    gamma, beta
        Factor and addend, one per channel.
    mean, inverse
        Statistics, float16 or float32; without them, `gamma` and `beta` are applied to `x` itself
        and only the result is returned: the factors combine the statistics for inference.

    Raises
    ------
    BadGraph
        If only one of the statistics is given, the tensor has fewer than two dimensions, or types
        or numbers of channels differ.
    """
    check_input("batch_normalise", x)
    if (mean is None) != (inverse is None):
        raise BadGraph("batch_normalise: expected both mean and inverse, or neither; got one")
    build = builder.inside("batchNormalise", "popnn.batchNormalise", {"shape": list(x.shape)})
    if mean is None or inverse is None:
        return scaled(build, x, gamma, beta)
    white = whitened(build, x, mean, inverse)
    return scaled(build, white, gamma, beta), white


@checked
def batch_norm_param_gradients(
    builder: Builder,
    x: View,
    gradient: View,
    mean: View | None = None,
    inverse: View | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of gamma and beta.

    They are the sums of gradient × whitened, and of the gradient, per channel; both sums share
    their compute sets.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The whitened tensor, as `batch_normalise` returns it; with statistics, the input of the
        layer. float16 or float32, shape (batch, channels, …).
    gradient
        Gradient of the result, of the type and shape of `x`.
    mean, inverse
        Statistics, with which `x` is whitened first.

    Returns
    -------
    gamma gradient, beta gradient
        Of the type of `gradient`, shape (channels,).

    Raises
    ------
    BadGraph
        If only one of the statistics is given, the tensor has fewer than two dimensions, or types,
        shapes or numbers of channels differ.
    """
    name = "batch_norm_param_gradients"
    check_input(name, x)
    check_gradient(name, x, gradient)
    if (mean is None) != (inverse is None):
        raise BadGraph(f"{name}: expected both mean and inverse, or neither; got one")
    detail = {"shape": list(x.shape)}
    build = builder.inside("batchNormParamGradients", "popnn.batchNormParamGradients", detail)
    if mean is not None and inverse is not None:
        x = whitened(build, x, mean, inverse)
    return param_gradients(build, x, gradient)


@checked
def batch_norm_gradients(
    builder: Builder,
    x: View,
    gradient: View,
    inverse: View,
    gamma: View,
    mean: View | None = None,
    *,
    replicas: Replicas | None = None,
) -> Tensor:
    """Return the gradient of the input of a layer whose statistics are those of the input.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The whitened tensor, as `batch_normalise` returns it; with `mean`, the input of the layer.
        float16 or float32, shape (batch, channels, …).
    gradient
        Gradient of the result, of the type and shape of `x`.
    inverse
        Inverse standard deviations, float16 or float32.
    gamma
        Factors, of the type of `x`, shape (channels,).
    mean
        Means, with which `x` is whitened first.
    replicas
        Replicas that share the statistics.

    Returns
    -------
    Tensor
        Of the type and shape of `x`, in the layout of the whitened tensor.

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or types, shapes or numbers of channels differ.

    Notes
    -----
    It is inverse × (g − mean of g − whitened × mean of g × whitened), where g is gradient × gamma
    and means are per channel.

    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/Norms.cpp, normGradients and
    normStatisticsGradients.
    """
    check_input("batch_norm_gradients", x)
    check_gradient("batch_norm_gradients", x, gradient)
    detail = {"shape": list(x.shape)}
    build = builder.inside("batchNormGradients", "popnn.batchNormGradients", detail)
    if mean is not None:
        x = whitened(build, x, mean, inverse)
    of_white = times_gamma(build, gradient, gamma)
    return statistics_gradients(build, x, of_white, inverse, replicas)


@checked
def batch_norm_param_update(
    builder: Builder,
    gamma_gradient: View,
    beta_gradient: View,
    scale: Tensor | float,
    gamma: View,
    beta: View,
) -> None:
    """Add `scale` times their gradients to gamma and beta, in place and in one compute set.

    Parameters
    ----------
    builder
        Target of the program.
    gamma_gradient, beta_gradient
        As `batch_norm_param_gradients` returns them.
    scale
        A tensor of one element of the same type, or a number: the negative learning rate.
    gamma, beta
        Updated parameters, of the same type and shape (channels,).

    Raises
    ------
    BadGraph
        If types or shapes differ, or the parameters alias elements.
    """
    name, detail = "batch_norm_param_update", {"channels": gamma.n_elements}
    build = builder.inside("batchNormParamUpdate", "popnn.batchNormParamUpdate", detail)
    param_update(name, build, gamma_gradient, beta_gradient, scale, gamma, beta)
