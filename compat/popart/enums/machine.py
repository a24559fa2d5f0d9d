"""Enumerations about devices."""

from __future__ import annotations

from popart.enumeration import Enumeration
from popart.errors import popart_exception

__all__ = [
    "DeviceConnectionType",
    "DeviceSelectionCriterion",
    "DeviceType",
    "SyncPattern",
    "syncPatternFromString",
    "syncPatternToString",
]


class DeviceType(Enumeration):
    """What runs a program."""

    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4

    def __str__(self) -> str:
        return _TEXTS[self]


class DeviceConnectionType(Enumeration):
    """When a device is attached."""

    Always = 0
    OnDemand = 1
    Never = 2

    def __str__(self) -> str:
        return _TEXTS[self]


class DeviceSelectionCriterion(Enumeration):
    """Which of the free devices is taken."""

    First = 0
    Random = 1


class SyncPattern(Enumeration):
    """Which IPUs of a device sync with one another."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2

    def __str__(self) -> str:
        return _TEXTS[self]


_TEXTS: dict[Enumeration, str] = {
    DeviceType.Cpu: "cpu",
    DeviceType.Ipu: "ipu",
    DeviceType.IpuModel: "ipu-model",
    DeviceType.OfflineIpu: "offline-ipu",
    DeviceType.Sim: "sim",
    DeviceConnectionType.Always: "always",
    DeviceConnectionType.OnDemand: "on-demand",
    DeviceConnectionType.Never: "never",
    SyncPattern.Full: "full",
    SyncPattern.SinglePipeline: "singlePipeline",
    SyncPattern.ReplicaAndLadder: "replicaAndLadder",
}


def syncPatternFromString(text: str) -> SyncPattern:
    """Return the sync pattern of a name: ``full``, ``singlePipeline`` or ``replicaAndLadder``."""
    for pattern in SyncPattern:
        if str(pattern) == text:
            return pattern
    raise popart_exception(f"Unknown syncPattern setting: {text}")


def syncPatternToString(pattern: SyncPattern) -> str:
    """Return the name of a sync pattern."""
    return str(pattern)
