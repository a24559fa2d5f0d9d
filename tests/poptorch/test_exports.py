"""What an export takes from a module: losses, mixed types, distributions; and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch


def quiet() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


class _TwoLosses(nn.Module):
    def __init__(self, *, marks: bool) -> None:
        super().__init__()
        self.layer, self.marks = nn.Linear(3, 2), marks

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
        scores = self.layer(x)
        first = nn.functional.nll_loss(scores.log_softmax(-1), labels)
        loss = first + nn.functional.mse_loss(scores, x[:, 1:])
        return scores, poptorch.identity_loss(loss, "none") if self.marks else loss


def test_independent_losses_need_a_mark() -> None:
    data = torch.randn(2, 3), torch.tensor([0, 1])
    with pytest.raises(poptorch.Error, match=r"Multiple independent losses .* nll_loss_nd"):
        poptorch.trainingModel(_TwoLosses(marks=False), quiet())(*data)
    scores, _ = poptorch.trainingModel(_TwoLosses(marks=True), quiet())(*data)
    assert scores.shape == (2, 2)


def test_inputs_have_elements() -> None:
    device = poptorch.inferenceModel(nn.ReLU(), quiet())
    with pytest.raises(poptorch.Error, match=r"Zero-sized .* \[0, 2\]"):
        device(torch.ones(0, 2))


@pytest.mark.parametrize(
    "layer",
    [nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.BatchNorm1d(4).eval()],
    ids=lambda layer: type(layer).__name__,
)
def test_norms_of_halves_take_weights_in_float(layer: nn.Module) -> None:
    x = torch.linspace(-1, 1, 24).reshape(6, 4)
    out = poptorch.inferenceModel(layer, quiet())(x.half())
    assert out.dtype == torch.float16
    torch.testing.assert_close(out.float(), layer(x).detach(), rtol=1e-2, atol=1e-2)


class _Drawn(nn.Module):
    def forward(self, mean: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(mean, deviation).sample((200,))


def test_distributions_take_parameters_that_data_decide() -> None:
    torch.manual_seed(1)
    values = poptorch.inferenceModel(_Drawn(), quiet())(torch.tensor([5.0]), torch.tensor([2.0]))
    assert abs(float(values.mean()) - 5) < 0.6
    assert abs(float(values.std()) - 2) < 0.5
    with pytest.raises(ValueError, match="constraint"):
        torch.distributions.Normal(0.0, -1.0)


class _Nested(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with poptorch.MultiConv(), poptorch.MultiConv():
            return x + 1


def test_multi_convs_are_not_nested() -> None:
    for _ in range(2):
        with pytest.raises(poptorch.Error, match="MultiConv is not supported"):
            poptorch.inferenceModel(_Nested(), quiet())(torch.ones(1))


@pytest.mark.parametrize(
    ("dtype", "is_combined", "strategy"),
    [(torch.float16, False, "Running"), (torch.float16, True, "Post"), (None, False, "Post")],
)
def test_sums_in_half_are_means_as_they_run(dtype: Any, is_combined: bool, strategy: str) -> None:
    for options, expected in ((quiet(), strategy), (_with_post(), "Post")):
        model = nn.Linear(2, 1)
        optimizer = poptorch.optim.SGD(
            model.parameters(), lr=0.1, accum_type=dtype, use_combined_accum=is_combined
        )
        device = poptorch.trainingModel(model, options, optimizer)
        chosen = device.options.Training.meanAccumulationAndReplicationReductionStrategy
        assert chosen.name == expected


def _with_post() -> poptorch.Options:
    options, post = quiet(), poptorch.MeanReductionStrategy.Post
    options.Training.setMeanAccumulationAndReplicationReductionStrategy(post)
    return options


class _Aligned(nn.Module):
    def __init__(self, *, is_positional: bool) -> None:
        super().__init__()
        self.is_positional = is_positional

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.is_positional:
            return nn.functional.ctc_loss(scores, labels, [9, 7], (3, 2), 0, "sum", True)
        return nn.functional.ctc_loss(scores, labels, input_lengths=[9, 7], target_lengths=(3, 2))


@pytest.mark.parametrize("is_positional", [True, False])
def test_lengths_of_alignments_are_lists(is_positional: bool) -> None:
    torch.manual_seed(4)
    data = torch.randn(9, 2, 5).log_softmax(-1), torch.tensor([[1, 2, 3], [4, 2, 1]])
    model = _Aligned(is_positional=is_positional)
    torch.testing.assert_close(poptorch.inferenceModel(model, quiet())(*data), model(*data))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("kind", ["linear", "convolution", "transposed"])
def test_layers_compute_in_the_type_of_what_they_are_applied_to(
    kind: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(5)
    layer = {
        "linear": nn.Linear(4, 3),
        "convolution": nn.Conv1d(4, 3, 2),
        "transposed": nn.ConvTranspose1d(4, 3, 2),
    }[kind]
    x = torch.randn(2, 4) if kind == "linear" else torch.randn(1, 4, 5)
    expected = layer(x).detach()
    other = torch.float32 if dtype is torch.float16 else torch.float16
    out = poptorch.inferenceModel(layer.to(other), quiet())(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, rtol=2e-2, atol=1e-2)
