"""The machine of a report, and which tiles a question is about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tilescope.analyser.absence import machine_absence
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.validation import require
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Source", "Target", "format_source", "parse_source", "target", "tile_range"]

#: Which tiles: all of them, those of one IPU, or one.
Source: TypeAlias = Literal["all"] | tuple[Literal["ipu", "tile"], int]


#: Sixteen times the largest pod that was built.
_MOST_TILES = 1 << 20


@dataclass(frozen=True)
class Target:
    """The machine a program was compiled for; sizes in bytes, the clock in hertz."""

    name: str
    target_type: str
    architecture: str
    parameter_set: str
    n_ipus: int
    n_replicas: int
    tiles_per_ipu: int
    bytes_per_tile: int
    non_interleaved_bytes: int
    interleaved_bytes: int
    n_worker_contexts: int
    clock_hz: float
    exchange_bytes_per_cycle: float
    host_bytes_per_cycle: float
    sync_cycles: int
    #: None for a machine from a file, and in reports of before it was recorded.
    preset_tiles_per_ipu: int | None

    @property
    def capacity_bytes(self) -> int:
        """What programs may use of a tile's memory: its regions; the rest is reserved."""
        return self.non_interleaved_bytes + self.interleaved_bytes

    @property
    def executable_bytes(self) -> int:
        """Where code must end on a tile: the region that it can be executed from."""
        return self.non_interleaved_bytes

    @property
    def n_tiles(self) -> int:
        """Tiles of one replica; every per-tile answer has this length."""
        return self.n_ipus * self.tiles_per_ipu


@cached
def target(report: Report) -> Target:
    """Return the machine the program of a report was compiled for.

    Raises
    ------
    BadQuestion
        When the run ended before it wrote the machine.
    DamagedReport
        When it is no machine that can be.
    """
    rows = report.rows(schema.target, *Target.__dataclass_fields__)
    if not rows:
        raise BadQuestion(machine_absence(report))
    machine = Target(*rows[0])
    is_plausible = (
        min(machine.n_ipus, machine.n_replicas, machine.tiles_per_ipu, machine.bytes_per_tile) > 0
        and machine.n_tiles <= _MOST_TILES
        and 0 < machine.clock_hz < math.inf
    )
    require(report, is_plausible, "its machine is none that can be")
    return machine


def parse_source(text: str) -> Source:
    """Return the tiles named by ``all``, ``ipu:0`` or ``tile:17``.

    Raises
    ------
    BadQuestion
        When the text is none of these.
    """
    kind, _, number = text.strip().partition(":")
    if kind == "all" and not number:
        return "all"
    if kind in {"ipu", "tile"} and number.isascii() and number.isdigit() and len(number) < 10:
        return ("ipu" if kind == "ipu" else "tile", int(number))
    raise BadQuestion(f"source {text!r} is not known; allowed are all, ipu:N and tile:N")


def format_source(source: Source) -> str:
    """Return a source as ``parse_source`` reads it."""
    return "all" if source == "all" else f"{source[0]}:{source[1]}"


def tile_range(report: Report, source: Source) -> range:
    """Return the tiles of a source as a range.

    Raises
    ------
    BadQuestion
        When the machine has no such IPU or tile.
    """
    machine = target(report)
    if source == "all":
        return range(machine.n_tiles)
    kind, number = source
    size = machine.tiles_per_ipu if kind == "ipu" else 1
    n_allowed = machine.n_tiles // size
    if not 0 <= number < n_allowed:
        raise BadQuestion(
            f"{kind} {number} does not exist; this report has {kind}s 0 to {n_allowed - 1}"
        )
    return range(number * size, (number + 1) * size)
