"""Random numbers and dropout, as ``poprand``; equal for equal seeds on any machine and tiling.

The number of an element is Philox4x32-10 of the seed (the key), and of the seed modifier and the
element's row-major position (the counter): see `codelets.poprand.philox`. PopLibs draws
from the generators of the tiles, so its numbers depend on the mapping of the reference tensor.
Names and parameters: graphcore/poplibs sdk-release-3.4, include/poprand/RandomGen.hpp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilescope.engine.codelets.poprand.random_numbers import DROPOUT, RANDOM, STOCHASTIC_CAST
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, DType, Tensor, View, dtype_of
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.map import call, map_in_place, operand
from tilescope.engine.library.popops.elementwise.operations import binary, cast, similar
from tilescope.engine.library.poprand.random_place import add_random_vertices, check_seed

__all__ = [
    "bernoulli",
    "dropout",
    "log_uniform",
    "normal",
    "shaped_dropout",
    "stochastic_cast",
    "truncated_normal",
    "uniform",
]

_FLOATS = (FLOAT16, FLOAT32)
_NUMBERS = (*_FLOATS, INT32)
#: Numbers of 32 bits.
_RANGE = 2.0**32


@checked
def uniform(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    reference: View,
    dtype: Any,
    low: float,
    high: float,
) -> Tensor:
    """Return uniformly distributed numbers from `low` up to `high`.

    Parameters
    ----------
    builder
        Target of the program.
    seed
        int32, shape (2,): the 64-bit seed.
    seed_modifier
        0 to 2**32 - 1; calls with one seed and different modifiers are independent.
    reference
        A tensor with the shape and the mapping of the result.
    dtype
        ``float32``, ``float16`` or ``int32``.
    low, high
        Interval. Floats are below `high`, except by rounding; integers include it.

    Raises
    ------
    BadGraph
        If the seed, the type or the interval is invalid.
    """
    kind = _checked("uniform", seed, seed_modifier, dtype, _NUMBERS)
    if not low < high:
        raise BadGraph(f"uniform: the interval is {low} to {high}: expected low below high")
    if kind == INT32:
        if low != int(low) or high != int(high) or not -(2**31) <= low < high < 2**31:
            raise BadGraph(
                f"uniform: the interval of int32 is {low} to {high}: expected integers of 32 bits"
            )
        # Single precision holds the scalars: wide intervals would lose their last digits.
        if max(abs(low), high - low + 1) > 2**24:
            raise BadGraph(
                f"uniform: the interval of int32 is {low} to {high}: expected at most 2**24"
                " integers, none beyond ±2**24"
            )
    detail = {"shape": list(reference.shape), "low": low, "high": high}
    width = high - low + (kind == INT32)
    name = "uniform_int" if kind == INT32 else "uniform"
    draw = _Draw("uniform", detail, name, low, width)
    return _drawn(builder, draw, seed, seed_modifier, reference, kind)


@checked
def log_uniform(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    reference: View,
    dtype: Any,
    low: float,
    high: float,
    base: float = math.e,
) -> Tensor:
    """Return numbers whose logarithm is uniformly distributed from `low` to `high`.

    Parameters
    ----------
    builder, seed, seed_modifier, reference
        As for `uniform`.
    dtype
        ``float32`` or ``float16``.
    low, high
        Interval of the result; at least 1.
    base
        Base of the logarithm; above 1. It does not change the distribution.

    Raises
    ------
    BadGraph
        If the seed, the type, the interval or the base is invalid.
    """
    kind = _checked("log_uniform", seed, seed_modifier, dtype, _FLOATS)
    if not 1 <= low < high:
        raise BadGraph(f"log_uniform: the interval is {low} to {high}: expected 1 <= low < high")
    if base <= 1:
        raise BadGraph(f"log_uniform: the base is {base}: expected more than 1")
    detail = {"shape": list(reference.shape), "low": low, "high": high, "base": base}
    build = builder.inside("logUniform", "poprand.logUniform", detail)
    ends = math.log(low, base), math.log(high, base)
    out = uniform(build, seed, seed_modifier, reference, FLOAT32, *ends)
    map_in_place(build, call("exp", operand(0) * math.log(base)), [out])
    return cast(build, out, kind) if kind != FLOAT32 else out


@checked
def normal(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    reference: View,
    dtype: Any,
    mean: float = 0.0,
    std_dev: float = 1.0,
) -> Tensor:
    """Return normally distributed numbers.

    Parameters
    ----------
    builder, seed, seed_modifier, reference
        As for `uniform`.
    dtype
        ``float32`` or ``float16``.
    mean, std_dev
        Mean and standard deviation.

    Raises
    ------
    BadGraph
        If the seed, the type or the deviation is invalid.
    """
    kind = _checked("normal", seed, seed_modifier, dtype, _FLOATS)
    _check_deviation("normal", std_dev)
    detail = {"shape": list(reference.shape), "mean": mean, "stdDev": std_dev}
    draw = _Draw("normal", detail, "normal", mean, std_dev)
    return _drawn(builder, draw, seed, seed_modifier, reference, kind)


@checked
def truncated_normal(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    reference: View,
    dtype: Any,
    mean: float = 0.0,
    std_dev: float = 1.0,
    alpha: float = 2.0,
) -> Tensor:
    """Return normally distributed numbers at most `alpha` deviations from the mean.

    Parameters
    ----------
    builder, seed, seed_modifier, reference
        As for `uniform`.
    dtype
        ``float32`` or ``float16``.
    mean, std_dev
        Mean and standard deviation before truncation.
    alpha
        Largest distance from the mean, in standard deviations.

    Raises
    ------
    BadGraph
        If the seed, the type, the deviation or `alpha` is invalid.

    Notes
    -----
    A vertex of PopLibs draws again up to `iterations` times, which the cycle law counts. Source:
    graphcore/poplibs sdk-release-3.4, lib/poprand/RandomGen.cpp: probability of failure 1e-4.
    """
    kind = _checked("truncated_normal", seed, seed_modifier, dtype, _FLOATS)
    _check_deviation("truncated_normal", std_dev)
    outside = math.erfc(alpha / math.sqrt(2)) if alpha > 0 else 1.0
    if not 0 < outside < 1:
        raise BadGraph(f"truncated_normal: alpha is {alpha}: expected more than 0, less than 38")
    detail = {
        "shape": list(reference.shape),
        "mean": mean,
        "stdDev": std_dev,
        "alpha": alpha,
    }
    flops = 3 * reference.n_elements
    build = builder.inside("truncatedNormal", "poprand.truncatedNormal", detail, flops=flops)
    out = similar(build, "out", [reference], reference.shape, kind)
    scalars = {
        "modifier": seed_modifier,
        "mean": mean,
        "deviation": std_dev,
        "below": outside / 2,
        "iterations": math.ceil(-4 / math.log10(outside)),
    }
    add_random_vertices(build, RANDOM["truncated_normal"], seed, out, scalars)
    return out


@checked
def bernoulli(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    reference: View,
    dtype: Any,
    probability: float,
) -> Tensor:
    """Return ones with a probability, and zeros.

    Parameters
    ----------
    builder, seed, seed_modifier, reference
        As for `uniform`.
    dtype
        ``float32``, ``float16`` or ``int32``.
    probability
        Probability of a one, 0 to 1.

    Raises
    ------
    BadGraph
        If the seed, the type or the probability is invalid.
    """
    kind = _checked("bernoulli", seed, seed_modifier, dtype, _NUMBERS)
    _check_probability("bernoulli", probability)
    detail = {"shape": list(reference.shape), "probability": probability}
    threshold = probability * _RANGE
    draw = _Draw("bernoulli", detail, "bernoulli", threshold)
    return _drawn(builder, draw, seed, seed_modifier, reference, kind)


@checked
def dropout(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    x: View,
    reference: View,
    keep_probability: float,
    scale: float,
) -> Tensor:
    """Return a tensor with random elements replaced by zero and the others scaled.

    Parameters
    ----------
    builder, seed, seed_modifier
        As for `uniform`.
    x
        float16 or float32.
    reference
        A tensor of the same shape, whose mapping the result has.
    keep_probability
        Probability of keeping an element, 0 to 1.
    scale
        Factor of the elements kept, usually 1 / `keep_probability`.

    Raises
    ------
    BadGraph
        If the seed, the type, the probability or the shape of the reference is invalid.
    """
    _checked("dropout", seed, seed_modifier, x.dtype, _FLOATS)
    _check_probability("dropout", keep_probability)
    if tuple(x.shape) != tuple(reference.shape):
        raise BadGraph(
            f"dropout: {reference.name!r} has shape {tuple(reference.shape)}, but {x.name!r} has"
            f" {tuple(x.shape)}: expected equal shapes; use shaped_dropout to broadcast"
        )
    detail = {"shape": list(x.shape), "keepProbability": keep_probability, "scale": scale}
    build = builder.inside("dropout", "poprand.dropout", detail, flops=2 * x.n_elements)
    out = similar(build, "out", [reference], x.shape, x.dtype)
    scalars = {
        "modifier": seed_modifier,
        "threshold": keep_probability * _RANGE,
        "factor": scale,
    }
    add_random_vertices(build, DROPOUT, seed, out, scalars, x)
    return out


@checked
def stochastic_cast(builder: Builder, seed: View, seed_modifier: int, x: View) -> Tensor:
    """Return a tensor in half, every element rounded to one of its two neighbours by chance.

    The mean of the result is the element: the nearer neighbour is as much more probable. Numbers
    beyond half's range are infinite.

    Parameters
    ----------
    builder, seed, seed_modifier
        As for `uniform`.
    x
        float32.

    Raises
    ------
    BadGraph
        If the seed or the type is invalid.
    """
    _checked("stochastic_cast", seed, seed_modifier, x.dtype, (FLOAT32,))
    build = builder.inside("cast", "popops.cast", {"shape": list(x.shape)}, flops=0)
    out = similar(build, "out", [x], x.shape, FLOAT16)
    add_random_vertices(build, STOCHASTIC_CAST, seed, out, {"modifier": seed_modifier}, x)
    return out


@checked
def shaped_dropout(
    builder: Builder,
    seed: View,
    seed_modifier: int,
    x: View,
    reference: View,
    keep_probability: float,
    scale: float,
) -> Tensor:
    """Return a tensor with random rows, or other parts, replaced by zero and the others scaled.

    Parameters
    ----------
    builder, seed, seed_modifier, x, keep_probability, scale
        As for `dropout`.
    reference
        A tensor whose shape broadcasts to that of `x`: one draw per element.

    Raises
    ------
    BadGraph
        If the seed, the type or the probability is invalid, or the shapes do not broadcast.
    """
    _checked("shaped_dropout", seed, seed_modifier, x.dtype, _FLOATS)
    _check_probability("shaped_dropout", keep_probability)
    detail = {
        "shape": list(x.shape),
        "reference": list(reference.shape),
        "keepProbability": keep_probability,
        "scale": scale,
    }
    build = builder.inside("shapedDropout", "poprand.shapedDropout", detail)
    mask = bernoulli(build, seed, seed_modifier, reference, x.dtype, keep_probability)
    map_in_place(build, operand(0) * scale, [mask])
    return binary(build, "multiply", x, mask, tuple(x.shape))


def _checked(name: str, seed: View, modifier: int, dtype: Any, allowed: tuple[DType, ...]) -> DType:
    """Return the type of the result.

    Raises
    ------
    BadGraph
        If it is not allowed, or the seed is invalid.
    """
    check_seed(name, seed, modifier)
    kind = dtype_of(dtype)
    if kind not in allowed:
        names = ", ".join(dtype_.name for dtype_ in allowed)
        raise BadGraph(f"{name}: the type is {kind}: expected one of {names}")
    return kind


def _check_deviation(name: str, std_dev: float) -> None:
    if not std_dev >= 0:
        raise BadGraph(f"{name}: the standard deviation is {std_dev}: expected 0 or more")


def _check_probability(name: str, probability: float) -> None:
    if not 0 <= probability <= 1:
        raise BadGraph(f"{name}: the probability is {probability}: expected 0 to 1")


@dataclass(frozen=True)
class _Draw:
    """What a call draws: its arguments, and the distribution as the codelet takes it."""

    name: str
    detail: dict[str, Any]
    distribution: str
    first: float
    second: float = 0.0


def _drawn(
    builder: Builder, draw: _Draw, seed: View, modifier: int, reference: View, dtype: DType
) -> Tensor:
    """Return a tensor of random numbers, in one compute set."""
    per_element = 1 if draw.distribution == "bernoulli" else 3
    flops = per_element * reference.n_elements * dtype.is_float
    build = builder.inside(draw.name, f"poprand.{draw.name}", draw.detail, flops=flops)
    out = similar(build, "out", [reference], reference.shape, dtype)
    scalars = {"modifier": modifier, "a": draw.first, "b": draw.second}
    add_random_vertices(build, RANDOM[draw.distribution], seed, out, scalars)
    return out
