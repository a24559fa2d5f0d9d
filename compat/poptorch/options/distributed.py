"""Options of several processes that train one model."""

from __future__ import annotations

import os
from typing import Self

from poptorch.options.dictionary import OptionsDict

__all__ = ["DistributedOptions"]


class DistributedOptions(OptionsDict):
    """Which of how many processes this is: ``Options.Distributed``."""

    def __init__(self) -> None:
        super().__init__(num_distributed_processes=1, distributed_process_id=0, ipuof_configs={})
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def disable(self) -> Self:
        """Be the only process, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Take both numbers from variables of the environment."""
        number = int(os.environ.get(var_process_id, "0"))
        return self.configureProcessId(number, int(os.environ.get(var_num_processes, "1")))

    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """Set both numbers."""
        self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)
        return self

    @property
    def processId(self) -> int:
        """Number of this process, from 0."""
        return int(self.distributed_process_id)

    @property
    def numProcesses(self) -> int:
        """Number of processes."""
        return int(self.num_distributed_processes)
