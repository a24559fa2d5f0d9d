"""Gradients of LSTM, GRU and RNN, compared with cells written out in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.compared import Case, agree, agree_in_numpy, drawn, single
from torch.nn import functional

_STEPS, _BATCH, _INPUTS, _HIDDEN = 4, 3, 5, 6
_UNITS = {"LSTM": 4, "GRU": 3, "RNN": 1}

Tensor = Any
_FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Relu": torch.relu,
    "HardSigmoid": lambda x: torch.clamp(0.2 * x + 0.5, 0, 1),
    "Softsign": functional.softsign,
    "Softplus": functional.softplus,
    "Elu": functional.elu,
}
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


class _Cell:
    """A direction of a layer, step by step."""

    def __init__(self, kind: str, given: Mapping[str, Tensor], d: int, **options: Any) -> None:
        self.kind, self.options = kind, options
        n, hidden = _UNITS[kind], given["r"].shape[-1]
        self.w, self.r = given["w"][d], given["r"][d]
        zeros = torch.zeros(2 * n * hidden, dtype=torch.float64)
        biases = given["b"][d] if "b" in given else zeros
        self.of_inputs, self.of_outputs = biases[: n * hidden], biases[n * hidden :]
        names = options.get("activations", _DEFAULTS[kind] * 2)
        per = len(_DEFAULTS[kind])
        self.functions = [_FUNCTIONS[name] for name in names[d * per : (d + 1) * per]]
        self.peepholes = given["p"][d].chunk(3) if "p" in given else [0, 0, 0]

    def _limited(self, x: Tensor) -> Tensor:
        clip = self.options.get("clip")
        return x if clip is None else torch.clamp(x, -clip, clip)

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        sums = x @ self.w.T + h @ self.r.T + self.of_inputs + self.of_outputs
        i, o, f, g = sums.chunk(4, -1)
        gate, candidate, of_cell = self.functions
        i = gate(self._limited(i + self.peepholes[0] * c))
        f = gate(self._limited(f + self.peepholes[2] * c))
        f = 1 - i if self.options.get("input_forget") else f
        c = f * c + i * candidate(self._limited(g))
        return gate(self._limited(o + self.peepholes[1] * c)) * of_cell(c), c

    def _gru(self, x: Tensor, h: Tensor) -> Tensor:
        a, b = (x @ self.w.T + self.of_inputs).chunk(3, -1), self.of_outputs.chunk(3)
        rows = self.r.chunk(3)
        gate, candidate = self.functions
        z, r = (gate(self._limited(a[k] + h @ rows[k].T + b[k])) for k in range(2))
        if self.options.get("linear_before_reset"):
            n = a[2] + r * (h @ rows[2].T + b[2])
        else:
            n = a[2] + (r * h) @ rows[2].T + b[2]
        return (1 - z) * candidate(self._limited(n)) + z * h

    def run(self, x: Tensor, h: Tensor, c: Tensor, lengths: Any, *, is_reverse: bool) -> Any:
        """Return the outputs of all steps, and the last states."""
        outputs: list[Any] = [None] * x.shape[0]
        order = range(x.shape[0])
        for t in reversed(order) if is_reverse else order:
            if self.kind == "LSTM":
                new, new_c = self._lstm(x[t], h, c)
            elif self.kind == "GRU":
                new, new_c = self._gru(x[t], h), c
            else:
                sums = x[t] @ self.w.T + h @ self.r.T + self.of_inputs + self.of_outputs
                new, new_c = self.functions[0](self._limited(sums)), c
            is_due = torch.tensor(np.asarray(lengths) > t)[:, None]
            outputs[t] = torch.where(is_due, new, torch.zeros_like(new))
            h, c = torch.where(is_due, new, h), torch.where(is_due, new_c, c)
        return torch.stack(outputs), h, c


def _reference(kind: str, names: list[str], lengths: Any, options: Mapping[str, Any]) -> Any:
    def compute(*tensors: Tensor) -> list[Tensor]:
        given = dict(zip(names, tensors, strict=True))
        x = given["x"]
        is_batch_first = options.get("layout", 0)
        x = x.transpose(0, 1) if is_batch_first else x
        direction = options.get("direction", "forward")
        results = []
        n_directions = 2 if direction == "bidirectional" else 1
        batch, hidden = x.shape[1], given["r"].shape[-1]
        zeros = torch.zeros(n_directions, batch, hidden, dtype=torch.float64)
        first, cell = given.get("h", zeros), given.get("c", zeros)
        if is_batch_first:
            first = first.transpose(0, 1) if "h" in given else first
            cell = cell.transpose(0, 1) if "c" in given else cell
        for d in range(n_directions):
            layer = _Cell(kind, given, d, **options)
            stated = lengths if lengths is not None else [x.shape[0]] * batch
            is_reverse = d == 1 or direction == "reverse"
            results.append(layer.run(x, first[d], cell[d], stated, is_reverse=is_reverse))
        every = torch.stack([outputs for outputs, _, _ in results], 1)
        states = [torch.stack([result[i] for result in results]) for i in (1, 2)]
        if is_batch_first:
            every = every.permute(2, 0, 1, 3)
            states = [state.transpose(0, 1) for state in states]
        return [every, *states] if kind == "LSTM" else [every, states[0]]

    return compute


def _case(
    kind: str,
    name: str = "",
    *,
    without: str = "",
    lengths: Any = None,
    extra: Mapping[str, tuple[int, ...]] | None = None,
    outputs: tuple[str, ...] | None = None,
    **options: Any,
) -> Case:
    n = 2 if options.get("direction") == "bidirectional" else 1
    rows, is_batch_first = _UNITS[kind] * _HIDDEN, options.get("layout", 0)
    state = (_BATCH, n, _HIDDEN) if is_batch_first else (n, _BATCH, _HIDDEN)
    shapes = {
        "x": (_BATCH, _STEPS, _INPUTS) if is_batch_first else (_STEPS, _BATCH, _INPUTS),
        "w": (n, rows, _INPUTS),
        "r": (n, rows, _HIDDEN),
        "b": (n, 2 * rows),
        "h": state,
        **({"c": state} if kind == "LSTM" else {}),
        **({"p": (n, 3 * _HIDDEN)} if kind == "LSTM" and "p" in (extra or {}) else {}),
    }
    shapes = {key: shape for key, shape in shapes.items() if key not in without}
    parameters = {key: drawn(shape, i) / 2 for i, (key, shape) in enumerate(shapes.items())}
    places = ["x", "w", "r", "b", "lengths", "h", *(["c", "p"] if kind == "LSTM" else [])]
    known = {} if lengths is None else {"lengths": np.array(lengths, np.int32)}
    inputs = [place if place in {**parameters, **known} else "" for place in places]
    results = outputs or (("y", "last", "cell") if kind == "LSTM" else ("y", "last"))
    reference = _reference(kind, list(parameters), lengths, options)
    full = ("y", "last", "cell") if kind == "LSTM" else ("y", "last")

    def chosen(*tensors: Tensor) -> list[Tensor]:
        every = dict(zip(full, reference(*tensors), strict=True))
        return [every[result] for result in results if result]

    return single(
        f"{kind} {name or sorted(options.items())}",
        kind,
        parameters,
        chosen,
        inputs=",".join(inputs).rstrip(","),
        known=known,
        outputs=results,
        hidden_size=_HIDDEN,
        **options,
    )


_CASES = [
    *(_case(kind, "plain") for kind in _UNITS),
    *(_case(kind, "no states", without="bhc") for kind in _UNITS),
    *(_case(kind, direction="reverse") for kind in _UNITS),
    *(_case(kind, direction="bidirectional") for kind in _UNITS),
    *(_case(kind, "lengths", lengths=[4, 1, 3]) for kind in _UNITS),
    *(_case(kind, "back", lengths=[2, 4, 3], direction="reverse") for kind in _UNITS),
    *(_case(kind, layout=1) for kind in _UNITS),
    *(_case(kind, clip=0.6) for kind in _UNITS),
    *(_case(kind, "all", outputs=("y",)) for kind in _UNITS),
    *(_case(kind, "last", outputs=("", "last")) for kind in _UNITS),
    _case("LSTM", "cell", outputs=("", "", "cell")),
    _case("LSTM", "peepholes", extra={"p": ()}),
    _case("LSTM", "peepholes back", extra={"p": ()}, direction="reverse"),
    _case("LSTM", "peepholes lengths", extra={"p": ()}, lengths=[4, 1, 3]),
    _case("LSTM", input_forget=1),
    _case("LSTM", "peepholes clip", extra={"p": ()}, clip=0.7, input_forget=1),
    _case("LSTM", activations=["HardSigmoid", "Softsign", "Relu"]),
    _case("LSTM", activations=["Sigmoid", "Tanh", "Softplus"]),
    _case("GRU", linear_before_reset=1),
    _case("GRU", "after lengths", linear_before_reset=1, lengths=[1, 4, 2]),
    _case("GRU", activations=["HardSigmoid", "Elu"]),
    _case("GRU", "after clip", linear_before_reset=1, clip=0.5, direction="bidirectional"),
    _case("RNN", activations=["Relu"]),
    _case("RNN", activations=["Softplus"]),
]


@pytest.mark.parametrize("given", _CASES, ids=[case.name for case in _CASES])
def test_gradients(given, tmp_path):
    agree(given, tmp_path)


@pytest.mark.parametrize("given", _CASES, ids=[case.name for case in _CASES])
def test_gradients_in_numpy(given, tmp_path):
    """By which the operation is found that a loss became no number in."""
    agree_in_numpy(given, tmp_path)
