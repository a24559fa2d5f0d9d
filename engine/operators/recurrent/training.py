"""Recurrent layers in training: one direction, what it keeps, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilescope.engine.graph import INT32, Tensor, View, concat
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.recurrent.allocators import (
    create_gru_weights,
    create_lstm_weights,
    create_rnn_weights,
)
from tilescope.engine.library.popnn.recurrent.backward import (
    Backward,
    LayerOperands,
    OutputGradients,
    WeightGradients,
    gru_backward,
    gru_weight_update,
    lstm_backward,
    lstm_weight_update,
    rnn_backward,
    rnn_weight_update,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.kept import gru_kept, lstm_kept, rnn_kept
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.popnn.recurrent.storage import (
    CHECKPOINTS,
    LayerSizes,
    explicit_storage,
)
from tilescope.engine.library.popops.elementwise.operations import cast, copy_to, in_one
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.recurrent.in_numpy import (
    layer_arrays,
    loop_arrays,
    weight_arrays,
)
from tilescope.engine.operators.recurrent.node import UNITS
from tilescope.engine.program import WriteUndef

__all__ = [
    "LAYER",
    "LAYER_GRADIENT",
    "N_GRADIENT_OPERANDS",
    "N_OPERANDS",
    "RECOMPUTES",
    "RECORDS",
    "WEIGHT_GRADIENT",
    "emitter",
    "layer_sizes",
    "stored_types",
    "stored_values",
]

Type = tuple[tuple[int, ...], str]

#: Attribute of a layer that recomputation marks: whether its steps are computed again. Memory
#: decides where it is missing.
RECOMPUTES = "recomputes"

# Positions of the operands of a layer.
_X, _INPUTS, _OUTPUTS, _BIASES, _FIRST, _CELL, _PEEPHOLES, _LENGTHS = range(8)
N_OPERANDS = 8


def stored_values(node: Node) -> dict[str, int]:
    """Return the names and numbers of what gradients need of every step of a layer."""
    kind, has_lengths = node.attributes["kind"], node.attributes["has_lengths"]
    if kind == "LSTM":
        has_peepholes = node.attributes["has_peepholes"]
        return lstm_kept(has_peepholes=has_peepholes, has_lengths=has_lengths)
    if kind == "GRU":
        return gru_kept(reset_after=node.attributes["reset_after"])
    return rnn_kept(node.attributes["options"], has_lengths=has_lengths)


def _n_states(node: Node) -> int:
    return 2 if node.attributes["kind"] == "LSTM" else 1


def layer_sizes(node: Node) -> LayerSizes:
    """Return what decides the storage of a layer."""
    n_steps, n_batch, n_inputs = node.operand(_X).shape
    kept, n_outputs = stored_values(node), node.operand(_OUTPUTS).shape[-1]
    n_bytes = np.dtype(node.operand(_X).dtype).itemsize
    return LayerSizes.of(n_steps, n_batch, n_inputs, n_outputs, kept, _n_states(node), n_bytes)


def stored_types(node: Node) -> dict[str, Type]:
    """Return the types of what a layer keeps, by name."""
    options: RecurrentOptions = node.attributes["options"]
    n_steps, n_batch, _ = node.operand(_X).shape
    n_outputs, dtype = node.operand(_OUTPUTS).shape[-1], node.operand(_X).dtype
    kept = {name: (n_steps, n) for name, n in stored_values(node).items()}
    if options.recomputation_mode == "full":
        storage = explicit_storage(n_steps, options)
        kept = {CHECKPOINTS: (storage.n_stretches, _n_states(node))}
    return {name: ((*lead, n_batch, n_outputs), dtype) for name, lead in kept.items()}


def _layer_types(node: Node) -> list[Type]:
    n_steps, n_batch, _ = node.operand(_X).shape
    n_outputs, dtype = node.operand(_OUTPUTS).shape[-1], node.operand(_X).dtype
    states = [((n_batch, n_outputs), dtype)] * _n_states(node)
    every = (n_steps, n_batch, n_outputs), dtype
    return [every, *states, *stored_types(node).values()]


def _tensor(lowering: Lowering, op: Operation, index: int) -> Tensor | None:
    value = op.optional(index)
    return None if value is None else lowering.tensor(value)


def _lengths(lowering: Lowering, op: Operation, index: int) -> View | None:
    tensor = _tensor(lowering, op, index)
    if tensor is None or tensor.dtype == INT32:
        return tensor
    return cast(lowering.builder, tensor, INT32)


def _options(op: Operation) -> dict[str, Any]:
    """Return what all functions of the library for the layer take by name."""
    options: dict[str, Any] = {"options": op.attributes["options"]}
    if op.attributes["kind"] != "RNN":
        options["cell_order"] = UNITS[op.attributes["kind"]]
    return options


def _order_of_reset(op: Operation) -> dict[str, Any]:
    """Return what a GRU is told of its reset gate."""
    is_gru = op.attributes["kind"] == "GRU"
    return {"reset_after": op.attributes["reset_after"]} if is_gru else {}


def _arranged(builder: Builder, op: Operation, given: Sequence[View]) -> list[View]:
    """Return copies of weights and biases, laid out for the products of the loop."""
    shape, options = op.operand(_X).shape, _options(op) | _order_of_reset(op)
    create: Any = {
        "LSTM": create_lstm_weights,
        "GRU": create_gru_weights,
        "RNN": create_rnn_weights,
    }[op.attributes["kind"]]
    laid = create(builder, shape, given[1].shape[-1], dtype=given[0].dtype, **options)
    # They share a variable, which would be alive before its first part is copied.
    builder.sequence.add(WriteUndef(concat([part.flatten() for part in laid]), debug=builder.debug))
    for source, target in zip(given, laid, strict=True):
        copy_to(builder, source, target, "arrangeWeights")
    return list(laid)


def _lower_layer(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    build, kind = lowering.builder, op.attributes["kind"]
    x, *weights = (lowering.tensor(op.operand(i)) for i in range(_FIRST))
    states = [lowering.tensor(op.operand(i)) for i in (_FIRST, _CELL)[: _n_states(op)]]
    function: Any = {"LSTM": lstm, "GRU": gru, "RNN": rnn}[kind]
    options = _options(op) | _order_of_reset(op) | {"lengths": _lengths(lowering, op, _LENGTHS)}
    if kind == "LSTM":
        options["peepholes"] = _tensor(lowering, op, _PEEPHOLES)
    names = [*stored_types(op)]
    is_kept = any(value is not None for value in op.outputs[-len(names) :])
    kept: dict[str, Tensor] | None = {} if names and is_kept else None
    results = function(build, x, *_arranged(build, op, weights), *states, kept=kept, **options)
    all_results = (*results, *((kept or {}).get(name) for name in names))
    return tuple(t for value, t in zip(op.outputs, all_results, strict=True) if value is not None)


def _layer_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradients of inputs, weights, biases, states and peepholes."""
    n = _n_states(op)
    given = [
        None if gradient is None or value is None else full(expansion, gradient, value.shape)
        for gradient, value in zip(gradients[: 1 + n], op.outputs, strict=False)
    ]
    outputs, *states = op.outputs[: 1 + n]
    kept = op.outputs[1 + n :]
    has_peepholes, has_recurrent = op.attributes["has_peepholes"], op.attributes["reset_after"]
    cell = states[1] if has_peepholes else None
    operands = [op.optional(i) for i in range(N_OPERANDS)]
    attributes = {**op.attributes, "with_weights": False}
    emit = emitter(expansion, attributes)
    of_x, sums, of_first, *rest = emit(
        LAYER_GRADIENT,
        [*operands, *[*given, None][:3], outputs, cell, *kept],
        2 + n + has_recurrent,
    )
    of_cell = rest[0] if n > 1 else None
    recurrent = rest[-1] if has_recurrent else None
    of_weights = emit(
        WEIGHT_GRADIENT,
        [*operands, outputs, cell, sums, recurrent, *kept],
        3 + has_peepholes,
    )
    of_peepholes = of_weights[3] if has_peepholes else None
    return of_x, *of_weights[:3], of_first, of_cell, of_peepholes, None


