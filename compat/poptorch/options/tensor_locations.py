"""Options of where tensors are: on the chip or off it, whole or in shards."""

from __future__ import annotations

from typing import Self

from poptorch.options.dictionary import OptionsDict

__all__ = ["TensorLocationOptions", "TensorLocationSettings"]


def _checked(value: object, kind: type, name: str) -> None:
    """Refuse a value of another type.

    Raises
    ------
    AssertionError
        Names the setting.
    """
    assert isinstance(value, kind), f"{name} is {value!r}: expected {kind.__name__}"


class TensorLocationSettings(OptionsDict):
    """Where tensors of a kind are."""

    def minElementsForOffChip(self, min_elements: int) -> Self:
        """Set the least number of elements of a tensor off the chip.

        Raises
        ------
        AssertionError
            When it is not an integer.
        """
        _checked(min_elements, int, "minElementsForOffChip")
        self.createOrSet(minElementsForOffChip=min_elements)
        return self

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self:
        """Set the least number of elements of a tensor in shards.

        Raises
        ------
        AssertionError
            When it is not an integer.
        """
        _checked(min_elements, int, "minElementsForReplicatedTensorSharding")
        self.createOrSet(minElementsForReplicatedTensorSharding=min_elements)
        return self

    def useOnChipStorage(self, use: bool | None = True) -> Self:
        """Keep tensors on the chip, or off it; None leaves it to the compiler.

        Raises
        ------
        AssertionError
            When it is not a bool.
        """
        if use is None:
            self.deleteIfExists("onChip")
        else:
            _checked(use, bool, "useOnChipStorage")
            self.createOrSet(onChip=int(use))
        return self

    def useReplicatedTensorSharding(self, use: bool = True) -> Self:
        """Keep a shard of every tensor on every replica.

        Raises
        ------
        AssertionError
            When it is not a bool.
        """
        _checked(use, bool, "useReplicatedTensorSharding")
        self.createOrSet(useReplicatedTensorSharding=int(use))
        return self

    def useIOTilesToLoad(self, use: bool = True) -> Self:
        """Load tensors through I/O tiles.

        Raises
        ------
        AssertionError
            When it is not a bool.
        """
        _checked(use, bool, "useIOTilesToLoad")
        self.createOrSet(useIOTilesToLoad=int(use))
        return self

    def useIOTilesToStore(self, use: bool = True) -> Self:
        """Store tensors through I/O tiles.

        Raises
        ------
        AssertionError
            When it is not a bool.
        """
        _checked(use, bool, "useIOTilesToStore")
        self.createOrSet(useIOTilesToStore=int(use))
        return self


class TensorLocationOptions(OptionsDict):
    """Where tensors are, by kind: ``Options.TensorLocations``."""

    def numIOTiles(self, num_tiles: int) -> Self:
        """Set the number of tiles that only transfer.

        Raises
        ------
        AssertionError
            When it is not an even integer from 32 to 192.
        """
        _checked(num_tiles, int, "numIOTiles")
        is_allowed = 32 <= num_tiles <= 192 and num_tiles % 2 == 0
        assert is_allowed, "numIOTiles must be an even number between 32 and 192."
        self.createOrSet(numIOTiles=num_tiles)
        return self

    def setActivationLocation(self, location: TensorLocationSettings) -> Self:
        """Set where activations are.

        Raises
        ------
        AssertionError
            When it is not a `TensorLocationSettings`.
        """
        return self._set("activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> Self:
        """Set where weights are.

        Raises
        ------
        AssertionError
            When it is not a `TensorLocationSettings`.
        """
        return self._set("weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self:
        """Set where states of the optimizer are.

        Raises
        ------
        AssertionError
            When it is not a `TensorLocationSettings`.
        """
        return self._set("optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self:
        """Set where sums of gradients are.

        Raises
        ------
        AssertionError
            When it is not a `TensorLocationSettings`.
        """
        return self._set("accumulator", location)

    def _set(self, kind: str, location: TensorLocationSettings) -> Self:
        _checked(location, TensorLocationSettings, f"the location of {kind}s")
        self.createOrSet(**{f"location_{kind}": location.toDict()})
        return self
