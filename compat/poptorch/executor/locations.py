"""Where a model keeps tensors, as `Options.TensorLocations` says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from poptorch._logging import warn_once
from poptorch.options import Options
from tilescope.engine.ir import Location, LocationRule, Locations, Model
from tilescope.engine.training import Descent, Sgd

__all__ = ["located"]

#: Options by the kinds of locations of the engine.
_OPTIONS = {
    "weights": "location_weight",
    "optimizer-state": "location_optimizer",
    "accumulators": "location_accumulator",
    "activations": "location_activation",
}


def located(model: Model, options: Options, optimizer: Descent | None) -> Model:
    """Return a model whose values are kept where options ask for.

    Parameters
    ----------
    model
        As it is compiled.
    options
        Of the model.
    optimizer
        Trains it; None for inference.
    """
    values: dict[str, Any] = options.TensorLocations.toDict()
    stated = {kind: values.get(name, {}) for kind, name in _OPTIONS.items()}
    if model.is_pipelined and stated["activations"].get("onChip") == 0:
        warn_once(
            "poptorch.Options.TensorLocations: activation, off the chip",
            "activations of a pipeline stay on the tiles",
        )
        del stated["activations"]
    is_combined = isinstance(optimizer, Sgd) and optimizer.is_combined
    kinds = () if is_combined else Locations.sharded_kinds
    rules = {kind: _rule(kind, settings, kinds) for kind, settings in stated.items() if settings}
    is_by_io = any(
        settings.get("useIOTilesToLoad") or settings.get("useIOTilesToStore")
        for settings in stated.values()
    )
    n_io_tiles = int(values.get("numIOTiles", 0)) if is_by_io else 0
    return replace(model, locations=Locations(rules, n_io_tiles=n_io_tiles))


def _rule(kind: str, settings: Mapping[str, Any], sharded_kinds: Collection[str]) -> LocationRule:
    is_sharded = bool(settings.get("useReplicatedTensorSharding"))
    if is_sharded and kind not in sharded_kinds:
        warn_once(
            f"poptorch.Options.TensorLocations: {kind}, replicated tensor sharding",
            "every replica keeps all of them",
        )
        is_sharded = False
    return LocationRule(
        Location(settings.get("onChip") == 0, is_sharded),
        max(1, int(settings.get("minElementsForOffChip", 2))),
        max(1, int(settings.get("minElementsForReplicatedTensorSharding", 8192))),
    )
