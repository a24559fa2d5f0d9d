"""The state of a device's random numbers, from which halves are rounded by chance.

Source: graphcore/popart, willow/src/popx/rng/rngstatelowering.cpp: four words of every worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from popart.device import DeviceInfo
from popart.errors import popart_runtime_error

__all__ = ["ROUNDING_SEED", "RandomState"]

#: The value of the engine that rounding by chance draws from.
ROUNDING_SEED = "roundingSeed"

_WORDS_OF_WORKER = 4

#: Of the sequence that words follow from run to run.
#: Source: Press et al., Numerical Recipes, section 7.1
_FACTOR, _SUMMAND = np.uint32(1664525), np.uint32(1013904223)


class RandomState:
    """The state of a device, which all sessions on it share.

    Parameters
    ----------
    device
        The device.
    """

    def __init__(self, device: DeviceInfo) -> None:
        self._device = device

    @property
    def n_words(self) -> int:
        """Words of the state."""
        device = self._device
        return device.machine.n_tiles * device.numWorkerContexts * _WORDS_OF_WORKER

    def words(self) -> NDArray[np.uint32]:
        """Return the state: uint32, shape (n_words,)."""
        if self._device.random_words is None:
            self.set_seed(0)
        assert self._device.random_words is not None
        return self._device.random_words

    def set_words(self, words: Sequence[int]) -> None:
        """Set the state.

        Raises
        ------
        popart_runtime_error
            When the number of words is another one.
        """
        if len(words) != self.n_words:
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(words)}; was expecting"
                f" size {self.n_words}"
            )
        self._device.random_words = np.array(words, np.uint64).astype(np.uint32)

    def set_seed(self, seed: int) -> None:
        """Set the state to what follows from a seed."""
        n = np.arange(self.n_words, dtype=np.uint64)
        mixed = (n + np.uint64(seed & (2**64 - 1))) * np.uint64(0x9E3779B97F4A7C15)
        self._device.random_words = (mixed >> np.uint64(32)).astype(np.uint32)

    def advance(self) -> None:
        """Go on to the state after a run."""
        self._device.random_words = self.words() * _FACTOR + _SUMMAND

    def seed(self) -> NDArray[np.int32]:
        """Return a seed that stands for the whole state: int32, shape (2,)."""
        digest = blake2b(self.words().tobytes(), digest_size=8).digest()
        return np.frombuffer(digest, np.int32)
