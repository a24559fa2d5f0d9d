"""Attributes that PopART refuses though ONNX defines them.

Source: graphcore/popart sdk-release-3.4, willow/src/op (the creators of operators).
"""

from __future__ import annotations

from collections.abc import Callable

from onnx import TensorProto

from popart.checked_node import CheckedNode, shown
from popart.tensor_info import type_of_onnx_element

__all__ = ["RULES"]

#: Types that random numbers have on the device.
_RANDOM_TYPES = ("FLOAT", "FLOAT16")


def _average_pool(node: CheckedNode) -> str | None:
    has_padding = node.settings.get("count_include_pad")
    return "`count_include_pad` is not supported" if has_padding else None


def _max_pool(node: CheckedNode) -> str | None:
    dilations = list(node.settings.get("dilations", ()))
    if any(step != 1 for step in dilations):
        return (
            f"MaxPool has dilations {shown(dilations)}. Dilations of value other than 1 are"
            " currently not supported."
        )
    return "storage_order != 0, not supported" if node.settings.get("storage_order") else None


def _random(node: CheckedNode) -> str | None:
    """Refuse a seed, and types that random numbers do not have."""
    if "seed" in node.settings:
        return (
            f"{node.identifier}: Optional seed attribute is not supported. Use"
            " session::setRandomSeed instead."
        )
    stated = node.settings.get("dtype")
    if stated is not None or not node.inputs:
        name = type_of_onnx_element(stated or TensorProto.FLOAT).name
        is_known = name in _RANDOM_TYPES
        return None if is_known else f"The data type {name} is not supported in Poplar"
    element = node.element(0)
    if element is None or element in _RANDOM_TYPES:
        return None
    return f"{node.identifier} : Unsupported data type requested: {element}"


#: Functions of units that PopART has, in lower case.
_ACTIVATIONS = frozenset({"gelu", "relu", "sigmoid", "softmax", "swish", "tanh"})


def _recurrent(node: CheckedNode) -> str | None:
    kind = node.proto.op_type
    for name in ("activation_alpha", "activation_beta", "clip"):
        if name in node.settings:
            return f"{kind}Op attribute `{name}' is not supported: {node.debug_name}"
    if node.settings.get("input_forget"):
        return f"{kind}Op attribute `input_forget' must be set to 0"
    direction = node.settings.get("direction", b"forward").decode()
    if kind != "GRU" and direction != "forward":
        return f"{node.debug_name} only supports `forward' direction"
    n_stated = len(node.settings.get("activations", [""]))
    if kind == "RNN" and n_stated != 1:
        return f"{node.debug_name} only supports 1 activation, got {n_stated}"
    weights, hidden_size = node.shape(2), node.settings.get("hidden_size")
    if weights and hidden_size is not None and hidden_size != weights[-1]:
        return (
            f"{kind}Op attribute `hidden_size' = {hidden_size} does not match {weights[-1]}, the"
            f" hidden size of the weights: {node.debug_name}"
        )
    stated = [name.decode() for name in node.settings.get("activations", ())]
    unknown = [name for name in stated if name.lower() not in _ACTIVATIONS]
    if unknown:
        return f"{kind}Op activation {unknown[0]!r} is not supported: {node.debug_name}"
    return None


def _dropout(node: CheckedNode) -> str | None:
    ratio = node.settings.get("ratio", 0.5)
    if 0 <= ratio < 1:
        return None
    return (
        f"{node.identifier} ratio value {ratio:g} is not valid. Please use a value in the interval"
        " [0,1)"
    )


#: Return why PopART refuses a node, or None; by domain and name of the operator.
RULES: dict[tuple[str, str], Callable[[CheckedNode], str | None]] = {
    ("ai.onnx", "AveragePool"): _average_pool,
    ("ai.onnx", "Dropout"): _dropout,
    ("ai.onnx", "GRU"): _recurrent,
    ("ai.onnx", "LSTM"): _recurrent,
    ("ai.onnx", "MaxPool"): _max_pool,
    ("ai.onnx", "RNN"): _recurrent,
    ("ai.onnx", "RandomNormal"): _random,
    ("ai.onnx", "RandomNormalLike"): _random,
    ("ai.onnx", "RandomUniform"): _random,
    ("ai.onnx", "RandomUniformLike"): _random,
    ("ai.graphcore", "ShapedDropout"): _dropout,
}
