"""What a node of LSTM, GRU or RNN says: sizes, directions and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilescope.engine.codelets.popops.elementwise.expression import Expression, call, operand
from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Node
from tilescope.engine.library.recurrent_options import RecurrentOptions

__all__ = ["UNITS", "activations_of", "n_directions", "options_of", "sizes_of"]

#: Units in the order of ONNX's weights.
UNITS: Mapping[str, tuple[str, ...]] = {
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


def n_directions(node: Node) -> int:
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


def sizes_of(node: Node) -> tuple[int, int, int]:
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
    n, units = n_directions(node), len(UNITS[node.operator.name])
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


def activations_of(node: Node) -> list[list[str | Expression]]:
    """Return the activations of every direction, in ONNX's order.

    Raises
    ------
    BadModel
        When an activation is unknown, or one is missing.
    """
    names = node.attributes.get("activations") or _DEFAULTS[node.operator.name] * 2
    values = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    per_direction = len(_DEFAULTS[node.operator.name])
    needed = per_direction * n_directions(node)
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


def options_of(node: Node, direction: int) -> RecurrentOptions:
    """Return the options of the library's layer of a direction."""
    first, *other_activations = activations_of(node)[direction]
    return RecurrentOptions(
        activation=other_activations[0] if other_activations else first,
        recurrent_activation=first,
        cell_activation=other_activations[1]
        if len(other_activations) > 1 and other_activations[1] != other_activations[0]
        else None,
        couples_gates=bool(node.attributes.get("input_forget", 0)),
        reverse=direction == 1 or node.attributes["direction"] == "reverse",
        clip=node.attributes.get("clip"),
        **node.hints.stated(),
    )
