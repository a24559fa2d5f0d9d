"""Cycles of compiled steps as the planner counts them: an exchange by its busiest tile."""

from __future__ import annotations

import numpy as np

from tilescope.engine.compiler.executable.executable import Executable, Step
from tilescope.engine.machine import Machine, tile_rows

__all__ = ["planners_cycles", "planners_total"]


def planners_total(executable: Executable) -> int:
    """Return the cycles of all steps, exchanges by their busiest tiles."""
    return sum(planners_cycles(step, executable.machine) for step in executable.steps)


def planners_cycles(step: Step, machine: Machine) -> int:
    """Return the cycles of a step; of an exchange those of its busiest tile, by bytes.

    Planners count bytes, as poplin's do. By the schedule of its sends an exchange takes as long or
    longer, never less.
    """
    cost, cycles = step.cost, int(step.cost.cycles.max())
    if step.kind != "DoExchange":
        return cycles
    received, paired, sent = (
        column.dense() for column in (cost.received_bytes, cost.paired_bytes, cost.sent_bytes)
    )
    words = (received - paired) / machine.exchange_bytes_per_cycle
    words = np.ceil(words + paired / machine.paired_exchange_bytes_per_cycle)
    words = np.maximum(words, cost.fragments.dense() * machine.exchange_fragment_cycles)
    rows = np.tile(tile_rows(machine.tiles_per_ipu, machine.exchange_rows), machine.n_ipus)
    finished = np.where(words > 0, words + machine.exchange_row_cycles * rows, 0)
    # In pairs, what is sent over a partner's lane as well is not known.
    words_sent = 0 if paired.any() else sent.max() / machine.exchange_bytes_per_cycle
    sending = int(np.ceil(words_sent))
    busiest = int(max(finished.max(), sending)) + machine.exchange_start_cycles
    assert busiest <= cycles
    return busiest