def emitter(expansion: Expansion, attributes: Mapping[str, Any]) -> Any:
    """Return what adds an operation with operands that may be left out, in the node's name."""
    node = expansion.node

    def emit(
        operator: Operator, inputs: Sequence[Value | None], n_results: int
    ) -> tuple[Value, ...]:
        return expansion.builder.emit_all(
            operator,
            inputs,
            n_results,
            name=node.name,
            source=node.source,
            output=expansion.output,
            **attributes,
        )

    return emit


#: One direction of a layer, which keeps what its gradients need. Operands: inputs (steps, batch,
#: inputs), input weights (units, inputs, outputs), output weights (units, outputs, outputs),
#: biases, the output and, of an LSTM, the cell state before the first step, peepholes and lengths.
#: Results: outputs of all steps, the last output, the last cell state, and what is kept.
LAYER = Operator(
    name="recurrent_layer",
    domain=ENGINE_DOMAIN,
    infer=_layer_types,
    evaluate=lambda node, arrays: layer_arrays(node, arrays, stored_values(node)),
    lower=_lower_layer,
    gradient=_layer_gradient,
)


# Positions of the operands of gradients, after those of the layer.
N_GRADIENT_OPERANDS = N_OPERANDS + 5
_OF_OUTPUTS, _OF_LAST, _OF_CELL, _RESULTS, _LAST_CELL, _KEPT = range(N_OPERANDS, N_OPERANDS + 6)
_WEIGHT_RESULTS, _WEIGHT_CELL, _SUMS, _RECURRENT, _WEIGHT_KEPT = range(N_OPERANDS, N_OPERANDS + 5)


