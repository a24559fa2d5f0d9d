"""Recurrent layers in numpy: what they keep, and the gradients of their sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.expression import Expression, operand
from tilescope.engine.ir import Node
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS
from tilescope.engine.library.popnn.recurrent.kept import (
    BEFORE,
    STATES,
    Unit,
    are_sums_kept,
    function_of,
)
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_INSIDE
from tilescope.engine.library.recurrent_options import RecurrentOptions
from tilescope.engine.operators.elementwise.mapped import value_of
from tilescope.engine.operators.recurrent.node import UNITS

__all__ = ["layer_arrays", "loop_arrays", "weight_arrays"]

Array = NDArray[Any]

#: Units in the order in which the library keeps them.
_INSIDE: Mapping[str, tuple[str, ...]] = {
    "LSTM": LSTM_INSIDE,
    "GRU": GRU_UNITS,
    "RNN": ("candidate",),
}


def _applied(kind: str | Expression, x: Array) -> Array:
    return np.asarray(value_of(function_of(kind, operand(0)), [x]))


def _limited(options: RecurrentOptions, x: Array) -> Array:
    return x if options.clip is None else np.clip(x, -options.clip, options.clip)


def _places(kind: str) -> list[int]:
    return [UNITS[kind].index(name) for name in _INSIDE[kind]]


def _order(node: Node, n_steps: int, *, is_backward: bool) -> Sequence[int]:
    is_reversed = node.attributes["options"].reverse != is_backward
    return range(n_steps)[::-1] if is_reversed else range(n_steps)


def layer_arrays(node: Node, arrays: Sequence[Any], kept: Mapping[str, int]) -> list[Array]:
    """Return outputs, last states and what is kept of a layer."""
    x, w, r, b, h, c, peepholes, lengths = (*arrays, *[None] * 8)[:8]
    kind, places = node.attributes["kind"], _places(node.attributes["kind"])
    wide = [part[places].astype(np.float64) for part in (w, r, b)]
    h = h.astype(np.float64)
    c = None if c is None else c.astype(np.float64)
    n_steps, n_batch, _ = x.shape
    outputs = np.zeros((n_steps, n_batch, h.shape[1]))
    parts = {name: np.zeros((n_steps, n, n_batch, h.shape[1])) for name, n in kept.items()}
    step = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[kind]
    for t in _order(node, n_steps, is_backward=False):
        if BEFORE in parts:
            parts[BEFORE][t, 0] = h
        new, cell, units = step(node, (*wide, peepholes), x[t].astype(np.float64), (h, c))
        for name, value in units.items():
            if name in parts:
                parts[name][t] = value
        is_due = np.ones((n_batch, 1), bool) if lengths is None else (lengths > t)[:, None]
        outputs[t] = np.where(is_due, new, 0)
        h = np.where(is_due, new, h)
        c = None if c is None else np.where(is_due, cell, c)
    results = [outputs, h, *([] if c is None else [c]), *parts.values()]
    return [np.asarray(result).astype(x.dtype) for result in results]


Step = tuple[Array, Array | None, dict[str, Any]]


def _kept(options: RecurrentOptions, sums: Sequence[Array], values: Sequence[Array]) -> Any:
    return np.stack(list(sums if are_sums_kept(options) else values))


def _lstm(node: Node, weights: Sequence[Any], x: Array, states: Sequence[Any]) -> Step:
    (w, r, b, peepholes), (h, c) = weights, states
    options = node.attributes["options"]
    gate, kind = options.recurrent_activation, options.activation
    sums = [x @ w[k] + h @ r[k] + b[k] for k in range(len(LSTM_INSIDE))]
    seen = np.zeros((3, h.shape[1])) if peepholes is None else peepholes.astype(np.float64)
    names = [name for name in UNITS["LSTM"] if name != "candidate"]
    by_gate = {name: seen[names.index(name)] for name in names}
    f = _limited(options, sums[0] + by_gate["forget"] * c)
    i = _limited(options, sums[1] + by_gate["input"] * c)
    g = _limited(options, sums[3])
    forget, enter, candidate = _applied(gate, f), _applied(gate, i), _applied(kind, g)
    share = 1 - enter if options.couples_gates else forget
    cell = share * c + enter * candidate
    o = _limited(options, sums[2] + by_gate["output"] * cell)
    leave = _applied(gate, o)
    new = leave * _applied(options.cell_activation or kind, cell)
    units = _kept(options, (f, i, o, g), (forget, enter, leave, candidate))
    parts = {"units": units, "gates": units[:2], "output": units[2:3], "candidate": units[3:]}
    return new, cell, {**parts, STATES: c}


def _gru(node: Node, weights: Sequence[Any], x: Array, states: Sequence[Any]) -> Step:
    (w, r, b, _), (h, _) = weights, states
    options, is_after = node.attributes["options"], node.attributes["reset_after"]
    of_inputs, of_outputs = (b[:, 0], b[:, 1]) if is_after else (b, np.zeros_like(b))
    sums = [x @ w[k] + of_inputs[k] for k in range(3)]
    gates = [_limited(options, sums[k] + h @ r[k] + of_outputs[k]) for k in range(2)]
    reset, update = (_applied(options.recurrent_activation, x) for x in gates)
    hidden = h @ r[2] + of_outputs[2] if is_after else (reset * h) @ r[2]
    n = _limited(options, sums[2] + (reset * hidden if is_after else hidden))
    candidate = _applied(options.activation, n)
    new = (1 - update) * candidate + update * h
    units = _kept(options, (*gates, n), (reset, update, candidate))
    return new, None, {"gates": units[:2], "candidate": units[2:], STATES: h, "hidden": hidden}


def _rnn(node: Node, weights: Sequence[Any], x: Array, states: Sequence[Any]) -> Step:
    (w, r, b, _), (h, _) = weights, states
    options = node.attributes["options"]
    sums = _limited(options, x @ w[0] + h @ r[0] + b[0])
    return _applied(options.activation, sums), None, {"units": sums}


def loop_arrays(node: Node, arrays: Sequence[Any], kept: Sequence[str]) -> list[Array]:
    """Return the gradients of inputs, sums, first states, and of a GRU's product."""
    _, of_x, weights, _, _, _, peepholes, lengths = arrays[:8]
    of_outputs, of_last, of_cell, outputs = arrays[8:12]
    parts = dict(zip(kept, arrays[13:], strict=True))
    kind, options = node.attributes["kind"], node.attributes["options"]
    n_steps, n_batch, n_outputs = outputs.shape
    r = weights[_places(kind)].astype(np.float64)
    zeros = np.zeros((n_batch, n_outputs))
    h, c = (zeros if g is None else g.astype(np.float64) for g in (of_last, of_cell))
    sums = np.zeros((n_steps, len(r), n_batch, n_outputs))
    products = np.zeros((n_steps, 1, n_batch, n_outputs))
    step = {"LSTM": _lstm_back, "GRU": _gru_back, "RNN": _rnn_back}[kind]
    for t in _order(node, n_steps, is_backward=True):
        here = {name: part[t].astype(np.float64) for name, part in parts.items()}
        here.setdefault("units", outputs[t][None].astype(np.float64))
        g = h if of_outputs is None else h + of_outputs[t]
        of_sums, before, cell, product = step(node, (r, peepholes), here, (g, c))
        is_due = np.ones((n_batch, 1), bool) if lengths is None else (lengths > t)[:, None]
        sums[t], products[t, 0] = np.where(is_due, of_sums, 0), np.where(is_due, product, 0)
        h, c = np.where(is_due, before, h), np.where(is_due, cell, c)
    by_unit = of_x[_places(kind)].astype(np.float64)
    of_inputs = np.einsum("tubo,uio->tbi", sums, by_unit)
    results = [of_inputs, sums, h, *([c] if kind == "LSTM" else [])]
    results += [products] if node.attributes["reset_after"] else []
    del options
    return [np.asarray(result).astype(weights.dtype) for result in results]


