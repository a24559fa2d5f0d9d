"""Losses and their gradients, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tests.torch.compared import Case, agree, case, drawn, ids, near, single
from tests.torch.steps import graph_file, trained
from torch.nn import functional

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.training import Loss, Sgd, for_training

_Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class _Appended:
    """A loss that is appended to a graph of one node, and the whole in PyTorch."""

    loss: Loss
    shape: tuple[int, ...]
    reference: _Function
    node: tuple[Any, ...] = ("Identity", "x", "y")


def _labels(shape: tuple[int, ...]) -> np.ndarray:
    """Return a class for every row, all classes among them."""
    n = int(np.prod((shape[0], *shape[2:])))
    return (np.arange(n) * 3 % shape[1]).reshape(shape[0], *shape[2:])


def _log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x).log()


def _reduced(
    function: Callable[..., torch.Tensor],
    reduction: str,
    ignored: int | None,
    before: Callable[[torch.Tensor], torch.Tensor] = torch.clone,
) -> _Function:
    """Return a loss over what is made of the scores first."""
    options = {} if ignored is None else {"ignore_index": ignored}
    return lambda x, labels: function(before(x), labels, reduction=reduction, **options)


_ROWS = {
    f"{len(shape)}d-{reduction}{'' if ignored is None else f'-ignored{ignored}'}": (
        shape,
        reduction,
        ignored,
    )
    for shape, reduction, ignored in (
        ((6, 5), "mean", None),
        ((6, 5), "sum", None),
        ((6, 5), "mean", 3),
        ((6, 5), "sum", 0),
        ((3, 5, 4), "mean", None),
        ((3, 5, 4), "mean", 2),
        ((2, 5, 3, 2), "sum", None),
        ((2, 5, 3, 2), "mean", 4),
    )
}

_APPENDED: dict[str, _Appended] = {
    **{
        f"cross-entropy-{how}": _Appended(
            Loss(kind="cross-entropy", reduction=reduction, ignored=ignored),
            shape,
            _reduced(functional.cross_entropy, reduction, ignored),
        )
        for how, (shape, reduction, ignored) in _ROWS.items()
    },
    **{
        f"nll-{of}-{how}": _Appended(
            Loss(kind="nll", reduction=reduction, ignored=ignored),
            shape,
            _reduced(functional.cross_entropy, reduction, ignored),
            (of, "x", "y", {"axis": 1}),
        )
        for of in ("Softmax", "LogSoftmax")
        for how, (shape, reduction, ignored) in list(_ROWS.items())[::3]
    },
    **{
        f"nll-of-logarithms-{how}": _Appended(
            Loss(kind="nll", reduction=reduction, ignored=ignored, of="logarithms"),
            shape,
            _reduced(functional.nll_loss, reduction, ignored),
        )
        for how, (shape, reduction, ignored) in list(_ROWS.items())[1::2]
    },
    **{
        f"nll-of-probabilities-{how}": _Appended(
            Loss(kind="nll", reduction=reduction, ignored=ignored, of="probabilities"),
            shape,
            _reduced(functional.nll_loss, reduction, ignored, _log_sigmoid),
            ("Sigmoid", "x", "y"),
        )
        for how, (shape, reduction, ignored) in list(_ROWS.items())[::2]
    },
    **{
        f"{kind}-{reduction}": _Appended(
            Loss(kind=kind, reduction=reduction),
            (4, 3),
            _reduced(function, reduction, None),
        )
        for kind, function in (("l1", functional.l1_loss), ("mse", functional.mse_loss))
        for reduction in ("mean", "sum")
    },
    "identity-mean": _Appended(Loss(kind="identity"), (4, 3), lambda x, _: x.mean()),
    "identity-sum": _Appended(Loss(kind="identity", reduction="sum"), (4, 3), lambda x, _: x.sum()),
    "identity-none": _Appended(
        Loss(kind="identity", reduction="none"), (1, 1), lambda x, _: x.sum()
    ),
    "factor": _Appended(
        Loss(kind="mse", factor=0.25), (4, 3), lambda x, labels: 0.25 * (x - labels).square().mean()
    ),
    "mean-of-mean": _Appended(
        Loss(kind="identity"),
        (4, 3),
        lambda x, _: x.mean(1).mean(),
        ("ReduceMean", "x", "y", {"axes": [1]}),
    ),
}


@pytest.mark.parametrize("appended", _APPENDED.values(), ids=_APPENDED)
def test_appended_losses(appended, tmp_path):
    shape, kind = appended.shape, appended.loss.kind
    x = drawn(shape)
    result = (shape[0], 1) if appended.node[0] == "ReduceMean" else shape
    path = graph_file(tmp_path / "graph.onnx", [appended.node], {}, {"y": result}, {"x": x})
    labels = _labels(shape) if kind in ("nll", "cross-entropy") else drawn(shape, 5)
    tensor = torch.tensor(x).double().requires_grad_()
    wide = torch.tensor(labels)
    loss = appended.reference(tensor, wide.double() if wide.is_floating_point() else wide)
    loss.backward()
    assert tensor.grad is not None
    model = for_training(
        load_onnx(path, trainable=["x"]), appended.loss, Sgd(lr=0.0), anchors=["x"]
    )
    with trained(model) as trainer:
        outputs = trainer.step([{"labels": labels}])
    near(outputs["loss"][0].reshape(()), loss.detach().numpy(), "loss")
    near(outputs["Gradient___x"][0], tensor.grad.numpy(), "x")


_CLASS_WEIGHTS = np.array([0.5, 2, 1, 0.25, 1.5], np.float32)


def _node(name: str, kind: str, how: str, *, is_weighted: bool, **more: Any) -> Case:
    """Return a case of one of ONNX's loss operators."""
    shape, reduction, ignored = _ROWS[how]
    options = {"reduction": more.pop("reduction", reduction)}
    if ignored is not None:
        options["ignore_index"] = ignored
    weight = torch.tensor(_CLASS_WEIGHTS).double() if is_weighted else None
    function = (
        functional.nll_loss if kind == "NegativeLogLikelihoodLoss" else functional.cross_entropy
    )
    return single(
        name,
        kind,
        {"x": shape},
        lambda x, labels: function(x, labels, weight=weight, **options),
        data={"labels": _labels(shape)},
        known={"weight": _CLASS_WEIGHTS} if is_weighted else {},
        **options,
    )


