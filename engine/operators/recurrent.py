"""LSTM, GRU and RNN: forward, reverse and in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.expression import Expression, call, operand
from tilescope.engine.errors import BadModel
from tilescope.engine.graph import INT32, Tensor, View, concat
from tilescope.engine.ir import Node, Operation, Operator, Value
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import RecurrentOptions, lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.popops.elementwise.operations import binary, cast, in_one
from tilescope.engine.lower import Lowering

__all__ = ["RECORDS"]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]

#: Units in the order of ONNX's weights.
_UNITS: Mapping[str, tuple[str, ...]] = {
    "LSTM": ("input", "output", "forget", "candidate"),
    "GRU": ("update", "reset", "candidate"),
    "RNN": ("candidate",),
}
#: Activations of the library by ONNX's names.
_ACTIVATIONS = {"Tanh": "tanh", "Sigmoid": "sigmoid", "Relu": "relu"}


def _above(x: Expression) -> Expression:
    return call("maximum", x, 0)


def _below(x: Expression) -> Expression:
    return call("minimum", x, 0)


_X = operand(0)
#: Activations with parameters: usual alpha and beta, None for one that it does not have; function.
#: Source: onnx, docs/Operators.md, LSTM, activations; usual values are those of the operators.
_WITH_PARAMETERS: Mapping[
    str, tuple[float | None, float | None, Callable[[float, float], Expression]]
] = {
    "HardSigmoid": (0.2, 0.5, lambda a, b: call("clamp", _X * a + b, 0, 1)),
    "Affine": (1.0, 0.0, lambda a, b: _X * a + b),
    "ScaledTanh": (1.0, 1.0, lambda a, b: call("tanh", _X * b) * a),
    "LeakyRelu": (0.01, None, lambda a, _: _above(_X) + _below(_X) * a),
    "Elu": (1.0, None, lambda a, _: _above(_X) + (call("exp", _below(_X)) - 1) * a),
    "ThresholdedRelu": (
        1.0,
        None,
        lambda a, _: call("select", _X, 0, call("greater", _X, a)),
    ),
    "Softsign": (None, None, lambda *_: _X / (call("absolute", _X) + 1)),
    "Softplus": (
        None,
        None,
        lambda *_: _above(_X) + call("log", call("exp", -call("absolute", _X)) + 1),
    ),
}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def _n_directions(node: Node) -> int:
    """Return the number of directions.

    Raises
    ------
    BadModel
        When the direction is unknown.
    """
    direction = node.attributes["direction"]
    if direction not in _DIRECTIONS:
        raise BadModel(f"{node}: its direction is {direction!r}: expected {', '.join(_DIRECTIONS)}")
    return _DIRECTIONS[direction]


def _sizes(node: Node) -> tuple[int, int, int]:
    """Return steps, batch and hidden size.

    Raises
    ------
    BadModel
        When an operand has another shape than its layer implies.
    """
    x, recurrent = node.operand(0), node.operand(2)
    if len(x.shape) != 3:
        raise BadModel(f"{node}: {x.name!r} has shape {x.shape}: expected three dimensions")
    first, second, n_inputs = x.shape
    steps, batch = (second, first) if node.attributes.get("layout", 0) else (first, second)
    hidden = recurrent.shape[-1]
    n, units = _n_directions(node), len(_UNITS[node.operator.name])
    states = (batch, n, hidden) if node.attributes.get("layout", 0) else (n, batch, hidden)
    expected = {
        1: (n, units * hidden, n_inputs),
        2: (n, units * hidden, hidden),
        3: (n, 2 * units * hidden),
        4: (batch,),
        5: states,
        6: states,
        7: (n, 3 * hidden),
    }
    for index, shape in expected.items():
        value = node.optional(index)
        if value is not None and value.shape != shape:
            raise BadModel(
                f"{node}: its input {value.name!r} has shape {value.shape}: expected {shape}"
            )
    return steps, batch, hidden


def _types(node: Node) -> list[Type]:
    """Return the types of the results."""
    steps, batch, hidden = _sizes(node)
    _activations(node)
    n, dtype = _n_directions(node), node.operand(0).dtype
    is_batch_first = node.attributes.get("layout", 0)
    every = (batch, steps, n, hidden) if is_batch_first else (steps, n, batch, hidden)
    last = (batch, n, hidden) if is_batch_first else (n, batch, hidden)
    results = [(every, dtype), (last, dtype), (last, dtype)]
    return results if node.operator.name == "LSTM" else results[:2]


def _activations(node: Node) -> list[list[str | Expression]]:
    """Return the activations of every direction, in ONNX's order.

    Raises
    ------
    BadModel
        When an activation is unknown, or one is missing.
    """
    names = node.attributes.get("activations") or _DEFAULTS[node.operator.name] * 2
    values = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    per_direction = len(_DEFAULTS[node.operator.name])
    needed = per_direction * _n_directions(node)
    if len(values) < needed:
        raise BadModel(f"{node}: expected {per_direction} activations per direction")
    plain = {key.lower(): value for key, value in _ACTIVATIONS.items()}
    wide = {key.lower(): value for key, value in _WITH_PARAMETERS.items()}
    # Those that take a parameter take the next one.
    alphas = iter(node.attributes.get("activation_alpha") or ())
    betas = iter(node.attributes.get("activation_beta") or ())
    activations: list[str | Expression] = []
    for name in (name.lower() for name in values[:needed]):
        if name in plain:
            activations.append(plain[name])
            continue
        if name not in wide:
            raise BadModel(
                f"{node}: activation {name!r} is not supported: expected one of"
                f" {', '.join((*_ACTIVATIONS, *_WITH_PARAMETERS))}"
            )
        alpha, beta, function = wide[name]
        a = 0.0 if alpha is None else float(next(alphas, alpha))
        b = 0.0 if beta is None else float(next(betas, beta))
        is_usual = name == "hardsigmoid" and (a, b) == (alpha, beta)
        activations.append("hard_sigmoid" if is_usual else function(a, b))
    return [activations[d : d + per_direction] for d in range(0, needed, per_direction)]


def _in_steps(value: Tensor, node: Node) -> Tensor:
    """Return a sequence or state with the batch second, whatever the layout."""
    return value.dim_shuffle(1, 0, 2) if node.attributes.get("layout", 0) else value


def _part(lowering: Lowering, value: Value, direction: int, n_units: int) -> Array | View:
    """Return the weights of a direction as (units, inner, outputs): constants stay arrays."""
    if value.known is not None:
        direction_part = np.asarray(value.known)[direction]
        by_unit: Array = direction_part.reshape(n_units, -1, direction_part.shape[-1])
        return by_unit.transpose(0, 2, 1)
    own_tensor = lowering.tensor(value).slice(0, direction, direction + 1)
    _, rows, inner = value.shape
    return own_tensor.reshape(n_units, rows // n_units, inner).dim_shuffle(0, 2, 1)


def _biases(lowering: Lowering, op: Operation, direction: int, n_units: int, hidden: int) -> Any:
    """Return the biases of inputs and outputs, (units, 2, outputs): zeros if left out."""
    value = op.optional(3)
    if value is None:
        return np.zeros((n_units, 2, hidden), np.float32)
    if value.known is not None:
        return np.asarray(value.known)[direction].reshape(2, n_units, hidden).swapaxes(0, 1)
    direction_biases = lowering.tensor(value).slice(0, direction, direction + 1)
    return direction_biases.reshape(2, n_units, hidden).dim_shuffle(1, 0, 2)


def _peepholes(
    lowering: Lowering, op: Operation, direction: int, hidden: int
) -> Array | View | None:
    """Return the weights of the cell state in the gates, (3, outputs); None if left out."""
    value = op.optional(7)
    if value is None:
        return None
    if value.known is not None:
        known: Array = np.asarray(value.known)[direction].reshape(3, hidden)
        return known
    return lowering.tensor(value).slice(0, direction, direction + 1).reshape(3, hidden)


def _summed(lowering: Lowering, biases: Any) -> Any:
    """Return the sum of both biases, (units, outputs)."""
    if isinstance(biases, np.ndarray):
        return biases.sum(axis=1)
    n_units, _, hidden = biases.shape
    parts = (biases.slice(1, i, i + 1).reshape(n_units, hidden) for i in range(2))
    return binary(lowering.builder, "add", *parts)


def _direction(
    lowering: Lowering, op: Operation, direction: int, lengths: View | None
) -> tuple[Tensor, ...]:
    """Add one direction, and return its outputs, last output and, of an LSTM, last cell."""
    name = op.operator.name
    _, batch, hidden = _sizes(op)
    n_units = len(_UNITS[name])
    x = _in_steps(lowering.tensor(op.operand(0)), op)
    weights, recurrent = (_part(lowering, op.operand(i), direction, n_units) for i in (1, 2))
    biases = _biases(lowering, op, direction, n_units, hidden)
    first, *other_activations = _activations(op)[direction]
    options = RecurrentOptions(
        activation=other_activations[0] if other_activations else first,
        recurrent_activation=first,
        cell_activation=other_activations[1]
        if len(other_activations) > 1 and other_activations[1] != other_activations[0]
        else None,
        couples_gates=bool(op.attributes.get("input_forget", 0)),
        reverse=direction == 1 or op.attributes["direction"] == "reverse",
        clip=op.attributes.get("clip"),
        **op.hints.stated(),
    )
    states = []
    for index in (5, 6)[: 2 if name == "LSTM" else 1]:
        value = op.optional(index)
        state = None if value is None else _in_steps(lowering.tensor(value), op)
        if state is not None:
            state = state.slice(0, direction, direction + 1).reshape(batch, hidden)
        states.append(state)
    common: Any = {"lengths": lengths, "options": options}
    if name == "RNN":
        return rnn(
            lowering.builder, x, weights, recurrent, _summed(lowering, biases), *states, **common
        )
    if name == "LSTM":
        summed = _summed(lowering, biases)
        common |= {
            "cell_order": _UNITS[name],
            "peepholes": _peepholes(lowering, op, direction, hidden),
        }
        return lstm(lowering.builder, x, weights, recurrent, summed, *states, **common)
    after = bool(op.attributes["linear_before_reset"])
    return gru(
        lowering.builder,
        x,
        weights,
        recurrent,
        biases if after else _summed(lowering, biases),
        *states,
        cell_order=_UNITS[name],
        reset_after=after,
        **common,
    )


def _lengths(lowering: Lowering, op: Operation) -> View | None:
    """Return the lengths of the sequences; None if all have all steps."""
    value = op.optional(4)
    if value is None or (value.known is not None and (value.known == _sizes(op)[0]).all()):
        return None
    tensor = lowering.tensor(value)
    return tensor if tensor.dtype == INT32 else cast(lowering.builder, tensor, INT32)


def _lower(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    """Add every direction and join the results."""
    lengths = _lengths(lowering, op)
    directions = [_direction(lowering, op, d, lengths) for d in range(_n_directions(op))]
    results = []
    for index, value in enumerate(op.outputs):
        if value is None:
            continue
        # Outputs are (steps, batch, outputs), states (batch, outputs): add the direction.
        dim = 1 if index == 0 else 0
        parts = [outputs[index] for outputs in directions]
        apart = [p.reshape(*p.shape[:dim], 1, *p.shape[dim:]) for p in parts]
        joined: View = concat(apart, dim) if len(apart) > 1 else apart[0]
        if op.attributes.get("layout", 0):
            joined = joined.dim_shuffle(*((2, 0, 1, 3) if index == 0 else (1, 0, 2)))
        results.append(in_one(lowering.builder, joined, "join"))
    return tuple(results)


RECORDS = tuple(Operator(name=name, infer=_types, lower=_lower) for name in sorted(_UNITS))
