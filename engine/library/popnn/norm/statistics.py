"""Statistics of normalisations over dimension 1: mean and inverse standard deviation.

Source of the steps: graphcore/poplibs sdk-release-3.4, lib/poplin/Norms.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilescope.engine.codelets.popnn.inverse_std_deviation import INVERSE_STD_DEVIATION
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, DType, Tensor, View, dtype_of
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import binary, cast, rearranged, similar
from tilescope.engine.library.popops.reduction.reduce import (
    Reduction,
    reduce,
    reduce_many,
    reduce_with_output,
)
from tilescope.engine.library.replicas import Replicas
from tilescope.engine.library.walk import joint_walk

__all__ = [
    "StatisticsOptions",
    "check_input",
    "grouped",
    "inverse_root_mean_square",
    "of_type",
    "scaled",
    "standardised",
    "statistics",
    "times",
    "ungrouped",
    "whitened",
    "with_channels",
]

_FLOATS = (FLOAT16, FLOAT32)


@dataclass(frozen=True)
class StatisticsOptions:
    """How statistics are computed.

    Parameters
    ----------
    epsilon
        Added to the variance.
    is_unbiased
        Whether the variance is divided by n − 1 instead of n.
    is_stable
        Whether the variance is that of the differences to the mean, instead of the difference of
        the mean square and the square of the mean.
    partials_type
        Type of mean squares: ``float32`` or ``float16``; not narrower than the input.
    statistics_type
        Type of the results: that of the input if None.
    replicas
        Replicas that share the statistics.
    """

    epsilon: float
    is_unbiased: bool = False
    is_stable: bool = False
    partials_type: Any = "float32"
    statistics_type: Any = None
    replicas: Replicas | None = None

    def detail(self) -> dict[str, Any]:
        """Return the options for a debug context."""
        return {
            "epsilon": self.epsilon,
            "unbiasedVarEstimate": self.is_unbiased,
            "stableAlgo": self.is_stable,
            "partialsType": dtype_of(self.partials_type).name,
            **({} if self.replicas is None else {"normBatchSize": self.replicas.n_images}),
        }

    def total(self, builder: Builder, tensors: Sequence[Tensor], x: View) -> list[Tensor]:
        """Return the sums of tensors over the replicas that share the statistics of `x`."""
        if self.replicas is None:
            return [*tensors]
        return self.replicas.total(builder, tensors, x.shape[0])


def check_input(
    name: str, x: View, partials_type: Any = "float32", statistics_type: Any = None
) -> None:
    """Raise BadGraph unless a tensor has channels and a type with statistics.

    Raises
    ------
    BadGraph
        If it has fewer than two dimensions, or a type is not supported.
    """
    if len(x.shape) < 2:
        raise BadGraph(
            f"{name}: {x.name!r} has shape {tuple(x.shape)}: expected (batch, channels, …); reshape"
            " it"
        )
    if x.dtype not in _FLOATS:
        raise BadGraph(f"{name}: {x.name!r} is {x.dtype}: expected float16 or float32; cast it")
    partials = dtype_of(partials_type)
    if partials not in _FLOATS:
        raise BadGraph(f"{name}: the type of partials is {partials}: expected float16 or float32")
    results = x.dtype if statistics_type is None else dtype_of(statistics_type)
    if results not in _FLOATS:
        raise BadGraph(f"{name}: the type of statistics is {results}: expected float16 or float32")


def with_channels(x: View, values: View) -> View:
    """Return one value per channel, broadcast over the other dimensions of a tensor.

    Raises
    ------
    BadGraph
        If there are more or fewer values than channels.
    """
    if values.n_elements != x.shape[1]:
        raise BadGraph(
            f"{values.name!r} has {values.n_elements} elements, but {x.name!r} has {x.shape[1]}"
            " channels: expected one each"
        )
    return values.reshape(1, x.shape[1], *(1,) * (len(x.shape) - 2))


def statistics(builder: Builder, x: View, options: StatisticsOptions) -> tuple[Tensor, Tensor]:
    """Return mean and inverse standard deviation over all dimensions but the second.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (…, channels, …).
    options
        How they are computed.

    Returns
    -------
    mean, inverse standard deviation
        Shape (channels,).
    """
    n_channels = x.shape[1]
    dims = [d for d in range(len(x.shape)) if d != 1]
    n_replicas = 1 if options.replicas is None else options.replicas.count(x.shape[0])
    n = n_replicas * x.n_elements // n_channels
    partials = dtype_of(options.partials_type) if x.dtype == FLOAT16 else x.dtype
    dtype = x.dtype if options.statistics_type is None else dtype_of(options.statistics_type)
    if options.is_stable:
        of_sum = _reduced(builder, "sum", x, dims, dtype, 1 / n)
        (mean,) = options.total(builder, [of_sum.reshape(n_channels)], x)
        apart = _differences(builder, x, mean)
        of_squares = _reduced(builder, "square_sum", apart, dims, partials, 1 / n)
        (power,) = options.total(builder, [of_squares.reshape(n_channels)], x)
    else:
        both = (("sum", dtype), ("square_sum", partials))
        sums = reduce_many(
            builder, [Reduction(name, x, dims, 1 / n, of_result) for name, of_result in both]
        )
        mean, power = options.total(builder, [t.reshape(n_channels) for t in sums], x)
    scale = n / (n - 1) if options.is_unbiased and n > 1 else 1.0
    return mean, _inverse(builder, mean, power, dtype, options, scale)


def standardised(builder: Builder, x: View, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return (x − mean) × inverse standard deviation, the means, and these inverses.

    Bits are those of stable statistics and `whitened`, but the differences are computed once.
    Sums are float32.
    """
    dims = [d for d in range(len(x.shape)) if d != 1]
    scale = x.shape[1] / x.n_elements
    mean = _reduced(builder, "sum", x, dims, x.dtype, scale)
    apart = _differences(builder, x, mean)
    power = _reduced(builder, "square_sum", apart, dims, FLOAT32, scale)
    mean, power = mean.reshape(x.shape[1]), power.reshape(x.shape[1])
    options = StatisticsOptions(epsilon, is_stable=True)
    inverse = _inverse(builder, mean, power, x.dtype, options, 1.0)
    binary_in_place(builder, "multiply", apart, with_channels(x, inverse))
    return apart, mean, inverse


