"""The cost of one execution of a step on every tile and IPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.machine import Machine

__all__ = ["IPU_COLUMNS", "TILE_COLUMNS", "StepCost"]

TILE_COLUMNS = ("tile_cycles", "sent_bytes", "received_bytes", "paired_bytes", "fragments")
IPU_COLUMNS = (
    "cycles",
    "host_in_bytes",
    "host_out_bytes",
    "remote_in_bytes",
    "remote_out_bytes",
    "link_in_bytes",
    "link_out_bytes",
    "flops",
)


@dataclass(frozen=True, eq=False, slots=True)
class StepCost:
    """The cost of one execution of a step; zero columns take no memory.

    Parameters
    ----------
    cycles : Column, by IPU
        Time on each IPU.
    tile_cycles : Column, by tile
        Busy cycles of every tile.
    sent_bytes, received_bytes : Column, by tile
        Exchanged by every tile; a multicast counts once at its sender.
    paired_bytes : Column, by tile
        Part of the received bytes, at double rate because the tile's partner receives them too.
    fragments : Column, by tile
        Separate fragments each tile receives.
    host_in_bytes, host_out_bytes : Column, by IPU
        From and to the host.
    remote_in_bytes, remote_out_bytes : Column, by IPU
        From and to remote buffers in streaming memory.
    link_in_bytes, link_out_bytes : Column, by IPU
        From and to other IPUs.
    flops : Column, by IPU
        Useful floating-point operations.
    sync_zone
        ``none``, ``internal`` or ``external``: the sync that the step is or ends in.
    """

    cycles: Column
    tile_cycles: Column
    sent_bytes: Column
    received_bytes: Column
    paired_bytes: Column
    fragments: Column
    host_in_bytes: Column
    host_out_bytes: Column
    remote_in_bytes: Column
    remote_out_bytes: Column
    link_in_bytes: Column
    link_out_bytes: Column
    flops: Column
    sync_zone: str = "none"

    @classmethod
    def of(cls, machine: Machine, sync_zone: str = "none", **values: NDArray[Any]) -> StepCost:
        """Build a cost from arrays of integers by column name; missing columns are 0.

        Parameters
        ----------
        machine
            Gives the number of tiles and IPUs.
        sync_zone
            ``none``, ``internal`` or ``external``.
        values : ndarray of int64, shape (n_tiles,) or (n_ipus,)
            By the names of the columns.
        """
        columns = {
            **dict.fromkeys(TILE_COLUMNS, Column.zeros(machine.n_tiles)),
            **dict.fromkeys(IPU_COLUMNS, Column.zeros(machine.n_ipus)),
            **{name: Column.of(array) for name, array in values.items()},
        }
        return cls(**columns, sync_zone=sync_zone)

    @classmethod
    def nothing(cls, machine: Machine) -> StepCost:
        """Return the cost of a step without any work."""
        return cls.of(machine)
