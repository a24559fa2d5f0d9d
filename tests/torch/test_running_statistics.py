"""Batch normalisations that train: their running statistics, compared with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.torch.compared import drawn, near
from tests.torch.steps import graph_file, trained

from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.training import Loss, Sgd, for_training

_SHAPE = (4, 3, 5)
_PARAMETERS = {"w": drawn((3,), 1), "b": drawn((3,), 2)}
_RUNNING = {"mean": drawn((3,), 3), "var": np.abs(drawn((3,), 4))}


@pytest.mark.parametrize("momentum", [0.9, 0.5])
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("opset", [9, 13, 14, 15])
def test_after_steps(opset, n_rounds, momentum, tmp_path):
    rng = np.random.default_rng(5)
    batches = [rng.normal(0.5, 2, _SHAPE).astype(np.float32) for _ in range(2 * n_rounds)]
    is_stated = opset >= 14  # by an attribute
    outputs = "y,m,v" if is_stated else "y,m,v,sm,sv"
    attributes = {"momentum": momentum} | ({"training_mode": 1} if is_stated else {})
    path = graph_file(
        tmp_path / "graph.onnx",
        [("BatchNormalization", "x,w,b,mean,var", outputs, attributes)],
        {"x": _SHAPE},
        {"y": _SHAPE},
        _PARAMETERS | _RUNNING,
        opset,
    )
    model = for_training(
        load_onnx(path, trainable=list(_PARAMETERS)), Loss(kind="mse"), Sgd(lr=0.05), n_rounds
    )
    layer = torch.nn.BatchNorm1d(3, momentum=1 - momentum, dtype=torch.float64)
    layer.load_state_dict(
        {
            "weight": torch.tensor(_PARAMETERS["w"]),
            "bias": torch.tensor(_PARAMETERS["b"]),
            "running_mean": torch.tensor(_RUNNING["mean"]),
            "running_var": torch.tensor(_RUNNING["var"]),
            "num_batches_tracked": torch.tensor(0),
        }
    )
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.05)
    variance = torch.tensor(_RUNNING["var"]).double()
    with trained(model) as trainer:
        for i in range(2):
            rows = batches[i * n_rounds : (i + 1) * n_rounds]
            trainer.step([{"x": x, "labels": np.zeros(_SHAPE, np.float32)} for x in rows])
            optimiser.zero_grad()
            for x in rows:
                wide = torch.tensor(x).double()
                (layer(wide).square().mean() / n_rounds).backward()
                # PyTorch keeps the unbiased variance, ONNX the one that it divides by.
                biased = wide.var((0, 2), unbiased=False)
                variance = momentum * variance + (1 - momentum) * biased
            optimiser.step()
        held = trainer.held()
    assert layer.running_mean is not None
    near(held["w"], layer.weight.detach().numpy(), "scale")
    near(held["b"], layer.bias.detach().numpy(), "bias")
    near(held["mean"], layer.running_mean.numpy(), "mean")
    near(held["var"], variance.numpy(), "variance")
