"""The machine, by libpva's names."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilescope.analyser.machine.target import Target as Machine

__all__ = ["IPU", "Target"]


class IPU:
    """What libpva knows of an IPU: its generations."""

    class Architecture(Enum):
        """Generation of an IPU."""

        Unknown = 0
        Ipu1 = 1
        Ipu2 = 2
        Ipu21 = 21


class Target:
    """The machine a program was compiled for; sizes in bytes, the clock in hertz."""

    class Type(Enum):
        """What ran the program."""

        Cpu = 0
        Ipu = 1
        IpuModel = 2
        Unknown = 3

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def type(self) -> Target.Type:
        """Always an IPU model: the machine is simulated."""
        return Target.Type.IpuModel

    @property
    def architecture(self) -> IPU.Architecture:
        """Generation of the IPUs; ``Unknown`` for one that libpva does not have."""
        name = self._machine.architecture.capitalize()
        return IPU.Architecture.__members__.get(name, IPU.Architecture.Unknown)

    @property
    def numIPUs(self) -> int:
        """IPUs over all replicas."""
        return self._machine.n_ipus * self._machine.n_replicas

    @property
    def numTiles(self) -> int:
        """Tiles of all IPUs."""
        return self.numIPUs * self.tilesPerIpu

    @property
    def tilesPerIpu(self) -> int:
        """Tiles of one IPU."""
        return self._machine.tiles_per_ipu

    @property
    def bytesPerTile(self) -> int:
        """Memory of one tile, bytes."""
        return self._machine.bytes_per_tile

    @property
    def bytesPerIPU(self) -> int:
        """Memory of one IPU, bytes."""
        return self.bytesPerTile * self.tilesPerIpu

    @property
    def totalMemory(self) -> int:
        """Memory of all IPUs, bytes."""
        return self.bytesPerIPU * self.numIPUs

    @property
    def clockFrequency(self) -> float:
        """Tile clock, hertz."""
        return self._machine.clock_hz

    @property
    def numReplicas(self) -> int:
        """Number of replicas."""
        return self._machine.n_replicas

    @property
    def ipusPerReplica(self) -> int:
        """IPUs of one replica."""
        return self._machine.n_ipus

    @property
    def tilesPerReplica(self) -> int:
        """Tiles of one replica."""
        return self._machine.n_tiles

    @property
    def memoryPerReplica(self) -> int:
        """Memory of one replica, bytes."""
        return self.bytesPerIPU * self.ipusPerReplica
