"""Devices: all of them are simulated, also where a program asks for hardware."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from popart.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
)
from popart.errors import popart_exception, poplar_exception
from popart.ipu_system import N_IPUS, IpuSystem, device_ids, ipus_of
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


#: What devices without a version of their own have. Source: graphcore/popart,
#: willow/include/popart/popx/devicexmanager.hpp
_VERSIONS = {
    DeviceType.Cpu: "<unknown-cpu>",
    DeviceType.Sim: "<unknown-sim>",
    DeviceType.OfflineIpu: "<offline-ipu>",
}

#: Version of the driver that attached devices report.
_DRIVER_VERSION = "1.1.3"

#: Types as texts show them. Source: graphcore/popart, willow/src/devicemanager.cpp
_TYPE_NAMES = {
    DeviceType.Cpu: "cpu",
    DeviceType.Ipu: "ipu",
    DeviceType.IpuModel: "ipu-model",
    DeviceType.OfflineIpu: "offline-ipu",
    DeviceType.Sim: "sim",
}

_SYSTEM = IpuSystem()


@dataclass(eq=False)
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
    connectionType
        When a session attaches to it.
    random_words
        State of its random numbers: uint32, one dimension; None before it was used.
    """

    machine: Machine
    type: DeviceType
    id: int = 0
    connectionType: DeviceConnectionType = DeviceConnectionType.Always
    ipuVersion: str = "ipu2"
    isAttached: bool = False
    driverIds: list[int] = field(default_factory=list)
    random_words: NDArray[np.uint32] | None = None

    @property
    def version(self) -> str:
        """Version of an IPU Model, or of the driver."""
        if self.type is DeviceType.IpuModel:
            return self.ipuVersion
        if self.type is DeviceType.Ipu:
            return _DRIVER_VERSION if self.isAttached else "<unknown-ipu-unattached>"
        return _VERSIONS[self.type]

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

    @property
    def type_name(self) -> str:
        """The type as texts show it, such as ``ipu-model``."""
        return _TYPE_NAMES[self.type]

    @property
    def can_compile_offline(self) -> bool:
        """Whether programs for it can be saved."""
        return self.type in (DeviceType.Ipu, DeviceType.OfflineIpu)

    def attach(self) -> bool:
        """Attach to the IPUs; False if another device has them."""
        if self.type is DeviceType.Ipu and not _SYSTEM.attach(self, self.driverIds):
            return False
        self.isAttached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Attach, without waiting: only this process has the IPUs."""
        return self.attach()

    def detach(self) -> None:
        """Give the IPUs back."""
        _SYSTEM.detach(self, self.driverIds)
        self.isAttached = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        ids = ",".join(map(str, self.driverIds))
        connection = {"Always": "always", "OnDemand": "on-demand", "Never": "never"}
        return (
            f"Device Type:{self.type_name} Connection Type:{connection[self.connectionType.name]}"
            f" Id:{self.id} Version:{self.version} NumIPUs:{self.numIpus}"
            f" NumTilesPerIPU:{self.tilesPerIPU} DeviceIds: {{{ids}}}"
        )


class DeviceManager:
    """Makes devices. Asking for hardware gives devices of a simulated system of 64 IPUs."""

    def createCpuDevice(self) -> DeviceInfo:
        """Return a device of a few tiles that take any model; its cycles mean nothing."""
        few = _machine("gc200", 1, _FEW_TILES)
        rest = _CPU_TILE_BYTES - few.non_interleaved_bytes
        machine = replace(few, name="cpu", bytes_per_tile=_CPU_TILE_BYTES, interleaved_bytes=rest)
        return DeviceInfo(machine, DeviceType.Cpu, ipuVersion="", isAttached=True)

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

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        """Return a device for compiling, of the architecture that a name begins with."""
        return self.createOfflineIPUDevice({"ipuVersion": system, "numIPUs": numIpus})

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """Return a device of the simulated system, attached unless it is to be on demand.

        Raises
        ------
        popart_exception
            When the number of IPUs is no power of 2, or they are in use.
        """
        device = self.tryAcquireAvailableDevice(
            numIpus, tilesPerIpu, pattern, connectionType, selectionCriterion
        )
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with {numIpus} IPUs. Ensure that there are sufficient"
                f" IPUs available: the simulated system has {N_IPUS}, of which devices that the"
                " program holds use some"
            )
        return device

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo | None:
        """Return a device as `acquireAvailableDevice` does; None if there is none.

        Raises
        ------
        popart_exception
            When the number of IPUs is no power of 2.
        """
        del selectionCriterion  # all devices are alike
        if numIpus > 0 and numIpus & (numIpus - 1):
            raise popart_exception(
                f"You have attempted to acquire {numIpus} IPUs. The number of IPUs requested must"
                " be a power of two"
            )
        _refuse_never(connectionType)
        devices = self.enumerateDevices(
            pattern, numIpus, DeviceType.Ipu, connectionType, tilesPerIpu
        )
        # What no other device has, or will have on demand, comes first.
        devices.sort(key=lambda device: not _SYSTEM.is_idle(device.driverIds))
        return next((device for device in devices if _acquired(device)), None)

    def acquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """Return a device by its number, attached unless it is to be on demand.

        Raises
        ------
        poplar_exception
            When the device does not exist.
        popart_exception
            When it is in use.
        """
        device = self.tryAcquireDeviceById(id, pattern, connectionType)
        if device is None:
            raise popart_exception(
                f"Failed to acquire device with id '{id}'. Ensure it is available: another device"
                " of the program is attached to its IPUs"
            )
        return device

    def tryAcquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo | None:
        """Return a device as `acquireDeviceById` does; None if it is in use.

        Raises
        ------
        poplar_exception
            When the device does not exist.
        """
        del pattern  # the system has one
        _refuse_never(connectionType)
        ipus = ipus_of(int(id))
        if ipus is None:
            raise poplar_exception(f"No such device set id: '{id}'")
        device = _hardware(int(id), ipus, 0, connectionType)
        return device if _acquired(device) else None

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """Return the devices of a type and a number of IPUs, none of them attached."""
        del pattern  # the system has one
        if deviceType is DeviceType.Cpu:
            return [self.createCpuDevice()] if numIpus == 1 else []
        if deviceType is DeviceType.Ipu:
            return [
                _hardware(number, ipus, tilesPerIPU, connectionType)
                for number in device_ids(numIpus)
                if (ipus := ipus_of(number)) is not None
            ]
        if not device_ids(numIpus):
            return []
        opts = {"numIPUs": numIpus}
        if deviceType is DeviceType.OfflineIpu:
            return [self.createOfflineIPUDevice(opts)]
        if deviceType is DeviceType.Sim:
            return [self.createSimDevice(opts)]
        return [self.createIpuModelDevice(opts)]

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
        is_attached = kind in (DeviceType.IpuModel, DeviceType.Sim)
        return DeviceInfo(machine, kind, ipuVersion=version, isAttached=is_attached)


def _refuse_never(connection: DeviceConnectionType) -> None:
    if connection is DeviceConnectionType.Never:
        raise popart_exception(
            "Trying to acquire a hardware device when connectionType is"
            " DeviceConnectionType::Never. For offline compilation, use createOfflineIPUDevice"
        )


def _acquired(device: DeviceInfo) -> bool:
    """Attach to a device, or note that it will be attached to on demand."""
    if device.connectionType is DeviceConnectionType.OnDemand:
        _SYSTEM.choose(device, device.driverIds)
        return True
    return device.attach()


def _hardware(
    number: int, ipus: range, n_tiles: int, connection: DeviceConnectionType
) -> DeviceInfo:
    machine = _hardware_machine(len(ipus), n_tiles)
    return DeviceInfo(machine, DeviceType.Ipu, number, connection, driverIds=[*ipus])


@cache
def _hardware_machine(n_ipus: int, n_tiles: int) -> Machine:
    return _machine("gc200", n_ipus, n_tiles)


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
