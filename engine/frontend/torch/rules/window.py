"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]


def _spread(given: Any, rank: int) -> list[Any]:
    """Return a number for every dimension of a field."""
    numbers = list(given) if isinstance(given, list | tuple) else [given]
    return numbers * rank if len(numbers) == 1 else numbers


def _batched(emit: Emission, x: Value, rank: int) -> tuple[Value, bool]:
    """Return an operand with a batch, and whether it had none."""
    if len(x.shape) == rank + 2:
        return x, False
    return emit.reshape(x, (1, *x.shape)), True


def _unbatched(emit: Emission, x: Value, *, is_single: bool) -> Value:
    return emit.reshape(x, x.shape[1:]) if is_single else x


def _convolution(
    emit: Emission,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Value:
    rank = len(weight.shape) - 2
    x, is_single = _batched(emit, x, rank)
    if isinstance(padding, str):
        attributes: dict[str, Any] = _same_pads(padding, weight, _spread(dilation, rank))
    else:
        attributes = {"pads": _spread(padding, rank) * 2}
    attributes |= {
        "strides": _spread(stride, rank),
        "dilations": _spread(dilation, rank),
        "group": groups,
        "kernel_shape": list(weight.shape[2:]),
    }
    key = "Conv"
    if transposed:
        key, attributes["output_padding"] = "ConvTranspose", _spread(output_padding, rank)
    operands = [x, weight] if bias is None else [x, weight, bias]
    return _unbatched(emit, emit(key, *operands, **attributes), is_single=is_single)


def _same_pads(padding: str, weight: Value, dilation: Sequence[int]) -> dict[str, Any]:
    """Return the padding of a name: as much as leaves the size, the odd one at the end."""
    if padding == "valid":
        return {"pads": [0] * 2 * len(dilation)}
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    return {"pads": [t // 2 for t in totals] + [t - t // 2 for t in totals]}


def _conv(
    emit: Emission,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    return _convolution(emit, x, weight, bias, stride, padding, dilation, False, 0, groups)


def _conv_transpose(
    emit: Emission,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Value:
    return _convolution(
        emit, x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


def _max_pool(rank: int, n_results: int) -> Rule:
    def rule(
        emit: Emission,
        x: Value,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        x, is_single = _batched(emit, x, rank)
        size = _spread(kernel, rank)
        attributes: dict[str, Any] = {
            "kernel_shape": size,
            "strides": _spread(stride, rank) if stride else size,
            "pads": _spread(padding, rank) * 2,
            "dilations": _spread(dilation, rank),
            "ceil_mode": int(ceil_mode),
        }
        results = emit.results(n_results, "MaxPool", x, **attributes)
        values = [_unbatched(emit, result, is_single=is_single) for result in results]
        if n_results == 1:
            return values[0]
        return values[0], _places_of_image(emit, values[1], x)

    return rule


def _places_of_image(emit: Emission, indices: Value, x: Value) -> Value:
    """Return places in an image, as PyTorch counts them, of places in the whole tensor."""
    size = int(np.prod(x.shape[2:]))
    return emit("Mod", indices, emit.constant(size, indices.dtype), fmod=0)


def _average_pool(rank: int) -> Rule:
    def rule(
        emit: Emission,
        x: Value,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        x, is_single = _batched(emit, x, rank)
        size = _spread(kernel, rank)
        out = emit(
            "AveragePool",
            x,
            kernel_shape=size,
            strides=_spread(stride, rank) if stride else size,
            pads=_spread(padding, rank) * 2,
            ceil_mode=int(ceil_mode),
            count_include_pad=int(count_include_pad),
        )
        if divisor_override:
            if not count_include_pad or ceil_mode:
                emit.refuse("takes divisor_override with padding that counts only")
            out = emit.scaled(out, float(np.prod(size)) / divisor_override)
        return _unbatched(emit, out, is_single=is_single)

    return rule


def _adaptive(rank: int, key: str) -> Rule:
    def rule(emit: Emission, x: Value, output_size: Any) -> Any:
        sizes = _spread(output_size, rank)
        field = x.shape[-rank:]
        sizes = [n if size is None else size for size, n in zip(sizes, field, strict=True)]
        if all(n % size == 0 for n, size in zip(field, sizes, strict=True)):
            x, is_single = _batched(emit, x, rank)
            steps = [n // size for n, size in zip(field, sizes, strict=True)]
            out = emit(key, x, kernel_shape=steps, strides=steps)
            return _unbatched(emit, out, is_single=is_single)
        reduction = "ReduceMean" if key == "AveragePool" else "ReduceMax"
        for offset, size in enumerate(sizes):
            x = _windows(emit, x, len(x.shape) - rank + offset, size, reduction)
        return x

    return rule


def _windows(emit: Emission, x: Value, axis: int, size: int, reduction: str) -> Value:
    """Return means or maxima of windows along an axis that start and end where PyTorch's do."""
    n = x.shape[axis]
    if n == size:
        return x
    parts = [emit.slice(x, axis, i * n // size, -(-(i + 1) * n // size)) for i in range(size)]
    return emit.concat([emit.reduced(reduction, part, [axis], keeps=True) for part in parts], axis)


def _adaptive_max(rank: int) -> Rule:
    pool = _adaptive(rank, "MaxPool")

    def rule(emit: Emission, x: Value, output_size: Any) -> tuple[Value, Any]:
        return pool(emit, x, output_size), None

    return rule


RULES: Rules = {
    "aten._convolution": _convolution,
    "aten.convolution": _convolution,
    "aten.conv1d": _conv,
    "aten.conv2d": _conv,
    "aten.conv3d": _conv,
    "aten.conv_transpose1d": _conv_transpose,
    "aten.conv_transpose2d": _conv_transpose,
    "aten.conv_transpose3d": _conv_transpose,
    "aten.adaptive_avg_pool1d": _adaptive(1, "AveragePool"),
    "aten.adaptive_avg_pool2d": _adaptive(2, "AveragePool"),
    "aten.adaptive_avg_pool3d": _adaptive(3, "AveragePool"),
    "aten._adaptive_avg_pool2d": _adaptive(2, "AveragePool"),
    "aten._adaptive_avg_pool3d": _adaptive(3, "AveragePool"),
    "aten.adaptive_max_pool1d": _adaptive_max(1),
    "aten.adaptive_max_pool2d": _adaptive_max(2),
    "aten.adaptive_max_pool3d": _adaptive_max(3),
    "aten.avg_pool1d": _average_pool(1),
    "aten.avg_pool2d": _average_pool(2),
    "aten.avg_pool3d": _average_pool(3),
    "aten.max_pool1d": _max_pool(1, 1),
    "aten.max_pool1d_with_indices": _max_pool(1, 2),
    "aten.max_pool2d": _max_pool(2, 1),
    "aten.max_pool2d_with_indices": _max_pool(2, 2),
    "aten.max_pool3d": _max_pool(3, 1),
    "aten.max_pool3d_with_indices": _max_pool(3, 2),
}
