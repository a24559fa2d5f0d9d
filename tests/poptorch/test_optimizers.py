"""Optimizers: numbers that the host changes between runs, and what the log tells of them."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from tests.poptorch.modules import Classifier, batch, steps_on_host

import poptorch


def quiet() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop", "LAMB"])
def test_a_loss_scaling_that_begins_at_1_can_be_changed(optimizer: str) -> None:
    model = Classifier()
    host = copy.deepcopy(model)
    on_device = getattr(poptorch.optim, optimizer)(model.parameters(), lr=0.1, loss_scaling=1.0)
    on_host = getattr(poptorch.optim, optimizer)(host.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, quiet(), on_device)
    data = batch(4)
    for scale in (1.0, 64.0):
        on_device.loss_scaling = scale
        device.setOptimizer(on_device)
        device(*data)
        steps_on_host(host, on_host, data, 1, 1)
    torch.testing.assert_close(model.layer.weight, host.layer.weight, rtol=1e-4, atol=1e-6)


def test_the_log_tells_numbers_constants_and_types(caplog: pytest.LogCaptureFixture) -> None:
    model = Classifier()
    groups: list[dict[str, Any]] = [
        {"params": [model.layer.weight]},
        {"params": [model.layer.bias], "lr": 0.5},
    ]
    optimizer = poptorch.optim.AdamW(groups, lr=0.25, eps=1e-6, accum_type=torch.float16)
    device = poptorch.trainingModel(model, quiet(), optimizer)
    with caplog.at_level(logging.DEBUG, "poptorch::python"):
        device(*batch(4))
        lines = [text for text in caplog.messages if text.startswith("Updating ")]
        caplog.clear()
        device.setOptimizer(optimizer)  # the same
        again = [text for text in caplog.messages if text.startswith("Updating ")]
    graph, first, second = lines
    assert "graph optimizer with ADAMW, defaultBeta1=0.9 (const)," in graph
    assert "defaultEps=1e-06, defaultLearningRate=0.25, defaultWeightDecay=0.01 (const)" in graph
    assert graph.endswith(
        "lossScaling=1 (const), accumType=float16, firstOrderMomentumAccumType=float32,"
        " secondOrderMomentumAccumType=float32"
    )
    assert "group 0 optimizer with ADAMW" in first
    assert "learningRate=0.25" in first
    assert "learningRate=0.5" in second
    assert not again


def test_the_log_tells_transfers_of_states(caplog: pytest.LogCaptureFixture) -> None:
    model = Classifier()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, quiet(), optimizer)
    data = batch(4)
    with caplog.at_level(logging.DEBUG, "poptorch::python"):
        device(*data)
        states = optimizer.state_dict()
        optimizer.state_dict()
        optimizer.load_state_dict(states)
        device(*data)
    told = [t for t in caplog.messages if "optimiser" in t or "copyWeightsToHost" in t]
    assert told == [
        "Writing optimiser state tensors from IPU to host.",
        "Using cached optimiser state dict",
        "Implicit copyWeightsToHost()",
        "Writing optimiser state tensors from host to IPU memory",
    ]


def test_a_class_of_the_programs_own_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Own(poptorch.optim.Adam):
        """PopTorch's under another name."""

    model = Classifier()
    device = poptorch.trainingModel(model, quiet(), Own(model.parameters(), lr=0.1))
    device(*batch(4))
    warnings = [text for text in caplog.messages if "does not run Python optimizer code" in text]
    assert len(warnings) == 1


def test_numbers_are_marked_as_variable_or_constant() -> None:
    optimizer = poptorch.optim.SGD(Classifier().parameters(), lr=0.1, momentum=0.9)
    attributes = optimizer.variable_attrs
    assert [attributes.isConstant(name) for name in ("momentum", "weight_decay")] == [False, True]
    attributes.markAsConstant("momentum")
    attributes.markAsVariable("weight_decay")
    assert [attributes.isConstant(name) for name in ("momentum", "weight_decay")] == [True, False]
    with pytest.raises(AssertionError, match="Unknown attribute rate"):
        attributes.markAsVariable("rate")


def test_types_of_states_do_not_change_once_a_model_is_compiled() -> None:
    model = Classifier()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, quiet(), optimizer)
    device(*batch(4))
    optimizer.accum_type = torch.float16
    with pytest.raises(ValueError, match="already compiled"):
        device.setOptimizer(optimizer)


def test_a_new_rate_brings_no_weights_to_the_host(caplog: pytest.LogCaptureFixture) -> None:
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, quiet(), optimizer)
    device(*batch(4))
    with caplog.at_level(logging.DEBUG, "poptorch::python"):
        optimizer.param_groups[0]["lr"] = 0.2
        device.setOptimizer(optimizer)
    assert any("group 0 optimizer" in text for text in caplog.messages)
    assert not any("copyWeightsToHost" in text for text in caplog.messages)
