"""Weights of which groups of replicas have values of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch
from poptorch import CommGroupType, VariableRetrievalMode

_ONE = VariableRetrievalMode.OnePerGroup


class _Product(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.W = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> Any:
        product = x @ self.W
        return product, poptorch.identity_loss(product.square(), "mean")


def options(n_replicas: int) -> poptorch.Options:
    made = poptorch.Options().showCompilationProgressBar(False).replicationFactor(n_replicas)
    return made.outputMode(poptorch.OutputMode.All)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("kind", [CommGroupType.Consecutive, CommGroupType.Orthogonal])
def test_groups_train_columns_of_a_matrix(kind: CommGroupType, optimizer: str) -> None:
    """Two groups have half of the columns, and the two replicas of a group half of the rows."""
    torch.manual_seed(2)
    x, whole = torch.randn(6, 5), torch.randn(5, 4)
    shards = torch.stack(whole.chunk(2, dim=1))
    model = _Product(shards.clone())
    trained = getattr(poptorch.optim, optimizer)(model.parameters(), lr=0.1)
    other = {1: CommGroupType.Orthogonal, 2: CommGroupType.Consecutive}[kind]
    made = options(4)
    made.inputReplicaGrouping(2, other)
    device = poptorch.trainingModel(model, made, trained)
    device.W.replicaGrouping(kind, 2, _ONE)
    on_host = nn.Parameter(whole.clone())
    stepper = getattr(torch.optim, optimizer)([on_host], lr=0.1)
    for _ in range(3):
        _, losses = device(x)
        stepper.zero_grad()
        loss = (x @ on_host).square().mean()
        loss.backward()  # a mean of all replicas, as PopTorch's of replicas and micro-batches
        stepper.step()
        torch.testing.assert_close(losses.mean(), loss.detach())
    expected = torch.stack(on_host.detach().chunk(2, dim=1))
    torch.testing.assert_close(model.W.detach(), expected, rtol=1e-4, atol=1e-6)
    if optimizer == "AdamW":
        states = trained.state_dict()["ipu_state"]
        assert states["Accl1___W"].shape == shards.shape
        assert not torch.equal(*states["Accl1___W"])


def test_every_replica_has_a_value_of_its_own() -> None:
    weights = torch.arange(12.0).reshape(3, 2, 2)
    device = poptorch.inferenceModel(_Product(weights.clone()), options(3))
    device.W.replicaGrouping(CommGroupType.NoGrouping, 0, _ONE)
    products, _ = device(torch.eye(2).repeat(3, 1))
    torch.testing.assert_close(products, weights.reshape(6, 2))
    with torch.no_grad():
        device.model.W.mul_(2)
    device.copyWeightsToDevice()
    products, _ = device(torch.eye(2).repeat(3, 1))
    torch.testing.assert_close(products, 2 * weights.reshape(6, 2))


def test_states_of_groups_reach_the_device_again() -> None:
    model = _Product(torch.randn(2, 3, 2))
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, options(2), optimizer)
    device.W.replicaGrouping(CommGroupType.NoGrouping, 0, _ONE)
    device(torch.randn(2, 3))
    before = optimizer.state_dict()
    optimizer.load_state_dict(before)
    device(torch.zeros(2, 3))  # whose gradients are 0
    after = optimizer.state_dict()["ipu_state"]["Accl1___W"]
    torch.testing.assert_close(after, 0.9 * before["ipu_state"]["Accl1___W"])


@pytest.mark.parametrize(
    ("shape", "kind", "size", "words"),
    [
        ((2, 2, 2), CommGroupType.Consecutive, 3, "do not divide the 4"),
        ((3, 2, 2), CommGroupType.Consecutive, 2, "each of 2 groups"),
        ((), CommGroupType.NoGrouping, 0, "Scalars"),
    ],
    ids=["size", "entries", "scalar"],
)
def test_groups_that_do_not_fit_are_refused(
    shape: tuple[int, ...], kind: CommGroupType, size: int, words: str
) -> None:
    device = poptorch.inferenceModel(_Product(torch.ones(shape)), options(4))
    device.W.replicaGrouping(kind, size, _ONE)
    with pytest.raises(poptorch.Error, match=words):
        device(torch.ones(4, 2))


def test_values_of_all_replicas_are_refused() -> None:
    device = poptorch.inferenceModel(_Product(torch.ones(2, 2, 2)), options(4))
    with pytest.raises(poptorch.Error, match="AllReplicas is not supported"):
        device.W.replicaGrouping(CommGroupType.Consecutive, 2, VariableRetrievalMode.AllReplicas)
