"""Options: all of the binding's, with its defaults, types and refusals."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from tests.popart.option_names import OPTION_NAMES

import popart
from popart.effect import Effect
from popart.options.effects import OPTION_EFFECTS, options_set, warn_without_effect
from popart.settings import fields_of

GROUPS: dict[str, Callable[[], Any]] = {
    "TensorLocation": popart.TensorLocation,
    "AutomaticLossScalingSettings": popart.AutomaticLossScalingSettings,
    "TensorLocationSettings": popart.TensorLocationSettings,
    "ReplicatedCollectivesSettings": popart.ReplicatedCollectivesSettings,
    "BatchSerializationSettings": popart.BatchSerializationSettings,
    "AutodiffSettings": popart.AutodiffSettings,
    "ExecutionPhaseSettings": popart.ExecutionPhaseSettings,
    "AccumulateOuterFragmentSettings": popart.AccumulateOuterFragmentSettings,
    "ClipNormSettings": lambda: popart.ClipNormSettings.clipWeights(["w"], 1.0),
    "ExperimentalSettings": popart.ExperimentalSettings,
    "SessionOptions": popart.SessionOptions,
}


def test_every_option_of_the_binding_can_be_read_and_set() -> None:
    n_options = 0
    for group, names in OPTION_NAMES.items():
        made = GROUPS[group]()
        for name in names:
            setattr(made, name, copy.deepcopy(getattr(made, name)))
            n_options += 1
    assert n_options == 138


def test_defaults_are_popart_s() -> None:
    options = popart.SessionOptions()
    assert options.logDir == ""
    assert options.dotChecks == set()
    assert options.finalDotOp == 10000
    assert options.enableOutlining
    assert options.outlineThreshold == 1.0
    assert options.constantWeights
    assert options.accumulationFactor == options.replicatedGraphCount == 1
    assert options.autoRecomputation is popart.RecomputationType.NoRecompute
    assert options.virtualGraphMode is popart.VirtualGraphMode.Off
    assert options.syntheticDataMode is popart.SyntheticDataMode.Off
    assert options.accumulationAndReplicationReductionType is popart.ReductionType.Sum
    strategy = options.meanAccumulationAndReplicationReductionStrategy
    assert strategy is popart.MeanReductionStrategy.Post
    assert options.hardwareInstrumentations == {popart.Instrumentation.Outer}
    assert options.weightTensorLocationSettings.minElementsForOffChip == 2
    assert options.executionPhaseSettings.stages == 2
    assert options.batchSerializationSettings.factor == 0
    assert options.automaticLossScalingSettings.binEdgeLocation == 0.125
    assert options.cachePath == "session_cache"


def test_an_unknown_option_is_refused_with_close_names() -> None:
    options = popart.SessionOptions()
    with pytest.raises(AttributeError, match="did you mean enablePipelining"):
        options.enablePipelinig = True
    with pytest.raises(AttributeError, match="'SessionOptions' has no attribute 'foo'"):
        options.foo = "bar"
    with pytest.raises(AttributeError, match="did you mean enablePipelining"):
        _ = options.enablePipelinig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("outlineThreshold", "high"),
        ("enableOutlining", "no"),
        ("accumulationFactor", 1.5),
        ("virtualGraphMode", 1),
        ("accumulationFactor", "2"),
        ("engineOptions", {"a": True}),
        ("customCodelets", "codelet.cpp"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"SessionOptions.{name}: incompatible value"):
        setattr(popart.SessionOptions(), name, value)


def test_dicts_of_options_are_changed_in_place() -> None:
    options = popart.SessionOptions()
    options.engineOptions = {"a": "1"}
    options.engineOptions["b"] = "2"
    assert options.engineOptions == {"a": "1", "b": "2"}
    assert popart.SessionOptions().engineOptions == {}


def test_old_names_set_what_replaced_them(capfd: pytest.CaptureFixture[str]) -> None:
    options = popart.SessionOptions()
    options.prefetchBufferingDepthMap = {"a": 3}
    options.defaultPrefetchBufferingDepth = 7
    assert (options.bufferingDepthMap, options.defaultBufferingDepth) == ({"a": 3}, 7)
    assert "prefetchBufferingDepthMap has been deprecated" in capfd.readouterr().err


def test_explicit_ir_sets_three_options() -> None:
    options = popart.SessionOptions()
    options.enableExplicitIR(True)
    assert options.useHostCopyOps
    assert options.enableExplicitMainLoops
    assert options.explicitRecomputation


def test_factors_are_checked() -> None:
    options = popart.SessionOptions()
    options.accumulationFactor = 4
    with pytest.raises(popart.popart_exception, match="enableGradientAccumulation is false"):
        options.getAccumulationFactor()
    options.enableGradientAccumulation = True
    assert options.getAccumulationFactor() == 4
    options.replicatedGraphCount = 2
    assert options.getGlobalReplicationFactor() == 1
    options.enableReplicatedGraphs = True
    assert options.getGlobalReplicationFactor() == 2


def test_depths_of_buffers() -> None:
    options = popart.SessionOptions()
    options.bufferingDepthMap = {"a": 3, "b": 0}
    assert options.getBufferingDepth("a") == 3
    with pytest.raises(popart.popart_exception, match="buffering depth >1 for tensor a"):
        options.getBufferingDepth("a", True)
    with pytest.raises(popart.popart_exception, match="minimum buffering depth is 1"):
        options.getBufferingDepth("b")


def test_the_environment_sets_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPART_CACHE_DIR", "here")
    options = popart.SessionOptions()
    assert options.enableEngineCaching
    assert options.cachePath == "here"


def test_every_option_has_an_effect() -> None:
    assert set(OPTION_EFFECTS) == set(fields_of(popart.SessionOptions))


def test_options_without_effect_warn_once_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popart.effect._warned", set())
    options = popart.SessionOptions()
    options.enableOutlining = False
    options.kahnTieBreaker = "fifo"
    assert options_set(options) == ["enableOutlining", "kahnTieBreaker"]
    with pytest.warns(popart.NoEffectWarning, match="kahnTieBreaker has no effect") as given:
        warn_without_effect(options)
    assert len(given) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_without_effect(options)
    assert OPTION_EFFECTS["enableOutlining"][0] is Effect.ACTS


def test_locations_and_their_forms() -> None:
    domain = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    location = popart.TensorLocation(
        popart.TensorStorage.OffChip, popart.ReplicatedTensorSharding.On, domain
    )
    assert location.serialize() == [1, 0, 0, 1, 1, 2]
    assert location.isRemote()
    settings = popart.TensorLocationSettings(popart.TensorStorage.OffChip, 0, 4)
    assert settings.location.storage is popart.TensorStorage.OffChip
    assert (settings.minElementsForOffChip, settings.minElementsForReplicatedTensorSharding) == (
        0,
        4,
    )
    with pytest.raises(TypeError, match=r"__init__\(\): incompatible function arguments"):
        popart.TensorLocation(1)


def test_groups_of_replicas() -> None:
    consecutive = popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 2))
    assert consecutive.groups(4) == [[0, 1], [2, 3]]
    assert consecutive.shapeOnHost([3], 4) == [2, 3]
    assert consecutive.shapeOnReplica([2, 3], 4, "w") == [3]
    orthogonal = popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Orthogonal, 2))
    assert orthogonal.groups(4) == [[0, 2], [1, 3]]
    mode = popart.VariableRetrievalMode.AllReplicas
    assert popart.VariableSettings(mode).numReplicasReturningVariable(4) == 4
    assert popart.VariableSettings(2, 2, mode).groups(8) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    with pytest.raises(popart.popart_internal_exception, match="Bad ReplicaGroupSize"):
        popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 0))
