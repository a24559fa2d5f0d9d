"""What a run tells: anchored tensors, cycles and times."""

from __future__ import annotations

import torch

from poptorch.errors import createPoptorchError
from poptorch.executor.saved import SavedExecutor
from poptorch.executor.timing import latency

__all__ = ["ReportedExecutor"]


class ReportedExecutor(SavedExecutor):
    """An executor that tells of its runs."""

    def getTensorNames(self) -> list[str]:
        """Return the names of tensors that can be anchored.

        Raises
        ------
        AssertionError
            When nothing is compiled.
        """
        assert self._program is not None, "Model must be compiled before calling getTensorNames"
        gradients: list[str] = []
        if self._training:
            weights = self._program.graph.interface.parameters
            gradients = [f"{kind}___{n}" for kind in ("Gradient", "UpdatedVar") for n in weights]
        held = [value.name for value in self._program.compiled.held if value.is_setting]
        return [*self._program.graph.names, *gradients, *held]

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """Return the values of an anchored tensor in the last call.

        Raises
        ------
        AssertionError
            When there is none of the name.
        """
        assert short_name in self._anchor_memory, f"No tensor with name {short_name} found."
        return self._anchor_memory[short_name]

    def cycleCount(self) -> int:
        """Return the cycles of the last call, on the slowest IPU.

        Raises
        ------
        Error
            When they are not counted, or nothing ran.
        """
        if not self._options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise createPoptorchError(
                "Cycle count logging is disabled. Please set option logCycleCount to True to"
                " enable."
            )
        if self._program is None:
            raise createPoptorchError(
                "Please run the model at least once before obtaining cycle count."
            )
        return self._program.cycles

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """Return when the last call gave inputs and took outputs; simulated time, in seconds."""
        return self._times.read()

    def getHostIpuLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time of the transfer of inputs, in seconds."""
        return latency(self._times.read(), "input", "input_complete")

    def getComputeLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time from inputs to outputs, in seconds."""
        return latency(self._times.read(), "input_complete", "output")

    def getIpuHostLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time of the transfer of outputs, in seconds."""
        return latency(self._times.read(), "output", "output_complete")

    def getLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time of a batch, in seconds."""
        return latency(self._times.read(), "input", "output_complete")
