"""The library's backward passes of recurrent layers, where ONNX has no operator for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.torch.compared import MACHINE, drawn, near

from tilescope.engine import Builder, Engine, Graph, compile_programs, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.recurrent.backward import (
    Backward,
    LayerOperands,
    OutputGradients,
    gru_backward,
    gru_weight_update,
    lstm_backward,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

_STEPS, _BATCH, _INPUTS, _HIDDEN = 4, 3, 5, 6
_SHAPES = {
    "x": (_STEPS, _BATCH, _INPUTS),
    "scores": (_STEPS, _BATCH),
    "w": (3, _INPUTS, _HIDDEN),
    "w6": (3, _HIDDEN, _HIDDEN),
    "r": (3, _HIDDEN, _HIDDEN),
    "b": (3, _HIDDEN),
    "h": (_BATCH, _HIDDEN),
    "factors": (_STEPS, _BATCH, _HIDDEN),
}


def _builder() -> tuple[Builder, dict[str, Any]]:
    builder = Builder(Graph(MACHINE), Sequence("main"))
    tensors = {}
    for name, shape in _SHAPES.items():
        tensors[name] = builder.graph.add_variable("float32", shape, name)
        builder.graph.map_linearly(tensors[name])
        builder.sequence.add(StreamCopyIn(name, tensors[name]))
    return builder, tensors


def _layer(builder: Builder, given: dict[str, Any]) -> tuple[LayerOperands, Any, Any]:
    """Add a layer; return its operands, its outputs and what it kept."""
    operands = [given[name] for name in ("x", "w", "r", "b", "h")]
    kept: dict[str, Any] = {}
    outputs, _ = gru(builder, *operands, kept=kept)
    return LayerOperands(*operands), outputs, kept


def _run(builder: Builder, arrays: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    for name, tensor in results.items():
        builder.sequence.add(StreamCopyOut(tensor, name))
    executable = compile_programs(builder.graph, [builder.sequence])
    with Engine(executable, resolve_options(environ={})) as engine:
        for name, array in arrays.items():
            engine.connect_stream(name, array)
        engine.run(0)
        return {name: engine.output(name).reshape(tensor.shape) for name, tensor in results.items()}


def _in_torch(arrays: dict[str, Any]) -> dict[str, Any]:
    given = {n: torch.tensor(a).double().requires_grad_() for n, a in arrays.items()}
    h, total = given["h"], torch.zeros((), dtype=torch.float64)
    for t in range(_STEPS):
        sums = [given["x"][t] @ given["w"][k] + given["b"][k] for k in range(3)]
        reset, update = (torch.sigmoid(sums[k] + h @ given["r"][k]) for k in range(2))
        update = update * (1 - given["scores"][t][:, None])
        candidate = torch.tanh(sums[2] + (reset * h) @ given["r"][2])
        h = (1 - update) * candidate + update * h
        total = total + (h * given["factors"][t]).sum()
    total.backward()
    return {name: tensor.grad.numpy() for name, tensor in given.items() if tensor.grad is not None}


def test_gradients_of_a_gru_with_attention():
    arrays = {name: drawn(shape, i) / 2 for i, (name, shape) in enumerate(_SHAPES.items())}
    builder, given = _builder()
    kept: dict[str, Any] = {}
    weights = given["w"], given["r"], given["b"]
    outputs, _ = gru(
        builder, given["x"], *weights, given["h"], attention=given["scores"], kept=kept
    )
    layer = LayerOperands(given["x"], *weights, given["h"], attention=given["scores"])
    back = gru_backward(builder, layer, outputs, kept, OutputGradients(given["factors"]))
    update = gru_weight_update(builder, layer, outputs, back)
    results = {
        "x/gradient": back.inputs,
        "scores/gradient": back.attention,
        "h/gradient": back.initial[0],
        "w/gradient": update.inputs,
        "r/gradient": update.outputs,
        "b/gradient": update.biases,
    }
    actual, expected = _run(builder, arrays, results), _in_torch(arrays)
    for name in results:
        key = name.partition("/")[0]
        near(actual[name], expected[key], key)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kept": {}}, "gru_backward: what the forward pass kept is"),
        ({"gradients": OutputGradients()}, "there is no gradient of an output to begin with"),
        ({"gradients": 3}, "expected OutputGradients, got 3"),
        ({"layer": "b"}, "its output weights have shape"),
        ({"layer": 3}, "gru_backward: expected LayerOperands, got 3"),
        ({"gradients": "x"}, "the gradient of the outputs 'x' is float32 of"),
        ({"cell_order": ["reset"]}, "expected reset, update, candidate in any order"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, sentence):
    builder, given = _builder()
    layer, outputs, kept = _layer(builder, given)
    stated = {
        "given": layer,
        "kept": kept,
        "gradients": OutputGradients(given["factors"]),
        **arguments,
    }
    if "layer" in stated:
        wrong = replace(layer, output_weights=given["b"])
        stated["given"] = wrong if stated.pop("layer") == "b" else 3
    if stated["gradients"] == "x":
        stated["gradients"] = OutputGradients(given["x"])
    with pytest.raises(BadGraph, match=sentence):
        gru_backward(builder, outputs=outputs, **stated)


def test_an_update_of_other_inputs_is_refused():
    builder, given = _builder()
    layer, outputs, kept = _layer(builder, given)
    with pytest.raises(BadGraph, match="expected a Backward with sums, got 3"):
        gru_weight_update(builder, layer, outputs, 3)
    gradients = OutputGradients(given["factors"])
    back = gru_backward(builder, layer, outputs, kept, gradients)
    assert isinstance(back, Backward)
    other = replace(layer, x=given["w"])
    with pytest.raises(BadGraph, match=r"have shape \(3, 5, 6\): expected \(4, 3, inputs\)"):
        gru_weight_update(builder, replace(other, input_weights=given["w6"]), outputs, back)
    with pytest.raises(BadGraph, match="lstm_backward: its input weights have shape"):
        lstm_backward(builder, layer, outputs, kept, gradients)


def test_kept_values_are_none_unless_asked_for():
    builder, given = _builder()
    gru(builder, given["x"], given["w"], given["r"], given["b"])
    names = {variable.name for variable in builder.graph.variables}
    assert not any(name.endswith(("gates", "candidate", "states")) for name in names)
