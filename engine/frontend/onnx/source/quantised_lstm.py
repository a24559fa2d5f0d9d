"""The body of DynamicQuantizeLSTM, an LSTM whose products take values of 8 bits.

Weights are quantised in the file; the input is quantised by its range once, and the output of a
step by its own, before the product of the next step. Where onnxruntime divides a small batch among
its threads, it takes ranges of the parts instead, so that its results depend on the threads.

Source: onnxruntime, docs/ContribOperators.md, com.microsoft.DynamicQuantizeLSTM, and
core/providers/cpu/rnn/rnn_helpers.cc, ComputeGemm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from tilescope.engine.errors import BadModel
from tilescope.engine.operators.onnx_standard import attribute_value

__all__ = ["quantised_lstm"]

_INPUTS = (
    *("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    *("W_scale", "W_zero_point", "R_scale", "R_zero_point"),
)
_OUTPUTS = ("Y", "Y_h", "Y_c")
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_ACTIVATIONS = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")


class _Nodes:
    """Collects nodes; methods return the name of what they compute.

    Parameters
    ----------
    names
        Of values, that are not taken yet.
    """

    def __init__(self, names: count[int]) -> None:
        self.names = names
        self.nodes: list[onnx.NodeProto] = []

    def add(self, op_type: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node and return its results."""
        names = [f"v{next(self.names)}" for _ in range(n_outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attributes))
        return names

    def of(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return its result."""
        return self.add(op_type, *inputs, **attributes)[0]

    def constant(self, values: ArrayLike, dtype: str = "int64") -> str:
        """Add a constant."""
        return self.of("Constant", value=numpy_helper.from_array(np.asarray(values, dtype)))

    def part(self, x: str, axis: int, start: int, stop: int) -> str:
        """Add a slice."""
        return self.of("Slice", x, *(self.constant([n]) for n in (start, stop, axis)))

    def one(self, x: str, index: int) -> str:
        """Add the entry of the first axis."""
        return self.of("Gather", x, self.constant(index), axis=0)

    def product(self, x: Sequence[str], weights: Sequence[str]) -> str:
        """Add a product of integers as floats: values, scale and zero point of both operands."""
        total = self.of("MatMulInteger", x[0], weights[0], x[2], weights[2])
        factor = self.of("Mul", x[1], weights[1])
        return self.of("Mul", self.of("Cast", total, to=onnx.TensorProto.FLOAT), factor)


def quantised_lstm(node: onnx.NodeProto, opset: int) -> onnx.FunctionProto:
    """Return what a DynamicQuantizeLSTM stands for.

    Parameters
    ----------
    node
        In the model.
    opset
        Of the model.

    Raises
    ------
    BadModel
        When the node has lengths, coupled gates, another layout or an unknown activation.
    """
    stated = {entry.name: attribute_value(entry) for entry in node.attribute}
    inputs = dict(zip(_INPUTS, node.input, strict=False))
    label = f"Node {node.name or node.output[0]!r} ({node.op_type})"
    hidden, direction = stated.get("hidden_size", 0), stated.get("direction", "forward")
    if direction not in _DIRECTIONS or hidden < 1:
        raise BadModel(
            f"{label}: expected a hidden_size of at least 1 and a direction of"
            f" {', '.join(_DIRECTIONS)}, got {hidden} and {direction!r}"
        )
    if inputs.get("sequence_lens") or stated.get("input_forget", 0):
        raise BadModel(f"{label}: sequence_lens and input_forget are not supported")
    backwards = _DIRECTIONS[direction]
    names = [
        name.decode() if isinstance(name, bytes) else name
        for name in stated.get("activations") or ["Sigmoid", "Tanh", "Tanh"] * len(backwards)
    ]
    known = {name.lower(): name for name in _ACTIVATIONS}
    if len(names) != 3 * len(backwards) or not known.keys() >= {name.lower() for name in names}:
        raise BadModel(
            f"{label}: its activations are {', '.join(names)}: expected three per direction of"
            f" {', '.join(_ACTIVATIONS)}"
        )
    nodes = _Nodes(count())
    x = nodes.add("DynamicQuantizeLinear", "X", n_outputs=3)
    outputs = [
        _direction(
            nodes,
            x,
            inputs,
            d,
            _Settings(
                hidden,
                [known[name.lower()] for name in names[3 * d : 3 * d + 3]],
                stated.get("clip"),
                is_backwards,
            ),
        )
        for d, is_backwards in enumerate(backwards)
    ]
    for output, parts, axis in zip(_OUTPUTS, zip(*outputs, strict=True), (1, 0, 0), strict=True):
        nodes.nodes.append(helper.make_node("Concat", list(parts), [output], axis=axis))
    imports = [helper.make_opsetid("", opset)]
    return helper.make_function("", node.op_type, _INPUTS, _OUTPUTS, nodes.nodes, imports)


class _Settings(NamedTuple):
    """Of a direction."""

    hidden: int
    activations: Sequence[str]
    clip: float | None
    is_backwards: bool


def _direction(
    nodes: _Nodes, x: Sequence[str], inputs: dict[str, str], d: int, settings: _Settings
) -> tuple[str, str, str]:
    """Add a direction; return outputs (steps, 1, batch, hidden), last output and last cell."""
    hidden = settings.hidden
    weights, recurrent = (
        [nodes.one(f"{key}{suffix}", d) for suffix in ("", "_scale", "_zero_point")] for key in "WR"
    )
    gates = nodes.product(x, weights)
    if inputs.get("B"):
        both = nodes.one("B", d)
        for start in (0, 4 * hidden):
            gates = nodes.of("Add", gates, nodes.part(both, 0, start, start + 4 * hidden))
    shape = nodes.of("Shape", "X")
    batch = nodes.part(shape, 0, 1, 2)
    state = nodes.of("Concat", batch, nodes.constant([hidden]), axis=0)
    zeros = nodes.of("ConstantOfShape", state)
    first = [nodes.one(k, d) if inputs.get(k) else zeros for k in ("initial_h", "initial_c")]
    peepholes = []
    if inputs.get("P"):
        peephole_row = nodes.one("P", d)
        peepholes = [nodes.part(peephole_row, 0, k * hidden, (k + 1) * hidden) for k in range(3)]
    n_steps = nodes.of("Gather", shape, nodes.constant(0), axis=0)
    last_step = nodes.of("Sub", n_steps, nodes.constant(1))
    last_number = last_step if settings.is_backwards else ""
    body = _step(nodes, gates, recurrent, peepholes, settings, last_number)
    yes = nodes.constant(True, "bool")
    h, c, outputs = nodes.add("Loop", n_steps, yes, *first, n_outputs=3, body=body)
    if settings.is_backwards:
        last, before, step = (nodes.constant([n]) for n in (-1, -(2**31), -1))
        outputs = nodes.of("Slice", outputs, last, before, nodes.constant([0]), step)
    lead = nodes.constant([1])
    apart = nodes.of("Concat", lead, state, axis=0)
    every = nodes.of("Concat", nodes.part(shape, 0, 0, 1), apart, axis=0)
    return (
        nodes.of("Reshape", outputs, every),
        nodes.of("Reshape", h, apart),
        nodes.of("Reshape", c, apart),
    )


def _step(
    outside: _Nodes,
    gates: str,
    recurrent: Sequence[str],
    peepholes: Sequence[str],
    settings: _Settings,
    last_step: str,
) -> onnx.GraphProto:
    """Return a step as the body of a loop; with a last step, it goes backwards from there."""
    nodes = _Nodes(outside.names)
    number, go, h, c = (f"v{next(nodes.names)}" for _ in range(4))
    hidden_part = nodes.product(nodes.add("DynamicQuantizeLinear", h, n_outputs=3), recurrent)
    step_number = nodes.of("Sub", last_step, number) if last_step else number
    total = nodes.of("Add", nodes.of("Gather", gates, step_number, axis=0), hidden_part)
    takes, gives, forgets, candidate = nodes.add("Split", total, n_outputs=4, axis=-1)
    clip = settings.clip

    def activated(x: str, which: int, cell: str = "", peephole: int = 0) -> str:
        if cell and peepholes:
            x = nodes.of("Add", x, nodes.of("Mul", peepholes[peephole], cell))
        if clip:
            x = nodes.of("Clip", x, *(nodes.constant(n, "float32") for n in (-clip, clip)))
        return nodes.of(settings.activations[which], x)

    forgotten = nodes.of("Mul", activated(forgets, 0, c, 2), c)
    new = nodes.of("Mul", activated(takes, 0, c, 0), activated(candidate, 1))
    cell = nodes.of("Add", forgotten, new)
    output = nodes.of("Mul", activated(gives, 0, cell, 1), nodes.of(settings.activations[2], cell))
    again, copy = nodes.of("Identity", go), nodes.of("Identity", output)
    flag, int64, real = onnx.TensorProto.BOOL, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
        for kinds in (
            {number: int64, go: flag, h: real, c: real},
            {again: flag, output: real, cell: real, copy: real},
        )
    )
    return helper.make_graph(nodes.nodes, "step", inputs, outputs)