def _loop_types(node: Node) -> list[Type]:
    x, n_units = node.operand(_X), len(UNITS[node.attributes["kind"]])
    n_steps, n_batch, _ = x.shape
    n_outputs = node.operand(_OUTPUTS).shape[-1]
    states = [((n_batch, n_outputs), x.dtype)] * _n_states(node)
    sums = [((n_steps, n_units, n_batch, n_outputs), x.dtype)]
    if node.attributes["reset_after"]:
        recurrent = [((n_steps, 1, n_batch, n_outputs), x.dtype)]
    else:
        recurrent = []
    weights = _weight_types(node) if node.attributes["with_weights"] else []
    return [(x.shape, x.dtype), *sums, *states, *recurrent, *weights]


def _all_kept(lowering: Lowering, op: Operation, first: int) -> dict[str, Tensor]:
    """Return what the forward pass kept, by name."""
    values = op.inputs[first:]
    return {
        name: lowering.tensor(value)
        for name, value in zip(stored_types(op), values, strict=True)
        if value is not None
    }


def _given(lowering: Lowering, op: Operation) -> LayerOperands:
    """Return what the layer was given."""
    tensors = [_tensor(lowering, op, i) for i in range(_LENGTHS)]
    x, inputs, outputs, biases, first, cell, peepholes = tensors
    assert x is not None
    assert inputs is not None
    assert outputs is not None
    assert biases is not None
    lengths = _lengths(lowering, op, _LENGTHS)
    weights: list[View] = [inputs, outputs, biases]
    if op.attributes["options"].recomputation_mode == "full":
        # Steps that are computed again take the plan of those before, so that bits are the same.
        weights = _arranged(lowering.builder, op, weights)
    of_inputs, of_outputs, summands = weights
    return LayerOperands(
        x, of_inputs, of_outputs, summands, first, cell, peepholes=peepholes, lengths=lengths
    )


