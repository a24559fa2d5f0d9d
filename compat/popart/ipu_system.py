"""The simulated system that devices are acquired from: 64 IPUs, and which of them are in use."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Protocol

__all__ = ["N_IPUS", "Holder", "IpuSystem", "device_ids", "ipus_of"]

#: IPUs of the system: the most that a machine has.
N_IPUS = 64


class Holder(Protocol):
    """A device that has IPUs."""

    __weakref__: object


def device_ids(n_ipus: int) -> range:
    """Return the numbers of the devices of a number of IPUs; none unless it is a power of 2.

    Single IPUs come first, then pairs, and so on, as `gc-info` numbers them.
    """
    if not 1 <= n_ipus <= N_IPUS or n_ipus & (n_ipus - 1):
        return range(0)
    start, n = 0, 1
    while n < n_ipus:
        start, n = start + N_IPUS // n, 2 * n
    return range(start, start + N_IPUS // n_ipus)


def ipus_of(device_id: int) -> range | None:
    """Return the IPUs of a device by its number; None if it does not exist."""
    n_ipus = 1
    while n_ipus <= N_IPUS:
        ids = device_ids(n_ipus)
        if device_id in ids:
            start = (device_id - ids.start) * n_ipus
            return range(start, start + n_ipus)
        n_ipus *= 2
    return None


class IpuSystem:
    """Which IPUs are attached to, by devices that the program still holds."""

    def __init__(self) -> None:
        self._holders: weakref.WeakValueDictionary[int, Holder] = weakref.WeakValueDictionary()
        self._chosen: weakref.WeakValueDictionary[int, Holder] = weakref.WeakValueDictionary()

    def attach(self, device: Holder, ipus: Sequence[int]) -> bool:
        """Give IPUs to a device; False if another one has any of them."""
        if not self._is_free(device, ipus):
            gc.collect()  # devices of sessions that are gone
            if not self._is_free(device, ipus):
                return False
        for ipu in ipus:
            self._holders[ipu] = device
        return True

    def detach(self, device: Holder, ipus: Sequence[int]) -> None:
        """Take IPUs back."""
        for ipu in ipus:
            if self._holders.get(ipu) is device:
                del self._holders[ipu]

    def choose(self, device: Holder, ipus: Sequence[int]) -> None:
        """Note that a device will attach to IPUs later."""
        for ipu in ipus:
            self._chosen[ipu] = device

    def is_idle(self, ipus: Sequence[int]) -> bool:
        """Return whether no device has, or was chosen for, any of some IPUs."""
        return not any(ipu in self._holders or ipu in self._chosen for ipu in ipus)

    def _is_free(self, device: Holder, ipus: Sequence[int]) -> bool:
        return all(self._holders.get(ipu) in (None, device) for ipu in ipus)
