"""Operators that onnxruntime's optimiser writes in place of several of ONNX's own.

Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.activation import activation, clamped_line, sloped
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.indexing.indexing import GATHER
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.norm.normalisation import LAYER_NORMALIZATION, RMS_NORMALIZATION
from tilescope.engine.operators.product.product import gemm, multiplied
from tilescope.engine.operators.quantisation import as_type, dequantised
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.operators.window.convolution import convolved

__all__ = ["MICROSOFT", "RECORDS"]

MICROSOFT = "com.microsoft"


def _plus(expansion: Expansion, x: Value, bias: Value | None) -> Value:
    return x if bias is None else binary(expansion, "add", x, bias)


def _gelu(node: Node, expansion: Expansion) -> Value:
    return activation(expansion, "gelu_erf", node.operand(0))


def _bias_gelu(node: Node, expansion: Expansion) -> Value:
    return activation(expansion, "gelu_erf", _plus(expansion, node.operand(0), node.operand(1)))


def _fast_gelu(node: Node, expansion: Expansion) -> Value:
    return activation(expansion, "gelu", _plus(expansion, node.operand(0), node.optional(1)))


def _quick_gelu(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    inside = binary(
        expansion, "multiply", x, scalar(expansion, node.attributes.get("alpha", 1.702), x)
    )
    return binary(expansion, "multiply", x, unary(expansion, "sigmoid", inside))


def _turned(node: Node, expansion: Expansion, x: Value, side: str) -> Value:
    """Emit an operand of a fused product with its matrices transposed as the node says."""
    rank = len(x.shape)
    order = list(range(rank))
    if rank > 1 and node.attributes.get(f"transBatch{side}", 0):
        order = [*range(1, rank - 1), 0, rank - 1]
    if rank > 1 and node.attributes.get(f"trans{side}", 0):
        order[-2:] = reversed(order[-2:])
    return x if order == list(range(rank)) else expansion.emit(TRANSPOSE, x, order=tuple(order))


def _fused_matmul(node: Node, expansion: Expansion) -> Value:
    a, b = (_turned(node, expansion, node.operand(i), side) for i, side in enumerate("AB"))
    out = multiplied(node, expansion, a, b)
    alpha = node.attributes.get("alpha", 1.0)
    return out if alpha == 1 else binary(expansion, "multiply", out, scalar(expansion, alpha, out))


def _leaky_relu(expansion: Expansion, x: Value, parameters: Sequence[float]) -> Value:
    return sloped(expansion, x, scalar(expansion, parameters[0], x))


def _hard_sigmoid(expansion: Expansion, x: Value, parameters: Sequence[float]) -> Value:
    return clamped_line(expansion, x, *parameters)


def _clip(expansion: Expansion, x: Value, parameters: Sequence[float]) -> Value:
    low, high = (scalar(expansion, value, x) for value in parameters)
    return binary(expansion, "minimum", binary(expansion, "maximum", x, low), high)


#: Activations with parameters, and the values of those that are left out.
_WITH_PARAMETERS: dict[
    str, tuple[Callable[[Expansion, Value, Sequence[float]], Value], tuple[float, ...]]
] = {
    "Clip": (_clip, (-3.4028234663852886e38, 3.4028234663852886e38)),
    "HardSigmoid": (_hard_sigmoid, (0.2, 0.5)),
    "LeakyRelu": (_leaky_relu, (0.01,)),
}
_PLAIN = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}


def _activated(
    node: Node, expansion: Expansion, x: Value, parameters: Sequence[float | None]
) -> Value:
    """Emit the activation that a node names; some of its parameters may be left out.

    Raises
    ------
    BadModel
        When it is unknown.
    """
    kind = node.attributes.get("activation", "")
    if not kind:
        return x
    if kind in _PLAIN:
        return unary(expansion, _PLAIN[kind], x)
    if kind not in _WITH_PARAMETERS:
        known = ", ".join(sorted([*_PLAIN, *_WITH_PARAMETERS]))
        raise BadModel(f"{node}: its activation is {kind!r}: expected {known}")
    function, usual = _WITH_PARAMETERS[kind]
    values = [*parameters, *(None,) * len(usual)][: len(usual)]
    return function(
        expansion, x, [u if g is None else g for g, u in zip(values, usual, strict=True)]
    )


def _fused_conv(node: Node, expansion: Expansion) -> Value:
    node = replace(node, attributes={"group": 1, **node.attributes})
    out = convolved(node, expansion, node.operand(0), node.operand(1))
    bias = node.optional(2)
    if bias is not None:
        out = binary(
            expansion,
            "add",
            out,
            reshape(expansion, bias, (bias.shape[0], *(1,) * (len(out.shape) - 2))),
        )
    out = _plus(expansion, out, node.optional(3))
    return _activated(node, expansion, out, node.attributes.get("activation_params", ()))


def _fused_gemm(node: Node, expansion: Expansion) -> Value:
    usual = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    node = replace(node, attributes={**usual, **node.attributes})
    values = [node.attributes.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return _activated(node, expansion, gemm(node, expansion), values)


def _epsilon(node: Node, usual: float) -> float:
    return float(node.attributes.get("epsilon", usual))


def _layer_normalised(
    node: Node, expansion: Expansion, x: Value, factors: Value, offsets: Value | None
) -> Value:
    """Emit a layer normalisation of the last axis."""
    operands = [x, factors] if offsets is None else [x, factors, offsets]
    return expansion.emit(LAYER_NORMALIZATION, *operands, epsilon=_epsilon(node, 1e-5), axis=-1)


def _skip_layer_normalization(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit the normalisation of a sum, and the sum as the fourth result."""
    total = _plus(
        expansion, binary(expansion, "add", node.operand(0), node.operand(1)), node.optional(4)
    )
    out = _layer_normalised(node, expansion, total, node.operand(2), node.optional(3))
    if node.n_outputs < 4:
        return (out,)
    axes = [len(total.shape) - 1]
    mean = reduced(expansion, "sum", total, axes, 1 / total.shape[-1])
    apart = unary(expansion, "square", binary(expansion, "subtract", total, mean))
    variance = reduced(expansion, "sum", apart, axes, 1 / total.shape[-1])
    above = binary(expansion, "add", variance, scalar(expansion, _epsilon(node, 1e-5), variance))
    inverse = unary(expansion, "inverse", unary(expansion, "sqrt", above))
    return out, as_type(expansion, mean, "float32"), as_type(expansion, inverse, "float32"), total


