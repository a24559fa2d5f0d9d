"""What a planner decided, what it expected, and what it turned down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from tilescope.engine.graph.debug import DebugContext
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.serial import SERIAL, Serial
from tilescope.engine.planner.split import SUMMED

__all__ = ["Plan", "exchange_of"]


def exchange_of(stage: str) -> str:
    """Return the name of the stage that brings a stage its operands: ``exchange`` for compute."""
    return "exchange" if stage == "compute" else f"{stage}_exchange"


@dataclass(frozen=True)
class Plan:
    """A split of one operation, with its predicted cost.

    Parameters
    ----------
    family
        The vertices that compute: a name of `tilescope.engine.planner.families`.
    grouping
        Convolution groups, inputs and outputs that are worked on as one; ``combined`` are the
        convolution groups of the operation that were made one of these, if several were.
    split
        Number of parts by dimension: see `tilescope.engine.planner.split.PARTS`. Parts of the
        dimensions that are summed, inputs and kernel, are added up; ``serial outputs`` or
        ``serial inputs`` are parts that run one after the other, if there are several, all of them
        split over tiles as the rest says.
    swaps_operands
        Whether a product is made as that of its transposed operands, the other way round.
    predicted
        Cycles by part of the operation.
    temporary_bytes
        Largest temporary memory on a tile, bytes.
    tile_balance
        Mean over maximum of the compute cycles of all tiles, 0 to 1.
    available_memory_proportion
        Largest share of a tile that temporary memory was to take, 0 to 1.
    bound
        Why no faster split was taken: a code of `tilescope.reports.schema.vocabulary.BOUNDS`.
    runner_up
        The next best: its family, grouping (its counts as above), split and cycles by name.
    call
        Context of the library call that asked for the plan; None for a plan of no call.
    """

    name: str
    operation: str
    family: str
    grouping: Mapping[str, int]
    split: Mapping[str, int]
    swaps_operands: bool
    n_tiles: int
    predicted: Mapping[str, int]
    temporary_bytes: int
    tile_balance: float
    bound: str
    runner_up: Mapping[str, int | str]
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION
    call: DebugContext | None = field(default=None, compare=False)

    @property
    def n_partials(self) -> int:
        """Partial sums of every output, each on a tile of its own."""
        return prod(self.split[name] for name in SUMMED)

    @property
    def n_serial(self) -> int:
        """Parts that are made one after the other; 1 where all are at once."""
        return self.serial.n_parts

    @property
    def serial(self) -> Serial:
        """What is made in parts, one after the other."""
        return Serial(*(self.split.get(name, 1) for name in SERIAL))

    @property
    def predicted_cycles(self) -> int:
        """Sum of the parts, cycles."""
        return sum(self.predicted.values())
