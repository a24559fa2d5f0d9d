"""What holds for the memory of every executable, checked pair by pair."""

from __future__ import annotations

import numpy as np

from engine import Executable

__all__ = ["check_memory"]


def check_memory(executable: Executable) -> None:
    """Check that categories make up the total, and that no two live parts of a tile meet."""
    memory, machine = executable.memory, executable.machine
    assert (memory.live >= 0).all()
    assert memory.not_always_live_peak.tolist() == memory.live.max(axis=0).tolist()
    total = memory.always_live + memory.not_always_live_peak
    assert memory.excluding_gaps.tolist() == total.tolist()
    assert (memory.excluding_gaps <= memory.including_gaps).all()
    in_categories = sum(regions.sum(axis=0) for regions in memory.categories.values())
    assert np.asarray(in_categories).tolist() == memory.excluding_gaps.tolist()
    parts = memory.parts
    for tile in range(machine.n_tiles):
        here = range(int(parts.tile_start[tile]), int(parts.tile_start[tile + 1]))
        for i in here:
            end = int(parts.offset[i] + parts.n_bytes[i])
            assert end <= memory.including_gaps[tile]
            for j in range(i + 1, here.stop):
                apart_in_time = (
                    parts.end_step[i] <= parts.start_step[j]
                    or parts.end_step[j] <= parts.start_step[i]
                )
                apart_in_space = (
                    end <= parts.offset[j] or parts.offset[j] + parts.n_bytes[j] <= parts.offset[i]
                )
                assert apart_in_time or apart_in_space
