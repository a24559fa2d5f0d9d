"""Gradients through decisions, loops and scans, compared with PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from tests.torch.compared import agree, case, loaded, to_train

from tilescope.engine.errors import BadModel
from tilescope.engine.transform import transform

_FLOAT, _INT, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
_ROUNDS, _BATCH, _SIZE = 5, 3, 4


def _info(name: str, shape: Any = None, kind: int = _FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _graph(name: str, nodes: Any, inputs: Any, outputs: Any) -> onnx.GraphProto:
    built = [
        helper.make_node(kind, taken.split(","), given.split(","), name=f"{name}{i}", **dict(*rest))
        for i, (kind, taken, given, *rest) in enumerate(nodes)
    ]
    return helper.make_graph(built, name, inputs, outputs)


def _loop_body(
    nodes: Any, states: dict[str, str], results: Any = (), name: str = "body"
) -> onnx.GraphProto:
    """Return the body of a loop with an endless condition; states are names before and after."""
    shape = [_BATCH, _SIZE]
    inputs = [_info(f"{name}_i", [], _INT), _info(f"{name}_go", [], _BOOL)]
    inputs += [_info(name, shape) for name in states]
    outputs = [_info(f"{name}_on", [], _BOOL), *(_info(name, shape) for name in states.values())]
    outputs += [_info(name) for name in results]
    go_on = ("Identity", f"{name}_go", f"{name}_on")
    return _graph(name, [go_on, *nodes], inputs, outputs)


def _known(**arrays: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in arrays.items()}


_N = _known(n=np.array(_ROUNDS), yes=np.array(True))


def _plain_loop(w: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    for _ in range(_ROUNDS):
        h = torch.tanh(h @ w)
    return h


def _loop_of_two(w: Any, a: Any, b: Any) -> list[torch.Tensor]:
    collected = []
    for i in range(_ROUNDS):
        collected.append(a * b + i)
        a, b = torch.tanh(a @ w + b), torch.sigmoid(a)
    return [a, b, torch.stack(collected)]


def _swapping(a: Any, b: Any) -> list[torch.Tensor]:
    for _ in range(3):
        a, b = b * 2, a
    return [a, b]


def _scan(w: Any, h: Any, x: Any) -> list[torch.Tensor]:
    outputs = []
    for t in range(_ROUNDS):
        h = torch.tanh(x[t] + h @ w)
        outputs.append(h * h)
    return [h, torch.stack(outputs)]


def _scan_back(w: Any, h: Any, x: Any) -> list[torch.Tensor]:
    outputs = []
    for t in reversed(range(_ROUNDS)):
        h = torch.tanh(x[:, t] + h @ w)
        outputs.append(h)
    return [h, torch.stack(list(reversed(outputs)), 2)]


def _nested(w: Any, h: Any) -> torch.Tensor:
    for _ in range(2):
        for _ in range(3):
            h = torch.tanh(h @ w)
        h = h * 1.5
    return h


_STATE = (_BATCH, _SIZE)
_INNER = _loop_body([("MatMul", "h2,w", "m2"), ("Tanh", "m2", "h3")], {"h2": "h3"}, name="inner")
_SCAN = _graph(
    "body",
    [("MatMul", "s,w", "m"), ("Add", "xt,m", "a"), ("Tanh", "a", "s2"), ("Mul", "s2,s2", "q")],
    [_info("s", _STATE), _info("xt", _STATE)],
    [_info("s2", _STATE), _info("q", _STATE)],
)
_SCAN_BACK = _graph(
    "body",
    [("MatMul", "s,w", "m"), ("Add", "xt,m", "a"), ("Tanh", "a", "s2"), ("Identity", "s2", "q")],
    [_info("s", _STATE), _info("xt", _STATE)],
    [_info("s2", _STATE), _info("q", _STATE)],
)
_TWO = _loop_body(
    [
        ("MatMul", "a,w", "m"),
        ("Add", "m,b", "sum"),
        ("Tanh", "sum", "a2"),
        ("Sigmoid", "a", "b2"),
        ("Mul", "a,b", "product"),
        ("Cast", "body_i", "number", {"to": _FLOAT}),
        ("Add", "product,number", "kept"),
    ],
    {"a": "a2", "b": "b2"},
    ["kept"],
)
_CASES = [
    case(
        "loop",
        [("Loop", "n,yes,h", "y", {"body": _loop_body(
            [("MatMul", "s,w", "m"), ("Tanh", "m", "s2")], {"s": "s2"}
        )})],
        {"w": (_SIZE, _SIZE), "h": _STATE},
        _plain_loop,
        known=_N,
    ),
    case(
        "two states and results",
        [("Loop", "n,yes,a0,b0", "y,z,r", {"body": _TWO})],
        {"w": (_SIZE, _SIZE), "a0": _STATE, "b0": _STATE},
        _loop_of_two,
        known=_N,
        outputs=("y", "z", "r"),
    ),
    case(
        "results only",
        [("Loop", "n,yes,a0,b0", "y,z,r", {"body": _TWO})],
        {"w": (_SIZE, _SIZE), "a0": _STATE, "b0": _STATE},
        lambda *given: _loop_of_two(*given)[2],
        known=_N,
        outputs=("r",),
    ),
    case(
        "states that change places",
        [("Loop", "n,yes,a0,b0", "y,z", {"body": _loop_body(
            [("Add", "b,b", "twice"), ("Identity", "a", "same")], {"a": "twice", "b": "same"}
        )})],
        {"a0": _STATE, "b0": _STATE},
        _swapping,
        known=_known(n=np.array(3), yes=np.array(True)),
        outputs=("y", "z"),
    ),
    case(
        "nested loops",
        [("Loop", "n,yes,h", "y", {"body": _loop_body(
            [
                ("Loop", "n2,yes,s", "inner_result", {"body": _INNER}),
                ("Mul", "inner_result,factor", "s2"),
            ],
            {"s": "s2"},
        )})],
        {"w": (_SIZE, _SIZE), "h": _STATE},
        _nested,
        known=_known(
            n=np.array(2), n2=np.array(3), yes=np.array(True), factor=np.array(1.5, np.float32)
        ),
    ),
    case(
        "scan",
        [("Scan", "h,x", "y,z", {"body": _SCAN, "num_scan_inputs": 1})],
        {"w": (_SIZE, _SIZE), "h": _STATE, "x": (_ROUNDS, *_STATE)},
        _scan,
        outputs=("y", "z"),
    ),
    case(
        "scan backwards along other axes",
        [("Scan", "h,x", "y,z", {
            "body": _SCAN_BACK, "num_scan_inputs": 1, "scan_input_axes": [1],
            "scan_input_directions": [1], "scan_output_axes": [2], "scan_output_directions": [1],
        })],
        {"w": (_SIZE, _SIZE), "h": _STATE, "x": (_BATCH, _ROUNDS, _SIZE)},
        _scan_back,
        outputs=("y", "z"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("given", _CASES, ids=[given.name for given in _CASES])
def test_gradients_of_loops(given, tmp_path):
    agree(given, tmp_path)


def _branches() -> dict[str, onnx.GraphProto]:
    shape = [_BATCH, _SIZE]
    then = _graph("then", [("MatMul", "x,w", "m"), ("Tanh", "m", "t")], [], [_info("t", shape)])
    otherwise = _graph("else", [("Mul", "x,v", "e")], [], [_info("e", shape)])
    return {"then_branch": then, "else_branch": otherwise}


@pytest.mark.parametrize("takes_first", [True, False])
def test_gradients_of_a_decision(takes_first, tmp_path):
    """What only the other branch reads has a gradient of 0."""

    def compute(x, w, v, _):
        other = (v if takes_first else w).sum() * 0
        return (torch.tanh(x @ w) if takes_first else x * v) + other

    given = case(
        "if",
        [("If", "flag", "y", _branches())],
        {"x": _STATE, "w": (_SIZE, _SIZE), "v": _STATE},
        compute,
        data={"flag": np.array(takes_first)},
    )
    agree(given, tmp_path)


def test_a_loop_whose_rounds_data_decide_is_refused(tmp_path):
    body = _loop_body([("MatMul", "s,w", "m"), ("Tanh", "m", "s2")], {"s": "s2"})
    given = case(
        "open",
        [("Loop", "n,yes,h", "y", {"body": body})],
        {"w": (_SIZE, _SIZE), "h": _STATE},
        _plain_loop,
        known=_known(yes=np.array(True)),
        data={"n": np.array(_ROUNDS)},
    )
    factors = {"factors_y": np.ones(_STATE, np.float32)}
    with pytest.raises(BadModel, match=r"'n0' \(Loop\) lies between .* data decide how many round"):
        transform(to_train(given, tmp_path, factors))
    assert loaded(given, tmp_path, factors).operations
