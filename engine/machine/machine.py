"""One machine as a frozen record for the compiler and the cycle laws."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Machine"]


@dataclass(frozen=True)
class Machine:
    """The figures of a machine that the compiler and the cycle laws use.

    Cycles are tile clock cycles; bytes are per tile unless the name says otherwise. Figures are
    defined in `tilescope.engine.machine.FIGURES`.

    A program may run on several replicas at once, each with IPUs of its own: `n_ipus`, `n_tiles`
    and what follows from them are those of one replica, which follow each other in the system.
    """

    name: str
    architecture: str
    parameter_set: str
    n_ipus: int
    tiles_per_ipu: int
    n_worker_contexts: int
    worker_start_cycles: int
    bytes_per_tile: int
    non_interleaved_bytes: int
    interleaved_bytes: int
    memory_element_bytes: int
    interleave_factor: int
    clock_hz: float
    exchange_bytes_per_cycle: float
    paired_exchange_bytes_per_cycle: float
    exchange_start_cycles: int
    exchange_row_cycles: int
    exchange_rows: int
    exchange_words_per_send: int
    exchange_fragment_cycles: int
    exchange_is_scheduled: int
    sync_cycles: int
    external_sync_fixed_cycles: int
    external_sync_hop_cycles: float
    host_bytes_per_cycle: float
    host_copy_cycles: int
    host_wait_cycles: int
    streaming_bytes_per_cycle: float
    streaming_memory_bytes: int
    link_start_cycles: int
    link_bytes_per_cycle: float
    n_pair_links: int
    n_cross_links: int
    n_rail_links: int
    data_path_bytes: int
    weight_load_bytes_per_cycle: int
    half_conv_units: int
    mixed_conv_units: int
    float_conv_units: int
    float8_conv_units: int
    half_conv_inputs: int
    float_conv_inputs: int
    float8_conv_inputs: int
    stack_bytes: int
    control_code_bytes_per_step: int
    control_code_bytes: int
    exchange_code_bytes_per_source: int
    exchange_code_bytes_per_pointer: int
    exchange_code_bytes_per_send: int
    exchange_code_bytes_per_phase: int
    host_exchange_code_bytes: int
    packet_header_bytes: int
    instrumentation_bytes_per_step: int
    link_topology: str = "ladder"
    #: Values of POPLAR_TARGET_OPTIONS as strings, by key.
    target_options: tuple[tuple[str, str], ...] = ()
    #: Whether code for the tiles takes memory.
    compiles_code: bool = True
    #: Replicas of a program, which run at the same time.
    n_replicas: int = 1

    @property
    def estimates_worst_case(self) -> bool:
        """Whether vertices whose cycles depend on values count the worst case.

        The estimators of the IPU Model see shapes only.
        Source: graphcore/poplibs sdk-release-3.4, popopsCycleEstimators.cpp, multiSlicer.
        """
        return self.parameter_set == "ipu_model"

    @property
    def n_tiles(self) -> int:
        """Tiles of all IPUs."""
        return self.n_ipus * self.tiles_per_ipu

    @property
    def allocatable_bytes(self) -> int:
        """Memory per tile available to programs: both regions, bytes."""
        return self.non_interleaved_bytes + self.interleaved_bytes

    @property
    def capacity_bytes(self) -> int:
        """Memory of all tiles available to programs, bytes."""
        return self.n_tiles * self.allocatable_bytes

    @property
    def latest_start_cycles(self) -> int:
        """Cycles from the sync to the first payload at the farthest row of tiles."""
        return self.exchange_start_cycles + self.exchange_row_cycles * (self.exchange_rows - 1)

    @property
    def total_bytes(self) -> int:
        """Memory of all tiles, bytes."""
        return self.n_tiles * self.bytes_per_tile

    @property
    def n_system_ipus(self) -> int:
        """IPUs of all replicas."""
        return self.n_ipus * self.n_replicas

    @property
    def external_sync_cycles(self) -> int:
        """Cycles of a sync of a replica's IPUs or with the host: one hop, and one per four IPUs.

        Source: graphcore/poplibs sdk-release-3.4, lib/poplibs_test/Util.cpp, setGlobalSyncLatency.
        """
        return self._sync_cycles(self.n_ipus)

    @property
    def replica_sync_cycles(self) -> int:
        """Cycles of a sync of the IPUs of all replicas."""
        return self._sync_cycles(self.n_system_ipus)

    def _sync_cycles(self, n_ipus: int) -> int:
        n_hops = 1 + n_ipus // 4
        return math.ceil(self.external_sync_fixed_cycles + n_hops * self.external_sync_hop_cycles)

    def conv_unit(self, item_bytes: int, partial_bytes: int) -> tuple[int, int]:
        """Return the AMP's conv units, and the inputs per unit that it holds weights for.

        Parameters
        ----------
        item_bytes, partial_bytes
            Size of an operand and of a partial sum, bytes: 1 for float8, 2 for half, 4 for float.
        """
        if item_bytes == 1:
            return self.float8_conv_units, self.float8_conv_inputs
        if item_bytes == 4:
            return self.float_conv_units, self.float_conv_inputs
        is_mixed = partial_bytes == 4
        units = self.mixed_conv_units if is_mixed else self.half_conv_units
        return units, self.half_conv_inputs

    def ipu_of(self, tile_id: int) -> int:
        """Return the IPU of a tile."""
        return tile_id // self.tiles_per_ipu

    def bundle_bytes_per_cycle(self, kind: str) -> float:
        """Return bytes per cycle of a bundle of ``pair``, ``cross`` or ``rail`` links."""
        n_links = {
            "pair": self.n_pair_links,
            "cross": self.n_cross_links,
            "rail": self.n_rail_links,
        }[kind]
        return n_links * self.link_bytes_per_cycle
