"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.convolution import convolution
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise import binary
from tilescope.engine.operators.layout import reshape
from tilescope.engine.operators.product import require_floats
from tilescope.engine.operators.window import (
    as_images,
    geometry,
    library_window,
    restored,
    window_shape,
    windows,
)

__all__ = ["CONVOLUTION", "RECORDS"]


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


def _lower_convolution(at: Lowering, op: Operation) -> Tensor:
    require_floats(op)
    x, weights = op.operand(0), op.operand(1)
    if weights.known is None:
        raise BadModel(f"{op}: weights that are not constant are not supported yet")
    return convolution(
        at.builder,
        at.tensor(x),
        np.asarray(weights.known),
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


def _convolution(node: Node, into: Expansion) -> Value:
    x, w = node.operand(0), node.operand(1)
    rank = len(x.shape)
    node.known(1, "the weights")
    kernel = node.attributes.get("kernel_shape", w.shape[2:])
    attributes = geometry(node, x.shape[2:], kernel)
    weights = reshape(into, w, (*w.shape[:2], *attributes["kernel"]))
    out = into.emit(
        CONVOLUTION,
        as_images(into, x),
        weights,
        groups=node.attributes["group"],
        **node.hints.stated(),
        **attributes,
    )
    bias = node.optional(2)
    if bias is not None:
        out = binary(into, "add", out, reshape(into, bias, (bias.shape[0], 1, 1)))
    return restored(into, out, rank)


RECORDS = (CONVOLUTION, Operator(name="Conv", decompose=_convolution))
