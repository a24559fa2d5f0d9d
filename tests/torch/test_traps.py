"""What automatic differentiation gets wrong easily; some of it has no counterpart in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from tests.torch.compared import agree, case, drawn, near, single
from tests.torch.steps import graph_file, trained
from torch.nn import functional

from tilescope.engine.errors import BadModel, BadOption, UnsupportedOperators
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.ir import Model
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform

_SUM = Loss(kind="identity", reduction="sum")


def _model(
    folder: Any,
    nodes: list[tuple[Any, ...]],
    initializers: dict[str, np.ndarray],
    *,
    trainable: tuple[str, ...] = ("w",),
    opset: int = 17,
    shape: tuple[int, ...] = (),
    anchors: tuple[str, ...] = (),
) -> Model:
    """Return a graph of a scalar ``y`` whose loss it is."""
    path = graph_file(folder / "graph.onnx", nodes, {}, {"y": shape}, initializers, opset)
    return for_training(
        load_onnx(path, trainable=trainable), _SUM, Sgd(lr=0.1), anchors=list(anchors)
    )


def _largest_of_pool(x: np.ndarray, folder: Any) -> np.ndarray:
    nodes = [("MaxPool", "w", "p", {"kernel_shape": [2], "strides": [2]}), ("ReduceSum", "p", "y")]
    model = _model(folder, nodes, {"w": x}, shape=(1, 1, 1), anchors=("w",))
    with trained(model) as trainer:
        return trainer.step([{}])["Gradient___w"][0]


def test_equal_elements_of_a_max_pool_get_the_whole_gradient(tmp_path):
    """PyTorch gives it to the first one of them, PopLibs to all."""
    gradient = _largest_of_pool(np.array([[[2, 2, 1, 3]]], np.float32), tmp_path)
    near(gradient, np.array([[[1, 1, 0, 1]]], np.float32))


@pytest.mark.parametrize("kind", ["Sqrt", "Log"])
def test_slopes_at_0_are_infinite(kind, tmp_path):
    nodes = [(kind, "w", "l"), ("ReduceSum", "l", "y", {"keepdims": 0})]
    x = np.array([0, 1], np.float32)
    with trained(_model(tmp_path, nodes, {"w": x}, anchors=("w",))) as trainer:
        gradient = trainer.step([{}])["Gradient___w"][0]
    tensor = torch.tensor(x, requires_grad=True)
    getattr(torch, kind.lower())(tensor).sum().backward()
    assert tensor.grad is not None
    np.testing.assert_array_equal(gradient, tensor.grad.numpy())


def test_a_value_of_many_readers(tmp_path):
    nodes = [("Mul", "x,x", f"m{i}") for i in range(5)]
    nodes += [("Tanh", "x", "t"), ("Sum", "m0,m1,m2,m3,m4,t,x", "y")]
    given = case("readers", nodes, {"x": (4, 6)}, lambda x: 5 * x * x + torch.tanh(x) + x)
    agree(given, tmp_path)


def test_a_shared_weight_is_updated_once(tmp_path):
    w = drawn((4, 4), 3) / 2
    x = drawn((5, 4), 4)
    nodes = [
        ("MatMul", "x,w", "a"),
        ("Tanh", "a", "b"),
        ("MatMul", "b,w", "c"),
        ("ReduceSum", "c", "y", {"keepdims": 0}),
    ]
    tensor = torch.tensor(w).double().requires_grad_()
    (torch.tanh(torch.tensor(x).double() @ tensor) @ tensor).sum().backward()
    assert tensor.grad is not None
    with trained(_model(tmp_path, nodes, {"w": w, "x": x})) as trainer:
        trainer.step([{}])
        held = trainer.held()
    near(held["w"], w - 0.1 * tensor.grad.numpy(), "w")


def test_gradients_of_lookups_do_not_depend_on_the_run(tmp_path):
    indices = np.random.default_rng(3).integers(0, 5, 60)
    nodes = [
        ("Gather", "w,i", "e"),
        ("Exp", "e", "f"),
        ("ReduceSum", "f", "y", {"keepdims": 0}),
    ]
    bits = set()
    for _ in range(3):
        model = _model(tmp_path, nodes, {"w": drawn((5, 8)), "i": indices}, anchors=("w",))
        with trained(model) as trainer:
            bits.add(trainer.step([{}])["Gradient___w"][0].tobytes())
    assert len(bits) == 1


def test_what_lies_beside_the_way_needs_no_gradient(tmp_path):
    nodes = [
        ("MatMul", "x,w", "s"),
        ("ArgMax", "s", "best", {"axis": 1}),
        ("Cast", "best", "number", {"to": TensorProto.FLOAT}),
        ("Softmax", "s", "p"),
        ("ReduceMean", "p", "mean", {"axes": [1]}),
        ("Mul", "mean,number", "m"),
        ("ReduceSum", "m", "y", {"keepdims": 0}),
    ]
    model = _model(tmp_path, nodes, {"w": drawn((3, 4)), "x": drawn((5, 3))}, anchors=("w",))
    with trained(model) as trainer:
        assert trainer.step([{}])["Gradient___w"][0].shape == (3, 4)


def test_a_reader_of_data_may_have_no_gradient(tmp_path):
    """An operator without a rule does no harm before the first parameter."""
    nodes = [
        ("Hardmax", "x", "h"),
        ("MatMul", "h,w", "s"),
        ("ReduceSum", "s", "y", {"keepdims": 0}),
    ]
    with trained(_model(tmp_path, nodes, {"w": drawn((3, 4)), "x": drawn((5, 3))})) as trainer:
        trainer.step([{}])


#: Operators without a gradient, on the way from a parameter to the loss.
_REFUSED: dict[str, tuple[list[tuple[Any, ...]], dict[str, np.ndarray]]] = {
    "BitCast": (
        [
            ("Exp", "w", "h"),
            ("BitCast", "h", "e", {"to": TensorProto.FLOAT}),
            ("ReduceSum", "e", "y", {"keepdims": 0}),
        ],
        {"w": drawn((2,))},
    ),
}


@pytest.mark.parametrize("kind", _REFUSED)
def test_operators_without_a_gradient_are_named_with_their_way(kind, tmp_path):
    nodes, initializers = _REFUSED[kind]
    model = _model(tmp_path, nodes, initializers, opset=26)
    with pytest.raises(UnsupportedOperators) as raised:
        transform(model)
    (message,) = str(raised.value).splitlines()
    index = next(i for i, node in enumerate(nodes) if node[0] == kind)
    way = " → ".join(f"n{i}" for i in range(index, len(nodes)))
    assert f"Node 'n{index}' ({kind}) lies between a parameter and the loss" in message
    assert way in message
    assert "has no gradient: it takes bits as they are" in message


@pytest.mark.parametrize("index", [1, 2])
def test_a_loss_of_statistics_is_refused(index, tmp_path):
    outputs = ["n", "m", "d"]
    nodes = [
        ("LayerNormalization", "x,w", ",".join(outputs)),
        ("ReduceSum", "n", "a", {"keepdims": 0}),
        ("ReduceSum", outputs[index], "b", {"keepdims": 0}),
        ("Add", "a,b", "y"),
    ]
    initializers = {"x": drawn((3, 4)), "w": drawn((4,))}
    model = _model(tmp_path, nodes, initializers, trainable=("x",))
    with pytest.raises(BadModel, match=r"'n0' \(LayerNormalization\).*statistics"):
        transform(model)


def test_random_numbers_have_no_gradient(tmp_path):
    nodes = [
        ("RandomNormalLike", "w", "r"),
        ("Bernoulli", "p", "b"),
        ("Mul", "r,w", "m"),
        ("Add", "m,b", "a"),
        ("ReduceSum", "a", "y", {"keepdims": 0}),
    ]
    initializers = {"w": drawn((3, 4)), "p": np.full((3, 4), 0.5, np.float32)}
    trainable = ("w", "p")
    with trained(_model(tmp_path, nodes, initializers, trainable=trainable, anchors=("w",))) as t:
        gradient = t.step([{}])["Gradient___w"][0]
        held = t.held()
    near(held["w"], initializers["w"] - 0.1 * gradient, "w")
    near(held["p"], initializers["p"], "p")


def test_a_parameter_without_a_way_to_the_loss(tmp_path):
    nodes = [("Floor", "w", "f"), ("Cast", "f", "i", {"to": 6}), ("Cast", "i", "y", {"to": 1})]
    model = _model(tmp_path, nodes, {"w": drawn((1, 1))}, shape=(1, 1))
    with pytest.raises(BadModel, match="depends on no parameter that can be trained"):
        transform(model)


def test_unknown_anchors_are_named(tmp_path):
    nodes = [("Exp", "w", "e"), ("ReduceSum", "e", "y", {"keepdims": 0})]
    model = _model(tmp_path, nodes, {"w": drawn((3,))}, anchors=("nothing",))
    with pytest.raises(BadModel, match="no gradient of 'nothing'"):
        transform(model)


def test_anchors_of_values_between(tmp_path):
    nodes = [
        ("Mul", "w,x", "h"),
        ("Unsqueeze", "h,axis", "u"),
        ("ReduceSum", "u", "y", {"keepdims": 0}),
    ]
    initializers = {"w": drawn((3,)), "x": drawn((4, 3), 2), "axis": np.array([0])}
    model = _model(tmp_path, nodes, initializers, anchors=("h", "u", "w"))
    with trained(model) as trainer:
        outputs = trainer.step([{}])
    near(outputs["Gradient___h"][0], np.ones((4, 3), np.float32))
    near(outputs["Gradient___u"][0], np.ones((1, 4, 3), np.float32))
    near(outputs["Gradient___w"][0], drawn((4, 3), 2).sum(0))


def _half_model(folder: Any, sgd: Sgd, factor: float = 1.0) -> Model:
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], name="n0", transB=1)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, (8, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, (8, 4))],
        [numpy_helper.from_array((drawn((4, 6), 1) / 2).astype(np.float16), "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "half.onnx"
    onnx.save(proto, path)
    loss = Loss(kind="cross-entropy", factor=factor)
    return for_training(load_onnx(path, trainable=["w"]), loss, sgd)


@pytest.mark.parametrize(("factor", "loss_scaling"), [(1.0, 1.0), (1.0, 512.0), (2e-6, 2.0**15)])
def test_loss_scaling_keeps_small_gradients_of_halves(factor, loss_scaling, tmp_path):
    rate = 0.1 / factor
    batch: dict[str, np.ndarray] = {
        "x": drawn((8, 6), 2).astype(np.float16),
        "labels": np.arange(8) % 4,
    }
    model = _half_model(tmp_path, Sgd(lr=rate, loss_scaling=loss_scaling), factor)
    w = torch.tensor((drawn((4, 6), 1) / 2).astype(np.float16)).double().requires_grad_()
    scores = torch.tensor(batch["x"]).double() @ w.T
    functional.cross_entropy(scores, torch.tensor(batch["labels"])).backward()
    assert w.grad is not None
    with trained(model) as trainer:
        trainer.step([batch])
        held = trainer.held()
    near(held["w"], (w - 0.1 * w.grad).detach().numpy(), "w", tolerance=2e-3)


def test_a_loss_scaling_beyond_the_type_of_the_loss_is_refused(tmp_path):
    model = _half_model(tmp_path, Sgd(lr=0.1, loss_scaling=2.0**17))
    with pytest.raises(BadModel, match=r"float16, which holds at most 65504.*131072"):
        transform(model)


def test_a_rate_that_vanishes_in_halves_is_refused(tmp_path):
    model = _half_model(tmp_path, Sgd(lr=1e-6, loss_scaling=2.0**10))
    with pytest.raises(BadOption, match=r"negativeScaledRate = -9\.76562e-10"):
        transform(model)


def test_a_rate_that_vanishes_in_halves_is_refused_between_steps(tmp_path):
    with trained(_half_model(tmp_path, Sgd(lr=0.1))) as trainer:
        program = trainer.program
        with pytest.raises(BadOption, match="Weights of float16 cannot be updated"):
            program.write_optimiser(trainer.engine, Sgd(lr=1e-9))


def test_a_gradient_of_ignored_rows_only(tmp_path):
    given = single(
        "ignored",
        "NegativeLogLikelihoodLoss",
        {"x": (4, 3)},
        lambda x, labels: (
            functional.nll_loss(x, labels, reduction="sum", ignore_index=-1) + 0 * x.sum()
        ),
        data={"labels": np.full(4, -1)},
        reduction="sum",
        ignore_index=-1,
    )
    agree(given, tmp_path)
