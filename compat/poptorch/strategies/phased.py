"""Strategies in which phases keep their tensors off the chip; they cannot run yet."""

from __future__ import annotations

from typing import Any, Self

from poptorch.enums import Liveness
from poptorch.strategies.stage import Stage
from poptorch.strategies.stage_manager import ExecutionStrategy, StatedStages, block_map_of

__all__ = ["ParallelPhasedExecution", "Phase", "PhasedExecution", "SerialPhasedExecution"]


class Phase:
    """Stages that run at the same time, or blocks that are a stage.

    Raises
    ------
    AssertionError
        When the arguments are neither all stages nor all names.
    """

    def __init__(self, *arg: str | Stage) -> None:
        stages = [item for item in arg if isinstance(item, Stage)]
        names = [item for item in arg if isinstance(item, str)]
        is_uniform = len(arg) in (len(stages), len(names))
        assert is_uniform, (
            "All arguments must either be block IDs (strings) or Stages:"
            f" {[type(item) for item in arg]}"
        )
        self.stages = tuple(stages) if len(stages) == len(arg) else (Stage(*names),)

    def stage(self, idx: int) -> Stage:
        """Return a stage by its number."""
        return self.stages[idx]

    def ipus(self, *ipus: int) -> None:
        """Set the IPUs of the stages.

        Raises
        ------
        AssertionError
            When there are not as many as stages.
        """
        assert len(ipus) == len(self.stages), (
            f"Phase contains {len(self.stages)} stages but you provided {len(ipus)} ipus"
        )
        for stage, ipu in zip(self.stages, ipus, strict=True):
            stage.ipu(ipu)


class PhasedExecution(ExecutionStrategy):
    """What phased strategies have in common.

    Parameters
    ----------
    *phases
        Phases, or lists of stages or of names of blocks, or a name.

    Raises
    ------
    AssertionError
        When there is none, or a block is in two.
    """

    def __init__(self, *phases: Phase | list[Stage] | list[str] | str) -> None:
        assert phases, (
            "There is currently no AutoStage for PhasedExecution, please explicitly specify the"
            " phases"
        )
        self._tensors_liveness = Liveness.AlwaysLive
        self._separate_backward_phase = False
        self._phases = [_phase_of(phase) for phase in phases]
        stages = []
        for number, phase in enumerate(self._phases):
            for stage in phase.stages:
                stage._phase_id = number
                stages.append(stage)
        block_map = block_map_of(stages, lambda stage: f"phase {stage._phase_id}")
        super().__init__(StatedStages(block_map), block_map)

    def phase(self, phase: int) -> Phase:
        """Return a phase by its number.

        Raises
        ------
        AssertionError
            When it is not a number from 0.
        """
        is_number = isinstance(phase, int) and phase >= 0
        assert is_number, "Phases are identified by positive integers"
        return self._phases[phase]

    def useSeparateBackwardPhase(self, use: bool = True) -> Self:
        """Let the backward pass of the last phase be a phase of its own.

        Raises
        ------
        AssertionError
            When it is not a bool.
        """
        assert isinstance(use, bool), f"use is {use!r}: expected a bool"
        self._separate_backward_phase = use
        return self

    def backendOptions(self) -> dict[str, Any]:
        """Return how the phases run, as options."""
        return {
            "execution_mode": 2,
            "separate_backward_phase": self._separate_backward_phase,
            "tensors_liveness": self._tensors_liveness.value,
        }


class ParallelPhasedExecution(PhasedExecution):
    """Phases whose stages run at the same time."""

    def backendOptions(self) -> dict[str, Any]:
        """Return how the phases run, as options."""
        return {**super().backendOptions(), "serial_phases_execution": False}

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> Self:
        """Set whether tensors leave the chip after the forward pass.

        Raises
        ------
        AssertionError
            When it is not a bool.
        """
        assert isinstance(off_chip, bool), f"off_chip is {off_chip!r}: expected a bool"
        kept = Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        self._tensors_liveness = kept
        return self


class SerialPhasedExecution(PhasedExecution):
    """Phases that run one after the other."""

    def setTensorsLiveness(self, liveness: Liveness) -> Self:
        """Set how long tensors stay on the chip.

        Raises
        ------
        AssertionError
            When it is not a `Liveness`.
        """
        assert isinstance(liveness, Liveness), f"liveness is {liveness!r}: expected a Liveness"
        self._tensors_liveness = liveness
        return self

    def backendOptions(self) -> dict[str, Any]:
        """Return how the phases run, as options."""
        return {**super().backendOptions(), "serial_phases_execution": True}


def _phase_of(given: Phase | list[Stage] | list[str] | str) -> Phase:
    if isinstance(given, Phase):
        return given
    return Phase(*given) if isinstance(given, list) else Phase(given)
