"""Where a session keeps tensors: locations and phases of its options and of nodes."""

from __future__ import annotations

from dataclasses import replace

import onnx

from popart.builder import reserved
from popart.effect import warn_once
from popart.enums import ReplicatedTensorSharding, TensorStorage, TileSet, VirtualGraphMode
from popart.errors import popart_exception
from popart.options import SessionOptions, TensorLocationSettings
from popart.placement import TensorLocation
from tilescope.engine.ir import Location, LocationRule, Locations, Model, Operation, Placement
from tilescope.engine.training import Descent, Sgd

__all__ = ["has_phases", "located", "with_state_shards"]

#: Settings by the kinds of locations of the engine.
_SETTINGS = {
    "weights": "weightTensorLocationSettings",
    "optimizer-state": "optimizerStateTensorLocationSettings",
    "accumulators": "accumulatorTensorLocationSettings",
    "activations": "activationTensorLocationSettings",
}


def located(model: Model, proto: onnx.ModelProto, options: SessionOptions) -> Model:
    """Return a model whose values are kept where a session asks for.

    Parameters
    ----------
    model
        On its IPUs.
    proto
        The ONNX model, whose nodes may state locations of their outputs.
    options
        Of the session.

    Raises
    ------
    popart_exception
        When there are phases, and nodes are placed otherwise.
    """
    has_several = options.executionPhaseSettings.phases >= _LEAST_PHASES
    if has_several and options.virtualGraphMode is not VirtualGraphMode.ExecutionPhases:
        raise popart_exception("> 1 execution phases requires VirtualGraphMode::ExecutionPhases")
    if not has_phases(options):
        model = replace(model, operations=tuple(map(_without_phase, model.operations)))
    rules = {kind: _rule(getattr(options, name), name) for kind, name in _SETTINGS.items()}
    if options.enablePipelining:
        del rules["activations"]
    named = {
        name: _location(location)
        for name, location in options.tensorLocationSettingsOverride.items()
    }
    locations = [getattr(options, name).location for name in _SETTINGS.values()]
    locations += options.tensorLocationSettingsOverride.values()
    is_by_io = any(TileSet.IO in (at.loadTileSet, at.storageTileSet) for at in locations)
    n_io_tiles = int(options.numIOTiles) if is_by_io else 0
    return replace(model, locations=Locations(rules, {**_of_nodes(proto), **named}, n_io_tiles))


#: Phases below which a program has none.
_LEAST_PHASES = 2  # Source: graphcore/popart, willow/src/ir.cpp, verifyExecutionPhaseSettings


def has_phases(options: SessionOptions) -> bool:
    """Return whether nodes run in phases, as they state."""
    is_by_phase = options.virtualGraphMode is VirtualGraphMode.ExecutionPhases
    return is_by_phase and options.executionPhaseSettings.phases >= _LEAST_PHASES


def _without_phase(operation: Operation) -> Operation:
    placement = operation.placement
    if placement.phase is None:
        return operation
    return replace(operation, placement=Placement(placement.ipu, placement.stage))


def _rule(settings: TensorLocationSettings, name: str) -> LocationRule:
    location = _location(settings.location)
    if location.is_sharded and name != _SETTINGS["optimizer-state"]:
        warn_once(f"SessionOptions.{name}.replicatedTensorSharding", "replicas keep all of them")
        location = replace(location, is_sharded=False)
    return LocationRule(
        location,
        max(1, int(settings.minElementsForOffChip)),
        max(1, int(settings.minElementsForReplicatedTensorSharding)),
    )


def _location(location: TensorLocation) -> Location:
    return Location(
        location.storage is TensorStorage.OffChip,
        location.replicatedTensorSharding is ReplicatedTensorSharding.On,
    )


def _of_nodes(proto: onnx.ModelProto) -> dict[str, Location]:
    """Return the locations of outputs that nodes state, by name."""
    return {
        output: Location(is_off_chip=attribute.ints[0] == int(TensorStorage.OffChip))
        for node in proto.graph.node
        for attribute in node.attribute
        if attribute.name == reserved.OUTPUT_LOCATION and attribute.ints
        for output in node.output
    }


def with_state_shards(model: Model, optimiser: Descent) -> Model:
    """Return a model whose optimiser's states are whole where they take in gradients, too."""
    rule = model.locations.of_kinds.get("optimizer-state")
    is_combined = isinstance(optimiser, Sgd) and optimiser.is_combined
    if rule is None or not rule.location.is_sharded or not is_combined:
        return model
    warn_once(
        "SessionOptions.optimizerStateTensorLocationSettings.replicatedTensorSharding",
        "a velocity that gradients are added to is whole on every replica",
    )
    whole = replace(rule, location=replace(rule.location, is_sharded=False))
    kinds = {**model.locations.of_kinds, "optimizer-state": whole}
    return replace(model, locations=replace(model.locations, of_kinds=kinds))
