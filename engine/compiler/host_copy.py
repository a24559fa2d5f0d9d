"""What copies from and to the host, or streaming memory, cost."""

from __future__ import annotations

import numpy as np

from tilescope.engine.compiler.executable import RemoteAccess, StepCost, StreamAccess
from tilescope.engine.compiler.held import elements_by_tile
from tilescope.engine.machine import Machine

__all__ = ["host_copy_cost"]


def host_copy_cost(access: StreamAccess | RemoteAccess, machine: Machine) -> StepCost:
    """Return the cost of the data: over the host link, or from and to streaming memory."""
    by_tile = elements_by_tile(access.tensor, machine.n_tiles) * access.tensor.dtype.n_bytes
    is_remote = isinstance(access, RemoteAccess)
    rate = machine.streaming_bytes_per_cycle if is_remote else machine.host_bytes_per_cycle
    by_ipu = by_tile.reshape(machine.n_ipus, -1).sum(axis=1)
    cost = StepCost.nothing(machine)
    transfer = np.ceil(by_ipu / rate).astype(np.int64)
    cost.tile_cycles = np.ceil(by_tile / machine.exchange_bytes_per_cycle).astype(np.int64)
    slowest = max(int(transfer.max()), int(cost.tile_cycles.max()))
    cost.cycles[:] = slowest + machine.host_copy_cycles
    cost.sync_zone = "external"
    if access.is_input:
        cost.received_bytes = by_tile
    else:
        cost.sent_bytes = by_tile
    far_end = "remote" if is_remote else "host"
    setattr(cost, f"{far_end}_{'in' if access.is_input else 'out'}_bytes", by_ipu)
    return cost
