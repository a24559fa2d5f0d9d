"""Training of recurrent layers: the memory of updates of weights after the backward pass."""

from __future__ import annotations

from collections.abc import Mapping

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph, Tensor, View
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.allocators import (
    create_lstm_weights,
    create_recurrent_input,
)
from tilescope.engine.library.popnn.recurrent.backward import (
    LayerOperands,
    OutputGradients,
    lstm_backward,
)
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.session.compile import compile_programs

__all__ = ["lstm_layers", "split_updates"]

_LAYERS, _STEPS, _BATCH, _UNITS = 8, 25, 16, 1024


def lstm_layers(options: RecurrentOptions) -> Executable:
    """Compile a training step of eight layers, without the loss and the optimiser."""
    graph, program = (
        Graph(load_machine("gc2", parameter_set="ipu_model", compiles_code=False)),
        Sequence("main"),
    )
    builder, shape = Builder(graph, program), (_STEPS, _BATCH, _UNITS)
    value: View = create_recurrent_input(builder, shape, _UNITS, 4, dtype="float16")
    program.add(StreamCopyIn("input", value))
    layers = []
    for i in range(_LAYERS):
        inside = builder.inside(f"layer{i}", "lstm", {})
        weights = create_lstm_weights(inside, shape, _UNITS, f"weights{i}", dtype="float16")
        for part, view in zip(("inputs", "outputs", "biases"), weights, strict=True):
            program.add(StreamCopyIn(f"{part}{i}", view))
        kept: dict[str, Tensor] = {}
        outputs, *_ = lstm(inside, value, *weights, kept=kept, options=options)
        layers.append((inside, LayerOperands(value, *weights), outputs, kept))
        value = outputs
    gradient: View = graph.clone(layers[-1][2], "gradient")
    program.add(StreamCopyIn("gradient", gradient))
    for i, (inside, given, outputs, kept) in reversed([*enumerate(layers)]):
        back = lstm_backward(
            inside,
            given,
            outputs,
            kept,
            OutputGradients(gradient),
            options=options,
            with_inputs=i > 0,
            with_weights=True,
        )
        assert back.weights is not None
        parts = back.weights.inputs, back.weights.outputs, back.weights.biases
        for part, view in zip(("inputs", "outputs", "biases"), parts, strict=True):
            program.add(StreamCopyOut(view, f"{part}Gradient{i}"))
        if back.inputs is not None:
            gradient = back.inputs
    return compile_programs(graph, [program], plans=builder.plans)


def split_updates() -> Mapping[str, float]:
    """Return the bytes that updates after the loop save, beside one in every step of it."""
    chosen = RecurrentOptions(partial_updates=False)
    in_every_step = RecurrentOptions(partial_updates=False, interleaves_update=True)
    totals = []
    for options in (in_every_step, chosen):
        memory = lstm_layers(options).memory
        totals.append(int(memory.always_live.sum()) + int(memory.not_always_live_peak.sum()))
    return {"memory saved": totals[0] - totals[1]}
