"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import joined
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
    known = weights.known
    return convolution(
        lowering.builder,
        lowering.tensor(x),
        lowering.tensor(weights) if known is None else np.asarray(known),
        library_window(op.attributes),
        op.attributes["groups"],
        available_memory_proportion=op.attributes.get("available_memory_proportion"),
        partials_type=op.attributes.get("partials_type"),
    )


CONVOLUTION = Operator(
    name="convolution",
    domain=ENGINE_DOMAIN,
    infer=_convolution_type,
    evaluate=_convolution_array,
    lower=_lower_convolution,
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


RECORDS = (CONVOLUTION, Operator(name="Conv", decompose=_convolution))
