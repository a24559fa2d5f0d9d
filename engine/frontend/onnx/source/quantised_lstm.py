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
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from tilescope.engine.errors import BadModel
from tilescope.engine.ir.schema import attribute_value

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
        made = [f"v{next(self.names)}" for _ in range(n_outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), made, **attributes))
        return made

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
    given = dict(zip(_INPUTS, node.input, strict=False))
    label = f"Node {node.name or node.output[0]!r} ({node.op_type})"
    hidden, direction = stated.get("hidden_size", 0), stated.get("direction", "forward")
    if direction not in _DIRECTIONS or hidden < 1:
        raise BadModel(
            f"{label}: expected a hidden_size of at least 1 and a direction of"
            f" {', '.join(_DIRECTIONS)}, got {hidden} and {direction!r}"
        )
    if given.get("sequence_lens") or stated.get("input_forget", 0):
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
    into = _Nodes(count())
    x = into.add("DynamicQuantizeLinear", "X", n_outputs=3)
    made = [
        _direction(
            into,
            x,
            given,
            d,
            hidden,
            [known[name.lower()] for name in names[3 * d : 3 * d + 3]],
            stated.get("clip"),
            is_backwards=is_backwards,
        )
        for d, is_backwards in enumerate(backwards)
    ]
    for output, parts, axis in zip(_OUTPUTS, zip(*made, strict=True), (1, 0, 0), strict=True):
        into.nodes.append(helper.make_node("Concat", list(parts), [output], axis=axis))
    imports = [helper.make_opsetid("", opset)]
    return helper.make_function("", node.op_type, _INPUTS, _OUTPUTS, into.nodes, imports)


def _direction(
    into: _Nodes,
    x: Sequence[str],
    given: dict[str, str],
    d: int,
    hidden: int,
    activations: Sequence[str],
    clip: float | None,
    *,
    is_backwards: bool,
) -> tuple[str, str, str]:
    """Add a direction; return outputs (steps, 1, batch, hidden), last output and last cell."""
    weights, recurrent = (
        [into.one(f"{key}{suffix}", d) for suffix in ("", "_scale", "_zero_point")] for key in "WR"
    )
    gates = into.product(x, weights)
    if given.get("B"):
        both = into.one("B", d)
        for start in (0, 4 * hidden):
            gates = into.of("Add", gates, into.part(both, 0, start, start + 4 * hidden))
    shape = into.of("Shape", "X")
    batch = into.part(shape, 0, 1, 2)
    state = into.of("Concat", batch, into.constant([hidden]), axis=0)
    zeros = into.of("ConstantOfShape", state)
    first = [into.one(k, d) if given.get(k) else zeros for k in ("initial_h", "initial_c")]
    peepholes = []
    if given.get("P"):
        own = into.one("P", d)
        peepholes = [into.part(own, 0, k * hidden, (k + 1) * hidden) for k in range(3)]
    n_steps = into.of("Gather", shape, into.constant(0), axis=0)
    last_step = into.of("Sub", n_steps, into.constant(1))
    body = _step(into, gates, recurrent, peepholes, activations, clip, last_step * is_backwards)
    yes = into.constant(True, "bool")
    h, c, outputs = into.add("Loop", n_steps, yes, *first, n_outputs=3, body=body)
    if is_backwards:
        last, before, step = (into.constant([n]) for n in (-1, -(2**31), -1))
        outputs = into.of("Slice", outputs, last, before, into.constant([0]), step)
    lead = into.constant([1])
    apart = into.of("Concat", lead, state, axis=0)
    every = into.of("Concat", into.part(shape, 0, 0, 1), apart, axis=0)
    return (
        into.of("Reshape", outputs, every),
        into.of("Reshape", h, apart),
        into.of("Reshape", c, apart),
    )


def _step(
    outside: _Nodes,
    gates: str,
    recurrent: Sequence[str],
    peepholes: Sequence[str],
    activations: Sequence[str],
    clip: float | None,
    last_step: str,
) -> onnx.GraphProto:
    """Return a step as the body of a loop; with a last step, it goes backwards from there."""
    into = _Nodes(outside.names)
    number, go, h, c = (f"v{next(into.names)}" for _ in range(4))
    hidden_part = into.product(into.add("DynamicQuantizeLinear", h, n_outputs=3), recurrent)
    place = into.of("Sub", last_step, number) if last_step else number
    total = into.of("Add", into.of("Gather", gates, place, axis=0), hidden_part)
    takes, gives, forgets, candidate = into.add("Split", total, n_outputs=4, axis=-1)

    def activated(x: str, which: int, cell: str = "", peephole: int = 0) -> str:
        if cell and peepholes:
            x = into.of("Add", x, into.of("Mul", peepholes[peephole], cell))
        if clip:
            x = into.of("Clip", x, *(into.constant(n, "float32") for n in (-clip, clip)))
        return into.of(activations[which], x)

    kept = into.of("Mul", activated(forgets, 0, c, 2), c)
    new = into.of("Mul", activated(takes, 0, c, 0), activated(candidate, 1))
    cell = into.of("Add", kept, new)
    output = into.of("Mul", activated(gives, 0, cell, 1), into.of(activations[2], cell))
    again, copy = into.of("Identity", go), into.of("Identity", output)
    flag, whole, real = onnx.TensorProto.BOOL, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    inputs, outputs = (
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
        for kinds in (
            {number: whole, go: flag, h: real, c: real},
            {again: flag, output: real, cell: real, copy: real},
        )
    )
    return helper.make_graph(into.nodes, "step", inputs, outputs)