def _differences(builder: Builder, x: View, mean: Tensor) -> Tensor:
    """Return the differences to the means, in the type of `x`."""
    return binary(builder, "subtract", x, with_channels(x, of_type(builder, mean, x.dtype)))


def inverse_root_mean_square(builder: Builder, x: View, epsilon: float, dtype: DType) -> Tensor:
    """Return the inverse root of the mean squares over all dimensions but the second."""
    dims = [d for d in range(len(x.shape)) if d != 1]
    scale = x.shape[1] / x.n_elements
    power = _reduced(builder, "square_sum", x, dims, FLOAT32, scale).reshape(x.shape[1])
    options = StatisticsOptions(epsilon, is_stable=True)
    return _inverse(builder, power, power, dtype, options, 1.0)


def _reduced(
    builder: Builder, operation: str, x: View, dims: list[int], dtype: DType, scale: float
) -> Tensor:
    """Return scaled sums over dimensions, of another type than the operand if need be."""
    if dtype == x.dtype:
        return reduce(builder, operation, x, dims, scale)
    shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
    out = builder.graph.add_variable(dtype, shape, operation, builder.debug)
    reduce_with_output(builder, operation, x, out, dims, scale)
    return out


def _inverse(
    builder: Builder,
    mean: Tensor,
    power: Tensor,
    dtype: DType,
    options: StatisticsOptions,
    scale: float,
) -> Tensor:
    """Return the inverse standard deviations: one vertex type, in the place of the means."""
    detail = {"shape": list(mean.shape)}
    flops = 4 * mean.n_elements
    build = builder.inside("iStdDev", "poplin.inverseStdDeviation", detail, flops=flops)
    out = similar(build, "iStdDev", [mean], mean.shape, dtype)
    walk = joint_walk([mean, power], out)
    assert walk is not None, "one dimension has compatible strides"
    scalars = {
        "epsilon": options.epsilon,
        "scale": scale,
        "is_stable": int(options.is_stable),
    }
    compute_set = build.compute_set("iStdDev")
    for is_block, tiles, regions in walk.batches():
        if not is_block:
            regions = [  # noqa: PLW2901 # vectors as blocks of one row
                blocks(r.variable, r.start, [1, 1, r.size[:, 0]], [0, 0, 1], tiles.size)
                for r in regions
            ]
        fields = dict(zip(("mean", "power", "out"), regions, strict=True))
        build.vertices(compute_set, INVERSE_STD_DEVIATION, tiles, fields, scalars)
    return out


def whitened(builder: Builder, x: View, mean: View, inverse: View) -> Tensor:
    """Return (x − mean) × inverse, for one mean and inverse per channel.

    Statistics of the other floating-point type are cast to that of `x`.
    """
    out = binary(builder, "subtract", x, with_channels(x, of_type(builder, mean, x.dtype)))
    times(builder, out, inverse)
    return out


def times(builder: Builder, x: View, inverse: View) -> None:
    """Multiply a tensor by one inverse standard deviation per channel, in place."""
    binary_in_place(builder, "multiply", x, with_channels(x, of_type(builder, inverse, x.dtype)))


def of_type(builder: Builder, values: View, dtype: DType) -> View:
    """Return floating-point statistics in a type."""
    is_float = values.dtype in _FLOATS
    return cast(builder, values, dtype) if is_float and values.dtype != dtype else values


def scaled(builder: Builder, x: View, gamma: View, beta: View) -> Tensor:
    """Return gamma × x + beta, for one factor and addend per channel."""
    out = binary(builder, "multiply", x, with_channels(x, gamma))
    binary_in_place(builder, "add", out, with_channels(x, beta))
    return out


def grouped(builder: Builder, x: View, n_groups: int, *, is_strided: bool) -> Tensor:
    """Return (batch, channels, …) as (channels per group, batch × groups, …).

    Parameters
    ----------
    builder
        Target of the program, if the layout requires a copy.
    x
        Shape (batch, channels, …).
    n_groups
        Number of groups; divides the channels.
    is_strided
        Whether a group's channels are `n_groups` apart instead of side by side.
    """
    n, channels, *field = x.shape
    size = channels // n_groups
    split = (n, size, n_groups, *field) if is_strided else (n, n_groups, size, *field)
    apart = rearranged(builder, x, split, "regroup")
    rest = range(3, 3 + len(field))
    order = (1, 0, 2, *rest) if is_strided else (2, 0, 1, *rest)
    turned = apart.dim_shuffle(*order)
    return rearranged(builder, turned, (size, n * n_groups, *field), "regroup")


def ungrouped(
    builder: Builder, x: View, shape: tuple[int, ...], n_groups: int, *, is_strided: bool
) -> Tensor:
    """Return the inverse of `grouped`, for the original shape."""
    n, channels, *field = shape
    size = channels // n_groups
    apart = rearranged(builder, x, (size, n, n_groups, *field), "ungroup")
    rest = range(3, 3 + len(field))
    order = (1, 0, 2, *rest) if is_strided else (1, 2, 0, *rest)
    turned = apart.dim_shuffle(*order)
    assert prod(shape) == x.n_elements
    return rearranged(builder, turned, shape, "ungroup")