_NODES = [
    *(
        _node(
            f"{short}-{how}{'-weighted' if is_weighted else ''}", kind, how, is_weighted=is_weighted
        )
        for short, kind in (
            ("nll", "NegativeLogLikelihoodLoss"),
            ("entropy", "SoftmaxCrossEntropyLoss"),
        )
        for how, is_weighted in (
            ("2d-mean", False),
            ("2d-mean", True),
            ("2d-sum", True),
            ("2d-mean-ignored3", True),
            ("3d-mean-ignored2", True),
            ("4d-sum", False),
            ("4d-mean-ignored4", False),
        )
    ),
    *(
        _node(f"{short}-none", kind, "3d-mean-ignored2", is_weighted=True, reduction="none")
        for short, kind in (
            ("nll", "NegativeLogLikelihoodLoss"),
            ("entropy", "SoftmaxCrossEntropyLoss"),
        )
    ),
    case(
        "entropy-and-logarithms",
        [("SoftmaxCrossEntropyLoss", "x,labels", "y,logs", {"reduction": "mean"})],
        {"x": (6, 5)},
        lambda x, labels: (functional.cross_entropy(x, labels), torch.log_softmax(x, 1)),
        data={"labels": _labels((6, 5))},
        outputs=("y", "logs"),
    ),
]


@pytest.mark.parametrize("given_case", _NODES, ids=ids(_NODES))
def test_loss_operators(given_case: Case, tmp_path):
    agree(given_case, tmp_path)


def test_a_loss_of_many_elements_has_to_be_reduced(tmp_path):
    path = graph_file(
        tmp_path / "graph.onnx", [("Identity", "x", "y")], {}, {"y": (2, 3)}, {"x": drawn((2, 3))}
    )
    loss = Loss(kind="identity", reduction="none")
    model = for_training(load_onnx(path, trainable=["x"]), loss, Sgd(lr=0.1))
    with pytest.raises(BadModel, match=r"shape \(2, 3\).*reduce it by sum or mean"), trained(model):
        pass


def test_nll_of_something_else_has_to_be_stated(tmp_path):
    path = graph_file(
        tmp_path / "graph.onnx", [("Sigmoid", "x", "y")], {}, {"y": (2, 3)}, {"x": drawn((2, 3))}
    )
    with pytest.raises(BadModel, match="nll:of=probabilities or nll:of=logarithms"):
        for_training(load_onnx(path, trainable=["x"]), Loss(kind="nll"), Sgd(lr=0.1))
