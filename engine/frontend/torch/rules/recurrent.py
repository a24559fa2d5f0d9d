"""Recurrent layers: whole, a node per layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]

#: Gates in the order of ONNX, as numbers of PyTorch's: input, output, forget, cell of its input,
#: forget, cell, output; and update, reset, hidden of its reset, update, hidden.
_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@dataclass(frozen=True)
class _Layers:
    """Layers of one kind, as PyTorch states them.

    Parameters
    ----------
    kind
        Operator of ONNX.
    attributes
        Of every layer.
    """

    emit: Emission
    kind: str
    attributes: dict[str, Any]

    def __call__(
        self,
        x: Value,
        states: Sequence[Value],
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Value, ...]:
        """Return the output and the last states."""
        emit, n_directions = self.emit, 1 + bidirectional
        per_direction = 4 if has_biases else 2
        if len(params) != num_layers * n_directions * per_direction:
            emit.refuse("with proj_size is not supported")
        if batch_first:
            x = emit.permute(x, (1, 0, 2))
        last: list[list[Value]] = [[] for _ in states]
        for layer in range(num_layers):
            first = layer * n_directions
            own = [
                params[i * per_direction : (i + 1) * per_direction]
                for i in range(first, first + n_directions)
            ]
            begun = [emit.slice(state, 0, first, first + n_directions) for state in states]
            x, *ended = self._layer(x, begun, own)
            for collected, state in zip(last, ended, strict=True):
                collected.append(state)
            if dropout and train and layer < num_layers - 1:
                x = emit("Dropout", x, emit.constant(dropout, "float32"), emit.constant(True))
        if batch_first:
            x = emit.permute(x, (1, 0, 2))
        return (x, *(emit.concat(collected, 0) for collected in last))

    def _layer(
        self, x: Value, begun: Sequence[Value], directions: Sequence[Sequence[Value]]
    ) -> tuple[Value, ...]:
        emit = self.emit
        hidden = directions[0][1].shape[1]
        inputs, hiddens, biases = [], [], []
        for weights in directions:
            inputs.append(self._gates(weights[0], hidden))
            hiddens.append(self._gates(weights[1], hidden))
            if len(weights) > 2:
                both = [self._gates(bias, hidden) for bias in weights[2:4]]
                biases.append(emit.concat(both, 0))
        joined = [
            emit.concat([emit.reshape(part, (1, *part.shape)) for part in parts], 0)
            for parts in (inputs, hiddens)
        ]
        bias: Value | None = None
        if biases:
            bias = emit.concat([emit.reshape(part, (1, *part.shape)) for part in biases], 0)
        out, *ended = emit.results(
            1 + len(begun),
            self.kind,
            *(x, *joined, bias, None, *begun),
            hidden_size=hidden,
            direction="bidirectional" if len(directions) > 1 else "forward",
            **{
                name: item * len(directions) if isinstance(item, list) else item
                for name, item in self.attributes.items()
            },
        )
        # (steps, directions, batch, hidden): directions follow each other in the last dimension.
        n_steps, n_directions, n_batch, _ = out.shape
        out = emit.permute(out, (0, 2, 1, 3)) if n_directions > 1 else out
        return (emit.reshape(out, (n_steps, n_batch, n_directions * hidden)), *ended)

    def _gates(self, weight: Value, hidden: int) -> Value:
        """Return weights with their gates in the order of ONNX."""
        order = _ORDERS[self.kind]
        if len(order) == 1:
            return weight
        if weight.known is not None:
            gates = np.asarray(weight.known).reshape(len(order), hidden, *weight.shape[1:])
            return self.emit.constant(gates[list(order)].reshape(weight.shape))
        parts = [self.emit.slice(weight, 0, g * hidden, (g + 1) * hidden) for g in order]
        return self.emit.concat(parts, 0)


def _lstm(emit: Emission, x: Value, states: Sequence[Value], *given: Any) -> tuple[Value, ...]:
    return _Layers(emit, "LSTM", {})(x, states, *given)


def _gru(emit: Emission, x: Value, state: Value, *given: Any) -> tuple[Value, ...]:
    return _Layers(emit, "GRU", {"linear_before_reset": 1})(x, [state], *given)


def _rnn(function: str) -> Rule:
    def rule(emit: Emission, x: Value, state: Value, *given: Any) -> tuple[Value, ...]:
        return _Layers(emit, "RNN", {"activations": [function]})(x, [state], *given)

    return rule


RULES: Rules = {
    "aten.gru.input": _gru,
    "aten.lstm.input": _lstm,
    "aten.rnn_relu.input": _rnn("Relu"),
    "aten.rnn_tanh.input": _rnn("Tanh"),
}