def _skip_simplified_layer_normalization(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    total = _plus(
        expansion, binary(expansion, "add", node.operand(0), node.operand(1)), node.optional(3)
    )
    rank = len(total.shape)
    epsilon = _epsilon(node, 1e-5)
    out = expansion.emit(RMS_NORMALIZATION, total, node.operand(2), axis=-1, epsilon=epsilon)
    if node.n_outputs < 4:
        return (out,)
    squares = reduced(
        expansion, "sum", unary(expansion, "square", total), [rank - 1], 1 / total.shape[-1]
    )
    above = binary(expansion, "add", squares, scalar(expansion, epsilon, squares))
    inverse = as_type(
        expansion, unary(expansion, "inverse", unary(expansion, "sqrt", above)), "float32"
    )
    mean = as_type(
        expansion, reduced(expansion, "sum", total, [rank - 1], 1 / total.shape[-1]), "float32"
    )
    return out, mean, inverse, total


def _simplified_layer_normalization(node: Node, expansion: Expansion) -> Value:
    axis, epsilon = node.attributes.get("axis", -1), _epsilon(node, 1e-5)
    operands = (node.operand(0), node.operand(1))
    return expansion.emit(RMS_NORMALIZATION, *operands, axis=axis, epsilon=epsilon)


def _embed_layer_normalization(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit the sum of word, position and segment embeddings, normalised.

    The second result counts the tokens that the mask keeps in a sequence.
    """
    return _embedded(node, expansion, [node.optional(index) for index in range(9)])


def _quantised_embed_layer_normalization(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit the same of tables of 8 bits; every one of them has a scale and a zero point."""
    tables = []
    for index in range(5):
        table, scale, zero = (node.optional(k + index) for k in (2, 8, 13))
        if table is not None and scale is not None:
            table = dequantised(
                expansion, table, _one(expansion, scale), zero and _one(expansion, zero)
            )
        tables.append(table)
    values = [node.operand(0), node.optional(1), *tables, node.optional(7), None]
    return _embedded(node, expansion, values)[:2]


def _one(expansion: Expansion, value: Value) -> Value:
    return reshape(expansion, value, ())


def _embedded(
    node: Node, expansion: Expansion, operands: Sequence[Value | None]
) -> tuple[Value, ...]:
    ids, segments, words, positions, table, factors, offsets, mask, own_places = operands
    if ids is None or words is None or positions is None or factors is None:
        raise BadModel(f"{node}: expected indices, words, positions and factors")
    total = expansion.emit(GATHER, words, ids, axis=0)
    if own_places is not None:
        locations = expansion.emit(GATHER, positions, own_places, axis=0)
    else:
        indices = expansion.constant(list(range(ids.shape[1])), "positions")
        locations = expansion.emit(GATHER, positions, indices, axis=0)
    total = binary(expansion, "add", total, locations)
    if segments is not None and table is not None:
        total = binary(expansion, "add", total, expansion.emit(GATHER, table, segments, axis=0))
    out = _layer_normalised(node, expansion, total, factors, offsets)
    if mask is None:
        count: Value = expansion.constant([0] * ids.shape[0], "count")
    else:
        count = reshape(expansion, reduced(expansion, "sum", mask, [1]), (ids.shape[0],))
    return out, as_type(expansion, count, "int32"), total


def _operator(name: str, decompose: Callable[[Node, Expansion], Any]) -> Operator:
    return Operator(name=name, domain=MICROSOFT, decompose=decompose)


RECORDS = (
    _operator("BiasGelu", _bias_gelu),
    _operator("EmbedLayerNormalization", _embed_layer_normalization),
    _operator("FastGelu", _fast_gelu),
    _operator("FusedConv", _fused_conv),
    _operator("FusedGemm", _fused_gemm),
    _operator("FusedMatMul", _fused_matmul),
    _operator("Gelu", _gelu),
    _operator("QEmbedLayerNormalization", _quantised_embed_layer_normalization),
    _operator("QuickGelu", _quick_gelu),
    _operator("SimplifiedLayerNormalization", _simplified_layer_normalization),
    _operator("SkipLayerNormalization", _skip_layer_normalization),
    _operator("SkipSimplifiedLayerNormalization", _skip_simplified_layer_normalization),
    _operator("TransposeMatMul", _fused_matmul),
)
