"""Transposed convolutions, which are the backward pass of a convolution, as convolutions.

A strided transposed convolution is one plain convolution per phase. The phase is the output index
modulo the stride. Only the weights that reach a phase take part, and no zeros are multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Joined, Tensor, View
from tilescope.engine.library.argument_check import check_rank, checked_with
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.channels import zeros_into
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.poplin.patches import as_view, patches_of
from tilescope.engine.library.popops.elementwise.operations import (
    copy_together,
    in_one,
    row_major_copy,
)
from tilescope.engine.library.window import Window, output_size

__all__ = ["transposed_convolution"]


@dataclass(frozen=True)
class _Phase:
    """The outputs of one remainder along a dimension, as a plain convolution.

    Parameters
    ----------
    remainder
        Outputs at `remainder`, `remainder` + stride …
    count
        Number of outputs.
    first, step, taps
        The kernel positions that reach them, ascending; used in reverse.
    dilation, before, after
        Geometry of the plain convolution.
    """

    remainder: int
    count: int
    first: int
    step: int
    taps: int
    dilation: int
    before: int
    after: int


@dataclass(frozen=True)
class _Part:
    """The outputs of a phase of rows and a phase of columns; None if no tap reaches them."""

    rows: _Phase
    columns: _Phase
    out: Tensor | None


def _phases(n_inputs: int, n_outputs: int, d: int, window: Window) -> list[_Phase]:
    """Return the plain convolutions along dimension `d`.

    Output i takes input o through tap k where ``o * stride - padding + k * dilation = i``.
    """
    kernel, stride, dilation = window.kernel[d], window.stride[d], window.dilation[d]
    padding = window.padding_before[d]
    phases = []
    for remainder in range(min(stride, n_outputs)):
        count = -(-(n_outputs - remainder) // stride)
        reach = [k for k in range(kernel) if (remainder + padding - k * dilation) % stride == 0]
        if not reach:
            phases.append(_Phase(remainder, count, 0, 1, 0, 1, 0, 0))
            continue
        step = stride // gcd(stride, dilation)
        distance = step * dilation // stride
        taps = len(reach)
        nearest = (remainder + padding - reach[0] * dilation) // stride
        before = (taps - 1) * distance - nearest
        after = count - n_inputs - before + (taps - 1) * distance
        phases.append(_Phase(remainder, count, reach[0], step, taps, distance, before, after))
    return phases


def _every(x: Tensor, d: int, first: int, step: int, count: int) -> Tensor:
    """Return every `step`-th element along a dimension of one atom, in descending order."""
    (atom,) = x.dims[d]
    dims = list(x.dims)
    dims[d] = ((count, -atom[1] * step),)
    last = first + (count - 1) * step
    return replace(x, offset=x.offset + last * atom[1], dims=tuple(dims))


def _can_turn(weights: Tensor, groups: int) -> bool:
    """Return whether `_turned` of weights is a view for every phase."""
    n_in, n_out, *kernel = weights.shape
    if any(len(dim) > 1 for dim in weights.dims[2:]):
        return False
    by_group = (groups, n_in // groups, n_out, *kernel)
    if not weights.can_reshape(*by_group):
        return False
    swapped = weights.reshape(*by_group).dim_shuffle(0, 2, 1, 3, 4)
    return swapped.can_reshape(groups * n_out, n_in // groups, *kernel)


def _turned(
    weights: Tensor | NDArray[Any], groups: int, rows: _Phase, columns: _Phase
) -> Tensor | NDArray[Any]:
    """Return the weights of a phase, with inputs and outputs swapped and the kernel rotated."""
    n_in, n_out, *kernel = (int(size) for size in weights.shape)
    sizes = (groups * n_out, n_in // groups)
    if isinstance(weights, Tensor):
        swapped = weights.reshape(groups, n_in // groups, n_out, *kernel).dim_shuffle(0, 2, 1, 3, 4)
        chosen = _every(swapped, 3, rows.first, rows.step, rows.taps)
        chosen = _every(chosen, 4, columns.first, columns.step, columns.taps)
        return chosen.reshape(*sizes, rows.taps, columns.taps)
    chosen_values = weights.reshape(groups, n_in // groups, n_out, *kernel).swapaxes(1, 2)
    for axis, phase in ((3, rows), (4, columns)):
        taps = phase.first + phase.step * np.arange(phase.taps)[::-1]
        chosen_values = np.take(chosen_values, taps, axis=axis)
    return chosen_values.reshape(*sizes, rows.taps, columns.taps)


@checked_with(convolution)
def transposed_convolution(
    builder: Builder,
    x: View,
    weights: View | NDArray[Any],
    window: Window,
    size: tuple[int, int],
    groups: int = 1,
    name: str = "transposedConvolution",
    **options: Any,
) -> Tensor:
    """Transposed convolution: the gradient of a convolution with respect to its input.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Shape (images, channels, rows, columns): the convolution's output, or its gradient.
    weights
        Weights of the convolution, shape (channels, out channels / groups, kernel rows, kernel
        columns): a tensor, or an ndarray of constants.
    window
        Geometry of the convolution.
    size
        Rows and columns of the result: the convolution's input.
    groups
        Convolution groups.
    name
        Debug name.
    **options
        Further arguments of `tilescope.engine.library.poplin.convolution.convolution`.

    Returns
    -------
    Tensor
        Shape (images, out channels, rows, columns).

    Raises
    ------
    BadGraph
        If a convolution of an input of that size does not have the shape of `x`.
    """
    check_rank(f"{name}: its operand", x, "images, channels, rows, columns")
    check_rank(f"{name}: its weights", weights, "channels, out channels, rows, columns")
    expected = tuple(output_size(size[d], d, window) for d in (0, 1))
    if expected != x.shape[2:] or int(weights.shape[0]) != x.shape[1]:
        raise BadGraph(
            f"{name}: a convolution of an input of {size} gives {expected} and weights"
            f" {tuple(weights.shape)} take {int(weights.shape[0])} channels, but the operand is"
            f" {x.shape}"
        )
    build = builder.inside(name, "poplin.transposedConvolution")
    if isinstance(weights, Joined):
        weights = in_one(build, weights, "joinWeights")
    if isinstance(weights, Tensor) and not _can_turn(weights, groups):
        weights = row_major_copy(build, weights, "weights")
    per_group = int(weights.shape[1])
    patches = patches_of(window, size, per_group, groups)
    if patches and not (options.get("family") or options.get("split")):
        # No input is read twice, so that its gradient is a product of channels and taps.
        deltas = transposed_convolution(
            build,
            patches.turned(in_one(build, x)),
            patches.folded_weights(weights),
            patches.window(window),
            patches.size(size),
            groups,
            "patches",
            **options,
        )
        return as_view(build, deltas, "ungroup", lambda x: patches.unfolded(x, per_group))
    by_dimension = [_phases(x.shape[2 + d], size[d], d, window) for d in (0, 1)]
    parts: list[_Part] = []
    for rows, columns in product(*by_dimension):
        if not rows.taps * columns.taps:
            parts.append(_Part(rows, columns, None))
            continue
        plain = Window(
            (rows.taps, columns.taps),
            dilation=(rows.dilation, columns.dilation),
            padding_before=(rows.before, columns.before),
            padding_after=(rows.after, columns.after),
        )
        turned = _turned(weights, groups, rows, columns)
        label = f"row{rows.remainder}column{columns.remainder}"
        out = convolution(build, x, turned, plain, groups, label, **options)
        parts.append(_Part(rows, columns, out))
    if len(parts) == 1 and parts[0].out is not None:
        return parts[0].out
    return _interleaved(build, parts, x, int(weights.shape[1]) * groups, size)


def _interleaved(
    build: Builder, parts: Sequence[_Part], x: View, n_out: int, size: tuple[int, int]
) -> Tensor:
    """Return one tensor of the outputs of all phases; phases without taps are zero."""
    n_images = x.shape[0]
    strides = parts[-1].rows.remainder + 1, parts[-1].columns.remainder + 1
    counts = [-(-size[d] // strides[d]) for d in (0, 1)]
    dtype = next((part.out.dtype for part in parts if part.out is not None), x.dtype)
    interleaved_shape = (n_images, counts[0] * strides[0], counts[1] * strides[1], n_out)
    out = build.graph.add_variable(dtype, interleaved_shape, "out", build.debug)
    build.spread(out, grain=n_out)
    split = out.reshape(n_images, counts[0], strides[0], counts[1], strides[1], n_out)
    pairs, empty = [], []
    for part in parts:
        rows, columns = part.rows, part.columns
        view = split.slice(2, rows.remainder, rows.remainder + 1)
        view = view.slice(4, columns.remainder, columns.remainder + 1)
        view = view.slice(1, 0, rows.count).slice(3, 0, columns.count)
        view = view.reshape(n_images, rows.count, columns.count, n_out).dim_shuffle(0, 3, 1, 2)
        if part.out is None:
            empty.append(view)
        else:
            pairs.append((part.out, view))
    copy_together(build, [*pairs, *zeros_into(build, out, empty)], "interleave")
    result = out.dim_shuffle(0, 3, 1, 2)
    return result.slice(2, 0, size[0]).slice(3, 0, size[1])
