"""Options: defaults, checks, files, the environment."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import poptorch
from poptorch.options.validation import check_popart_options


def test_methods_chain_and_values_are_attributes() -> None:
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    options.Training.gradientAccumulation(4)
    assert (options.device_iterations, options.replication_factor) == (3, 2)
    assert options.Training.gradient_accumulation == 4
    assert options.Training.accumulation_and_replication_reduction_type is (
        poptorch.ReductionType.Mean
    )


@pytest.mark.parametrize(
    ("name", "near"), [("deviceIteration", "deviceIterations"), ("replicatonFactor", "replication")]
)
def test_an_unknown_option_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(AttributeError, match=near):
        getattr(poptorch.Options(), name)


def test_a_value_keeps_the_type_of_its_default() -> None:
    with pytest.raises(AssertionError, match="Unexpected type"):
        poptorch.Options().deviceIterations("4")  # type: ignore[arg-type]


def test_copies_are_equal_and_can_be_changed() -> None:
    options = poptorch.Options().modelName("net")
    options._Popart.set("enableOutlining", False)
    options._freeze()
    for other in (options.clone(), copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert other == options
    other = options.clone().deviceIterations(9)
    assert other != options
    with pytest.raises(AttributeError, match="frozen"):
        options.deviceIterations(2)
    with pytest.raises(AttributeError, match="frozen"):
        options.Training.gradientAccumulation(2)
    with pytest.raises(AttributeError, match="frozen"):
        options._Popart.set("enableOutlining", True)


def test_unknown_options_of_popart_name_the_nearest() -> None:
    with pytest.raises(poptorch.Error, match="Did you mean autoRecomputation"):
        check_popart_options({"autoRecomputaton": 3})
    with pytest.raises(poptorch.Error, match="Unknown value type"):
        check_popart_options({"dotChecks": object()})


@pytest.mark.parametrize("name", ["compilationProgressTotal", "defaultPrefetchBufferingDepth"])
def test_names_that_popart_has_no_more_are_known(name: str) -> None:
    check_popart_options({name: 3})


def test_options_without_effect_warn_once(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        check_popart_options({"outlineThreshold": 1.0})
    assert capfd.readouterr().err.count("outlineThreshold has no effect") == 1


def test_a_file_has_a_call_a_line(tmp_path: Path) -> None:
    file = tmp_path / "poptorch.conf"
    file.write_text(
        "# the strategy\n\ndeviceIterations(2)  # batches\n"
        "  setExecutionStrategy(poptorch.ShardedExecution())\n"
        "Precision.setPartialsType(torch.half)\n"
    )
    options = poptorch.Options().loadFromFile(file)  # type: ignore[arg-type]
    assert options.device_iterations == 2
    assert options._execution_strategy.backendOptions() == {"execution_mode": 1}
    assert options._Popart.options["partialsTypeMatMuls"] == "half"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("outputMode(poptorch.OutputMode.All", "SyntaxError at line 1 of bad.conf"),
        ("deviceIterations(__import__('os').getpid())", "has '__import__'"),
        ("modelName('a').__class__('b')", "write a call"),
    ],
)
def test_a_file_that_is_not_calls_is_refused(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "bad.conf").write_text(line)
    with pytest.raises(poptorch.ConfigFileError, match=why):
        poptorch.Options().loadFromFile(str(tmp_path / "bad.conf"))


def test_the_environment_sets_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "POPTORCH_DEFAULT_OPTIONS",
        '{"deviceIterations": 5, "connectionType": "ConnectionType.OnDemand",'
        ' "_Popart.set": ["enableOutlining", false], "Precision.enableStochasticRounding": true}',
    )
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "programs")
    options = poptorch.Options()
    assert options.device_iterations == 5
    assert options.connection_type == poptorch.ConnectionType.OnDemand.value
    popart = options._Popart.options
    assert (popart["enableOutlining"], popart["enableStochasticRounding"]) == (False, True)
    assert popart["cachePath"] == "programs"


def test_input_groups_divide_the_replicas() -> None:
    options = poptorch.Options().replicationFactor(4)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    assert options.input_group_size == 2
    with pytest.raises(ValueError, match="factor of replication_factor"):
        options.inputReplicaGrouping(3, poptorch.CommGroupType.Consecutive)
    with pytest.raises(ValueError, match="cannot be All"):
        options.inputReplicaGrouping(2, poptorch.CommGroupType.All)


def test_tensor_locations_are_kept() -> None:
    location = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(4)
    options = poptorch.Options()
    options.TensorLocations.setOptimizerLocation(location)
    assert options.TensorLocations.location_optimizer == {"onChip": 0, "minElementsForOffChip": 4}
    with pytest.raises(AssertionError, match="even number"):
        options.TensorLocations.numIOTiles(33)


def test_a_block_is_in_one_stage() -> None:
    with pytest.raises(AssertionError, match="more than one stage"):
        poptorch.PipelinedExecution("a", poptorch.Stage("b", "a"))
    strategy = poptorch.PipelinedExecution(poptorch.Stage("a").ipu(1), "b")
    assert strategy.stage("b")._stage_id == 1
