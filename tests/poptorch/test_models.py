"""Models on the device beside PyTorch: values, output modes, weights, files, reports."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.poptorch.modules import Classifier, Labels, Stages, batch, steps_on_host

import poptorch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


def quiet(**values: int) -> poptorch.Options:
    options = poptorch.Options().showCompilationProgressBar(False)
    options.deviceIterations(values.get("iterations", 1))
    options.replicationFactor(values.get("replicas", 1))
    options.Training.gradientAccumulation(values.get("rounds", 1))
    return options


def test_inference_agrees_with_pytorch() -> None:
    model = Classifier().eval()
    x, _ = batch(6)
    device = poptorch.inferenceModel(model, quiet(iterations=3))
    torch.testing.assert_close(device(x), model(x))


def test_integers_are_returned_in_32_bits() -> None:
    device = poptorch.inferenceModel(Labels(), quiet())
    label, count = device(torch.tensor([[0.0, 2.0]]))
    assert (label.dtype, count.dtype) == (torch.int32, torch.int32)
    assert (label.tolist(), count.tolist()) == ([1], [[1, 3]])


@pytest.mark.parametrize(
    ("optimizer", "numbers"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
        ("Adam", {"lr": 0.05, "betas": (0.8, 0.99)}),
        ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
        ("RMSprop", {"lr": 0.01, "momentum": 0.5}),
    ],
)
@pytest.mark.parametrize("origin", [torch.optim, poptorch.optim])
def test_training_agrees_with_pytorch(origin: Any, optimizer: str, numbers: Any) -> None:
    model = Classifier()
    host = copy.deepcopy(model)
    on_host = getattr(torch.optim, optimizer)(host.parameters(), **numbers)
    on_device = getattr(origin, optimizer)(model.parameters(), **numbers)
    device = poptorch.trainingModel(model, quiet(iterations=2, rounds=2), on_device)
    data = batch(8)
    device(*data)
    steps_on_host(host, on_host, data, 2, 2)
    torch.testing.assert_close(model.layer.weight, host.layer.weight, rtol=1e-4, atol=1e-6)


def test_lamb_agrees_with_its_steps_on_the_host() -> None:
    model = Classifier()
    host = copy.deepcopy(model)
    optimizer = poptorch.optim.LAMB(model.parameters())
    device = poptorch.trainingModel(model, quiet(iterations=2), optimizer)
    data = batch(4)
    device(*data)
    steps_on_host(host, poptorch.optim.LAMB(host.parameters()), data, 2, 1)
    torch.testing.assert_close(model.layer.weight, host.layer.weight, rtol=1e-4, atol=1e-6)


def test_groups_have_numbers_of_their_own_and_schedulers_change_them() -> None:
    model = Classifier()
    groups = [{"params": [model.layer.weight]}, {"params": [model.layer.bias], "lr": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    device = poptorch.trainingModel(model, quiet(), optimizer)
    before = copy.deepcopy(model.state_dict())
    device(*batch(4))
    assert torch.equal(model.layer.bias, before["layer.bias"])
    assert not torch.equal(model.layer.weight, before["layer.weight"])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.0)
    optimizer.step()  # without gradients
    schedule.step()
    device.setOptimizer(optimizer)
    after = copy.deepcopy(model.state_dict())
    device(*batch(4))
    assert torch.equal(model.layer.weight, after["layer.weight"])


def test_loss_scaling_is_set_later() -> None:
    data = batch(4)
    results = []
    for scales in ((1.0, 1.0), (4.0, 1.0), (1.0, 4.0)):
        torch.manual_seed(0)
        model = Classifier()
        optimizer = poptorch.optim.SGD(
            model.parameters(), lr=0.1, loss_scaling=scales[0], use_combined_accum=False
        )
        device = poptorch.trainingModel(model, quiet(), optimizer)
        device(*data)
        optimizer.loss_scaling = scales[1]
        optimizer.param_groups[0]["loss_scaling"] = scales[1]
        device.setOptimizer(optimizer)
        device(*data)
        device.copyWeightsToHost()
        results.append(model.layer.weight.detach().clone())
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


@pytest.mark.parametrize(
    ("mode", "period", "n_scores"), [("Final", None, 2), ("All", None, 8), ("EveryN", 2, 4)]
)
def test_output_modes(mode: str, period: int | None, n_scores: int) -> None:
    model, (x, labels) = Classifier(), batch(8)
    options = quiet(iterations=4).outputMode(getattr(poptorch.OutputMode, mode), period)
    scores, loss = poptorch.inferenceModel(model, options)(x, labels)
    assert scores.shape == (n_scores, 4)
    assert loss.shape == (() if mode == "Final" else (n_scores // 2,))
    expected = model(x)
    chosen = {"Final": expected[6:], "All": expected, "EveryN": expected.view(4, 2, 4)[1::2]}
    torch.testing.assert_close(scores, chosen[mode].reshape(n_scores, 4))


def test_sums_are_over_all_batches() -> None:
    model, (x, labels) = Classifier(), batch(8)
    options = quiet(iterations=4).outputMode(poptorch.OutputMode.Sum)
    _, loss = poptorch.inferenceModel(model, options)(x, labels)
    losses = [model(a, b)[1] for a, b in zip(x.split(2), labels.split(2), strict=True)]
    torch.testing.assert_close(loss, sum(losses))


def test_replicas_train_on_their_own_data() -> None:
    model = Classifier()
    host = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, quiet(replicas=2, rounds=2), optimizer)
    data = batch(8)
    _, loss = device(*data)
    steps_on_host(host, torch.optim.SGD(host.parameters(), lr=0.1), data, 1, 4)
    torch.testing.assert_close(model.layer.weight, host.layer.weight)
    assert loss.shape == (2,)


def test_one_set_of_weights_for_training_and_inference() -> None:
    model = Classifier()
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    inference = poptorch.inferenceModel(model, quiet())
    x, labels = batch(4)
    before = inference(x)
    training(x, labels)
    after = inference(x)
    assert not torch.equal(before, after)
    torch.testing.assert_close(
        after, torch.nn.functional.linear(x, model.layer.weight, model.layer.bias)
    )
    with torch.no_grad():
        model.layer.weight.zero_()
    training.copyWeightsToDevice()
    training.copyWeightsToHost()
    assert not model.layer.weight.any()
    training.destroy()
    assert type(model) is Classifier
    assert type(model.layer.weight) is torch.nn.Parameter


def test_a_marked_loss_is_the_loss() -> None:
    class Marked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> Any:
            out = x * self.weight
            return poptorch.identity_loss(out, "sum"), out.sum()

    model = Marked()
    device = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=1.0))
    device(torch.ones(2, 3))
    torch.testing.assert_close(model.weight, torch.full((3,), -1.0))


def test_the_loss_may_stand_before_other_scalars() -> None:
    class Accurate(Classifier):
        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
            scores = self.layer(x)
            accuracy = (scores.argmax(-1) == labels).float().mean()
            return self.loss(scores, labels), accuracy

    model = Accurate()
    before = model.layer.weight.clone()
    device = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    loss, accuracy = device(*batch(4))
    assert loss > accuracy
    assert not torch.equal(model.layer.weight, before)


def test_a_model_stays_in_the_mode_that_it_was_wrapped_in() -> None:
    class Moded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if self.training else x

    model = Moded().train()
    device = poptorch.inferenceModel(model, quiet())
    model.eval()
    assert torch.equal(device(torch.zeros(2)), torch.ones(2))


def test_the_mode_of_an_inference_model_is_its_own() -> None:
    """Also of one that is made from a training model, which goes on training."""

    class Moded(Classifier):
        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
            return super().forward(x, labels) if self.training else self.layer(x) + 1

    x, labels = batch(4)
    training = poptorch.trainingModel(Moded(), quiet())
    inference = poptorch.inferenceModel(training, quiet())
    inference.model.eval()
    assert training.model.training
    assert not inference.training
    assert len(training(x, labels)) == 2
    torch.testing.assert_close(inference(x), training.model.layer(x) + 1, rtol=1e-5, atol=1e-5)


def test_a_module_without_a_loss_is_refused() -> None:
    device = poptorch.trainingModel(Classifier(), quiet())
    with pytest.raises(poptorch.Error, match="Couldn't find a loss"):
        device(batch(4)[0])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (lambda x, y: (x[:2], y), "Shape mismatch for x"),
        (lambda x, y: (x.half(), y), "Data type mismatch for x"),
        (lambda x, _: (x, None), "Type mismatch for labels"),
    ],
)
def test_other_arguments_than_compiled_for_are_refused(arguments: Any, why: str) -> None:
    device, data = poptorch.inferenceModel(Classifier(), quiet()), batch(4)
    device(*data)
    with pytest.raises(poptorch.Error, match=why):
        device(*arguments(*data))


def test_batches_that_do_not_divide_are_refused() -> None:
    device = poptorch.inferenceModel(Classifier(), quiet(iterations=3))
    with pytest.raises(AssertionError, match="must be a multiple of"):
        device(batch(4)[0])


def test_accumulation_belongs_to_training() -> None:
    with pytest.raises(poptorch.Error, match="deviceIterations"):
        poptorch.inferenceModel(Classifier(), quiet(rounds=2))


@pytest.mark.parametrize("is_training", [False, True])
def test_pipelines_agree_with_pytorch(is_training: bool) -> None:
    model = Stages()
    host = copy.deepcopy(model)
    poptorch.BeginBlock(model.second, ipu_id=1)
    x, wanted = torch.randn(12, 4), torch.randn(12, 4)
    if not is_training:
        device = poptorch.inferenceModel(model, quiet(iterations=4))
        torch.testing.assert_close(device(x), host(x))
        return
    options = quiet(rounds=4)
    device = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    device(x, wanted)
    steps_on_host(host, torch.optim.SGD(host.parameters(), lr=0.1), (x, wanted), 1, 4)
    torch.testing.assert_close(model.first.weight, host.first.weight)


def test_a_pipeline_needs_as_many_batches_as_stages() -> None:
    model = Stages()
    poptorch.BeginBlock(model.second, ipu_id=1)
    with pytest.raises(poptorch.Error, match=r"pipeline stages \(3\)"):
        poptorch.trainingModel(model, quiet(rounds=2))(torch.randn(2, 4), torch.randn(2, 4))


def test_phases_are_refused() -> None:
    options = quiet().setExecutionStrategy(poptorch.SerialPhasedExecution("a", "b"))
    with pytest.raises(poptorch.Error, match="SerialPhasedExecution is not supported"):
        poptorch.inferenceModel(Classifier(), options)(batch(2)[0])


def test_what_follows_a_block_is_in_one() -> None:
    class Ended(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with poptorch.Block(ipu_id=0):
                x = x * 2
            return x + 1

    with pytest.raises(poptorch.Error, match="No active Block"):
        poptorch.inferenceModel(Ended(), quiet())(torch.ones(2))


def test_optimizer_states_return_from_the_device_and_to_it() -> None:
    model = Classifier()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    device = poptorch.trainingModel(model, quiet(), optimizer)
    assert optimizer.state_dict()["ipu_state"] is None
    device(*batch(4))
    state = optimizer.state_dict()
    assert state["ipu_state"]["Accl1___layer.weight"].shape == (4, 6)
    optimizer.load_state_dict(state)
    device(*batch(4))
    again = optimizer.state_dict()["ipu_state"]["Accl1___layer.weight"]
    assert not torch.equal(again, state["ipu_state"]["Accl1___layer.weight"])


def test_saved_models_load_without_compiling(tmp_path: Path) -> None:
    model, (x, labels) = Classifier(), batch(4)
    device = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    device.compileAndExport(str(tmp_path / "model.poptorch"), x, labels)
    _, first = device(x, labels)
    other = poptorch.load(str(tmp_path / "model.poptorch"))
    _, second = other(x, labels)
    assert torch.equal(first, second)


@pytest.mark.parametrize("is_trained", [False, True])
def test_programs_of_files_take_the_weights_of_the_module(is_trained: bool, tmp_path: Path) -> None:
    file, (x, labels) = str(tmp_path / "model.poptorch"), batch(4)

    def wrapped(model: torch.nn.Module) -> poptorch.PoplarExecutor:
        if not is_trained:
            return poptorch.inferenceModel(model, quiet())
        return poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))

    wrapped(Classifier()).compileAndExport(file, x, labels, export_model=False)
    model = Classifier()
    expected = model(x, labels)
    device = wrapped(model)
    device.loadExecutable(file)
    torch.testing.assert_close(device(x, labels), expected)


def test_cached_programs_are_found_again(tmp_path: Path) -> None:
    model, (x, _) = Classifier(), batch(4)
    for _ in range(2):
        options = quiet().enableExecutableCaching(str(tmp_path))
        device = poptorch.inferenceModel(model, options)
        device(x)
    assert device._compiled().compiled.executable.record.cache == "hit"


def test_reports_have_the_name_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(engine))
    device = poptorch.inferenceModel(Classifier(), quiet())
    device(batch(4)[0])
    device.destroy()
    assert (tmp_path / "inference" / "profile.pop").is_file()


def test_anchored_tensors_and_gradients() -> None:
    model, options = Classifier(), quiet(iterations=2)
    options.anchorTensor("weights", "Gradient___layer.weight", poptorch.OutputMode.All)
    device = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    device(*batch(4))
    assert device.getAnchoredTensor("weights").shape == (8, 6)
    assert "Gradient___layer.bias" in device.getTensorNames()
    with pytest.raises(AssertionError, match="No tensor with name"):
        device.getAnchoredTensor("other")


def test_cycles_and_times_are_simulated() -> None:
    device = poptorch.inferenceModel(Classifier(), quiet(iterations=2).logCycleCount(True))
    device(batch(4)[0])
    assert device.cycleCount() > 0
    low, high, mean = device.getLatency()
    assert 0 < low <= mean <= high
    with pytest.raises(poptorch.Error, match="disabled"):
        poptorch.inferenceModel(Classifier(), quiet()).cycleCount()


def test_synthetic_data_take_the_place_of_the_hosts() -> None:
    device = poptorch.inferenceModel(Classifier(), quiet(iterations=2).enableSyntheticData(True))
    assert device(batch(4)[0]).shape == (4, 4)


def test_results_have_no_backward_pass() -> None:
    out = poptorch.inferenceModel(Classifier(), quiet())(batch(2)[0])
    with pytest.raises(poptorch.Error, match="cannot be called explicitly"):
        out.backward()


def test_devices_are_detached_and_attached() -> None:
    device = poptorch.inferenceModel(Classifier(), quiet())
    with pytest.raises(poptorch.Error, match="not been compiled"):
        device.detachFromDevice()
    device(batch(2)[0])
    device.detachFromDevice()
    assert not device.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="not attached"):
        device.detachFromDevice()
    device(batch(2)[0])
    assert device.isAttachedToDevice()


def test_offline_models_compile_only() -> None:
    device = poptorch.inferenceModel(Classifier(), quiet().useOfflineIpuTarget())
    device.compile(batch(2)[0])
    with pytest.raises(AssertionError, match="offline device"):
        device(batch(2)[0])


def test_optimizers_that_the_device_lacks_are_refused() -> None:
    model = Classifier()
    with pytest.raises(AssertionError, match="Unsupported optimizer type Adagrad"):
        poptorch.trainingModel(model, quiet(), torch.optim.Adagrad(model.parameters()))
    with pytest.raises(ValueError, match="amsgrad"):
        poptorch.trainingModel(model, quiet(), torch.optim.Adam(model.parameters(), amsgrad=True))(
            *batch(2)
        )


def test_the_factor_of_the_loss_scaling_is_a_state() -> None:
    """Weights in half beside inputs in float, which decide the type of the product."""

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3).half()

        def forward(self, x: torch.Tensor) -> Any:
            y = self.layer(x)
            return y, poptorch.identity_loss(y, reduction="sum")

    options = quiet()
    options.Training.setAutomaticLossScaling(True)
    options.anchorTensor("scale", "finalLossScale", poptorch.OutputMode.Final)
    model = Half()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.0, loss_scaling=2.0)
    device = poptorch.trainingModel(model, options, optimizer)
    x = torch.ones(2, 4)
    device.compile(x)
    factors = []
    for _ in range(12):
        factors.append(float(optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"]))
        y, _ = device(x)
        assert y.dtype == torch.float32
        assert float(device.getAnchoredTensor("scale")) == 2.0 * factors[-1]
    assert factors[0] == 1.0
    assert factors[-1] > 1.0  # it grows as long as no gradient is large


def test_results_are_of_the_programs_own_types() -> None:
    class Named(dict[str, Any]):
        pass

    class Pair:
        def __init__(self, a: torch.Tensor, b: torch.Tensor) -> None:
            self.a, self.b = a, b

    class Parts(poptorch.ICustomArgParser):
        def yieldTensors(self, struct: Pair) -> Any:  # noqa: N802 # as PopTorch names it
            yield from (struct.a, struct.b)

        def reconstruct(self, _: Pair, tensor_iterator: Any) -> Pair:
            return Pair(next(tensor_iterator), next(tensor_iterator))

    class Sum(torch.nn.Module):
        def forward(self, pair: Pair) -> Named:
            return Named(total=pair.a + pair.b)

    poptorch.registerCustomArgParser(Pair, Parts())
    device = poptorch.inferenceModel(Sum(), quiet())
    found = device(Pair(torch.ones(2), torch.full((2,), 2.0)))
    assert type(found) is Named
    torch.testing.assert_close(found["total"], torch.full((2,), 3.0))
    poptorch.registerCustomArgParser(Pair, None)


def test_states_are_off_chip_in_shards(capfd: pytest.CaptureFixture[str]) -> None:
    losses = []
    locations = poptorch.TensorLocationSettings
    for is_off_chip in (False, True):
        torch.manual_seed(3)
        model, options = Classifier(), quiet(replicas=2)
        if is_off_chip:
            off_chip = locations().useOnChipStorage(False)
            sharded = locations().useOnChipStorage(False).useReplicatedTensorSharding()
            sharded.minElementsForReplicatedTensorSharding(2)
            options.TensorLocations.setOptimizerLocation(sharded)
            options.TensorLocations.setWeightLocation(off_chip.useReplicatedTensorSharding())
        optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.05)
        device = poptorch.trainingModel(model, options, optimizer)
        losses.append([device(*batch(4))[1] for _ in range(2)])
        assert device._program is not None
        buffers = device._program.compiled.executable.graph.remote_buffers
        assert bool(buffers) == is_off_chip
    torch.testing.assert_close(losses[1], losses[0])
    assert "weights, replicated tensor sharding" in capfd.readouterr().err
