"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.poplin.allocators import create_convolution_weights
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import TRANSPOSE, full, reshape
from tilescope.engine.operators.movement.slicing import joined
from tilescope.engine.operators.parts import images
from tilescope.engine.operators.product.product import require_floats
from tilescope.engine.operators.window.volume import layers_under
from tilescope.engine.operators.window.window import (
    as_images,
    geometry,
    library_window,
    restored,
    window_shape,
    windows,
)

__all__ = ["CONVOLUTION", "RECORDS", "convolved"]


def _convolution_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, w = node.operand(0), node.operand(1)
    groups = node.attributes["groups"]
    if len(x.shape) != 4 or len(w.shape) != 4 or x.shape[1] != w.shape[1] * groups:
        raise BadModel(
            f"{node}: an input of shape {x.shape} does not match weights of shape {w.shape} in"
            f" {groups} groups"
        )
    return [((x.shape[0], w.shape[0], *window_shape(x.shape[2:], node.attributes)), x.dtype)]


def _convolution_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    x, w = arrays
    groups = node.attributes["groups"]
    parts = np.split(windows(x, node.attributes, 0), groups, 1)
    products = [
        np.einsum("nchwij,ocij->nohw", part, kernel, optimize=True)
        for part, kernel in zip(parts, np.split(w, groups, 0), strict=True)
    ]
    return [np.concatenate(products, axis=1).astype(x.dtype)]


def _lower_convolution(lowering: Lowering, op: Operation) -> Tensor:
    require_floats(op)
    x, weights = op.operand(0), op.operand(1)
    return convolution(
        lowering.builder,
        lowering.tensor(x),
        lowering.weight(weights) if weights.is_known else lowering.tensor(weights),
        library_window(op.attributes),
        op.attributes["groups"],
        **_options(op),
    )


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    x, w = op.operands
    gradient = full(expansion, gradients[0], op.output.shape)
    attributes = dict(op.attributes)
    of_x = expansion.emit(DATA_GRADIENT, gradient, w, size=x.shape[2:], **attributes)
    return of_x, expansion.emit(WEIGHT_GRADIENT, x, gradient, **attributes)


def _options(op: Operation) -> dict[str, Any]:
    return {
        "available_memory_proportion": op.attributes.get("available_memory_proportion"),
        "partials_type": op.attributes.get("partials_type"),
    }


def _allocate(lowering: Lowering, op: Operation, index: int) -> Tensor | None:
    """Return a variable for the weights, laid out as the forward pass reads them."""
    if index != 1:
        return None
    x, w = op.operands
    window, groups = library_window(op.attributes), op.attributes["groups"]
    return create_convolution_weights(
        lowering.builder, w.shape, x.shape, window, groups, w.name, dtype=w.dtype, **_options(op)
    )


CONVOLUTION = Operator(
    name="convolution",
    domain=ENGINE_DOMAIN,
    infer=_convolution_type,
    evaluate=_convolution_array,
    lower=_lower_convolution,
    gradient=_gradient,
    parts=images,
    allocate=_allocate,
)


def _data_gradient_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    gradient, w = node.operand(0), node.operand(1)
    n_inputs = w.shape[1] * node.attributes["groups"]
    return [((gradient.shape[0], n_inputs, *node.attributes["size"]), gradient.dtype)]


def _data_gradient_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    gradient, w = arrays
    attributes, groups = node.attributes, node.attributes["groups"]
    (shape, _), *_ = _data_gradient_type(node)
    before, after = attributes["padding_before"], attributes["padding_after"]
    padded = [size + b + a for size, b, a in zip(shape[2:], before, after, strict=True)]
    out = np.zeros((*shape[:2], *padded), np.float64)
    parts = np.split(out, groups, 1)
    for part, g, kernel in zip(
        parts, np.split(gradient, groups, 1), np.split(w, groups, 0), strict=True
    ):
        for tap in np.ndindex(*kernel.shape[2:]):
            taken = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, s, n in zip(
                    tap, attributes["dilation"], attributes["stride"], g.shape[2:], strict=True
                )
            )
            part[(slice(None), slice(None), *taken)] += np.einsum(
                "nohw,oc->nchw", g, kernel[(slice(None), slice(None), *tap)]
            )
    inside = tuple(slice(b, b + size) for b, size in zip(before, shape[2:], strict=True))
    return [out[(slice(None), slice(None), *inside)].astype(gradient.dtype)]


def _lower_data_gradient(lowering: Lowering, op: Operation) -> Tensor:
    return transposed_convolution(
        lowering.builder,
        lowering.tensor(op.operand(0)),
        lowering.tensor(op.operand(1)),
        library_window(op.attributes),
        tuple(op.attributes["size"]),
        op.attributes["groups"],
        **_options(op),
    )


