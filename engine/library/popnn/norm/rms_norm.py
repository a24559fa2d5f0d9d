"""Root mean square normalisation: that of layers without the mean, and its gradients.

The steps are those of layer normalisation in graphcore/poplibs sdk-release-3.4,
lib/poplin/Norms.cpp, as far as they are needed; the definition is ONNX's, RMSNormalization.
"""

from __future__ import annotations

from typing import Any

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, dtype_of
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.norm.gradients import (
    check_gradient,
    gamma_gradient,
    statistics_gradients,
    times_gamma,
)
from tilescope.engine.library.popnn.norm.statistics import (
    check_input,
    grouped,
    inverse_root_mean_square,
    of_type,
    ungrouped,
    with_channels,
)
from tilescope.engine.library.popops.elementwise.operations import binary

__all__ = [
    "rms_norm_gradients",
    "rms_norm_param_gradients",
    "rms_norm_statistics",
    "rms_norm_whiten",
    "rms_normalise",
    "root_mean_square_normalise",
]


@checked
def root_mean_square_normalise(builder: Builder, x: View, epsilon: float) -> Tensor:
    """Return x divided by √(mean of its squares + epsilon), per row.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns); sums are float32.
    epsilon
        Added to the mean.

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or another type.
    """
    check_input("root_mean_square_normalise", x)
    detail = {"shape": list(x.shape), "epsilon": epsilon}
    build = builder.inside("rmsNormalise", "popnn.rmsNormalise", detail)
    apart = grouped(build, x, 1, is_strided=False)
    inverse = inverse_root_mean_square(build, apart, epsilon, x.dtype)
    white = binary(build, "multiply", apart, with_channels(apart, inverse))
    return ungrouped(build, white, tuple(x.shape), 1, is_strided=False)


@checked
def rms_norm_statistics(
    builder: Builder, x: View, epsilon: float, *, statistics_type: Any = None
) -> Tensor:
    """Return the inverse of √(mean of squares + epsilon), per row.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns); sums are float32.
    epsilon
        Added to the mean.
    statistics_type
        Type of the result: ``float32`` or ``float16``, that of `x` by default.

    Returns
    -------
    Tensor
        Shape (rows,).

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or a type is not supported.
    """
    check_input("rms_norm_statistics", x, statistics_type=statistics_type)
    detail = {"shape": list(x.shape), "epsilon": epsilon}
    build = builder.inside("rmsNormStatistics", "popnn.rmsNormStatistics", detail)
    dtype = x.dtype if statistics_type is None else dtype_of(statistics_type)
    apart = grouped(build, x, 1, is_strided=False)
    return inverse_root_mean_square(build, apart, epsilon, dtype)


@checked
def rms_norm_whiten(builder: Builder, x: View, inverse: View) -> Tensor:
    """Return x × inverse, per row.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns).
    inverse
        Statistics, as `rms_norm_statistics` returns them; cast to the type of `x`.

    Raises
    ------
    BadGraph
        If there is not one inverse per row, the tensor has fewer than two dimensions, or a type is
        not supported.
    """
    check_input("rms_norm_whiten", x)
    _check_inverse("rms_norm_whiten", x, inverse)
    detail = {"shape": list(x.shape)}
    build = builder.inside("rmsNormWhiten", "popnn.rmsNormWhiten", detail)
    apart = grouped(build, x, 1, is_strided=False)
    factors = with_channels(apart, of_type(build, inverse, x.dtype))
    white = binary(build, "multiply", apart, factors)
    return ungrouped(build, white, tuple(x.shape), 1, is_strided=False)


@checked
def rms_normalise(builder: Builder, x: View, gamma: View, inverse: View) -> tuple[Tensor, Tensor]:
    """Return gamma × whitened, and the whitened tensor.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns).
    gamma
        Factors, of the type of `x`, shape (columns,).
    inverse
        As for `rms_norm_whiten`.

    Raises
    ------
    BadGraph
        As `rms_norm_whiten`, or if there is not one factor per column.
    """
    check_input("rms_normalise", x)
    build = builder.inside("rmsNormalise", "popnn.rmsNormalise", {"shape": list(x.shape)})
    white = rms_norm_whiten(build, x, inverse)
    return binary(build, "multiply", white, with_channels(white, gamma)), white


@checked
def rms_norm_param_gradients(builder: Builder, white: View, gradient: View) -> Tensor:
    """Return the gradient of gamma: the sums of gradient × whitened, per column.

    Parameters
    ----------
    builder
        Target of the program.
    white
        The whitened tensor, as `rms_normalise` returns it: float16 or float32, shape
        (rows, columns).
    gradient
        Gradient of the result, of the same type and shape.

    Returns
    -------
    Tensor
        Of the type of `gradient`, shape (columns,).

    Raises
    ------
    BadGraph
        If the tensor has fewer than two dimensions, or types or shapes differ.
    """
    check_input("rms_norm_param_gradients", white)
    check_gradient("rms_norm_param_gradients", white, gradient)
    detail = {"shape": list(white.shape)}
    build = builder.inside("rmsNormParamGradients", "popnn.rmsNormParamGradients", detail)
    return gamma_gradient(build, white, gradient)


@checked
def rms_norm_gradients(
    builder: Builder, white: View, gradient: View, inverse: View, gamma: View
) -> Tensor:
    """Return the gradient of the input of a layer whose statistics are those of the input.

    Parameters
    ----------
    builder
        Target of the program.
    white
        The whitened tensor, as `rms_normalise` returns it: float16 or float32, shape
        (rows, columns).
    gradient
        Gradient of the result, of the same type and shape.
    inverse
        As for `rms_norm_whiten`.
    gamma
        Factors, of the type of `white`, shape (columns,).

    Returns
    -------
    Tensor
        Of the type and shape of `white`.

    Raises
    ------
    BadGraph
        If there is not one inverse per row and one factor per column, the tensor has fewer than two
        dimensions, or types or shapes differ.

    Notes
    -----
    It is inverse × (g − whitened × mean of g × whitened), where g is gradient × gamma and means are
    per row.
    """
    check_input("rms_norm_gradients", white)
    check_gradient("rms_norm_gradients", white, gradient)
    _check_inverse("rms_norm_gradients", white, inverse)
    detail = {"shape": list(white.shape)}
    build = builder.inside("rmsNormGradients", "popnn.rmsNormGradients", detail)
    rows, of_rows = (
        grouped(build, part, 1, is_strided=False)
        for part in (white, times_gamma(build, gradient, gamma))
    )
    out = statistics_gradients(build, rows, of_rows, inverse, is_centred=False)
    return ungrouped(build, out, tuple(white.shape), 1, is_strided=False)


def _check_inverse(name: str, x: View, inverse: View) -> None:
    """Raise BadGraph unless there is one inverse per row.

    Raises
    ------
    BadGraph
        If there are more or fewer.
    """
    if inverse.n_elements != x.shape[0]:
        raise BadGraph(
            f"{name}: {inverse.name!r} has {inverse.n_elements} statistics for {x.name!r} of shape"
            f" {tuple(x.shape)}: expected one per row"
        )
