"""Group normalisation: statistics per image and group of channels, whitening, scale and gradients.

Source: graphcore/poplibs sdk-release-3.4, include/popnn/GroupNorm.hpp and lib/popnn/GroupNorm.cpp.
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
    grouped,
    scaled,
    standardised,
    statistics,
    ungrouped,
    whitened,
)

__all__ = [
    "group_norm_gradients",
    "group_norm_param_gradients",
    "group_norm_param_update",
    "group_norm_statistics",
    "group_norm_whiten",
    "group_normalise",
    "group_standardise",
]


@checked
def group_norm_statistics(  # noqa: PLR0913 - one argument per argument of the library
    builder: Builder,
    x: View,
    epsilon: float,
    n_groups: int,
    *,
    is_unbiased: bool = False,
    is_stable: bool = False,
    partials_type: Any = "float32",
    statistics_type: Any = None,
    is_strided: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return mean and inverse standard deviation per image and group of channels.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    epsilon
        Added to the variance.
    n_groups
        Groups of channels; divides their number.
    is_unbiased, is_stable, partials_type, statistics_type
        As for `batch_norm_statistics`.
    is_strided
        Whether a group's channels are `n_groups` apart (``groupNormStridedChannelGrouping``)
        instead of side by side.

    Returns
    -------
    mean, inverse standard deviation
        Shape (batch × n_groups,).

    Raises
    ------
    BadGraph
        If the groups do not divide the channels, the tensor has fewer than two dimensions, or a
        type is not supported.
    """
    check_input("group_norm_statistics", x, partials_type, statistics_type)
    _check_groups("group_norm_statistics", x, n_groups)
    options = StatisticsOptions(epsilon, is_unbiased, is_stable, partials_type, statistics_type)
    detail = {"shape": list(x.shape), "numGroups": n_groups, "strided": is_strided}
    detail |= options.detail()
    build = builder.inside("groupNormStatistics", "popnn.groupNormStatistics", detail)
    return statistics(build, grouped(build, x, n_groups, is_strided=is_strided), options)


@checked
def group_norm_whiten(
    builder: Builder, x: View, mean: View, inverse: View, *, is_strided: bool = False
) -> Tensor:
    """Return (x − mean) × inverse standard deviation, per image and group.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    mean, inverse
        Statistics, as `group_norm_statistics` returns them; their number decides the groups.
    is_strided
        As for the statistics.

    Raises
    ------
    BadGraph
        If the statistics do not fit the batch and the channels, or a type is not supported.
    """
    check_input("group_norm_whiten", x)
    n_groups = _groups_of("group_norm_whiten", x, mean)
    detail = {"shape": list(x.shape), "numGroups": n_groups, "strided": is_strided}
    build = builder.inside("groupNormWhiten", "popnn.groupNormWhiten", detail)
    apart = grouped(build, x, n_groups, is_strided=is_strided)
    white = whitened(build, apart, mean, inverse)
    return ungrouped(build, white, tuple(x.shape), n_groups, is_strided=is_strided)


