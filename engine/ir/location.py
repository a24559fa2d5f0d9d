"""Where a model's values are kept: on the tiles or in streaming memory, whole or in shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tilescope.engine.errors import BadOption

__all__ = ["KINDS", "ON_CHIP", "Location", "LocationRule", "Locations"]

#: Kinds of values that have locations, as users name them, and what they are.
KINDS: Mapping[str, str] = {
    "weights": "weights",
    "optimizer-state": "what an optimiser keeps of every weight",
    "accumulators": "sums of gradients over micro-batches",
    "activations": "what the forward pass computes for the backward pass or for a later phase",
}


@dataclass(frozen=True)
class Location:
    """Where a value is while no operation reads or writes it.

    Parameters
    ----------
    is_off_chip
        Whether it is in streaming memory; otherwise it is on the tiles.
    is_sharded
        Whether every replica keeps an equal shard; otherwise every replica keeps all of it.
    """

    is_off_chip: bool = False
    is_sharded: bool = False


ON_CHIP = Location()


@dataclass(frozen=True)
class LocationRule:
    """The location of the values of a kind, by their number of elements.

    Parameters
    ----------
    location
        Of those that are large enough.
    least_off_chip, least_sharded
        Elements from which on a value is kept in streaming memory, and from which on in shards.

    Raises
    ------
    BadOption
        When a number is less than 1.

    Notes
    -----
    Defaults: graphcore/popart, willow/include/popart/sessionoptions.hpp, TensorLocationSettings.
    """

    location: Location = ON_CHIP
    least_off_chip: int = 2
    least_sharded: int = 8192

    def __post_init__(self) -> None:
        """Check the numbers."""
        for what, least in (("off chip", self.least_off_chip), ("sharded", self.least_sharded)):
            if least < 1:
                raise BadOption(f"The least elements of a value {what} are {least}: expected 1 up")

    def of(self, n_elements: int) -> Location:
        """Return the location of a value of so many elements."""
        return Location(
            self.location.is_off_chip and n_elements >= self.least_off_chip,
            self.location.is_sharded and n_elements >= self.least_sharded,
        )


@dataclass(frozen=True)
class Locations:
    """The locations of all values of a model.

    Parameters
    ----------
    of_kinds
        By a name of `KINDS`; the others are on the tiles.
    named
        Of single values, by name; they take precedence.
    n_io_tiles
        Tiles of every IPU that copy from and to streaming memory while the others compute; with
        none, all tiles copy, and wait for it.

    Raises
    ------
    BadOption
        When a kind does not exist, or cannot be in shards, or the I/O tiles are no pairs.
    """

    of_kinds: Mapping[str, LocationRule] = field(default_factory=dict)
    named: Mapping[str, Location] = field(default_factory=dict)
    n_io_tiles: int = 0

    #: Kinds that replicas can have shards of.
    sharded_kinds: ClassVar[tuple[str, ...]] = ("optimizer-state",)

    def __post_init__(self) -> None:
        """Check the kinds and the tiles."""
        if self.n_io_tiles < 0 or self.n_io_tiles % 2:
            raise BadOption(
                f"The number of I/O tiles is {self.n_io_tiles}: expected an even number, as two"
                " tiles share their exchange bus"
            )
        for kind, rule in self.of_kinds.items():
            if kind not in KINDS:
                raise BadOption(f"There is no kind of values {kind!r}: choose {', '.join(KINDS)}")
            if rule.location.is_sharded and kind not in self.sharded_kinds:
                raise BadOption(
                    f"Values of kind {kind!r} cannot be sharded over replicas: shard"
                    f" {', '.join(self.sharded_kinds)}"
                )

    @property
    def is_on_chip(self) -> bool:
        """Whether nothing is anywhere else than whole on the tiles."""
        return all(
            location == ON_CHIP
            for location in (*(r.location for r in self.of_kinds.values()), *self.named.values())
        )

    def of(self, kind: str, name: str, n_elements: int) -> Location:
        """Return the location of a value."""
        if name in self.named:
            return self.named[name]
        return self.of_kinds.get(kind, LocationRule()).of(n_elements)

    @property
    def facts(self) -> dict[str, str]:
        """What a report's provenance says of it, by key; lists are in JSON."""
        kinds = self.of_kinds.items()
        off_chip = [kind for kind, rule in kinds if rule.location.is_off_chip]
        sharded = [kind for kind, rule in kinds if rule.location.is_sharded]
        facts = {"offload": off_chip, "shard": sharded}
        stated = {key: json.dumps(names) for key, names in facts.items() if names}
        return stated | ({"io_tiles": str(self.n_io_tiles)} if self.n_io_tiles else {})