def _back(unit: Unit, gradient: Array, kept: Array) -> Array:
    """Return the gradient of the sum of a unit, whose operand is the second one."""
    return np.asarray(value_of(unit.sum_gradient(operand(0)), [gradient, kept]))


def _unit(kind: Any, options: RecurrentOptions) -> tuple[Unit, Callable[[Array], Array]]:
    unit = Unit.kept(kind, 1, options)
    return unit, lambda kept: value_of(unit.value, [kept, kept])


def _lstm_back(node: Node, weights: Any, here: Mapping[str, Array], gradients: Any) -> Any:
    (r, peepholes), (g, c) = weights, gradients
    options = node.attributes["options"]
    gate, gate_value = _unit(options.recurrent_activation, options)
    kind, kind_value = _unit(options.activation, options)
    of_cell = options.cell_activation or options.activation
    if "gates" in here:
        f, i = here["gates"]
        (o,), (n,) = here["output"], here["candidate"]
    else:
        f, i, o, n = here["units"]
    before = here[STATES][0]
    forget, enter, leave, candidate = (*map(gate_value, (f, i, o)), kind_value(n))
    share = 1 - enter if options.couples_gates else forget
    cell = share * before + enter * candidate
    through = Unit(of_cell, 1, is_sum=True)
    c = c + _back(through, g * leave, cell)
    of_output = _back(gate, g * _applied(of_cell, cell), o)
    names = [name for name in UNITS["LSTM"] if name != "candidate"]
    seen = {name: 0.0 if peepholes is None else peepholes[names.index(name)] for name in names}
    c = c + of_output * seen["output"]
    of_enter = _back(gate, c * (candidate - before * options.couples_gates), i)
    of_forget = np.zeros_like(c) if options.couples_gates else _back(gate, c * before, f)
    of_candidate = _back(kind, c * enter, n)
    sums = np.stack([of_forget, of_enter, of_output, of_candidate])
    earlier = c * share + of_forget * seen["forget"] + of_enter * seen["input"]
    return sums, sum(sums[k] @ r[k].T for k in range(4)), earlier, 0.0


