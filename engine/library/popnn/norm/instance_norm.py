"""Instance normalisation: group normalisation with one channel per group.

Source: graphcore/poplibs sdk-release-3.4, include/popnn/InstanceNorm.hpp and
lib/popnn/GroupNorm.cpp.
"""

from __future__ import annotations

from typing import Any

from tilescope.engine.graph import Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.norm.group_norm import (
    group_norm_gradients,
    group_norm_param_gradients,
    group_norm_param_update,
    group_norm_statistics,
    group_norm_whiten,
    group_normalise,
)
from tilescope.engine.library.popnn.norm.statistics import check_input

__all__ = [
    "instance_norm_gradients",
    "instance_norm_param_gradients",
    "instance_norm_param_update",
    "instance_norm_statistics",
    "instance_norm_whiten",
    "instance_normalise",
]


@checked
def instance_norm_statistics(
    builder: Builder,
    x: View,
    epsilon: float,
    *,
    is_unbiased: bool = False,
    is_stable: bool = False,
    partials_type: Any = "float32",
    statistics_type: Any = None,
) -> tuple[Tensor, Tensor]:
    """Return mean and inverse standard deviation per image and channel.

    Parameters are those of `group_norm_statistics`.

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or a type is not supported.
    """
    check_input("instance_norm_statistics", x, partials_type, statistics_type)
    return group_norm_statistics(
        builder,
        x,
        epsilon,
        x.shape[1],
        is_unbiased=is_unbiased,
        is_stable=is_stable,
        partials_type=partials_type,
        statistics_type=statistics_type,
    )


@checked
def instance_norm_whiten(builder: Builder, x: View, mean: View, inverse: View) -> Tensor:
    """Return (x − mean) × inverse standard deviation, per image and channel.

    Raises
    ------
    BadGraph
        As `group_norm_whiten`.
    """
    return group_norm_whiten(builder, x, mean, inverse)


@checked
def instance_normalise(
    builder: Builder, x: View, gamma: View, beta: View, mean: View, inverse: View
) -> tuple[Tensor, Tensor]:
    """Return gamma × whitened + beta, and the whitened tensor: see `group_normalise`.

    Raises
    ------
    BadGraph
        As `group_normalise`.
    """
    return group_normalise(builder, x, gamma, beta, mean, inverse)


@checked
def instance_norm_param_gradients(
    builder: Builder,
    x: View,
    gradient: View,
    mean: View | None = None,
    inverse: View | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of gamma and beta, per channel: see `group_norm_param_gradients`.

    Raises
    ------
    BadGraph
        As `group_norm_param_gradients`.
    """
    return group_norm_param_gradients(builder, x, gradient, mean, inverse)


@checked
def instance_norm_gradients(
    builder: Builder,
    x: View,
    gradient: View,
    inverse: View,
    gamma: View,
    mean: View | None = None,
) -> Tensor:
    """Return the gradient of the input: see `group_norm_gradients`; means per image and channel.

    Raises
    ------
    BadGraph
        As `group_norm_gradients`.
    """
    return group_norm_gradients(builder, x, gradient, inverse, gamma, mean)


@checked
def instance_norm_param_update(
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
    group_norm_param_update(builder, gamma_gradient, beta_gradient, scale, gamma, beta)