#: The gradient of a convolution's input, from that of its output and the weights.
DATA_GRADIENT = Operator(
    name="convolution_data_gradient",
    domain=ENGINE_DOMAIN,
    infer=_data_gradient_type,
    evaluate=_data_gradient_array,
    lower=_lower_data_gradient,
    parts=images,
)


def _weight_gradient_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, gradient = node.operand(0), node.operand(1)
    per_group = x.shape[1] // node.attributes["groups"]
    return [((gradient.shape[1], per_group, *node.attributes["kernel"]), x.dtype)]


def _weight_gradient_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    x, gradient = arrays
    groups = node.attributes["groups"]
    pairs = zip(
        np.split(windows(x, node.attributes, 0), groups, 1),
        np.split(gradient, groups, 1),
        strict=True,
    )
    parts = [np.einsum("nchwij,nohw->ocij", seen, g, optimize=True) for seen, g in pairs]
    return [np.concatenate(parts, axis=0).astype(x.dtype)]


def _lower_weight_gradient(lowering: Lowering, op: Operation) -> Tensor:
    return weight_gradient(
        lowering.builder,
        lowering.tensor(op.operand(0)),
        lowering.tensor(op.operand(1)),
        library_window(op.attributes),
        op.attributes["groups"],
        **_options(op),
    )


#: The gradient of a convolution's weights, from its input and the gradient of its output.
WEIGHT_GRADIENT = Operator(
    name="convolution_weight_gradient",
    domain=ENGINE_DOMAIN,
    infer=_weight_gradient_type,
    evaluate=_weight_gradient_array,
    lower=_lower_weight_gradient,
)


def _convolution(node: Node, expansion: Expansion) -> Value:
    out = convolved(node, expansion, node.operand(0), node.operand(1))
    bias = node.optional(2)
    if bias is None:
        return out
    shape = (bias.shape[0], *(1,) * (len(out.shape) - 2))
    return binary(expansion, "add", out, reshape(expansion, bias, shape))


def convolved(node: Node, expansion: Expansion, x: Value, w: Value) -> Value:
    """Emit a convolution with the window, groups and hints of a node, without a bias.

    Raises
    ------
    BadModel
        When input, weights and window do not fit.
    """
    rank = len(x.shape)
    stated = tuple(node.attributes.get("kernel_shape", w.shape[2:]))
    if len(w.shape) != rank or stated != w.shape[2:]:
        raise BadModel(
            f"{node}: weights {w.name!r} of shape {w.shape} do not fit an input of shape {x.shape}"
            f" and a kernel_shape of {list(stated)}"
        )
    attributes = geometry(node, x.shape[2:], w.shape[2:])
    groups = node.attributes["group"]
    if rank == _VOLUME_RANK:
        out = _of_volumes(node, expansion, x, w, attributes)
    else:
        weights = reshape(expansion, w, (*w.shape[:2], *attributes["kernel"]))
        out = expansion.emit(
            CONVOLUTION,
            as_images(expansion, x),
            weights,
            groups=groups,
            **node.hints.stated(),
            **attributes,
        )
        out = restored(expansion, out, rank)
    return out


#: Images, channels, and three spatial dimensions.
_VOLUME_RANK = 5


def _of_volumes(
    node: Node, expansion: Expansion, x: Value, w: Value, window: Mapping[str, Any]
) -> Value:
    """Emit a convolution of volumes: of images with a channel for each layer under the kernel."""
    n, channels = x.shape[:2]
    layers = layers_under(expansion, x, window, 0)
    depth = layers[0].shape[2]
    # Channels first, then layers: the channels of a group stay together.
    apart = [reshape(expansion, v, (n, channels, 1, *v.shape[2:])) for v in layers]
    stacked = expansion.emit(TRANSPOSE, joined(expansion, apart, 2), order=(0, 3, 1, 2, 4, 5))
    n_inputs = channels * len(layers)
    images = reshape(expansion, stacked, (n * depth, n_inputs, *x.shape[3:]))
    weights = reshape(expansion, w, (w.shape[0], w.shape[1] * len(layers), *w.shape[3:]))
    out = expansion.emit(
        CONVOLUTION,
        images,
        weights,
        groups=node.attributes["group"],
        **node.hints.stated(),
        **{key: values[1:] for key, values in window.items()},
    )
    volumes = reshape(expansion, out, (n, depth, *out.shape[1:]))
    return expansion.emit(TRANSPOSE, volumes, order=(0, 2, 1, 3, 4))


RECORDS = (
    CONVOLUTION,
    DATA_GRADIENT,
    WEIGHT_GRADIENT,
    Operator(name="Conv", decompose=_convolution),
)