def _gru_back(node: Node, weights: Any, here: Mapping[str, Array], gradients: Any) -> Any:
    (r, _), (g, c) = weights, gradients
    options = node.attributes["options"]
    gate, gate_value = _unit(options.recurrent_activation, options)
    kind, kind_value = _unit(options.activation, options)
    (a, b), (n,), (h,) = here["gates"], here["candidate"], here[STATES]
    reset, update, candidate = gate_value(a), gate_value(b), kind_value(n)
    of_candidate = _back(kind, g * (1 - update), n)
    of_update = _back(gate, g * (h - candidate), b)
    before = g * update
    if node.attributes["reset_after"]:
        product = of_candidate * reset
        of_reset = _back(gate, of_candidate * here["hidden"][0], a)
        before = before + product @ r[2].T
    else:
        weighed = of_candidate @ r[2].T
        of_reset, product = _back(gate, weighed * h, a), np.zeros_like(h)
        before = before + weighed * reset
    before = before + of_reset @ r[0].T + of_update @ r[1].T
    return np.stack([of_reset, of_update, of_candidate]), before, c, product


def _rnn_back(node: Node, weights: Any, here: Mapping[str, Array], gradients: Any) -> Any:
    (r, _), (g, c) = weights, gradients
    unit, _ = _unit(node.attributes["options"].activation, node.attributes["options"])
    of_sums = _back(unit, g, here["units"][0])
    return of_sums[None], of_sums @ r[0].T, c, 0.0


def weight_arrays(node: Node, arrays: Sequence[Any], kept: Sequence[str]) -> list[Array]:
    """Return the gradients of weights, biases and peepholes."""
    x, first = arrays[0], arrays[4]
    outputs, cell, sums, product = arrays[8:12]
    parts = dict(zip(kept, arrays[12:], strict=True))
    kind, options = node.attributes["kind"], node.attributes["options"]
    if kind == "GRU":
        before = parts[STATES][:, 0]
    elif BEFORE in parts:
        before = parts[BEFORE][:, 0]
    else:
        rest, start = (outputs[1:], outputs[:-1]), first[None]
        before = np.concatenate([rest[0], start] if options.reverse else [start, rest[1]])
    of_outputs, biases = np.einsum("tbi,tubo->uio", before, sums), sums.sum((0, 2))
    if kind == "GRU":
        of_own = sums if product is None else np.concatenate([sums[:, :2], product], 1)
        of_outputs = np.einsum("tbi,tubo->uio", before, of_own)
        if product is None:
            _, value = _unit(options.recurrent_activation, options)
            reset = value(parts["gates"][:, 0])
            of_outputs[2] = np.einsum("tbi,tbo->io", reset * before, sums[:, 2])
        else:
            biases = np.stack([biases, of_own.sum((0, 2))], 1)
    places = [_INSIDE[kind].index(name) for name in UNITS[kind]]
    results = [np.einsum("tbi,tubo->uio", x, sums)[places], of_outputs[places], biases[places]]
    if node.attributes["has_peepholes"]:
        states = parts[STATES][:, 0]
        ends = [cell[None], states[:-1]] if options.reverse else [states[1:], cell[None]]
        after = np.concatenate(ends)
        by_gate = {"forget": states, "input": states, "output": after}
        names = [name for name in UNITS[kind] if name != "candidate"]
        seen = [(sums[:, LSTM_INSIDE.index(n)] * by_gate[n]).sum((0, 1)) for n in names]
        results.append(np.stack(seen))
    return [np.asarray(result).astype(x.dtype) for result in results]
