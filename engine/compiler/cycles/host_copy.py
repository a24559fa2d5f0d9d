"""The cost of copies from and to the host or streaming memory."""

from __future__ import annotations

import numpy as np

from tilescope.engine.compiler.elements_by_tile import elements_by_tile
from tilescope.engine.compiler.executable.executable import RemoteAccess, StreamAccess
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.machine import Machine
from tilescope.engine.machine.exchange_law import bus_cycles

__all__ = ["host_copy_cost"]


def host_copy_cost(access: StreamAccess | RemoteAccess, machine: Machine) -> StepCost:
    """Return the cost of the data phase: over the host link, or from and to streaming memory."""
    by_tile = elements_by_tile(access.tensor, machine.n_tiles) * access.tensor.dtype.n_bytes
    is_remote = isinstance(access, RemoteAccess)
    rate = machine.streaming_bytes_per_cycle if is_remote else machine.host_bytes_per_cycle
    by_ipu = by_tile.reshape(machine.n_ipus, -1).sum(axis=1)
    transfer = np.ceil(by_ipu / rate).astype(np.int64)
    tile_cycles = bus_cycles(by_tile, machine)
    slowest = max(int(transfer.max()), int(tile_cycles.max()))
    far_end = "remote" if is_remote else "host"
    return StepCost.of(
        machine,
        "external",
        cycles=np.full(machine.n_ipus, slowest + machine.host_copy_cycles),
        tile_cycles=tile_cycles,
        **{
            "received_bytes" if access.is_input else "sent_bytes": by_tile,
            f"{far_end}_{'in' if access.is_input else 'out'}_bytes": by_ipu,
        },
    )
