"""Group normalisation: statistics per image and group of channels, whitening, scale and offset.

Source: graphcore/poplibs sdk-release-3.4, include/popnn/GroupNorm.hpp and lib/popnn/GroupNorm.cpp.
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
    grouped,
    scaled,
    standardised,
    statistics,
    ungrouped,
    whitened,
)

__all__ = [
    "group_norm_statistics",
    "group_norm_whiten",
    "group_normalise",
    "group_standardise",
]


@checked
def group_norm_statistics(
    builder: Builder,
    x: View,
    epsilon: float,
    n_groups: int,
    *,
    is_unbiased: bool = False,
    is_stable: bool = False,
    partials_type: Any = "float32",
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
    is_unbiased, is_stable, partials_type
        As for `batch_norm_statistics`.
    is_strided
        Whether a group's channels are `n_groups` apart (``groupNormStridedChannelGrouping``)
        instead of side by side.

    Returns
    -------
    mean, inverse standard deviation
        Of the type of `x`, shape (batch × n_groups,).

    Raises
    ------
    BadGraph
        If the groups do not divide the channels, the tensor has fewer than two dimensions, or a
        type is not supported.
    """
    check_input("group_norm_statistics", x, partials_type)
    _check_groups("group_norm_statistics", x, n_groups)
    options = StatisticsOptions(epsilon, is_unbiased, is_stable, partials_type)
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
        If the statistics do not fit the batch and the channels, or types differ.
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
