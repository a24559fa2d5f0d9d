"""Seed and state of a session's random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from popart.enums import SyntheticDataMode
from popart.errors import popart_runtime_error
from popart.logger import Logger
from popart.random_state import ROUNDING_SEED
from popart.session.compiled import CompiledSession
from popart.session.engine_errors import as_popart
from tilescope.engine.session.engine import Engine
from tilescope.engine.training.modes import SEED

if TYPE_CHECKING:
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["RandomSession"]

_SESSION = Logger("session")


class RandomSession(CompiledSession):
    """A session whose random numbers can be set."""

    def setRandomSeed(self, seedValue: int) -> None:
        """Set what dropout, random operators and rounding by chance draw from.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared.
        """
        if not self._is_random():
            _SESSION.warn(
                "Trying to set the random seed, but this session has no random behaviour. Doing"
                " nothing."
            )
            return
        compiled, engine = self._prepared("setRandomSeedFromHost(uint64_t)")
        self._random.set_seed(int(seedValue))
        words = np.array([int(seedValue) & (2**64 - 1)], np.uint64).view(np.int32)
        names = {value.name for value in compiled.held}
        seeds = {name: words for name in (SEED, ROUNDING_SEED) if name in names}
        if seeds:
            with as_popart(), engine.recording(False):
                compiled.write_held(engine, seeds)

    def getRandomSeed(self) -> int:
        """Return the seed, which follows from the one that was set and the runs since then.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared.
        """
        if not self._is_random():
            _SESSION.warn(
                "Trying to get the random seed, but this session has no random behaviour. Doing"
                " nothing."
            )
            return 0
        compiled, engine = self._prepared("getRandomSeedToHost()")
        with as_popart(), engine.recording(False):
            held = compiled.read_held(engine)
        words = held.get(SEED, held.get(ROUNDING_SEED))
        return 0 if words is None else int(np.ascontiguousarray(words).view(np.uint64)[0])

    def _is_random(self) -> bool:
        """Return whether the model draws random numbers, or rounds by chance."""
        draws = any(update.held.name == SEED for update in self._model.updates)
        return draws or bool(self._options.enableStochasticRounding)

    def getRNGState(self) -> list[int]:
        """Return the state of the device's random numbers: four words of every worker.

        Raises
        ------
        popart_runtime_error
            When ``enableLoadAndOffloadRNGState`` is off, or the device is not prepared.
        """
        self._check_rng("get", "getRngStateToHost")
        return [] if self._is_synthetic else [int(word) for word in self._random.words()]

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        """Set the state of the device's random numbers.

        Raises
        ------
        popart_runtime_error
            When ``enableLoadAndOffloadRNGState`` is off, the device is not prepared, or the state
            has another size.
        """
        self._check_rng("set", "setRngStateFromHost")
        if not self._is_synthetic:
            self._random.set_words(rngValue)

    def _check_rng(self, verb: str, function: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                f"Trying to {verb} the RNG state, but the session option"
                " enableLoadAndOffloadRNGState must be set to True."
            )
        self._prepared(function)

    @property
    def _is_synthetic(self) -> bool:
        return bool(self._options.syntheticDataMode is not SyntheticDataMode.Off)

    def _load_random_state(self, compiled: CompiledModel, engine: Engine) -> None:
        """Round by chance from the state of the device, if that is in the program's hands."""
        names = {value.name for value in compiled.held}
        if self._options.enableLoadAndOffloadRNGState and ROUNDING_SEED in names:
            with as_popart(), engine.recording(False):
                compiled.write_held(engine, {ROUNDING_SEED: self._random.seed()})
