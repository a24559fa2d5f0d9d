"""The device of an executor."""

from __future__ import annotations

from poptorch import optim
from poptorch.enums import ConnectionType
from poptorch.errors import createPoptorchError
from poptorch.executor.optimized import OptimizedExecutor

__all__ = ["AttachedExecutor"]


class AttachedExecutor(OptimizedExecutor):
    """An executor whose program is on a device, or on none."""

    def _attach(self) -> None:
        self._is_attached = True
        self._copy_to_device(None)
        optimizer = self._optimizer
        if isinstance(optimizer, optim.Optimizer):
            if optimizer.has_state():
                optimizer.ipu_state_is_dirty = True
                self._write_optimizer_state()
            else:
                optimizer.host_state_is_dirty = True
                optimizer.ipu_state_is_dirty = False
        if self._seed is not None:
            self._compiled().set_seed(self._seed[1:])

    def attachToDevice(self) -> None:
        """Bring the program, its weights and states to the device.

        Raises
        ------
        Error
            When nothing is compiled, or the program is on the device.
        AssertionError
            When the model is offline.
        """
        self._compiled()
        assert self._options.connection_type != ConnectionType.Never.value, (
            "Trying to attach to an offline device (ConnectionType.Never)"
        )
        if self._is_attached:
            raise createPoptorchError("Device is already attached")
        self._attach()

    def detachFromDevice(self) -> None:
        """Bring weights and states to the host, and give the device back.

        Raises
        ------
        Error
            When nothing is compiled, or the program is on no device.
        """
        self._compiled()
        if not self._is_attached:
            raise createPoptorchError("Device is not attached")
        self._seed = self.rng_state
        if self._training:
            self.copyWeightsToHostIfNeeded()
            self._read_optimizer_state()
        self._is_attached = False

    @property
    def rng_state(self) -> list[int]:
        """State of the random numbers: the seed of the options, and the words of the device."""
        program = self._compiled()
        if self._seed is None:
            options = self._options
            first = options.random_seed if options.exists("random_seed") else 0
            self._seed = [first, *program.seed()]
        return self._seed

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        program = self._compiled()
        self._seed = [*state]
        if self._is_attached:
            program.set_seed(state[1:])
