"""Devices: all of them are simulated, also where a program asks for hardware."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from popart.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from popart.errors import popart_exception
from tilescope.engine.errors import BadMachine, BadOption
from tilescope.engine.machine import Machine, load_machine

__all__ = ["DeviceInfo", "DeviceManager"]

#: Tiles of an IPU Model that names no number.
#: Source: graphcore/popart, willow/include/popart/defaulttilecount.hpp
_FEW_TILES = 4

#: Memory of a tile of a CPU device, which has no tiles: more than any model takes.
_CPU_TILE_BYTES = 1 << 31

#: Names of IPUs, as IPU models call them, and the machines.
_MACHINES = {"ipu1": "gc2", "ipu2": "gc200", "ipu21": "bow"}


@dataclass
class DeviceInfo:
    """A device, as a session takes it.

    Parameters
    ----------
    machine
        What is simulated.
    type
        What the program asked for.
    id
        Number of the device.
    """

    machine: Machine
    type: DeviceType
    id: int = 0
    connectionType: DeviceConnectionType = DeviceConnectionType.Always
    ipuVersion: str = "ipu2"
    isAttached: bool = True
    driverIds: list[int] = field(default_factory=list)

    @property
    def version(self) -> str:
        """Name of the machine, its IPUs and tiles."""
        return f"{self.machine.name}:{self.numIpus}x{self.tilesPerIPU}"

    @property
    def numIpus(self) -> int:
        """Number of IPUs."""
        return self.machine.n_ipus

    @property
    def tilesPerIPU(self) -> int:
        """Tiles of an IPU."""
        return self.machine.tiles_per_ipu

    tilesPerIpu = tilesPerIPU

    @property
    def numWorkerContexts(self) -> int:
        """Worker contexts of a tile."""
        return self.machine.n_worker_contexts

    def attach(self) -> bool:
        """Attach; it always succeeds."""
        self.isAttached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Attach; it always succeeds."""
        return self.attach()

    def detach(self) -> None:
        """Detach."""
        self.isAttached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return (
            f"Device Type:{self.type.name}, IPU version:{self.ipuVersion}, ID:{self.id},"
            f" IPUs:{self.numIpus}, tiles per IPU:{self.tilesPerIPU}"
        )


class DeviceManager:
    """Makes devices. Asking for hardware gives simulated devices, as many as are asked for."""

    def createCpuDevice(self) -> DeviceInfo:
        """Return a device of a few tiles that take any model; its cycles mean nothing."""
        few = _machine("gc200", 1, _FEW_TILES)
        rest = _CPU_TILE_BYTES - few.non_interleaved_bytes
        machine = replace(few, name="cpu", bytes_per_tile=_CPU_TILE_BYTES, interleaved_bytes=rest)
        return DeviceInfo(machine, DeviceType.Cpu, ipuVersion="")

    def createIpuModelDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """Return an IPU Model.

        Parameters
        ----------
        opts
            ``numIPUs`` (1), ``tilesPerIPU`` (4), ``ipuVersion`` (``ipu2``), ``compileIPUCode``
            (true).

        Raises
        ------
        popart_exception
            When an option does not exist, or a value is out of range.
        """
        known = ("numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion")
        _check(opts, known, "createIpuModelDevice")
        return self._modelled(opts, DeviceType.IpuModel)

    def createSimDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """Return a device for a program that asks for the simulator; see `createIpuModelDevice`."""
        known = ("numIPUs", "tilesPerIPU", "ipuVersion", "compileIPUCode")
        _check(opts, known, "createSimDevice")
        return self._modelled(opts, DeviceType.Sim)

    def createOfflineIPUDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """Return a device with all tiles; see `createIpuModelDevice`."""
        known = ("numIPUs", "tilesPerIPU", "ipuVersion", "syncPattern", "gatewayMode")
        _check(opts, known, "createOfflineIPUDevice")
        device = self._modelled({"tilesPerIPU": 0, **opts}, DeviceType.OfflineIpu)
        device.connectionType = DeviceConnectionType.Never
        return device

    def createOfflineIpuFromDeviceInfo(self, deviceInfo: DeviceInfo) -> DeviceInfo:
        """Return a device as another one, for compiling."""
        return DeviceInfo(
            deviceInfo.machine,
            DeviceType.OfflineIpu,
            deviceInfo.id,
            DeviceConnectionType.Never,
            deviceInfo.ipuVersion,
        )

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """Return a simulated device in place of hardware.

        Raises
        ------
        popart_exception
            When the number of IPUs is no power of 2, or out of range.
        """
        del pattern, selectionCriterion  # there is nothing to choose from
        if numIpus < 1 or numIpus & (numIpus - 1):
            raise popart_exception(
                f"You have attempted to acquire {numIpus} IPUs. The number of IPUs requested must"
                " be a power of two"
            )
        machine = _machine("gc200", numIpus, tilesPerIpu)
        return DeviceInfo(machine, DeviceType.Ipu, 0, connectionType, driverIds=[*range(numIpus)])

    tryAcquireAvailableDevice = acquireAvailableDevice

    def acquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """Return a simulated device with that number, of one IPU."""
        device = self.acquireAvailableDevice(1, 0, pattern, connectionType)
        device.id = int(id)
        return device

    tryAcquireDeviceById = acquireDeviceById

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """Return the devices that there are: one simulated device of each kind."""
        if deviceType is DeviceType.Cpu:
            return [self.createCpuDevice()]
        if deviceType is DeviceType.IpuModel:
            return [self.createIpuModelDevice({"numIPUs": numIpus})]
        return [self.acquireAvailableDevice(numIpus, tilesPerIPU, pattern, connectionType)]

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """Accept a time that nothing waits for."""

    def _modelled(self, opts: Mapping[str, Any], kind: DeviceType) -> DeviceInfo:
        version = str(opts.get("ipuVersion", "ipu2"))
        name = _MACHINES.get(version.split(":", maxsplit=1)[0])
        if name is None:
            raise popart_exception(f"Unknown ipuVersion {version!r}: choose {', '.join(_MACHINES)}")
        n_ipus, n_tiles = (
            _number(key, opts.get(key, default))
            for key, default in (("numIPUs", 1), ("tilesPerIPU", _FEW_TILES))
        )
        compiles = str(opts.get("compileIPUCode", True)).lower() not in ("false", "0")
        is_model = kind is DeviceType.IpuModel
        machine = _machine(
            name, n_ipus, n_tiles, parameters="ipu_model" if is_model else "hardware",
            compiles_code=compiles or not is_model,
        )  # fmt: skip
        return DeviceInfo(machine, kind, ipuVersion=version)


def _number(key: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise popart_exception(f"{key} is {value!r}: expected a whole number") from None


def _check(opts: Mapping[str, Any], known: tuple[str, ...], function: str) -> None:
    for key in opts:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise popart_exception(
                f"Invalid option `{key}' passed to {function}: choose {', '.join(known)}{hint}"
            )


def _machine(
    name: str,
    n_ipus: int,
    n_tiles: int,
    *,
    parameters: str = "hardware",
    compiles_code: bool = True,
) -> Machine:
    try:
        return load_machine(
            name,
            n_ipus=n_ipus,
            tiles_per_ipu=n_tiles or None,
            parameter_set=parameters,
            compiles_code=compiles_code,
        )
    except (BadMachine, BadOption) as error:
        raise popart_exception(str(error)) from None
