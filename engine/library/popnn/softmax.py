"""Softmax and its logarithm along a dimension.

Source of the steps and their order: graphcore/poplibs sdk-release-3.4, lib/popnn/NonLinearity.cpp,
softmaxImpl, and lib/popnn/LogSoftmax.cpp. Halves are summed as floats.
"""

from __future__ import annotations

import math

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place, unary_in_place
from tilescope.engine.library.popops.elementwise.map import map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    cast,
    unary,
)
from tilescope.engine.library.popops.reduction.reduce import reduce, reduce_with_output

__all__ = ["SOFTMAX_SCALING", "log_softmax", "log_softmax_in_place", "softmax", "softmax_in_place"]

#: Factor of the result of a scaled softmax, near the largest half.
#: Source: the same release, lib/popnn/NonLinearityInternal.hpp.
SOFTMAX_SCALING = 62000.0


@checked
def softmax(
    builder: Builder, x: View, dim: int = -1, *, stable: bool = True, scaled: bool = False
) -> Tensor:
    """Return exp(x) divided by its sum along a dimension.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32.
    dim
        The dimension; negative ones count from the end.
    stable
        Whether the largest element is subtracted first, so that no power overflows.
    scaled
        Whether the result is multiplied by `SOFTMAX_SCALING`, so that small probabilities have all
        digits of a half; needs `stable`.

    Raises
    ------
    BadGraph
        If the dimension does not exist, the type is not supported, or a scaled softmax is not
        stable.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/NonLinearity.hpp: SOFTMAX,
    SOFTMAX_STABLE and SOFTMAX_SCALED.
    """
    dim = _checked_dim("softmax", x, dim)
    _check_scaled(stable=stable, scaled=scaled)
    build = _inside(builder, "softmax", x, dim, stable=stable, scaled=scaled)
    powers: Tensor
    if stable:
        powers = binary(build, "subtract", x, reduce(build, "maximum", x, [dim]))
        _powers_in_place(build, powers, scaled=scaled)
    else:
        powers = unary(build, "exp", x)
    _divide_by_sum(build, powers, dim, scaled=scaled)
    return powers


@checked
def softmax_in_place(
    builder: Builder, x: View, dim: int = -1, *, stable: bool = True, scaled: bool = False
) -> None:
    """Replace a tensor by its softmax: see `softmax`.

    Raises
    ------
    BadGraph
        As `softmax`, or if the tensor aliases elements.
    """
    dim = _checked_dim("softmax_in_place", x, dim)
    _check_scaled(stable=stable, scaled=scaled)
    build = _inside(builder, "softmaxInPlace", x, dim, stable=stable, scaled=scaled)
    if stable:
        binary_in_place(build, "subtract", x, reduce(build, "maximum", x, [dim]))
    _powers_in_place(build, x, scaled=scaled)
    _divide_by_sum(build, x, dim, scaled=scaled)


@checked
def log_softmax(builder: Builder, x: View, dim: int = -1) -> Tensor:
    """Return the logarithm of the softmax along a dimension.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32.
    dim
        The dimension; negative ones count from the end.

    Raises
    ------
    BadGraph
        If the dimension does not exist, or the type is not supported.
    """
    dim = _checked_dim("log_softmax", x, dim)
    build = _inside(builder, "logSoftmax", x, dim)
    below = binary(build, "subtract", x, reduce(build, "maximum", x, [dim]))
    _subtract_log_of_sum(build, below, dim)
    return below


@checked
def log_softmax_in_place(builder: Builder, x: View, dim: int = -1) -> None:
    """Replace a tensor by the logarithm of its softmax: see `log_softmax`.

    Raises
    ------
    BadGraph
        As `log_softmax`, or if the tensor aliases elements.
    """
    dim = _checked_dim("log_softmax_in_place", x, dim)
    build = _inside(builder, "logSoftmaxInPlace", x, dim)
    binary_in_place(build, "subtract", x, reduce(build, "maximum", x, [dim]))
    _subtract_log_of_sum(build, x, dim)


def _checked_dim(name: str, x: View, dim: int) -> int:
    """Return a dimension counted from the front.

    Raises
    ------
    BadGraph
        If it does not exist, or the type has no softmax.
    """
    rank = len(x.shape)
    if not -rank <= dim < rank:
        raise BadGraph(
            f"{name}: {x.name!r} has {rank} dimensions: expected {-rank} to {rank - 1}, got {dim}"
        )
    if x.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: {x.name!r} is {x.dtype}: expected float16 or float32; cast it")
    return dim % rank


def _check_scaled(*, stable: bool, scaled: bool) -> None:
    if scaled and not stable:
        raise BadGraph("softmax: scaled=True needs stable=True: the scale is added to exponents")


def _inside(builder: Builder, name: str, x: View, dim: int, **options: bool) -> Builder:
    detail = {"shape": list(x.shape), "dim": dim, **options}
    operation = f"popnn.{'logSoftmax' if name.startswith('log') else 'softmax'}"
    return builder.inside(name, operation, detail)


def _powers_in_place(builder: Builder, x: View, *, scaled: bool) -> None:
    if scaled:
        # In two steps: the difference to the maximum is exact, its sum with the logarithm is not.
        map_in_place(builder, operand(0) + math.log(SOFTMAX_SCALING), [x])
    unary_in_place(builder, "exp", x)


def _sum(builder: Builder, x: View, dim: int) -> Tensor:
    """Return the sums along a dimension, as floats, on the tiles that the reduction takes."""
    shape = [1 if d == dim else size for d, size in enumerate(x.shape)]
    out = builder.graph.add_variable(FLOAT32, shape, "sum", builder.debug)
    reduce_with_output(builder, "sum", x, out, [dim])
    return out


def _divide_by_sum(builder: Builder, powers: View, dim: int, *, scaled: bool) -> None:
    total = _sum(builder, powers, dim)
    unary_in_place(builder, "inverse", total)
    if scaled:
        map_in_place(builder, operand(0) * SOFTMAX_SCALING, [total])
    binary_in_place(builder, "multiply", powers, _as_type(builder, total, powers))


def _as_type(builder: Builder, total: Tensor, x: View) -> Tensor:
    return total if total.dtype == x.dtype else cast(builder, total, x.dtype)


def _subtract_log_of_sum(builder: Builder, x: View, dim: int) -> None:
    total = _sum(builder, unary(builder, "exp", x), dim)
    unary_in_place(builder, "log", total)
    binary_in_place(builder, "subtract", x, _as_type(builder, total, x))
