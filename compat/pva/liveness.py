"""Steps of the liveness report, by libpva's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pva.entry import Entry
from pva.explained import Explained
from pva.program import Program, program_of
from pva.variable import Variable
from tilescope.analyser.machine.target import tile_range
from tilescope.analyser.memory import liveness

if TYPE_CHECKING:
    from tilescope.analyser.machine.target import Source
    from tilescope.reports import Report as Opened

__all__ = ["LiveMemory", "LivenessProgramStep", "variables_of"]


class LiveMemory(Explained):
    """Memory that is live at a step, and the variables that hold it."""

    def __init__(self, opened: Opened, step: int, source: Source) -> None:
        self._opened = opened
        self._step = step
        self._source = source

    @property
    def bytes(self) -> int:
        """Not-always-live memory, bytes."""
        if self._source == "all":
            return int(liveness.curve(self._opened).not_always_live_bytes[self._step])
        tiles = tile_range(self._opened, self._source)
        held = liveness.step_tile_bytes(self._opened, self._step)
        return int(held[tiles.start : tiles.stop].sum())

    @property
    def variables(self) -> list[Variable]:
        """Variables that are live but not always, largest first."""
        return variables_of(liveness.step_variables(self._opened, self._step, self._source))


class LivenessProgramStep(Entry):
    """A step of the liveness report."""

    def __init__(self, opened: Opened, step: int) -> None:
        super().__init__(opened, step)
        self._step = step

    @property
    def program(self) -> Program:
        """The program of the step."""
        return program_of(self._opened, liveness.step_program(self._opened, self._step))

    @property
    def notAlwaysLiveMemory(self) -> LiveMemory:
        """On all tiles."""
        return LiveMemory(self._opened, self._step, "all")

    def notAlwaysLiveMemoryForIpu(self, ipu_id: int) -> LiveMemory:
        """On one IPU."""
        return LiveMemory(self._opened, self._step, ("ipu", ipu_id))

    def notAlwaysLiveMemoryForTile(self, tile_id: int) -> LiveMemory:
        """On one tile."""
        return LiveMemory(self._opened, self._step, ("tile", tile_id))

    def __repr__(self) -> str:
        return f"<LivenessProgramStep {self._step}>"


def variables_of(live: liveness.LiveVariables) -> list[Variable]:
    """Return variables with their sizes."""
    return [Variable(name, size) for name, size in zip(live.name, live.bytes.tolist(), strict=True)]
