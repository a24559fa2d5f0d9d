"""Devices: a simulated system of 64 IPUs, of which programs acquire, attach to and detach."""

from __future__ import annotations

import pytest

import popart


def test_devices_are_enumerated_by_their_number_of_ipus() -> None:
    manager = popart.DeviceManager()
    assert [d.id for d in manager.enumerateDevices()] == [*range(64)]
    pairs = manager.enumerateDevices(numIpus=2)
    assert (pairs[0].id, pairs[0].driverIds, len(pairs)) == (64, [0, 1], 32)
    assert [d.numIpus for d in manager.enumerateDevices(numIpus=64)] == [64]
    assert not manager.enumerateDevices(numIpus=3)
    assert not manager.enumerateDevices(numIpus=128)
    assert not manager.enumerateDevices(numIpus=2, deviceType=popart.DeviceType.Cpu)


def test_a_device_has_its_ipus_until_it_is_detached_or_gone() -> None:
    manager = popart.DeviceManager()
    device = manager.acquireDeviceById(5)
    assert (device.isAttached, device.version) == (True, "1.1.3")
    with pytest.raises(popart.popart_exception, match="Failed to acquire device with id '5'"):
        manager.acquireDeviceById(5)
    assert manager.tryAcquireDeviceById(66) is None  # IPUs 4 and 5
    device.detach()
    assert device.version == "<unknown-ipu-unattached>"
    second = manager.acquireDeviceById(66)
    assert second.driverIds == [4, 5]
    del second
    assert manager.tryAcquireDeviceById(5) is not None
    with pytest.raises(popart.poplar_exception, match="No such device set id: '999'"):
        manager.acquireDeviceById(999)


def test_more_ipus_than_the_system_has_are_refused() -> None:
    manager = popart.DeviceManager()
    with pytest.raises(popart.popart_exception, match="acquire device with 256 IPUs"):
        manager.acquireAvailableDevice(256)
    with (
        manager.acquireAvailableDevice(64),
        pytest.raises(popart.popart_exception, match="Failed to acquire device with 1 IPUs"),
    ):
        manager.acquireAvailableDevice(1)
    with manager.acquireAvailableDevice(1):
        pass
    with pytest.raises(popart.popart_exception, match="connectionType is DeviceConnectionType"):
        manager.acquireAvailableDevice(connectionType=popart.DeviceConnectionType.Never)


def test_devices_on_demand_are_attached_to_by_sessions() -> None:
    manager = popart.DeviceManager()
    on_demand = popart.DeviceConnectionType.OnDemand
    devices = [manager.acquireAvailableDevice(connectionType=on_demand) for _ in range(2)]
    assert devices[0].id != devices[1].id
    assert not devices[0].isAttached
    assert devices[0].tryAttachUntilTimeout()
    assert devices[1].attach()


def test_versions_and_texts() -> None:
    manager = popart.DeviceManager()
    assert manager.createIpuModelDevice({}).version == "ipu2"
    assert manager.createIpuModelDevice({"ipuVersion": "ipu21"}).version == "ipu21"
    assert manager.createCpuDevice().version == "<unknown-cpu>"
    offline = manager.createOfflineIpuFromSystemString("ipu21", 2)
    assert (offline.version, offline.numIpus, offline.isAttached) == ("<offline-ipu>", 2, False)
    text = repr(manager.createSimDevice({}))
    assert text.startswith("Device Type:sim Connection Type:always Id:0 Version:<unknown-sim>")
