"""Slots in shared memory, through which a process hands batches to another one."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any

import torch

__all__ = ["BatchForm", "Slots"]

#: Entry of `Slots.sizes` at the end of the data.
END = 0


@dataclass
class BatchForm:
    """What a batch consists of.

    Parameters
    ----------
    structure
        The first batch, with tensors of no elements.
    buffers
        Of every tensor, as many as there are slots: a first dimension of slots.
    """

    structure: Any
    buffers: list[torch.Tensor]


class Slots:
    """A ring of slots, each free or full; the writer fills them in order, the reader frees them.

    Parameters
    ----------
    context
        Of the processes.
    n_slots
        How many there are.

    Attributes
    ----------
    is_full
        bool, shape (n_slots,).
    sizes
        int64, shape (n_slots,): entries of the batch in a slot that count; 0 ends the data.
    generations
        int64, shape (n_slots,): how often the reader had started anew when the slot was filled.
    free, full
        Semaphores that count slots.
    """

    def __init__(self, context: BaseContext, n_slots: int) -> None:
        self.is_full = torch.zeros(n_slots, dtype=torch.bool).share_memory_()
        self.sizes = torch.zeros(n_slots, dtype=torch.int64).share_memory_()
        self.generations = torch.zeros(n_slots, dtype=torch.int64).share_memory_()
        self.free, self.full = context.Semaphore(n_slots), context.Semaphore(0)

    def __len__(self) -> int:
        return len(self.is_full)

    def fill(self, index: int, size: int, generation: int) -> None:
        """Hand a slot, whose buffers are written, to the reader."""
        self.sizes[index], self.generations[index] = size, generation
        self.is_full[index] = True
        self.full.release()

    def empty(self, index: int) -> None:
        """Hand a slot back to the writer."""
        self.is_full[index] = False
        self.free.release()
