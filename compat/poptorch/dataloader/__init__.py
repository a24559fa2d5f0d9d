"""Batches for models: as many as a call takes, also loaded by a process of their own.

`loader` combines batches, `accessor` reads what `worker` loads into the slots of `slots`.
"""

from poptorch.dataloader.accessor import AsynchronousDataAccessor
from poptorch.dataloader.loader import DataLoader

__all__ = ["AsynchronousDataAccessor", "DataLoader"]
