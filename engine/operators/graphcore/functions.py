"""Elementwise operators of PopART."""

from __future__ import annotations

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import Expansion, Node, Operation, Operator, Value
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.activation import activation
from tilescope.engine.operators.elementwise.compositions import modulo
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.graphcore.domain import GRAPHCORE, as_type, decomposed
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import padded
from tilescope.engine.operators.parts import broadcast

__all__ = ["RECORDS"]

#: Operators that are one function of the library. Unlike ONNX's, Round takes halves away from 0.
_UNARY = {
    "BitwiseNot": "bitwise_not",
    "Expm1": "expm1",
    "Log1p": "log1p",
    "NearbyInt": "nearby_int",
    "Round": "round",
    "Square": "square",
}
_BINARY = {
    "Atan2": "atan2",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXnor": "bitwise_xnor",
    "BitwiseXor": "bitwise_xor",
    "Fmod": "remainder",
}
_ACTIVATIONS = {"Gelu": "gelu", "GeluErf": "gelu_erf", "Swish": "swish"}
#: Channels of an image that the device reads at once.
_PADDED_CHANNELS = 4


def _of_one(name: str, function: str) -> Operator:
    return decomposed(name, lambda node, expansion: unary(expansion, function, node.operand(0)))


def _of_two(name: str, function: str) -> Operator:
    return decomposed(
        name,
        lambda node, expansion: binary(expansion, function, node.operand(0), node.operand(1)),
    )


def _activation(name: str, kind: str) -> Operator:
    return decomposed(name, lambda node, expansion: activation(expansion, kind, node.operand(0)))


def _remainder(node: Node, expansion: Expansion) -> Value:
    return modulo(expansion, node.operand(0), node.operand(1))


def _scaled(expansion: Expansion, x: Value, factor: float) -> Value:
    return x if factor == 1 else binary(expansion, "multiply", x, scalar(expansion, factor, x))


def _scale(node: Node, expansion: Expansion) -> Value:
    return _scaled(expansion, node.operand(0), node.attributes.get("scale", 1.0))


def _scaled_add(node: Node, expansion: Expansion) -> Value:
    """Emit scale0 · x + scale1 · y; the scales are attributes, or further operands."""
    terms = []
    for i in range(2):
        x, scale = node.operand(i), node.optional(2 + i)
        if scale is None:
            terms.append(_scaled(expansion, x, node.attributes.get(f"scale{i}", 1.0)))
        else:
            factor = as_type(expansion, reshape(expansion, scale, ()), x.dtype)
            terms.append(binary(expansion, "multiply", x, factor))
    return binary(expansion, "add", *terms)


def _increment_mod(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    total = binary(expansion, "add", x, scalar(expansion, node.attributes["increment"], x))
    modulus = scalar(expansion, node.attributes["modulus"], total)
    return binary(expansion, "remainder", total, modulus)


def _normalize_image(node: Node, expansion: Expansion) -> Value:
    """Emit (scale · image − offsets) · scales, and channels of zeros up to four; channels last."""
    image, offsets, scales = (node.operand(i) for i in range(3))
    x = as_type(expansion, image, "float16") if image.dtype == "uint8" else image
    apart = binary(expansion, "subtract", _scaled(expansion, x, node.attributes["scale"]), offsets)
    out = binary(expansion, "multiply", apart, scales)
    axis = len(out.shape) - 1
    return padded(expansion, out, axis, 0, max(0, _PADDED_CHANNELS - out.shape[axis]))


def _same(node: Node, _: Expansion) -> Value:
    return node.operand(0)


def _lower_detach(lowering: Lowering, op: Operation) -> Tensor:
    return lowering.tensor(op.operand(0))


#: The operand, which counts as known where gradients are computed.
_DETACH = Operator(
    name="Detach",
    domain=GRAPHCORE,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=lambda _, arrays: [arrays[0]],
    lower=_lower_detach,
    stops_gradient=True,
    parts=broadcast,
)

RECORDS = (
    _DETACH,
    *(_of_one(name, function) for name, function in _UNARY.items()),
    *(_of_two(name, function) for name, function in _BINARY.items()),
    *(_activation(name, kind) for name, kind in _ACTIVATIONS.items()),
    decomposed("AutoLossScaleProxy", _same),
    decomposed("IncrementMod", _increment_mod),
    decomposed("Nop", _same),
    decomposed("NormalizeImage", _normalize_image),
    decomposed("Remainder", _remainder),
    decomposed("Scale", _scale),
    decomposed("ScaledAdd", _scaled_add),
    decomposed("TensorRemap", _same),
)