def _lower_loop(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    function: Any = {"LSTM": lstm_backward, "GRU": gru_backward, "RNN": rnn_backward}[
        op.attributes["kind"]
    ]
    gradients = OutputGradients(*(_tensor(lowering, op, i) for i in range(_OF_OUTPUTS, _RESULTS)))
    options = _options(op)
    if op.attributes["kind"] == "LSTM":
        options["last_cell"] = _tensor(lowering, op, _LAST_CELL)
    found = function(
        lowering.builder,
        _given(lowering, op),
        _tensor(lowering, op, _RESULTS),
        _all_kept(lowering, op, _KEPT),
        gradients,
        with_inputs=op.outputs[0] is not None,
        with_weights=op.attributes["with_weights"],
        **options,
    )
    results: list[Any] = [found.inputs, found.values.get("sums"), *found.initial]
    if op.attributes["reset_after"]:
        results.append(found.values.get("recurrent"))
    if found.weights is not None:
        results += _weight_views(lowering.builder, found.weights)
    return tuple(t for value, t in zip(op.outputs, results, strict=True) if value is not None)


#: The gradients of the inputs, the sums and the first states of a layer. Operands: those of the
#: layer, gradients of its outputs, its last output and last cell state, its outputs, its last cell
#: state, and what it kept. With weights, it also has the results of `WEIGHT_GRADIENT`.
LAYER_GRADIENT = Operator(
    name="recurrent_gradient",
    domain=ENGINE_DOMAIN,
    infer=_loop_types,
    evaluate=lambda node, arrays: loop_arrays(node, arrays, [*stored_values(node)]),
    lower=_lower_loop,
)


def _weight_types(node: Node) -> list[Type]:
    shapes = [node.operand(i).shape for i in (_INPUTS, _OUTPUTS, _BIASES)]
    if node.attributes["has_peepholes"]:
        shapes.append(node.operand(_PEEPHOLES).shape)
    return [(shape, node.operand(_X).dtype) for shape in shapes]


def _lower_weights(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    build, kind = lowering.builder, op.attributes["kind"]
    function: Any = {
        "LSTM": lstm_weight_update,
        "GRU": gru_weight_update,
        "RNN": rnn_weight_update,
    }[kind]
    values = _all_kept(lowering, op, _WEIGHT_KEPT)
    for name, index in (("sums", _SUMS), ("recurrent", _RECURRENT)):
        tensor = _tensor(lowering, op, index)
        if tensor is not None:
            values[name] = tensor
    options = _options(op)
    if kind == "LSTM":
        options["last_cell"] = _tensor(lowering, op, _WEIGHT_CELL)
    outputs = lowering.tensor(op.operand(_WEIGHT_RESULTS))
    found = function(build, _given(lowering, op), outputs, Backward((), values=values), **options)
    results = _weight_views(build, found)
    return tuple(t for value, t in zip(op.outputs, results, strict=False) if value is not None)


def _weight_views(builder: Builder, gradients: WeightGradients) -> list[Tensor]:
    """Return the gradients of weights, biases and, where there are any, peepholes."""
    views = gradients.inputs, gradients.outputs, gradients.biases, gradients.peepholes
    return [in_one(builder, view) for view in views if view is not None]


#: The gradients of the weights, biases and peepholes of a layer. Operands: those of the layer, its
#: outputs, its last cell state, the gradients of its sums and of a GRU's product, and what it kept.
WEIGHT_GRADIENT = Operator(
    name="recurrent_weight_gradient",
    domain=ENGINE_DOMAIN,
    infer=_weight_types,
    evaluate=lambda node, arrays: weight_arrays(node, arrays, [*stored_values(node)]),
    lower=_lower_weights,
)


RECORDS = (LAYER, LAYER_GRADIENT, WEIGHT_GRADIENT)
