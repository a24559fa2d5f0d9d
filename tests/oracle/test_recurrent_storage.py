"""What recurrent layers store and compute again: the same bits of all gradients, less memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.recurrent.backward import (
    LayerOperands,
    OutputGradients,
    gru_backward,
    gru_weight_update,
    lstm_backward,
    lstm_weight_update,
    rnn_backward,
    rnn_weight_update,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

_MACHINE = load_machine("gc200", tiles_per_ipu=4)
_BATCH, _INPUTS, _OUTPUTS = 3, 5, 8
_UNITS = {"lstm": 4, "gru": 3, "rnn": 1}
_FUNCTIONS: Mapping[str, Any] = {
    "lstm": (lstm, lstm_backward, lstm_weight_update),
    "gru": (gru, gru_backward, gru_weight_update),
    "rnn": (rnn, rnn_backward, rnn_weight_update),
}
#: Forms of layers: kind, what they have besides, and their options.
_LAYERS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "lstm": ("lstm", "", {}),
    "lstm reverse": ("lstm", "", {"reverse": True}),
    "lstm peepholes": ("lstm", "peepholes", {}),
    "lstm lengths": ("lstm", "lengths", {}),
    "lstm clip": ("lstm", "", {"clip": 0.5}),
    "lstm pre-weighted": ("lstm", "", {"pre_weighted": True}),
    "gru": ("gru", "", {}),
    "gru lengths reverse": ("gru", "lengths", {"reverse": True}),
    "gru after": ("gru", "after", {}),
    "gru attention": ("gru", "attention", {}),
    "rnn": ("rnn", "", {}),
    "rnn lengths": ("rnn", "lengths", {}),
    "rnn clip": ("rnn", "", {"clip": 0.5}),
}


def _arrays(kind: str, extra: str, n_steps: int) -> dict[str, Any]:
    n = _UNITS[kind]
    shapes = {
        "x": (n_steps, _BATCH, _INPUTS),
        "input_weights": (n, _INPUTS, _OUTPUTS),
        "output_weights": (n, _OUTPUTS, _OUTPUTS),
        "biases": (n, 2, _OUTPUTS) if extra == "after" else (n, _OUTPUTS),
        "initial_output": (_BATCH, _OUTPUTS),
        "gradient": (n_steps, _BATCH, _OUTPUTS),
        **({"initial_cell": (_BATCH, _OUTPUTS)} if kind == "lstm" else {}),
        **({"peepholes": (3, _OUTPUTS)} if extra == "peepholes" else {}),
        **({"attention": (n_steps, _BATCH)} if extra == "attention" else {}),
    }
    random = np.random.default_rng(n_steps)
    arrays = {name: random.uniform(-1, 1, s).astype(np.float32) for name, s in shapes.items()}
    if extra == "lengths":
        arrays["lengths"] = np.array([n_steps, 1, n_steps // 2 + 1], np.int32)
    return arrays


def _training(
    name: str, n_steps: int, machine: Any = _MACHINE, *, is_split: bool = False, **stated: Any
) -> tuple[Builder, dict[str, Any], dict[str, Any]]:
    """Build a layer and its gradients; return the builder, the arrays and the results."""
    kind, extra, options = _LAYERS[name]
    layer, backward, update = _FUNCTIONS[kind]
    arrays = _arrays(kind, extra, n_steps)
    builder, tensors = Builder(Graph(machine), Sequence("main")), {}
    for key, array in arrays.items():
        dtype = "int32" if key == "lengths" else "float32"
        tensors[key] = builder.graph.add_variable(dtype, array.shape, key)
        builder.graph.map_linearly(tensors[key])
        builder.sequence.add(StreamCopyIn(key, tensors[key]))
    gradient = tensors.pop("gradient")
    all_options = {"options": RecurrentOptions(**options, **stated)}
    after = {"reset_after": True} if extra == "after" else {}
    kept: dict[str, Any] = {}
    outputs, *states = layer(builder, kept=kept, **tensors, **all_options, **after)
    given, gradients = LayerOperands(**tensors), OutputGradients(gradient)
    cell = {"last_cell": states[-1]} if extra == "peepholes" else {}
    if is_split:
        back = backward(builder, given, outputs, kept, gradients, **all_options)
        weights = update(builder, given, outputs, back, **all_options, **cell)
    else:
        back = backward(
            builder, given, outputs, kept, gradients, with_weights=True, **all_options, **cell
        )
        weights = back.weights
    results = {"outputs": outputs, "x": back.inputs, "initial": back.initial[0]}
    results |= {"attention": back.attention} if extra == "attention" else {}
    results |= {part: view for part, view in vars(weights).items() if view is not None}
    return builder, arrays, results


def _run(name: str, n_steps: int, **stated: Any) -> dict[str, Any]:
    builder, arrays, results = _training(name, n_steps, **stated)
    for key, view in results.items():
        builder.sequence.add(StreamCopyOut(view, f"{key}/result"))
    executable = compile_programs(builder.graph, [builder.sequence])
    with Engine(executable, resolve_options(environ={})) as engine:
        for key, array in arrays.items():
            engine.connect_stream(key, array)
        engine.run(0)
        return {key: engine.output(f"{key}/result") for key in results}


def _same_bits(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(actual[key].view(np.int32), array.view(np.int32), key)


@pytest.mark.parametrize("name", _LAYERS)
def test_steps_computed_again_give_the_same_bits(name):
    expected = _run(name, 7)
    for stretch in (None, 3):
        again = _run(name, 7, recomputation_mode="full", steps_per_checkpoint=stretch)
        _same_bits(again, expected)


@pytest.mark.parametrize("name", _LAYERS)
def test_updates_in_the_loop_give_the_bits_of_updates_after_it(name):
    expected = _run(name, 7, steps_per_update=3, interleaves_update=False)
    _same_bits(_run(name, 7, steps_per_update=3), expected)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_an_update_of_its_own_gives_the_bits_of_one_after_the_loop(name):
    for n_steps, per_update in ((6, 1), (1, 1)):
        expected = _run(name, n_steps, steps_per_update=per_update, interleaves_update=False)
        _same_bits(_run(name, n_steps, steps_per_update=per_update, is_split=True), expected)


@pytest.mark.parametrize("name", ["lstm", "lstm peepholes", "gru", "gru after", "lstm lengths"])
@pytest.mark.parametrize("is_split", [False, True])
def test_stretches_lie_within_the_steps_of_an_update(name, is_split):
    """Of 11 steps: updates of 5, 5 and 1, whose stretches are 2, 2 and 1 steps."""
    stated: Any = {"steps_per_update": 5, "is_split": is_split}
    expected = _run(name, 11, **stated)
    again = _run(name, 11, recomputation_mode="full", steps_per_checkpoint=2, **stated)
    _same_bits(again, expected)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"recomputation_mode": "some"}, "is 'some': expected one of none, full"),
        ({"recomputation_mode": 1}, "recomputation_mode of a recurrent layer"),
        ({"steps_per_checkpoint": 0}, "steps_per_checkpoint of a recurrent layer"),
        ({"steps_per_update": -1}, "steps_per_update of a recurrent layer"),
        ({"accumulators_type": "double"}, "is 'double': expected 'float' or 'half'"),
        ({"interleaves_update": 3}, "'interleaves_update' of a recurrent layer"),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(BadGraph, match=sentence):
        RecurrentOptions(**options)


def test_what_another_mode_kept_is_refused():
    kind, extra, _ = _LAYERS["lstm"]
    builder = Builder(Graph(_MACHINE), Sequence("main"))
    tensors: dict[str, Any] = {}
    for key, array in _arrays(kind, extra, 4).items():
        tensors[key] = builder.graph.add_variable("float32", array.shape, key)
        builder.graph.map_linearly(tensors[key])
    gradient = tensors.pop("gradient")
    kept: dict[str, Any] = {}
    outputs, *_ = lstm(builder, kept=kept, **tensors)
    options = replace(RecurrentOptions(), recomputation_mode="full")
    with pytest.raises(BadGraph, match="expected the dict that it filled, with checkpoints"):
        lstm_backward(
            builder, LayerOperands(**tensors), outputs, kept, OutputGradients(gradient),
            options=options,
        )  # fmt: skip
