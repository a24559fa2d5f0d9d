"""Where tensors are kept, and how inputs reach the device."""

from __future__ import annotations

from typing import Any

from popart.arguments import Parameter, Signature, instance, match_call
from popart.enums import (
    ExchangeStrategy,
    ReplicatedStreamMode,
    ReplicatedTensorSharding,
    TensorStorage,
    TileSet,
)
from popart.replicas import CommGroup
from popart.settings import Settings

__all__ = ["InputSettings", "TensorLocation"]

_STORAGE = Parameter("storage", instance(TensorStorage))
_SHARDING = Parameter("replicatedTensorSharding", instance(ReplicatedTensorSharding))
_DOMAIN = Parameter("shardingDomain", instance(CommGroup))
_TILES = (
    Parameter("loadTileSet", instance(TileSet)),
    Parameter("storageTileSet", instance(TileSet)),
)
_LOCATIONS = (
    Signature(()),
    Signature((_STORAGE,)),
    Signature((_STORAGE, _SHARDING)),
    Signature((_STORAGE, _SHARDING, _DOMAIN)),
    Signature((_STORAGE, *_TILES, _SHARDING)),
    Signature((_STORAGE, *_TILES, _SHARDING, _DOMAIN)),
)


class TensorLocation(Settings):
    """The memory that holds a tensor, the tiles that load it, and whether replicas share it."""

    storage: TensorStorage
    loadTileSet: TileSet
    storageTileSet: TileSet
    replicatedTensorSharding: ReplicatedTensorSharding
    shardingDomain: CommGroup

    def __init__(self, *arguments: Any, **named: Any) -> None:
        _, bound = match_call("popart.TensorLocation", "__init__", _LOCATIONS, arguments, named)
        self.storage = bound.get("storage", TensorStorage.OnChip)
        self.loadTileSet = bound.get("loadTileSet", TileSet.Compute)
        self.storageTileSet = bound.get("storageTileSet", TileSet.Compute)
        self.replicatedTensorSharding = bound.get(
            "replicatedTensorSharding", ReplicatedTensorSharding.Off
        )
        self.shardingDomain = bound.get("shardingDomain", CommGroup())

    def isRemote(self) -> bool:
        """Whether the tensor is not whole in the memory of the tiles."""
        return (
            self.storage is TensorStorage.OffChip
            or self.replicatedTensorSharding is ReplicatedTensorSharding.On
        )

    def serialize(self) -> list[int]:
        """Return the location as the integers of a node's attribute."""
        return [
            int(self.storage),
            int(self.loadTileSet),
            int(self.storageTileSet),
            int(self.replicatedTensorSharding),
            int(self.shardingDomain.type),
            self.shardingDomain.replicaGroupSize,
        ]


_INPUTS = (
    Signature(
        (
            Parameter("tileSet", instance(TileSet), TileSet.Compute),
            Parameter("exchangeStrategy", instance(ExchangeStrategy), ExchangeStrategy.JustInTime),
        )
    ),
    # The name is spelled so in the binding.
    Signature((Parameter("relicatedStreamMode", instance(ReplicatedStreamMode)),)),
    Signature((Parameter("replicatedStreamMode", instance(ReplicatedStreamMode)),)),
)


class InputSettings:
    """How an input reaches the device: on which tiles, when, and to which replicas."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        _, bound = match_call("popart.InputSettings", "__init__", _INPUTS, arguments, named)
        self._tiles: TileSet = bound.get("tileSet", TileSet.Compute)
        self._strategy: ExchangeStrategy = bound.get(
            "exchangeStrategy", ExchangeStrategy.JustInTime
        )
        self._mode: ReplicatedStreamMode = bound.get(
            "relicatedStreamMode",
            bound.get("replicatedStreamMode", ReplicatedStreamMode.Replicate),
        )

    def tileSet(self) -> TileSet:
        """Return the tiles that the input arrives on."""
        return self._tiles

    def exchangeStrategy(self) -> ExchangeStrategy:
        """Return when the input is exchanged."""
        return self._strategy

    def replicatedStreamMode(self) -> ReplicatedStreamMode:
        """Return whether replicas get inputs of their own or the same one."""
        return self._mode