@checked
def group_standardise(
    builder: Builder, x: View, epsilon: float, n_groups: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a tensor whitened by its own stable statistics, and these.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    epsilon
        Added to the variance.
    n_groups
        Groups of channels; divides their number.

    Returns
    -------
    whitened, mean, inverse standard deviation
        Statistics have shape (batch × n_groups,) and the type of `x`.

    Raises
    ------
    BadGraph
        As `group_norm_statistics`.
    """
    check_input("group_standardise", x)
    _check_groups("group_standardise", x, n_groups)
    detail = {"shape": list(x.shape), "numGroups": n_groups, "epsilon": epsilon}
    build = builder.inside("groupNormalise", "popnn.groupNormalise", detail)
    apart = grouped(build, x, n_groups, is_strided=False)
    white, mean, inverse = standardised(build, apart, epsilon)
    return ungrouped(build, white, tuple(x.shape), n_groups, is_strided=False), mean, inverse


@checked
def group_normalise(
    builder: Builder,
    x: View,
    gamma: View,
    beta: View,
    mean: View,
    inverse: View,
    *,
    is_strided: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return gamma × whitened + beta, and the whitened tensor.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (batch, channels, …).
    gamma, beta
        Factor and addend, one per channel.
    mean, inverse, is_strided
        As for `group_norm_whiten`.

    Raises
    ------
    BadGraph
        As `group_norm_whiten`, or if there is not one factor and addend per channel.
    """
    check_input("group_normalise", x)
    detail = {"shape": list(x.shape)}
    build = builder.inside("groupNormalise", "popnn.groupNormalise", detail)
    white = group_norm_whiten(build, x, mean, inverse, is_strided=is_strided)
    return scaled(build, white, gamma, beta), white


@checked
def group_norm_param_gradients(
    builder: Builder,
    x: View,
    gradient: View,
    mean: View | None = None,
    inverse: View | None = None,
    *,
    is_strided: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of gamma and beta: see `batch_norm_param_gradients`.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The whitened tensor, as `group_normalise` returns it; with statistics, the input of the
        layer. float16 or float32, shape (batch, channels, …).
    gradient
        Gradient of the result, of the type and shape of `x`.
    mean, inverse
        Statistics, with which `x` is whitened first.
    is_strided
        As for the statistics.

    Returns
    -------
    gamma gradient, beta gradient
        Of the type of `gradient`, shape (channels,).

    Raises
    ------
    BadGraph
        If only one of the statistics is given, they do not fit the batch and the channels, or types
        or shapes differ.
    """
    name = "group_norm_param_gradients"
    check_input(name, x)
    check_gradient(name, x, gradient)
    if (mean is None) != (inverse is None):
        raise BadGraph(f"{name}: expected both mean and inverse, or neither; got one")
    detail = {"shape": list(x.shape)}
    build = builder.inside("groupNormParamGradients", "popnn.groupNormParamGradients", detail)
    if mean is not None and inverse is not None:
        x = group_norm_whiten(build, x, mean, inverse, is_strided=is_strided)
    return param_gradients(build, x, gradient)


@checked
def group_norm_gradients(
    builder: Builder,
    x: View,
    gradient: View,
    inverse: View,
    gamma: View,
    mean: View | None = None,
    *,
    is_strided: bool = False,
) -> Tensor:
    """Return the gradient of the input of a layer whose statistics are those of the input.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The whitened tensor, as `group_normalise` returns it; with `mean`, the input of the layer.
        float16 or float32, shape (batch, channels, …).
    gradient
        Gradient of the result, of the type and shape of `x`.
    inverse
        Inverse standard deviations, float16 or float32; their number decides the groups.
    gamma
        Factors, of the type of `x`, shape (channels,).
    mean
        Means, with which `x` is whitened first.
    is_strided
        As for the statistics.

    Returns
    -------
    Tensor
        Of the type and shape of `x`.

    Raises
    ------
    BadGraph
        If the statistics do not fit the batch and the channels, or types or shapes differ.

    Notes
    -----
    That of `batch_norm_gradients`, with means per image and group.
    """
    check_input("group_norm_gradients", x)
    check_gradient("group_norm_gradients", x, gradient)
    n_groups = _groups_of("group_norm_gradients", x, inverse)
    detail = {"shape": list(x.shape), "numGroups": n_groups, "strided": is_strided}
    build = builder.inside("groupNormGradients", "popnn.groupNormGradients", detail)
    if mean is not None:
        x = group_norm_whiten(build, x, mean, inverse, is_strided=is_strided)
    white, of_white = (
        grouped(build, part, n_groups, is_strided=is_strided)
        for part in (x, times_gamma(build, gradient, gamma))
    )
    out = statistics_gradients(build, white, of_white, inverse)
    return ungrouped(build, out, tuple(x.shape), n_groups, is_strided=is_strided)


@checked
def group_norm_param_update(
    builder: Builder,
    gamma_gradient: View,
    beta_gradient: View,
    scale: Tensor | float,
    gamma: View,
    beta: View,
) -> None:
    """Add `scale` times their gradients to gamma and beta: see `batch_norm_param_update`.

    Raises
    ------
    BadGraph
        As `batch_norm_param_update`.
    """
    name, detail = "group_norm_param_update", {"channels": gamma.n_elements}
    build = builder.inside("groupNormParamUpdate", "popnn.groupNormParamUpdate", detail)
    param_update(name, build, gamma_gradient, beta_gradient, scale, gamma, beta)


def _check_groups(name: str, x: View, n_groups: int) -> None:
    if n_groups < 1 or x.shape[1] % n_groups:
        raise BadGraph(
            f"{name}: {n_groups} groups of the {x.shape[1]} channels of {x.name!r}: expected a"
            " divisor of the channels"
        )


def _groups_of(name: str, x: View, mean: View) -> int:
    """Return the number of groups that statistics are of.

    Raises
    ------
    BadGraph
        If it is not a divisor of the channels.
    """
    n_groups, rest = divmod(mean.n_elements, x.shape[0])
    if rest or n_groups < 1 or x.shape[1] % n_groups:
        raise BadGraph(
            f"{name}: {mean.name!r} has {mean.n_elements} statistics for {x.name!r} of shape"
            f" {tuple(x.shape)}: expected one per image and group"
        )
    return n_groups
