"""What PopLibs logs of its plans, for programs that set ``POPLIBS_LOG_LEVEL``."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from popart.logger import logger_of_poplibs
from tilescope.engine.machine import Machine
from tilescope.engine.planner.plan import Plan

__all__ = ["log_plans"]

_LEVELS = ("TRACE", "DEBUG")

#: Operations whose plans PopLibs makes as those of convolutions.
_CONVOLUTIONS = ("convolution", "matmul")


def log_plans(plans: Iterable[Plan], machine: Machine) -> None:
    """Log the memory that every plan was allowed, at level DEBUG or TRACE of the environment.

    Parameters
    ----------
    plans
        Of a program.
    machine
        What it is compiled for.
    """
    if os.environ.get("POPLIBS_LOG_LEVEL", "").upper() not in _LEVELS:
        return
    for plan in plans:
        if any(name in plan.operation for name in _CONVOLUTIONS):
            limit = math.floor(plan.available_memory_proportion * machine.bytes_per_tile)
            logger_of_poplibs().warning(
                "%s: Planning convolution with a per-tile memory limit of %d", plan.name, limit
            )
