"""Layers of PopART: normalisations, several convolutions in one, dropout, an LSTM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Value
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.graphcore.domain import as_type, decomposed
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.movement.take import taken
from tilescope.engine.operators.norm.normalisation import GROUP_NORMALIZATION, batch_normalised
from tilescope.engine.operators.norm.trained import normalised
from tilescope.engine.operators.recurrent.layers import LAYERS
from tilescope.engine.operators.window.convolution import convolved

__all__ = ["RECORDS"]

_EPSILON, _MOMENTUM = 1e-5, 0.9
#: Gates as PopART has them (forget, input, candidate, output), in the order of ONNX.
#: Source: graphcore/poplibs sdk-release-3.4, include/popnn/LstmDef.hpp.
_GATES = (1, 3, 0, 2)

#: Of the operator of ONNX that it stands for.
_LSTM_VERSION = 14
(_LSTM,) = (record for record in LAYERS if record.name == "LSTM")


def _group_normalization(node: Node, expansion: Expansion) -> Value | tuple[Value, ...]:
    """Emit a normalisation by groups of channels, its means and its inverse deviations."""
    operands = [node.operand(i) for i in range(3)]
    epsilon, n_groups = node.attributes.get("epsilon", _EPSILON), node.attributes["num_groups"]
    out = expansion.emit(GROUP_NORMALIZATION, *operands, epsilon=epsilon, num_groups=n_groups)
    if node.n_outputs == 1:
        return out
    # What nothing reads of these is pruned.
    _, _, *statistics = normalised(expansion, "group", operands, epsilon, n_groups)
    return (out, *(as_type(expansion, value, out.dtype) for value in statistics))


def _batch_normalization(node: Node, expansion: Expansion) -> Value | tuple[Value, ...]:
    stated = {"epsilon": _EPSILON, "momentum": _MOMENTUM, **node.attributes}
    return batch_normalised(replace(node, attributes=stated), expansion, is_of_sample=True)


def _shaped_dropout(node: Node, _: Expansion) -> Value:
    """Return the operand: masks are drawn in training only, see `tilescope.engine.training`."""
    return node.operand(0)


def _multi_convolution(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    """Emit convolutions; their attributes follow each other in one list.

    Raises
    ------
    BadModel
        When the lists do not fit the operands, or the inputs are dilated or the outputs padded.
    """
    for name, usual in (("inDilations", 1), ("outPads", 0)):
        if any(number != usual for number in node.attributes.get(name, ())):
            raise BadModel(f"{node}: {name} other than {usual} are not supported")
    results = []
    operands = [*node.inputs, *(None,) * (-len(node.inputs) % 3)]
    ends = dict.fromkeys(("strides", "dilations", "pads"), 0)
    for first in range(0, len(operands), 3):
        x, weights, bias = operands[first : first + 3]
        if x is None or weights is None or len(weights.shape) < 3:
            raise BadModel(f"{node}: convolution {first // 3} has no data or no weights")
        attributes: dict[str, Any] = {"group": x.shape[1] // weights.shape[1]}
        for name, per_dim in (("strides", 1), ("dilations", 1), ("pads", 2)):
            stated, n = node.attributes.get(name, ()), per_dim * (len(x.shape) - 2)
            if stated:
                attributes[name] = tuple(stated[ends[name] : ends[name] + n])
                ends[name] += n
        one = replace(node, attributes=attributes)
        out = convolved(one, expansion, x, weights)
        if bias is not None:
            shape = (bias.shape[0], *(1,) * (len(out.shape) - 2))
            out = binary(expansion, "add", out, reshape(expansion, bias, shape))
        results.append(out)
    return tuple(results)


def _gates(expansion: Expansion, weights: Value) -> Value:
    """Emit matrices of gates, (4, inputs, hidden), as ONNX has them: (1, 4 · hidden, inputs)."""
    _, n_inputs, n_hidden = weights.shape
    (in_order,) = taken(expansion, weights, 0, _GATES)
    turned = expansion.emit(TRANSPOSE, in_order, order=(0, 2, 1))
    return reshape(expansion, turned, (1, 4 * n_hidden, n_inputs))


def _lstm(node: Node, expansion: Expansion) -> tuple[Value, Value]:
    """Emit the outputs of all steps, or the last one, and the last state of the cells.

    Raises
    ------
    BadModel
        When the operands do not fit.
    """
    x, weights = node.operand(0), node.operand(1)
    if len(x.shape) != 3 or len(weights.shape) != 3 or weights.shape[0] != 4:
        raise BadModel(
            f"{node}: inputs of shape {x.shape} and weights of shape {weights.shape}: expected"
            " (steps, batch, inputs) and (4, inputs + hidden, hidden)"
        )
    n_steps, n_batch, n_inputs = x.shape
    n_hidden = weights.shape[2]
    bias, state, lengths = (node.optional(i) for i in range(2, 5))
    shapes = {
        weights: (4, n_inputs + n_hidden, n_hidden),
        **({} if bias is None else {bias: (4, n_hidden)}),
        **({} if state is None else {state: (2, n_batch, n_hidden)}),
    }
    _check_shapes(node, shapes)
    biases: Value | None = None
    if bias is not None:
        (in_order,) = taken(expansion, bias, 0, _GATES)
        zeros = expansion.constant(np.zeros((1, 4 * n_hidden), x.dtype), "zeros")
        biases = joined(expansion, [reshape(expansion, in_order, zeros.shape), zeros], 1)
    states: list[Value | None] = [
        None if state is None else along(expansion, state, 0, i, i + 1) for i in range(2)
    ]
    layer = Node(
        operator=_LSTM,
        name=node.name,
        source=node.source,
        inputs=(
            x,
            _gates(expansion, along(expansion, weights, 1, 0, n_inputs)),
            _gates(expansion, along(expansion, weights, 1, n_inputs, n_inputs + n_hidden)),
            biases,
            None if lengths is None else as_type(expansion, lengths, "int32"),
            *states,
        ),
        attributes={"direction": "forward", "hidden_size": n_hidden},
        version=_LSTM_VERSION,
        n_outputs=3,
        hints=node.hints,
    )
    every, last, cells = expansion.builder.add(layer, (expansion.output,) * 3)
    assert every is not None
    assert last is not None
    assert cells is not None
    out = reshape(expansion, every, (n_steps, n_batch, n_hidden))
    if not node.attributes.get("output_full_sequence", 1):
        out = reshape(expansion, last, (n_batch, n_hidden))
    return out, reshape(expansion, cells, (n_batch, n_hidden))


def _check_shapes(node: Node, shapes: Mapping[Value, tuple[int, ...]]) -> None:
    """Refuse operands of other shapes than these.

    Raises
    ------
    BadModel
        Names the operand and both shapes.
    """
    for value, shape in shapes.items():
        if value.shape != shape:
            raise BadModel(f"{node}: {value.name!r} has shape {value.shape}: expected {shape}")


RECORDS = (
    decomposed("BatchNormalization", _batch_normalization),
    decomposed("GroupNormalization", _group_normalization),
    decomposed("LSTM", _lstm),
    decomposed("MultiConv", _multi_convolution),
    decomposed("ShapedDropout", _shaped_dropout),
)
