"""Batch normalisation: statistics, whitening, scale and offset per channel.

Source: graphcore/poplibs sdk-release-3.4, include/popnn/BatchNorm.hpp and lib/popnn/BatchNorm.cpp.
"""

from __future__ import annotations

from typing import Any

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.norm.statistics import (
    StatisticsOptions,
    check_input,
    scaled,
    statistics,
    whitened,
)

__all__ = ["batch_norm_statistics", "batch_norm_whiten", "batch_normalise"]


@checked
def batch_norm_statistics(
    builder: Builder,
    x: View,
    epsilon: float,
    *,
    is_unbiased: bool = False,
    is_stable: bool = False,
    partials_type: Any = "float32",
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
        Type of sums: ``float32`` or ``float16``.

    Returns
    -------
    mean, inverse standard deviation
        Of the type of `x`, shape (channels,).

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or a type is not supported.
    """
    check_input("batch_norm_statistics", x, partials_type)
    options = StatisticsOptions(epsilon, is_unbiased, is_stable, partials_type)
    detail = {"shape": list(x.shape), **options.detail()}
    build = builder.inside("batchNormStatistics", "popnn.batchNormStatistics", detail)
    return statistics(build, x, options)


@checked
def batch_norm_whiten(builder: Builder, x: View, mean: View, inverse: View) -> Tensor:
    """Return (x − mean) × inverse standard deviation, both per channel.

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or types or numbers of channels differ.
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
        Statistics; without them, `gamma` and `beta` are applied to `x` itself and only the result
        is returned: the factors combine the statistics for inference.

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
